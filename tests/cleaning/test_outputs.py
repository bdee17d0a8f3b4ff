"""A notebook can write the tables that the command ``clean`` writes, and read the same numbers."""

import json

import numpy as np
import pandas as pd
import pytest

import pmlkit
from pmlkit.exceptions import DataError
from post_tables import make_posts, write_posts


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    path = tmp_path_factory.mktemp("posts") / "posts.csv"
    write_posts(make_posts(240), path)
    return path


@pytest.fixture(scope="module")
def table(posts):
    return pmlkit.open_table(posts, labels="tags", text="body")


@pytest.fixture(scope="module")
def result(table):
    return pmlkit.clean(table)


def test_tables_are_those_of_the_command(result, posts, tmp_path):
    import forked

    words = ["clean", posts, "--labels", "tags", "--text", "body", "--dry-run", "--json"]
    names = {"removed": "--log", "suspects": "--suspects", "missing": "--missing"}
    for which, option in names.items():
        words += [option, tmp_path / f"{which}.csv"]
    done = forked.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    facts = json.loads(json.dumps(result.facts()))
    assert {key: printed[key] for key in facts} == facts
    for which in names:
        result.to_csv(tmp_path / f"{which}-2.csv", which)
        assert (tmp_path / f"{which}-2.csv").read_bytes() == (tmp_path / f"{which}.csv").read_bytes()
    assert len(pd.read_csv(tmp_path / "suspects.csv")) == facts["suspects"] > 0
    assert len(pd.read_csv(tmp_path / "missing.csv")) > 0


def test_progress_counts_all_lines(result, tmp_path, monkeypatch):
    monkeypatch.setattr("pmlkit.cleaning.result._BLOCK", 7)
    counts = []
    result.to_csv(tmp_path / "s.csv", on_lines=counts.append)
    assert sum(counts) == result.facts()["suspects"]
    assert max(counts) == 7


def test_an_existing_file_and_another_word_are_refused(result, tmp_path):
    (tmp_path / "s.csv").write_text("old")
    with pytest.raises(DataError) as refused:
        result.to_csv(tmp_path / "s.csv")
    assert refused.value.option == "force"
    with pytest.raises(ValueError, match="which must be"):
        result.to_csv(tmp_path / "t.csv", "others")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.csv"]
    assert (tmp_path / "s.csv").read_text() == "old"


@pytest.mark.filterwarnings("ignore:pred_probs tell given labels")
def test_probabilities_may_be_a_file(table, tmp_path):
    scores = pmlkit.CandidateLogistic().fit(table).predict_proba(table.X)
    np.save(tmp_path / "p.npy", scores)
    names = list(table.label_names)
    pd.DataFrame(scores, columns=names)[names[::-1]].to_parquet(tmp_path / "p.parquet")
    expected = pmlkit.clean(table, pred_probs=scores).doubt
    for name in ("p.npy", "p.parquet"):
        np.testing.assert_array_equal(pmlkit.clean(table, pred_probs=tmp_path / name).doubt, expected)
