"""The noise model against scipy's optimiser and dense linear algebra; its terms against loops."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit

from pmlkit.cleaning import clean
from pmlkit.cleaning.audit.noise_model import (
    Design,
    _mean_lift,
    _rank_within,
    _votes,
    curve_design,
    fit_noise_model,
    order_design,
)
from pmlkit.cleaning.calibration import best_other
from pmlkit.data import load_digit_strips, make_pml


def make(n=60, n_labels=4, n_terms=3, row_sd=0.0, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(n_labels, size=n)
    rows = rng.integers(n // 2, size=n)
    unit = rng.normal(size=(n // 2, 5))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    design = Design(
        rng.normal(size=n), rng.normal(size=(n, n_terms)), rng.uniform(0.3, 2.0, n_terms), label, 0.6,
        rows=rows, unit_rows=unit if row_sd else None, width=2.0, row_sd=row_sd,
    )  # fmt: skip
    asked = rng.permutation(n)[:25]
    wrong = (rng.random(25) < 0.5).astype(float)
    return design, asked, wrong


def covariance(design):
    """Prior covariance of all log odds, cell by cell."""
    n = len(design.offset)
    K = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            K[i, j] = (design.Z[i] * design.Z[j] * design.sd**2).sum()
            if design.label[i] == design.label[j]:
                K[i, j] += design.label_sd**2
                if design.unit_rows is not None:
                    distance = ((design.unit_rows[design.rows[i]] - design.unit_rows[design.rows[j]]) ** 2).sum()
                    K[i, j] += design.row_sd**2 * np.exp(-distance / design.width)
    return K


@pytest.mark.parametrize("row_sd", [0.0, 0.7])
def test_the_mode_is_that_of_a_general_optimiser(row_sd):
    design, asked, wrong = make(row_sd=row_sd)
    K = covariance(design)
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # log odds = offset + root @ white noise

    def objective(white):
        odds = design.offset[asked] + root[asked] @ white
        fit = np.sum(np.logaddexp(0, odds) - wrong * odds)
        return fit + 0.5 * white @ white, root[asked].T @ (expit(odds) - wrong) + white

    options = {"maxiter": 5000, "gtol": 1e-10, "ftol": 1e-15}
    found = minimize(objective, np.zeros(root.shape[1]), jac=True, method="L-BFGS-B", options=options)
    everywhere = design.offset + root @ found.x
    assert np.allclose(fit_noise_model(design, asked, wrong).log_odds(), everywhere, atol=1e-4)


def test_variance_and_evidence_are_those_of_dense_algebra():
    design, asked, wrong = make()
    model = fit_noise_model(design, asked, wrong)
    K = covariance(design)
    p = expit(model.log_odds()[asked])
    W = np.diag(p * (1 - p))
    inside = K[np.ix_(asked, asked)]
    posterior = K - K[:, asked] @ np.linalg.solve(inside + np.linalg.inv(W), K[asked])
    weight = np.random.default_rng(1).random(len(design.offset))
    assert model.variance_of_sum(weight) == pytest.approx(weight @ posterior @ weight)
    odds = model.log_odds()[asked]
    likelihood = (wrong * odds - np.logaddexp(0, odds)).sum()
    shift = odds - design.offset[asked]
    reference = likelihood - 0.5 * shift @ np.linalg.lstsq(inside, shift, rcond=None)[0]
    reference -= 0.5 * np.linalg.slogdet(np.eye(len(asked)) + inside @ W)[1]
    assert model.log_evidence == pytest.approx(reference)


def test_no_answers_leave_the_prior():
    design, _, _ = make()
    model = fit_noise_model(design, np.empty(0, dtype=int), np.empty(0))
    assert np.allclose(model.log_odds(), design.offset)
    weight = np.ones(len(design.offset))
    assert model.variance_of_sum(weight) == pytest.approx(weight @ covariance(design) @ weight)


def test_extreme_offsets_converge():
    design = Design(np.full(50, 30.0), np.ones((50, 1)), np.array([2.0]), np.zeros(50, dtype=int), 0.5)
    odds = fit_noise_model(design, np.arange(50), np.zeros(50)).log_odds()
    assert np.isfinite(odds).all()
    assert (odds < 5).all()


def test_terms_equal_loops():
    rng = np.random.default_rng(2)
    Y = sparse.csr_array((rng.random((40, 6)) < 0.4).astype(float))
    rows = np.repeat(np.arange(40), np.diff(Y.indptr))
    score = rng.normal(size=Y.nnz)
    dense = Y.toarray()
    count = dense.sum(axis=0).astype(int)
    best, rank, lift = best_other(score, Y), _rank_within(score, Y.indices, count), _mean_lift(Y, rows, count)
    X = rng.normal(size=(40, 5))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    votes = _votes(unit, Y, rows)
    for cell in range(Y.nnz):
        row, label = rows[cell], Y.indices[cell]
        mine = [c for c in range(Y.nnz) if rows[c] == row and c != cell]
        assert best[cell] == max((score[c] for c in mine), default=-np.inf)
        same = score[Y.indices == label]
        assert rank[cell] == pytest.approx(((same < score[cell]).sum() + 0.5) / len(same))
        others = np.delete(dense, row, axis=0)
        lifts = [
            np.log(
                ((others[:, label] * others[:, k]).sum() + 0.5)
                / (others[:, label].sum() * others[:, k].sum() / 39 + 0.5)
            )
            for k in Y.indices[mine]
        ]
        assert lift[cell] == pytest.approx(np.mean(lifts) if lifts else 0.0)
        nearest = np.argsort(-np.where(np.arange(40) == row, -np.inf, unit @ unit[row]))[:15]
        assert votes[cell] == pytest.approx(logit((dense[nearest, label].sum() + 0.5) / 16))


def test_sparse_and_dense_rows_give_the_same_terms():
    rng = np.random.default_rng(3)
    Y = sparse.csr_array((rng.random((30, 4)) < 0.5).astype(float))
    rows = np.repeat(np.arange(30), np.diff(Y.indptr))
    scores = rng.random((30, 4))
    X = sparse.csr_array((rng.random((30, 8)) < 0.4) * rng.random((30, 8)))
    design = order_design(X, Y, scores, rng.normal(size=Y.nnz), np.arange(Y.nnz), rows)
    assert design.Z.shape == (Y.nnz, 22)
    assert np.isfinite(design.Z).all()
    assert np.allclose(design.Z[:, 14:].mean(axis=0), 0, atol=1e-5)


def _verified(dataset, places, answer):
    """Return the result without answers, and with the same answer to candidates at some places of the order."""
    result = clean(dataset.X, dataset.Y)
    cells = result.order[[int(place * (len(result.order) - 1)) for place in places]]
    labels = [result.label_names[k] for k in result.Y.indices[cells]]
    answers = pd.DataFrame({"row": result.rows[cells], "label": labels, "answer": answer})
    return result, clean(dataset.X, dataset.Y, verified=answers)


SMALL = {
    "strips": lambda: load_digit_strips(300),
    "few labels": lambda: make_pml(200, 20, 8, cardinality=2.5, noise=0.2, random_state=0),
    "little noise": lambda: make_pml(300, 30, 10, cardinality=2.0, noise=0.05, random_state=1),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("answer", ["right", "wrong"])
@pytest.mark.parametrize("places", [(0.0,), (0.0, 0.5, 1.0)])
def test_a_few_answers_move_the_other_candidates_only_a_little(name, answer, places):
    before, after = _verified(SMALL[name](), places, answer)
    moved = (after.doubt - before.doubt)[after.known == 0]
    # One against the odds, at the end of the scale, moved all candidates by .29 on average with a slope as a prior.
    assert np.abs(moved).mean() < (0.12 if len(places) == 1 else 0.22)
    assert after.doubt[after.known == 0].max() > 0.5
    assert after.doubt[after.known == 0].min() < 0.3


@pytest.mark.parametrize("name", SMALL)
def test_many_consistent_answers_move_the_others(name):
    for answer, expected in (("right", 0.0), ("wrong", 1.0)):
        before, after = _verified(SMALL[name](), np.linspace(0, 1, 150), answer)
        rest = after.known == 0
        was, is_now = (np.abs(result.doubt[rest] - expected).mean() for result in (before, after))
        assert is_now < 0.5 * was or is_now < 0.1


@pytest.mark.parametrize("name", SMALL)
def test_answers_move_others_in_their_own_direction(name):
    dataset = SMALL[name]()
    for place in (0.0, 0.2, 0.5, 0.9):
        _, right = _verified(dataset, (place,), "right")
        before, wrong = _verified(dataset, (place,), "wrong")
        rest = right.known == 0
        assert right.doubt[rest].mean() <= before.doubt[rest].mean() + 0.005
        assert before.doubt[rest].mean() <= wrong.doubt[rest].mean() + 0.005


@pytest.mark.parametrize("n_labels", [1, 5])
def test_the_curve_rises_where_an_answer_turns_wrong(n_labels):
    """For every candidate of one label; with several, whose effects share the blame, on average."""
    rng = np.random.default_rng(0)
    offset, label = rng.normal(0.5, 2, 300), rng.integers(0, n_labels, 300)
    asked, wrong = np.arange(0, 300, 11), (rng.random(28) < 0.4).astype(float)
    before = fit_noise_model(curve_design(offset, label), asked, wrong).log_odds()
    for i in np.flatnonzero(wrong == 0):
        turned = wrong.copy()
        turned[i] = 1.0
        change = fit_noise_model(curve_design(offset, label), asked, turned).log_odds() - before
        assert change.mean() > 0
        assert n_labels > 1 or change.min() > -0.005


def test_wrong_and_right_are_treated_alike():
    rng = np.random.default_rng(0)
    offset, label = rng.normal(0.5, 2, 300), rng.integers(0, 5, 300)
    asked, wrong = np.arange(0, 300, 11), rng.random(28) < 0.4
    one = fit_noise_model(curve_design(offset, label), asked, wrong.astype(float)).log_odds()
    other = fit_noise_model(curve_design(-offset, label), asked, (~wrong).astype(float)).log_odds()
    np.testing.assert_allclose(one, -other, atol=1e-6)
