import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from pmlkit.methods.pml_lfc import basis as bases
from pmlkit.methods.pml_lfc import predictor_step as low_rank
from pmlkit.methods.pml_lfc.basis import eigenbasis
from pmlkit.methods.pml_lfc.predictor_step import fit_low_rank
from pmlkit.numerics.prox import nuclear_prox


def problem(n, d, q, seed=0, rank=None, decay=0.8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ np.diag(decay ** np.arange(d))
    P = X @ rng.normal(size=(d, rank or q)) @ rng.normal(size=(rank or q, q)) + 0.1 * rng.normal(size=(n, q))
    return X, sparse.csr_array(P)


def solve(X, P, alpha, weight=None, **options):
    basis = eigenbasis(X, weight)
    norm2 = float((P.multiply(P).sum(axis=1) * (1 if weight is None else weight)).sum())
    fit = fit_low_rank(basis, basis.project(P), norm2, alpha, **options)
    return basis.coefficients(fit.solution), fit


def objective(X, P, W, alpha):
    return np.sum((X @ W - P.toarray()) ** 2) + alpha * np.linalg.svd(W, compute_uv=False).sum()


@pytest.mark.parametrize("alpha", ["0.1", "1", "10"])
@pytest.mark.parametrize("solver", ["admm", "accelerated"])
def test_stored_solutions(oracle, alpha, solver):
    P = sparse.csr_array(oracle.Y / oracle.Y.sum(axis=1, keepdims=True))
    W, fit = solve(oracle.X, P, float(alpha), tol=1e-13, solver=solver)
    assert_allclose(W, oracle.load(f"lfc_wstep_P0_alpha{alpha}"), atol=1e-6)
    expected = json.loads((oracle.folder / "lfc_meta.json").read_text())[f"wstep_alpha{alpha}"]
    assert_allclose(fit.objective, expected["obj"], rtol=1e-9)
    assert fit.rank == expected["rank"]


@given(
    seed=st.integers(0, 1000),
    shape=st.sampled_from([(40, 10, 4), (10, 40, 4), (30, 6, 9), (12, 12, 12)]),
    alpha=st.sampled_from([0.05, 0.5, 5.0, 1e3]),
    solver=st.sampled_from(["admm", "accelerated"]),
)
@settings(max_examples=40, deadline=None)
def test_the_gap_is_a_bound_and_the_objective_is_what_it_says(seed, shape, alpha, solver):
    X, P = problem(*shape, seed=seed)
    W, fit = solve(X, P, alpha, tol=1e-4, solver=solver)
    assert_allclose(fit.objective, objective(X, P, W, alpha), rtol=1e-8, atol=1e-8)
    best = solve(X, P, alpha, tol=1e-10)[1].objective
    assert fit.objective - best <= (fit.gap + 1e-9) * fit.objective + 1e-9
    assert fit.gap <= 1e-4


def test_solution_is_a_fixed_point_of_the_proximal_step():
    X, P = problem(60, 15, 6)
    W, _ = solve(X, P, 3.0, tol=1e-13)
    length = 2 * np.linalg.norm(X, 2) ** 2
    moved, _ = nuclear_prox(W - 2 * X.T @ (X @ W - P) / length, 3.0 / length)
    assert_allclose(W, moved, atol=1e-8)


def test_hundreds_of_labels_use_the_subspace_and_stay_exact(monkeypatch):
    X, P = problem(300, 150, 120, rank=3, decay=0.98)
    full = []
    monkeypatch.setattr(low_rank, "nuclear_prox", lambda *args: full.append(1) or nuclear_prox(*args))
    W, fit = solve(X, P, 50.0, tol=1e-10)
    assert len(full) < fit.n_iter / 2
    monkeypatch.setattr(low_rank._Shrinkage, "_near", lambda *args: None)
    slow, _ = solve(X, P, 50.0, tol=1e-10)
    assert_allclose(W, slow, atol=1e-5 * np.abs(slow).max())


@pytest.mark.parametrize("shape", [(50, 20), (20, 50)])
def test_without_diagonalising(shape, monkeypatch):
    X, P = problem(*shape, 3)
    W, _ = solve(X, P, 1.0, tol=1e-10)
    monkeypatch.setattr(bases, "LARGEST_DIAGONALISED", 5)
    plain, fit = solve(sparse.csr_array(X), P, 1.0, tol=1e-10, max_iter=50_000)
    assert fit.gap <= 1e-10
    assert_allclose(plain, W, atol=1e-4 * np.abs(W).max())


def test_weights_repeat_rows():
    X, P = problem(30, 8, 4)
    weight = np.random.default_rng(0).integers(0, 3, size=30).astype(float)
    repeated = np.repeat(np.arange(30), weight.astype(int))
    assert_allclose(
        solve(X, P, 1.0, weight, tol=1e-12)[0], solve(X[repeated], P[repeated], 1.0, tol=1e-12)[0], atol=1e-6
    )


def test_a_start_from_the_solution_ends_at_once():
    X, P = problem(60, 15, 6)
    basis = eigenbasis(X)
    first = fit_low_rank(basis, basis.project(P), float(P.multiply(P).sum()), 3.0, tol=1e-9)
    again = fit_low_rank(basis, basis.project(P), float(P.multiply(P).sum()), 3.0, tol=1e-9, start=first)
    assert first.n_iter > 10
    assert again.n_iter <= 3


def test_a_start_from_another_target_leads_to_the_same_solution():
    """The subspace of the start is of a size that makes it used, and of a problem that is not this one."""
    X, P = problem(300, 150, 120, rank=3, decay=0.98)
    _, other = problem(300, 150, 120, rank=3, decay=0.98, seed=1)
    basis = eigenbasis(X)
    norm2 = float(P.multiply(P).sum())
    start = fit_low_rank(basis, basis.project(other), float(other.multiply(other).sum()), 50.0, tol=1e-9)
    fresh = fit_low_rank(basis, basis.project(P), norm2, 50.0, tol=1e-10)
    warm = fit_low_rank(basis, basis.project(P), norm2, 50.0, tol=1e-10, start=start)
    assert start.subspace is not None
    assert_allclose(warm.solution, fresh.solution, atol=1e-4 * np.abs(fresh.solution).max())
    assert warm.objective == pytest.approx(fresh.objective, rel=1e-9)


def test_a_start_that_has_nothing_in_common_with_the_problem_is_left():
    """Labels 0 to 12 alone, then labels 40 to 44 alone: no step within the first subspace would ever see the others."""
    basis = eigenbasis(np.eye(96))
    start, target = np.zeros((96, 96)), np.zeros((96, 96))
    start[np.arange(13), np.arange(13)] = np.r_[np.full(5, 10.0), np.linspace(0.9, 0.5, 8)]
    target[np.arange(40, 45), np.arange(40, 45)] = 10.0

    def fitted(P, first=None):
        P = sparse.csr_array(P)
        return fit_low_rank(
            basis, basis.project(P), float(P.multiply(P).sum()), 2.0, tol=1e-8, start=first, max_iter=60
        )

    first = fitted(start)
    assert first.subspace is not None
    warm = fitted(target, first)
    assert warm.gap <= 1e-8
    assert warm.objective == pytest.approx(fitted(target).objective)
