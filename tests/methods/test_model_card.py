"""Model cards: `model.card()` and ``pmlkit info model.skops``."""

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import pmlkit
from pmlkit.cli.app import app
from pmlkit.data import make_pml
from pmlkit.methods import all_methods
from pmlkit.methods.model_card import card_facts
from pmlkit.persistence import dumps, is_model_file, loads, save

DATA = make_pml(240, n_features=8, n_labels=4, noise=0.5, random_state=0)
NAMES = ["plain", "a|b", "<img src=x onerror=alert(1)>", "*s*\n# h [l](javascript:1) \x1b[31m`c`"]


@pytest.fixture(scope="module")
def model():
    model = pmlkit.ClearPML(threshold="f1").fit(DATA.X, DATA.Y)
    model.label_names_ = np.asarray(NAMES, dtype=object)
    return model


def test_facts_are_those_of_the_training_data(model):
    facts = card_facts(model)
    counts = np.asarray(DATA.Y.sum(axis=0)).ravel()
    assert (facts["rows"], facts["features"], facts["labels"]) == (240, 8, 4)
    assert facts["candidates"] == DATA.Y.nnz
    assert facts["share_of_cells"] == pytest.approx(DATA.Y.nnz / 960)
    assert list(facts["label_counts"].values()) == counts.tolist()
    assert facts["changed_parameters"] == ["threshold"]
    assert facts["decisions"]["noise_floor_"] == model.noise_floor_
    best = model.out_of_fold_scores_.argmax(axis=1)
    assert facts["best_is_candidate"] == pytest.approx(DATA.Y.toarray()[np.arange(240), best].mean())
    assert facts["commonest_is_candidate"] == pytest.approx(counts.max() / 240)
    assert facts["versions"]["pmlkit"] == pmlkit.__version__


def test_two_equal_fits_differ_in_the_date_alone():
    cards = [pmlkit.ClearPML().fit(DATA.X, DATA.Y) for _ in range(2)]
    cards[1].training_record_["date"] = cards[0].training_record_["date"] = "then"
    assert cards[0].card() == cards[1].card()


def test_a_card_survives_the_model_file(model):
    assert loads(dumps(model)).card() == model.card()


def test_names_of_labels_are_nothing_but_text(model):
    card = model.card()
    lines = card.splitlines()
    assert "\x1b" not in card
    assert re.findall(r"(?<!\\)[<*\[]", card) == []
    assert r"\`c\`" in card
    assert sum(line.startswith("# ") for line in lines) == 1
    assert r"| a\|b |" in card
    rows = [line for line in lines if line.startswith("|")]
    assert all(line.replace(r"\|", "").count("|") == 3 for line in rows)


@pytest.mark.parametrize("method", [*all_methods()])
def test_every_method_has_a_card(method):
    if method == "CandidateClassifier":
        fitted = pmlkit.CandidateClassifier(LogisticRegression(), n_folds=2)
    else:
        fitted = all_methods()[method]()
    card = fitted.fit(DATA.X[:60], DATA.Y[:60]).card()
    assert card.startswith(f"# Model card: {method}\n")
    assert "Fewer than 200 rows" in card


def test_info_shows_a_model_file(model, tmp_path):
    path = tmp_path / "model.skops"
    save(model, path)
    assert is_model_file(path)
    shown = CliRunner().invoke(app, ["info", str(path)])
    assert shown.exit_code == 0
    assert "threshold=f1" in shown.stdout
    assert "\x1b" not in shown.stdout
    facts = json.loads(CliRunner().invoke(app, ["info", str(path), "--json"]).stdout)
    assert facts["rows"] == 240
    assert facts["label_counts"] == dict(zip(NAMES, np.asarray(DATA.Y.sum(axis=0)).ravel().tolist(), strict=True))


def test_a_damaged_record_is_one_sentence(model, tmp_path):
    broken = loads(dumps(model))
    broken.training_record_ = "nothing"
    save(broken, tmp_path / "model.skops")
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "model.skops")])
    assert shown.exit_code == 1
    assert "damaged" in shown.stderr


def test_other_files_are_no_models(tmp_path):
    (tmp_path / "posts.csv").write_text("id,tags\n1,a\n")
    pmlkit.data.write(DATA, tmp_path / "data.npz")
    assert not is_model_file(tmp_path / "posts.csv")
    assert not is_model_file(tmp_path / "data.npz")
    assert not is_model_file(tmp_path / "absent.skops")
