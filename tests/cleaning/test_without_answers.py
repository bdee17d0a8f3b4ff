"""What is said without any answer: the injected null, estimates, reasons, missing labels, given probabilities."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from pmlkit._arrays import row_hash
from pmlkit.cleaning import Estimate, clean
from pmlkit.cleaning.calibration import false_probability, noise_rates, two_best
from pmlkit.cleaning.estimates import _random_mistakes, judge
from pmlkit.cleaning.evidence import cross_fit, label_auc, well_predicted
from pmlkit.cleaning.injected_null import (
    _MAX_RELATED,
    CellFeatures,
    InjectedCells,
    InjectedNull,
    RankMixture,
    _logistic,
    _relations,
)
from pmlkit.cleaning.reasons import Reason, most_likely_missing
from pmlkit.data import load_digit_strips, make_pml
from pmlkit.exceptions import PMLWarning
from pmlkit.methods import ClearPML
from pmlkit.metrics import cleaning_average_precision


def random_cells(seed=0, n_rows=80, n_labels=6):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_rows, n_labels)) < 0.3).astype(np.uint8)
    Y[:2] = 0
    return rng.uniform(0.01, 0.99, Y.shape), Y


def cell_features(scores, Y, every_row_has_a_label=False):
    n = np.arange(len(Y))
    return CellFeatures(scores, sparse.csr_array(Y), n % 3, n, every_row_has_a_label=every_row_has_a_label)


def plain_addition(scores, Y, i, k):
    """Return what the row's other labels add, by one ridge regression on the rows of the other folds."""
    rest = np.flatnonzero((np.arange(len(Y)) % 3 != i % 3) & Y.any(axis=1))
    residual = Y - scores
    spread = np.sqrt((residual[rest] ** 2).mean(axis=0) + 1e-6)
    others = np.delete(np.arange(Y.shape[1]), k)
    A, b = residual[rest][:, others] / spread[others], residual[rest, k] / spread[k]
    ridge = (0.05 + Y.shape[1] / len(rest)) * np.eye(len(others))
    coef = np.linalg.solve(A.T @ A / len(rest) + ridge, A.T @ b / len(rest)) * spread[k] / spread[others]
    return (coef - coef.mean()) @ residual[i, others]


def plain_features(scores, Y, i, k):
    """Return the features of a cell as if the row had the label, by counting over the other rows only."""
    labelled = Y.any(axis=1)
    s = logit(scores)
    others = [j for j in np.flatnonzero(Y[i]) if j != k]
    rest = np.delete(np.arange(len(Y)), i)
    lifts = [
        np.log(
            (np.sum(Y[rest, k] & Y[rest, j]) + 0.5)
            / ((Y[:, k].sum() - Y[i, k]) * (Y[:, j].sum() - 1.0) / labelled.sum() + 0.5)
        )
        for j in others
    ]
    best = max((s[i, j] for j in others), default=None)
    usual = np.mean([s[r, np.flatnonzero(Y[r])].max() for r in np.flatnonzero(labelled)])
    return [
        s[i, k],
        (scores[labelled, k] < scores[i, k]).sum() / labelled.sum(),
        np.log((Y[rest, k].sum() + 0.5) / labelled.sum()),
        0.0 if best is None else s[i, k] - best,
        np.log1p((scores[i] > scores[i, k]).sum()),
        np.mean(lifts) if lifts else 0.0,
        usual if best is None else best,
        plain_addition(scores, Y, i, k),
    ]


def test_features_of_cells_by_a_plain_reference():
    scores, Y = random_cells()
    cells = cell_features(scores, Y)
    for own in (True, False):
        rows, labels = np.nonzero(Y if own else (Y == 0) & Y.any(axis=1)[:, None])
        found = cells.features(rows, labels, own=own)
        expected = [plain_features(scores, Y, i, k) for i, k in zip(rows, labels, strict=True)]
        assert np.allclose(found, expected, atol=1e-6)


def test_features_do_not_depend_on_the_cells_own_candidacy():
    scores, Y = random_cells()
    i, k = 5, int(np.flatnonzero(Y[5] == 0)[0])
    assert Y[5].any()
    given = Y.copy()
    given[i, k] = 1
    without = cell_features(scores, Y).features(np.array([i]), np.array([k]), own=False)
    with_it = cell_features(scores, given).features(np.array([i]), np.array([k]), own=True)
    assert np.allclose(without, with_it)


def test_how_labels_go_together_does_not_count_candidates():
    scores, Y = random_cells()
    for relation in _relations(scores, sparse.csr_array(Y), np.arange(len(Y)) % 3, np.arange(len(Y))):
        assert np.allclose(relation.sum(axis=1), 0.0)
        assert not np.diag(relation).any()


def test_with_very_many_labels_nothing_is_learned_about_pairs():
    Y = sparse.csr_array((np.ones(3), ([0, 1, 2], [0, 1, 2])), shape=(3, _MAX_RELATED + 1))
    assert _relations(np.zeros(Y.shape), Y, np.arange(3), np.arange(3)) == []


def test_odds_in_a_row_of_which_one_is_true_by_enumeration():
    scores, Y = random_cells()
    cells = cell_features(scores, Y, True)
    floor = noise_rates(scores, sparse.csr_array(Y)).max()
    i = int(np.flatnonzero(Y.sum(axis=1) == 3)[0])
    labels = np.flatnonzero(Y[i])
    odds = scores[i, labels] / (1 - scores[i, labels]) / floor
    total, mine = 0.0, np.zeros(3)
    for code in range(1, 8):
        chosen = np.array([code >> b & 1 for b in range(3)], dtype=bool)
        weight = np.prod(odds[chosen])
        total += weight
        mine[chosen] += weight
    expected = np.log(mine / (total - mine))
    assert np.allclose(cells.row_log_odds(np.full(3, i), labels, own=True), np.clip(expected, -10, 10), atol=1e-6)


def test_drawn_cells_are_non_candidates_of_labelled_rows():
    scores, Y = random_cells()
    cells = cell_features(scores, Y)
    for by_score in (True, False):
        rows, labels = cells.draw(500, np.random.default_rng(0), by_score=by_score)
        assert len(rows) == 500
        assert not Y[rows, labels].any()
        assert Y[rows].any(axis=1).all()


def test_two_best_by_sorting():
    scores, Y = random_cells()
    indicator = sparse.csr_array(Y)
    label, best, second = two_best(scores[np.nonzero(Y)], indicator)
    for i in range(len(Y)):
        ranked = [*sorted(scores[i, Y[i] > 0], reverse=True), -np.inf, -np.inf]
        assert (best[i], second[i]) == (ranked[0], ranked[1])
        assert label[i] == (np.argmax(np.where(Y[i] > 0, scores[i], -1)) if Y[i].any() else -1)


def test_newton_finds_the_solution_of_scikit_learn():
    rng = np.random.default_rng(0)
    basis = np.column_stack([np.ones(300), rng.normal(size=(300, 4))])
    y, weight = rng.random(300) < 0.4, rng.uniform(0.5, 2, 300)
    model = LogisticRegression(C=1.0, tol=1e-8).fit(basis[:, 1:], y, sample_weight=weight)
    found = _logistic(basis, y, weight)
    assert np.allclose(found, [model.intercept_[0], *model.coef_[0]], atol=1e-3)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
def test_random_mistakes_are_counted(noise):
    data = make_pml(2000, 60, 12, cardinality=2.0, noise=noise, random_state=3)
    found = clean(data.X, data.Y)
    rate = 1 - data.truth.nnz / data.Y.nnz
    assert abs(found.random_mistakes_ - rate) < 0.04
    assert found.noise_rate_.overall.low <= rate <= found.noise_rate_.overall.high


def test_the_null_finds_random_mistakes_better_than_the_map_alone():
    data = make_pml(1500, 40, 12, cardinality=2.0, noise=0.05, random_state=4)
    Y = sparse.csr_array(data.Y.astype(float))
    found = clean(data.X, Y)
    evidence = cross_fit(ClearPML(), data.X, Y)
    alone = sparse.csr_array((1 - false_probability(evidence.scores, Y, evidence.confidence), Y.indices, Y.indptr))
    assert cleaning_average_precision(data.truth, Y, found.confidence) > cleaning_average_precision(
        data.truth, Y, alone
    )


def test_the_null_does_not_depend_on_the_order_of_rows():
    data = make_pml(400, 20, 6, cardinality=2.0, noise=0.3, random_state=5)
    scores = np.random.default_rng(0).uniform(0.05, 0.95, data.Y.shape)
    doubt = np.full(data.Y.nnz, 0.2)
    order = np.random.default_rng(1).permutation(400)
    moved_Y = sparse.csr_array(data.Y[order])
    here, there = (
        InjectedCells(S, Y, row_hash(X), every_row_has_a_label=True).compare(doubt, with_relations=True)
        for S, Y, X in ((scores, data.Y, data.X), (scores[order], moved_Y, data.X[order]))
    )
    dense_here, dense_there = (
        sparse.csr_array((null.random, Y.indices, Y.indptr), shape=Y.shape).toarray()
        for null, Y in ((here, data.Y), (there, moved_Y))
    )
    assert np.allclose(dense_here[order], dense_there, atol=1e-8)
    assert np.allclose(np.sort(here.ranks.rank), np.sort(there.ranks.rank))


def test_estimates_are_floats_with_bounds_that_copy_and_pickle():
    estimate = Estimate(0.2, 0.1, 0.5)
    assert estimate == 0.2
    assert estimate * 10 == 2.0
    for twin in (copy.deepcopy(estimate), pickle.loads(pickle.dumps(estimate))):
        assert (twin, twin.low, twin.high) == (0.2, 0.1, 0.5)
    assert Estimate(0.2, 0.3, 0.1).low == Estimate(0.2, 0.3, 0.1).high == 0.2


def test_reasons_keep_for_and_against_apart():
    reason = Reason("a", 0.1, 0.6, ("r1",), ("r2", "r3"), (("b", 0.9, True), ("c", 0.6, False)), 0.7)
    assert [part.kind for part in reason.against] == ["score", "similar_rows", "co_labels", "label_noise"]
    assert [(part.kind, "'b'" in part.text) for part in reason.in_favour] == [("co_labels", True)]
    assert "as here" not in reason.sentence().split(". For: ")[0]
    assert "label_noise" not in {part.kind for part in Reason("a", 0.1, 0.6, (), (), (), float("nan")).parts}
    as_usual = Reason("a", 0.9912, 0.9935, (), (), (), float("nan"))
    assert as_usual.sentence() == "for: models that never saw this row score it 0.99, rows with the label usually 0.99"


def test_labels_that_come_along_in_a_third_of_the_rows_are_not_called_usual():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    Y = (X[:, :3] > 0).astype(int)
    Y[:, 2] = Y[:, 0] * (rng.random(300) < 0.35)
    found = clean(X, Y)
    cells = np.flatnonzero(found.Y.indices == 0)[:5]
    assert not any(other == "label_2" for reason in found.reasons(cells) for other, *_ in reason.companions)


def test_missing_labels_by_brute_force(monkeypatch):
    monkeypatch.setattr("pmlkit.cleaning.reasons._BLOCK_ROWS", 13)
    scores, Y = random_cells()
    scores = scores.round(2)
    labels = np.array([0, 2, 3, 5])
    rows, found = most_likely_missing(scores, sparse.csr_array(Y), labels, 40)
    free = [(-scores[i, k], i, k) for i in range(len(Y)) for k in labels if Y[i].any() and not Y[i, k]]
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == [(i, k) for _, i, k in sorted(free)[:40]]
    for k in (0, 2.5, True):
        with pytest.raises(ValueError, match="k must be a number of labels"):
            most_likely_missing(scores, sparse.csr_array(Y), labels, k)


def test_deleted_labels_come_first_among_the_missing():
    data = make_pml(800, 40, 8, cardinality=2.0, noise=0.0, random_state=6)
    rng = np.random.default_rng(0)
    Y = data.truth.toarray()
    deleted = (Y > 0) & (rng.random(Y.shape) < 0.2) & (Y.sum(axis=1, keepdims=True) > 1)
    found = clean(data.X, np.where(deleted, 0, Y)).missing(50)
    assert found.columns.tolist() == ["row", "label", "score", "rank", "reasons"]
    labels = found["label"].str.removeprefix("label_").astype(int)
    assert deleted[found["row"], labels].mean() > 0.5
    assert all(a >= b for a, b in pairwise(found["score"]))
    assert "estimated" not in found["reasons"].iloc[0]


@pytest.fixture(scope="module")
def with_probabilities():
    strips = load_digit_strips(400, random_state=0)
    probability = cross_fit(ClearPML(), strips.X, sparse.csr_array(strips.Y.astype(float))).scores
    return strips, probability.astype(float)


def test_probabilities_of_ones_own_are_the_evidence(with_probabilities):
    strips, probability = with_probabilities
    alone = clean(Y=strips.Y, pred_probs=probability)
    beside = clean(strips.X, strips.Y, pred_probs=probability)
    assert not alone.calibrated
    assert np.allclose(alone.scores, probability, atol=1e-6)
    is_false = strips.truth.toarray()[alone.rows, alone.Y.indices] == 0
    for found in (alone, beside):
        assert roc_auc_score(is_false, found.doubt) > 0.8
    kinds = {part.kind for reason in beside.reasons(beside.order[:3]) for part in reason.parts}
    assert "similar_rows" in kinds
    assert "similar_rows" not in {part.kind for reason in alone.reasons(alone.order[:3]) for part in reason.parts}
    assert alone.twins == []


def test_intervals_are_wider_for_a_judge_the_map_was_not_made_for():
    strips = load_digit_strips(
        400, "uniform", random_state=0, ratio=0.02
    )  # with more noise both end at the largest rate
    probability = cross_fit(ClearPML(), strips.X, sparse.csr_array(strips.Y.astype(float))).scores.astype(float)
    own = clean(strips.X, strips.Y)
    other = clean(strips.X, strips.Y, pred_probs=probability)
    assert own.calibrated
    assert not other.calibrated
    assert other.noise_rate_.overall.high > own.noise_rate_.overall.high + 0.02


@pytest.mark.parametrize(
    "model", [LogisticRegression(C=10.0, solver="liblinear"), GaussianNB(), KNeighborsClassifier(10)]
)
@pytest.mark.parametrize("ratio", [0.1, 0.5])
def test_expected_precision_of_random_mistakes_is_right_for_any_judge(model, ratio):
    strips = load_digit_strips(1200, "uniform", random_state=3, ratio=ratio)
    Y = strips.Y.toarray()
    probability = cross_val_predict(OneVsRestClassifier(model), strips.X, Y, cv=5, method="predict_proba")
    found = clean(Y=Y, pred_probs=probability)
    is_false = strips.truth.toarray()[found.rows, found.Y.indices] == 0
    for k in (0.02, 0.05, 0.2):
        said = found.expected_precision(k)
        true = is_false[found.order[: round(k * len(found.order))]].mean()
        assert said.low <= true <= said.high
        assert abs(said - true) < 0.15


def test_doubts_of_random_mistakes_are_calibrated_by_injected_ones():
    rng = np.random.default_rng(0)
    for share, shift, stretch in ((0.05, 2.0, 1.0), (0.2, 1.5, 0.6), (0.4, 3.0, 3.0)):
        is_false = rng.random(20_000) < share
        # By Bayes the log odds are shift * value + a constant, so any stretch of them is to be undone.
        value = rng.normal(np.where(is_false, shift, 0.0), 1.0)
        doubt = _random_mistakes(stretch * shift * value, stretch * shift**2, share)
        assert np.isclose(doubt.mean(), share, atol=1e-3)
        assert np.isclose(doubt @ value / doubt.sum(), shift, atol=0.02)
        for part in np.array_split(np.argsort(value), 8):
            assert abs(doubt[part].mean() - is_false[part].mean()) < 0.03


@pytest.mark.parametrize("calibrated", [False, True])
def test_there_may_be_as_many_mistakes_as_random_ones(calibrated):
    rng = np.random.default_rng(0)
    rank = np.where(rng.random(2000) < 0.05, rng.random(2000), 1.0)
    ratio, ranks = 1.0 - rank, RankMixture(rank, 8000)
    null = InjectedNull(ratio, ratio, np.zeros(2000), ranks, ranks, (0.5, 0.5, 0.0))
    Y = sparse.csr_array(np.ones((400, 5)))
    verdict = judge(np.full(2000, 1e-5), null, Y, calibrated=calibrated)
    assert 0.03 < verdict.random_mistakes.high < 0.2
    assert verdict.noise_rate.high >= verdict.random_mistakes.high


def test_all_that_may_be_false_may_be_among_the_suspects_of_another_judge(with_probabilities):
    strips, probability = with_probabilities
    found = clean(Y=strips.Y, pred_probs=probability)
    assert found.noise_rate_.overall.low == 0.0
    assert found.expected_precision(10).low == 0.0
    assert found.expected_precision(10).high == 1.0
    everything = found.expected_precision(1.0)
    assert np.isclose(everything, found.noise_rate_.overall)
    assert np.isclose(everything.high, found.noise_rate_.overall.high)


def test_probabilities_in_a_frame_are_put_in_the_order_of_the_labels(with_probabilities):
    strips, probability = with_probabilities
    names = list("abcdefghij")
    Y = pd.DataFrame(strips.Y.toarray(), columns=names)
    frame = pd.DataFrame(probability, columns=names)[names[::-1]]
    assert np.allclose(clean(Y=Y, pred_probs=frame).scores, probability, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: p[:, :5], r"\(400, 10\), got \(400, 5\)"),
        (lambda p: np.where(p == p[3, 2], np.nan, p), "first in row 3, label"),
        (lambda p: p * 3 - 1, r"in \[0, 1\]"),
        (lambda p: np.full_like(p, 0.5), "do not predict"),
        (lambda p: p.astype(str).tolist()[0], "one row per row"),
    ],
)
def test_other_probabilities_are_refused(with_probabilities, change, sentence):
    strips, probability = with_probabilities
    with pytest.raises(ValueError, match=sentence):
        clean(Y=strips.Y, pred_probs=change(probability))


def test_probabilities_of_a_model_that_has_seen_the_labels_are_warned_of(with_probabilities):
    strips, probability = with_probabilities
    seen = np.clip(0.9 * strips.Y.toarray() + 0.05 * probability, 0, 1)
    with pytest.warns(UserWarning, match="has seen these labels"):
        found = clean(Y=strips.Y, pred_probs=seen)
    # What it hides may be anything: no upper bound comes from it.
    n_rows, n_given = strips.Y.shape[0], strips.Y.nnz
    assert np.isclose(found.noise_rate_.overall.high, 1 - 0.3 * n_rows / n_given)
    assert found.random_mistakes_.high > 1 - strips.truth.nnz / n_given
    assert "mostly right" not in found.advice()


def test_neither_features_nor_probabilities_is_refused():
    with pytest.raises(ValueError, match="X must be given"):
        clean(Y=np.eye(3))
    with pytest.raises(ValueError, match="Y must be given"):
        clean(np.eye(3))
    with pytest.raises(ValueError, match="every_row_has_a_label"):
        clean(np.eye(3), np.eye(3), every_row_has_a_label="maybe")
    with pytest.raises(ValueError, match="empty_rows must be"):
        clean(np.eye(3), np.eye(3), empty_rows="drop")


def test_rows_without_candidates_can_be_called_negative():
    data = make_pml(400, 20, 6, cardinality=2.0, noise=0.5, random_state=7)
    Y = data.Y.toarray()
    Y[::5] = 0
    guessed, said, judged_otherwise = (
        clean(data.X, Y, **options)
        for options in ({}, {"empty_rows": "negative"}, {"empty_rows": "negative", "method": "CandidateLogistic"})
    )
    assert "rows without labels taken for unlabelled: features do not predict" in guessed.method
    assert said.method.endswith("rows without labels taken for negative: as given")
    assert "rows without labels" not in judged_otherwise.method
    assert np.abs(said.scores - guessed.scores).max() > 0.01


def test_labels_with_the_same_candidates_are_named():
    data = make_pml(400, 20, 6, cardinality=2.0, noise=0.5, random_state=7)
    Y = data.Y.toarray()
    Y[:, 0], Y[:, 2] = 0, Y[:, 1]  # the first label is on no row, and not judged
    with pytest.warns(PMLWarning, match="'cat' and 'kitten'"):
        clean(data.X, Y, label_names=["none", "cat", "kitten", "a", "b", "c"])


def test_a_known_label_per_row_bounds_the_rate():
    data = make_pml(400, 20, 6, cardinality=2.0, noise=0.5, random_state=7)
    bound = 1 - 400 / data.Y.nnz
    assert clean(data.X, data.Y, every_row_has_a_label=True).noise_rate_.overall.high <= bound + 1e-9
    assert clean(data.X, data.Y, every_row_has_a_label=False).noise_rate_.overall.high > bound


def test_auc_of_labels_is_that_of_scikit_learn():
    scores, Y = random_cells(n_rows=200)
    labelled = Y.any(axis=1)
    auc, _ = label_auc(scores, sparse.csr_array(Y))
    expected = [roc_auc_score(Y[labelled, k], scores[labelled, k]) for k in range(Y.shape[1])]
    assert np.allclose(auc, expected)
    assert not well_predicted(scores, sparse.csr_array(Y)).any()


def test_a_label_that_features_do_not_predict_is_not_called_wrong():
    data = make_pml(1000, 40, 6, cardinality=2.0, noise=0.1, random_state=8)
    Y = np.hstack([data.Y.toarray(), np.random.default_rng(0).integers(0, 2, (1000, 1))])
    table = clean(data.X, Y).noise_rate_.per_label
    assert table["cannot_tell"].iloc[6] == "the features do not predict it"
    assert np.isnan(table["noise_rate"].iloc[6])
    assert table["noise_rate"].iloc[:6].notna().all()


def test_the_estimate_is_stable_between_samples_of_one_table():
    data = make_pml(3000, 40, 25, cardinality=2.0, noise=0.15, random_state=9)
    rows = np.random.default_rng(0).permutation(3000).reshape(3, 1000)
    found = [clean(data.X[part], data.Y[part]).noise_rate_.overall for part in rows]
    assert max(found) - min(found) < 0.06


def test_rows_whose_labels_are_all_rare_are_not_called_rows_without_labels():
    data = make_pml(300, 10, 4, cardinality=2.0, noise=0.5, random_state=7)
    Y = np.hstack([data.Y.toarray(), np.zeros((300, 1))])
    Y[:3] = [0, 0, 0, 0, 1]
    assert "; rows without judged labels taken for unlabelled: " in clean(data.X, Y).method
    assert "without judged labels" not in clean(data.X[3:], Y[3:, :4]).method
