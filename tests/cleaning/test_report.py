"""The report: what it says, and that nothing from a file gets into it as markup."""

import re

import numpy as np
import pytest

from pmlkit.cleaning import clean
from pmlkit.cleaning.report import confused_pairs, render_report, summarise
from pmlkit.data import load_digit_strips
from refused import refused


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(300, random_state=0)


def cleaned_with(strips, Y=None, **options):
    return clean(strips.X, strips.Y if Y is None else Y, method="CandidateLogistic", **options)


def test_numbers_on_the_page_are_those_of_the_result(strips):
    result = cleaned_with(strips, media=strips.media)
    summary = summarise(result, title="Strips", precision=0.8)
    assert summary["n_removed"] == result.removable(precision=0.8).sum()
    assert summary["noise"]["rate"] == result.noise_rate_.overall
    assert [item["row"] for item in summary["suspects"]] == result.top_suspects(24)["row"].tolist()
    wrong = [line["wrong"] for line in summary["labels"]]
    assert wrong == sorted(wrong, reverse=True)
    page = render_report(summary)
    for share in (*summary["noise"].values(), *summary["random"].values()):
        assert f"{100 * share:.0f}\u00a0%" in page
    assert summary["advice"] in page
    assert all(item["label"] in page for item in summary["missing"])
    assert page.count("data:image/png;base64,") >= 24


def test_the_page_is_whole_and_needs_nothing_else(strips, tmp_path):
    target = tmp_path / "report.html"
    cleaned_with(strips).report(target)
    page = target.read_text(encoding="utf-8")
    assert page.lstrip().startswith("<!doctype html>")
    assert not re.search(r"<script|https?://|<link", page)
    with refused(option="force", value="True"):
        cleaned_with(strips).report(target)


def test_hostile_texts_and_names_stay_text(strips):
    evil = "<img src=x onerror=alert(1)>{{ 7*7 }}"
    names = [f"{evil}{k}" for k in range(10)]
    result = cleaned_with(strips, label_names=names, media=[evil] * 300, row_names=[f"{evil}{i}" for i in range(300)])
    page = render_report(summarise(result, title=evil))
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    assert "{{ 7*7 }}" in page


def test_labels_used_for_each_other_are_one_pair_that_goes_both_ways():
    rng = np.random.default_rng(0)
    true = rng.integers(5, size=800)
    X = (4 * rng.normal(size=(5, 10)))[true] + rng.normal(size=(800, 10))
    Y = np.eye(5, dtype=int)[true]
    for here, also in ((1, 3), (3, 1)):
        Y[(true == here) & (rng.random(800) < 0.6), also] = 1
    elsewhere = rng.random(800) < 0.1
    Y[elsewhere, rng.integers(5, size=800)[elsewhere]] = 1
    pairs = confused_pairs(clean(X, Y, label_names=list("abcde")))
    mine = [pair for pair in pairs if {pair["given"], pair["right"]} == {"b", "d"}]
    assert [pair["both_ways"] for pair in mine] == [True]


def test_twins_are_shown_both_and_called_identical_only_if_they_are(strips):
    X, Y = strips.X.copy(), strips.Y.toarray()
    X[1], X[3] = X[0], X[2]
    Y[:4] = 0
    Y[[0, 2], 0] = Y[[1, 3], 1] = 1
    media = [f"text {i}" for i in range(300)]
    media[1] = media[0]
    summary = summarise(clean(X, Y, method="CandidateLogistic", media=media), title="")
    found = {twin["first"]: twin for twin in summary["twins"]}
    assert found["row 0"]["same"] == "identical"
    assert found["row 2"]["same"] == "same features, other content"
    assert [content["text"] for content in found["row 2"]["contents"]] == ["text 2", "text 3"]


def test_confused_pairs_finds_the_label_that_is_put_beside_another():
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(5, 10))
    true = rng.integers(5, size=800)
    X = centres[true] + rng.normal(size=(800, 10))
    Y = np.eye(5, dtype=int)[true]
    noisy = (true == 1) & (rng.random(800) < 0.6)
    Y[noisy, 3] = 1
    elsewhere = rng.random(800) < 0.1
    Y[elsewhere, rng.integers(5, size=800)[elsewhere]] = 1
    result = clean(X, Y, label_names=list("abcde"))
    pair = confused_pairs(result, limit=1)[0]
    assert (pair["given"], pair["right"]) in {("d", "b"), ("b", "d")}


def test_an_audit_is_told_in_the_report(tmp_path):
    strips = load_digit_strips(300)
    result = clean(strips.X, strips.Y, label_names=strips.label_names)
    truth = strips.truth.toarray()
    audit = result.audit()
    for _ in range(60):
        question = audit.next()
        is_right = truth[question.row, result.label_names.index(question.label)]
        audit.answer(question, "right" if is_right else "wrong")
    result.report(tmp_path / "report.html", title="Strips", audit=audit)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    told = page[page.index("What answers tell") : page.index("What is known without answers")]
    assert "60 answers" in told
    assert f"{100 * audit.noise_rate_:.0f}\u00a0%" in told
    assert ("Nothing is certified." in told) == (audit.certificate is None)
    assert summarise(result, title="", audit=audit)["curve"][0]["rate"] == audit.expected_precision(0.01)


def test_the_page_does_not_contradict_what_empty_rows_were_taken_for(strips):
    Y = strips.Y.toarray()
    Y[:30] = 0
    for meaning in ("negative", "unlabelled"):
        page = render_report(summarise(clean(strips.X, Y, empty_rows=meaning), title="Strips"))
        assert "30 rows carry no label at all" in page
        assert f"rows without labels taken for {meaning}" in page
        assert "count as unlabelled" not in page


def test_many_labels_that_cannot_be_judged_have_their_reason_beside_them(strips):
    Y = np.hstack([strips.Y.toarray(), np.eye(len(strips.X))[:, :2]])
    page = render_report(summarise(cleaned_with(strips, Y=Y), title="Strips"))
    assert "2 labels (on too few rows, or on all):" in page
