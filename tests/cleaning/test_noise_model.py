"""The noise model against scipy's optimiser and dense linear algebra; its terms against loops."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit

from pmlkit.cleaning.audit.features import _best_other, _mean_lift, _rank_within, _votes, order_design
from pmlkit.cleaning.audit.noise_model import Design, fit_noise_model


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
    best, rank, lift = _best_other(score, Y, rows), _rank_within(score, Y.indices, count), _mean_lift(Y, rows, count)
    X = rng.normal(size=(40, 5))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    votes = _votes(unit, Y, rows)
    for cell in range(Y.nnz):
        row, label = rows[cell], Y.indices[cell]
        mine = [c for c in range(Y.nnz) if rows[c] == row and c != cell]
        assert best[cell] == max((score[c] for c in mine), default=score[cell])
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
    assert design.Z.shape == (Y.nnz, 10)
    assert np.isfinite(design.Z).all()
    assert np.allclose(design.Z[:, 2:].mean(axis=0), 0, atol=1e-5)
