"""The library side of cleaning: evidence, calibration, results and the estimator form."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pmlkit import PMLLFC, CandidateLogistic, ClearPML, MLkNN
from pmlkit.cleaning import LabelCleaner, calibration, clean, estimates
from pmlkit.cleaning.calibration import TERMS, cell_terms, false_probability, log_odds
from pmlkit.cleaning.evidence import cross_fit, predicts_labels
from pmlkit.cleaning.reasons import companions, most_similar, twins_that_differ
from pmlkit.data import load_digit_strips, make_pml
from pmlkit.metrics import cleaning_auc, precision_at

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(500, random_state=0)


@pytest.fixture(scope="module")
def result(strips):
    return clean(strips.X, strips.Y, method="CandidateLogistic", label_names=strips.label_names, media=strips.media)


@pytest.fixture(scope="module")
def messy():
    """Half of the labels are random mistakes: enough for some to be removed unseen."""
    return make_pml(1500, 60, 12, cardinality=2.0, noise=1.0, random_state=1)


@pytest.fixture(scope="module")
def messy_result(messy):
    return clean(messy.X, messy.Y)


def test_suspects_are_ordered_by_confidence_and_found_better_than_by_chance(strips, result):
    suspects = result.suspects
    assert suspects.columns.tolist() == ["row", "label", "confidence", "rank", "expected_benefit", "reasons"]
    assert suspects["confidence"].is_monotonic_increasing
    assert suspects["rank"].tolist() == list(range(1, len(suspects) + 1))
    assert (suspects["confidence"] < 0.5).all()
    assert np.allclose(suspects["expected_benefit"], 1 - 2 * suspects["confidence"])
    assert cleaning_auc(strips.truth, strips.Y, result.confidence) > 0.75


def test_only_candidates_have_confidence(strips, result):
    assert (result.confidence.indices == strips.Y.indices).all()
    assert (result.doubt >= 0).all()
    assert (result.doubt <= 1).all()


def test_expected_precision_is_the_mean_doubt_of_the_first(result):
    doubts = np.sort(result.doubt)[::-1]
    assert result.expected_precision(25) == pytest.approx(doubts[:25].mean())
    assert result.expected_precision(0.1) == pytest.approx(doubts[: round(0.1 * len(doubts))].mean())
    assert result.expected_precision(1) >= result.expected_precision(0.5) >= result.expected_precision(1.0)


@pytest.mark.parametrize("k", [0, 0.0, 1.5, True, -3])
def test_expected_precision_refuses_other_amounts(result, k):
    with pytest.raises(ValueError, match="k must be"):
        result.expected_precision(k)


def test_the_interval_of_expected_precision_holds_the_truth_on_strips(strips, result):
    for share in (0.05, 0.1, 0.2):
        expected = result.expected_precision(share)
        assert expected.low <= expected <= expected.high
        assert expected.low <= precision_at(strips.truth, strips.Y, result.confidence, share) <= expected.high


def test_bounds_of_expected_precision_at_all_candidates_are_those_of_the_rate(result):
    everything = result.expected_precision(1.0)
    overall = result.noise_rate_.overall
    assert everything == pytest.approx(overall, abs=1e-6)
    assert everything.low == pytest.approx(max(overall.low, 1e-4), abs=1e-4)
    assert everything.high == pytest.approx(overall.high, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(precision=st.floats(0.05, 1.0), keep=st.booleans())
def test_what_is_removed_is_bounded_and_rows_keep_a_label(messy_result, precision, keep):
    result = messy_result
    removed = result.removable(precision=precision, keep_at_least_one=keep)
    assert removed.sum() <= result.safe_depths.random_share * result.Y.nnz
    cleaned = result.cleaned(precision=precision, keep_at_least_one=keep)
    assert cleaned.nnz == result.Y.nnz - removed.sum()
    if keep:
        assert (np.diff(cleaned.indptr) > 0).all()


def test_much_random_noise_is_removed_and_is_wrong(messy, messy_result):
    counts = [messy_result.removable(precision=p).sum() for p in (0.95, 0.9, 0.8)]
    assert counts == sorted(counts)
    removed = messy_result.removable()
    is_false = messy.truth.toarray()[messy_result.rows, messy_result.Y.indices] == 0
    assert removed.sum() > 100
    assert is_false[removed].mean() > 0.9
    assert "look like random mistakes" in messy_result.advice()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_nothing_is_removed_from_labels_that_are_mostly_right(noise):
    data = make_pml(1500, 60, 12, cardinality=2.0, noise=noise, random_state=2)
    found = clean(data.X, data.Y)
    assert not found.removable(precision=0.5).any()
    assert "mostly right" in found.advice()
    assert f"up to {100 * found.noise_rate_.overall.high:.0f} % of all labels may be wrong" in found.advice()
    rate = 1 - data.truth.nnz / data.Y.nnz
    assert found.random_mistakes_.low <= rate <= found.random_mistakes_.high
    assert abs(found.random_mistakes_ - rate) < 0.04


def test_nothing_is_removed_from_few_rows(messy):
    result = clean(messy.X[:499], messy.Y[:499])
    assert not result.removable(precision=0.1).any()
    assert "too few" in result.advice()


def test_labels_on_few_rows_are_judged_but_keep_theirs(messy_result, monkeypatch):
    count = np.bincount(messy_result.Y.indices)
    rarest = int(count.argmin())
    gone = messy_result.removable(precision=0.8, keep_at_least_one=False)
    assert (gone & (messy_result.Y.indices == rarest)).any()
    monkeypatch.setattr("pmlkit.cleaning.result.ENOUGH_ROWS", int(count.min()) + 1)
    found = replace(messy_result)
    assert found.kept_labels.tolist() == [rarest]
    removed = found.removable(precision=0.8, keep_at_least_one=False)
    assert removed.any()
    assert not (removed & (found.Y.indices == rarest)).any()
    line = found.noise_rate_.per_label.iloc[rarest]
    assert np.isnan(line["noise_rate"])
    assert "fewer than" in line["cannot_tell"]


@pytest.mark.parametrize("container", ["ndarray", "csr_matrix", "frame"])
def test_cleaned_answers_in_the_container_that_was_given(messy, container):
    Y = messy.Y.toarray().astype(int)
    given_as = {
        "ndarray": Y,
        "csr_matrix": sparse.csr_matrix(Y),
        "frame": pd.DataFrame(Y, columns=list("abcdefghijkl"), index=np.arange(1500) + 7),
    }[container]
    before = given_as.copy()
    found = clean(messy.X, given_as)
    cleaned = found.cleaned(given_as, precision=0.7)
    assert type(cleaned) is type(given_as)
    if container == "frame":
        assert cleaned.columns.tolist() == list("abcdefghijkl")
        assert cleaned.index.equals(given_as.index)
        assert found.label_names == tuple("abcdefghijkl")
    dense = cleaned.toarray() if sparse.issparse(cleaned) else np.asarray(cleaned)
    assert (dense <= Y).all()
    assert dense.sum() < Y.sum()
    assert (np.asarray(before.toarray() if sparse.issparse(before) else before) == Y).all()


def test_noise_rates_are_inside_their_intervals_and_add_up(result):
    rates = result.noise_rate_
    table = rates.per_label
    assert rates.overall.low < rates.overall < rates.overall.high
    assert ((table["low"] < table["noise_rate"]) & (table["noise_rate"] < table["high"])).all()
    weighted = (table["noise_rate"] * table["candidates"]).sum() / table["candidates"].sum()
    assert rates.overall == pytest.approx(weighted)


def test_reasons_name_neighbours_companions_score_and_noise(result):
    first = result.suspects.iloc[0]
    reason = result.explain(int(first["row"]), first["label"])
    assert {part.kind for part in reason.parts} >= {"score", "similar_rows", "label_noise"}
    assert reason.sentence() == first["reasons"]
    assert {part.text for part in reason.against}.isdisjoint(part.text for part in reason.in_favour)
    assert [part.supports for part in reason.against] == [False] * len(reason.against)
    assert "score" in {part.kind for part in reason.against}
    absent = next(k for k in range(10) if not result.Y[0, k])
    with pytest.raises(ValueError, match="not a candidate"):
        result.explain(0, result.label_names[absent])


def test_rare_labels_are_left_alone(strips):
    Y = np.hstack([strips.Y.toarray(), np.zeros((500, 2))])
    Y[:3, 10] = 1
    Y[:, 11] = 1
    found = clean(strips.X, Y, method="CandidateLogistic")
    assert found.rare_labels.tolist() == [10, 11]
    assert found.cleaned(precision=0.5)[:, 10:].sum() == 503
    assert np.isnan(found.noise_rate_.per_label["noise_rate"].to_numpy()[10:]).all()
    assert "label_10" not in set(found.suspects["label"])


def test_a_row_without_candidates_is_unlabelled(strips):
    Y = strips.Y.toarray()
    Y[:20] = 0
    found = clean(strips.X, Y, method="CandidateLogistic")
    assert not set(found.suspects["row"]) & set(range(20))
    assert (found.cleaned(precision=0.5)[:20] == 0).all()


def test_evidence_of_a_row_does_not_depend_on_its_own_labels(strips):
    # A fold-wise method: whatever row 0 is given, its scores stay the same.
    Y = strips.Y.toarray().astype(float)
    other = Y.copy()
    other[0] = 1 - other[0]
    for model in (CandidateLogistic(), MLkNN(threshold=0.5)):
        before, after = (cross_fit(model, strips.X, sparse.csr_array(table)).scores[0] for table in (Y, other))
        assert np.allclose(before, after, atol=1e-5)


def test_any_estimator_with_scores_can_judge(strips):
    Y = strips.Y.toarray()
    forest = RandomForestClassifier(30, random_state=0)
    found = clean(strips.X, Y, method=forest, n_folds=3)
    assert cleaning_auc(strips.truth, strips.Y, found.confidence) > 0.65
    assert not hasattr(forest, "estimators_")


def test_permuting_rows_permutes_the_answer(strips, result):
    order = np.random.default_rng(0).permutation(500)
    moved = clean(strips.X[order], strips.Y[order], method="CandidateLogistic")
    assert np.allclose(moved.confidence.toarray(), result.confidence[order].toarray(), atol=1e-4)


@pytest.mark.parametrize(
    ("Y", "sentence"),
    [
        (np.ones((500, 1)), "single label"),
        (np.zeros((500, 3)), "no candidate"),
        (np.eye(500)[:, :3], "Fewer than two labels"),
        (np.full((500, 3), 2), "indicator of 0/1"),
    ],
)
def test_labels_that_cannot_be_cleaned_are_refused(strips, Y, sentence):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=sentence):
        clean(strips.X, Y)


@pytest.mark.parametrize("method", ["nobody", 3])
def test_methods_that_do_not_exist_are_refused(strips, method):
    with pytest.raises(ValueError, match="method must be|There is no method"):
        clean(strips.X, strips.Y, method=method)


def test_terms_of_the_map_by_a_plain_reference():
    rng = np.random.default_rng(0)
    Y = (rng.random((60, 4)) < 0.4).astype(int)
    Y[:3] = [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    scores = rng.random((60, 4))
    terms = cell_terms(scores, sparse.csr_array(Y))
    column = {name: terms[:, j] for j, name in enumerate(TERMS)}
    cells = np.argwhere(Y)
    for position, (i, k) in enumerate(cells):
        others = [column["odds"][p] for p, (a, b) in enumerate(cells) if a == i and b != k]
        assert column["alone"][position] == (not others)
        if others:
            assert column["gap"][position] == pytest.approx(np.clip(column["odds"][position] - min(others), -4, 4))
    labelled = Y.any(axis=1)
    chances = [
        (scores[labelled & (Y[:, k] == 0), k] < scores[i, k]).sum() / ((labelled & (Y[:, k] == 0)).sum() + 1)
        for i, k in cells
    ]
    chance = max(np.mean(chances), 0.5)  # below one half there is no evidence
    assert column["separation"][0] == pytest.approx(np.log(chance / (1 - chance)))
    assert np.allclose(column["odds*noise"], column["odds"] * column["noise"])
    assert np.allclose(column["judgement"], column["odds"] - column["odds"].mean())
    confidence = rng.random(len(cells))
    judged = cell_terms(scores, sparse.csr_array(Y), confidence)
    assert np.array_equal(judged[:, :-1], terms[:, :-1])
    own = np.clip(np.log((1 - confidence) / confidence), -6, 4)
    assert np.allclose(judged[:, -1], own - own.mean())


def test_the_judgement_of_clear_pml_is_aligned_with_the_candidates(strips):
    Y = sparse.csr_array(strips.Y.astype(float))
    evidence = cross_fit(ClearPML(), strips.X, Y)
    expected = ClearPML().fit(strips.X, Y).label_confidence_.toarray()
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    assert np.allclose(evidence.confidence, expected[row, Y.indices])
    assert cross_fit(CandidateLogistic(), strips.X, Y).confidence is None


def test_the_map_is_the_one_that_was_last_fitted():
    # The fit takes many minutes: `python benchmarks/cleaning_calibration.py --store` writes this file.
    stored = json.loads((ROOT / "benchmarks" / "cleaning_calibration.json").read_text(encoding="utf-8"))
    assert tuple(stored["coefficients"]) == TERMS
    assert list(stored["coefficients"].values()) == calibration._COEFFICIENTS.tolist()
    assert stored["intercept"] == calibration._INTERCEPT
    assert stored["spread_of_label"] == estimates._LABEL_SPREAD


@pytest.mark.parametrize("noise", [-4.0, 0.0, 2.0])
@pytest.mark.parametrize("separation", [0.0, 2.0, 6.0])
def test_doubt_never_falls_where_evidence_against_a_label_grows(noise, separation):
    constants = {"noise": noise, "separation": separation}
    for growing in ("judgement", "odds", "gap"):
        value = {**constants, growing: np.linspace(-4.0, 4.0, 9)}
        parts = [np.prod([value.get(part, 0.0) * np.ones(9) for part in term.split("*")], axis=0) for term in TERMS]
        found = log_odds(np.column_stack(parts), calibration._COEFFICIENTS, calibration._INTERCEPT)
        assert (np.diff(found) >= -1e-12).all()


@pytest.mark.parametrize("noise", [0.1, 0.2])
def test_little_noise_is_not_taken_for_much_where_features_tell_all(noise):
    data = make_pml(2000, 100, 15, cardinality=2.0, noise=noise, random_state=1)
    found = clean(data.X, data.Y)
    is_false = data.truth.toarray()[found.rows, found.Y.indices] == 0
    assert found.noise_rate_.overall.low <= is_false.mean() <= found.noise_rate_.overall.high
    assert found.noise_rate_.overall < is_false.mean() + 0.15
    assert not found.removable().any()


def test_doubt_falls_with_the_score():
    Y = sparse.csr_array(np.tile([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], (25, 1)))
    rng = np.random.default_rng(1)
    scores = np.where(Y.toarray() > 0, 0.8, 0.1) + 0.05 * rng.random((100, 3))
    scores[3, 0] = 0.05
    doubt = false_probability(scores, Y)
    cell = int(np.flatnonzero((np.repeat(np.arange(100), np.diff(Y.indptr)) == 3) & (Y.indices == 0))[0])
    assert doubt[cell] == doubt.max()


def test_most_similar_equals_brute_force():
    rng = np.random.default_rng(0)
    X = rng.random((40, 6))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    rows = np.array([3, 17])
    for table in (X, sparse.csr_array(X)):
        found, similarity = most_similar(table, rows, k=5)
        assert (found == np.argsort(-cosine[rows], axis=1)[:, :5]).all()
        assert np.allclose(similarity, np.sort(cosine[rows], axis=1)[:, ::-1][:, :5])


def test_equally_similar_rows_come_by_their_number(monkeypatch):
    monkeypatch.setattr("pmlkit.cleaning.reasons._COMPARED_ROWS", 7)
    monkeypatch.setattr("pmlkit.cleaning.reasons._ASKING_ROWS", 2)
    X = np.eye(4)[np.arange(30) % 4]
    X[:, 3] *= -1  # two rows of the last kind are alike, too
    X[8] = [1.0, 1.0, 0.0, 0.0]
    for table in (X, sparse.csr_array(X)):
        found, similarity = most_similar(table, np.array([0, 3, 8]), k=9)
        assert found[0].tolist() == [4, 12, 16, 20, 24, 28, 8, 1, 2]
        assert found[1].tolist() == [7, 11, 15, 19, 23, 27, 0, 1, 2]
        assert found[2].tolist() == [0, 1, 4, 5, 9, 12, 13, 16, 17]
        assert np.allclose(similarity[0], [1, 1, 1, 1, 1, 1, np.sqrt(0.5), 0, 0])
        assert most_similar(table, np.array([0]), k=0)[0].shape == (1, 0)


def test_evidence_that_says_nothing_is_refused(strips):
    rng = np.random.default_rng(0)
    Y = sparse.csr_array(rng.random((2000, 5)) < 0.3)
    signal = Y.toarray() + rng.normal(size=Y.shape)
    assert predicts_labels(signal, Y)
    assert not predicts_labels(-signal, Y)
    assert not predicts_labels(np.full(Y.shape, 0.3), Y)
    hits = [predicts_labels(rng.random(Y.shape), Y) for _ in range(200)]
    assert 0.01 < np.mean(hits) < 0.12
    with pytest.raises(ValueError, match="do not predict the labels"):
        clean(np.ones((300, 3)), strips.Y[:300], method="CandidateLogistic")


def test_twins_are_found_identical_or_nearly_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    X[10] = X[20]
    X[30] = X[40] + 1e-3 * rng.normal(size=30)
    Y = np.zeros((60, 3), dtype=int)
    Y[:, 0] = 1
    Y[20, 1] = Y[40, 2] = 1
    X[50] = X[51]  # these agree
    for table in (X, sparse.csr_array(X)):
        twins = twins_that_differ(table, sparse.csr_array(Y))
        assert [(twin.first, twin.second, twin.only_second) for twin in twins] == [(10, 20, (1,)), (30, 40, (2,))]
    assert twins[0].similarity == 1.0 > twins[1].similarity > 0.98


def test_companions_are_shares_of_rows():
    Y = sparse.csr_array(np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]], dtype=np.uint8))
    assert companions(Y).tolist() == [[0, 0.5, 0], [0.5, 0, 0.5], [0, 1.0, 0]]


def test_label_cleaner_in_a_pipeline(strips):
    Y = strips.Y.toarray()
    model = make_pipeline(
        StandardScaler(), LabelCleaner(CandidateLogistic(), method="CandidateLogistic", precision=0.8)
    )
    model.fit(strips.X, Y)
    cleaner = model[-1]
    expected = cleaner.result_.cleaned(Y, precision=0.8)
    reference = CandidateLogistic().fit(StandardScaler().fit_transform(strips.X), expected)
    assert np.allclose(
        model.decision_function(strips.X), reference.decision_function(StandardScaler().fit_transform(strips.X))
    )
    assert (model.predict(strips.X) == reference.predict(StandardScaler().fit_transform(strips.X))).all()
    scores = cross_val_predict(model, strips.X, Y, cv=2, method="decision_function")
    assert scores.shape == Y.shape


def test_label_cleaner_checks_its_parameters(strips):
    with pytest.raises(ValueError, match="precision"):
        LabelCleaner(precision=1.5).fit(strips.X, strips.Y)
    assert hasattr(LabelCleaner(CandidateLogistic()), "predict_proba")
    assert not hasattr(LabelCleaner(PMLLFC()), "predict_proba")


@pytest.mark.parametrize(("method", "n_fits"), [("ClearPML", 1), ("CandidateLogistic", 1), (PMLLFC(max_iter=4), 3)])
def test_progress_is_told_step_by_step(method, n_fits):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    strips, told = load_digit_strips(100), []
    clean(strips.X, strips.Y, method=method, n_folds=3, on_progress=lambda done, total: told.append((done, total)))
    begun = [place for place, (done, _) in enumerate(told) if done == 0]
    assert len(begun) == n_fits
    done, totals = zip(*told[begun[-1] :], strict=True)
    assert done == tuple(range(len(done)))  # fits may converge before their last step
    assert len(set(totals)) == 1
    assert done[-1] <= totals[0] if totals[0] else done[-1] == 2
    assert n_fits > 1 or done[-1] == totals[0]


def test_progress_without_a_fit_is_that_of_the_comparisons():
    strips, told = load_digit_strips(100), []
    probabilities = np.clip(0.7 * strips.truth.toarray() + 0.1, 0, 1)
    clean(Y=strips.Y, pred_probs=probabilities, on_progress=lambda *step: told.append(step))
    assert told == [(1, None), (2, None)]


def test_a_path_is_not_taken_for_features(tmp_path):
    for path in ("posts.csv", tmp_path / "posts.csv"):
        with pytest.raises(ValueError, match=r"got the path .*posts\.csv.*pmlkit\.open_table"):
            clean(path)


def test_texts_are_refused_with_what_makes_numbers_of_them():
    with pytest.raises(ValueError, match=r"holds the text 'a red sky'.* TfidfVectorizer\(\)\.fit_transform"):
        clean(["a red sky", "a blue sky"], [["red", "sky"], ["sky"]])


def test_one_row_cannot_be_judged():
    with pytest.raises(ValueError, match="n_samples=1, but labels are judged by comparing rows"):
        clean([[1.0, 2.0]], [["red", "sky"]])
