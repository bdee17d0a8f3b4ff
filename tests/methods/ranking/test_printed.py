"""The printed problem of PML-lc and PML-fp against the linear and quadratic programs of the paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog, minimize

from pmlkit.methods.ranking import PMLFP, PMLLC, RankSVM, alternation, printed
from pmlkit.methods.ranking.alternation import alternate
from pmlkit.methods.ranking.pml_fp import prototype_distances
from pmlkit.methods.ranking.pml_lc import co_occurrence
from pmlkit.methods.ranking.printed import PrintedProblem, best_confidences, best_correlated_confidences
from pmlkit.methods.ranking.solver import solve_ranking_svm
from pmlkit.numerics.spectral import centered_rows


def _candidates(rng, n_rows, n_labels):
    is_candidate = rng.random((n_rows, n_labels)) < 0.6
    is_candidate[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = True
    return is_candidate


def _gamma(is_candidate):
    n_candidates = is_candidate.sum(axis=1)
    return n_candidates * (is_candidate.shape[1] - n_candidates) + n_candidates**2 / 2


def _row_loss(p, f, C1, gamma):
    """Equation 4 for one row, pair by pair: the slacks are not cut at zero."""
    pairs = [(k, j) for k in range(len(p)) for j in range(len(p))]
    return C1 / gamma * sum(max(0.0, p[k] - p[j]) * (1.0 - f[k] + f[j]) for k, j in pairs)


def _linear_program(f, own, distance, C1, gamma):
    """Equation 6 for one row by scipy; one variable per label and one per pair for |p_k - p_l|."""
    n = len(f)
    pairs = [(k, j) for k in range(n) for j in range(k + 1, n)]
    cost = np.concatenate([distance, np.full(len(pairs), C1 / gamma)])
    rows, limits = [], []
    for number, (k, j) in enumerate(pairs):
        # Both orders of a pair: max(0, a) (1 - d) + max(0, -a) (1 + d) = |a| - a d with a = p_k - p_j, d = f_k - f_j.
        cost[k] -= C1 / gamma * (f[k] - f[j])
        cost[j] += C1 / gamma * (f[k] - f[j])
        for sign in (1.0, -1.0):
            row = np.zeros(n + len(pairs))
            row[k], row[j], row[n + number] = sign, -sign, -1.0
            rows.append(row)
            limits.append(0.0)
    rows.append(np.concatenate([-np.ones(n), np.zeros(len(pairs))]))
    limits.append(-1.0)
    bounds = [(0.0, 1.0 if is_own else 0.0) for is_own in own] + [(0.0, None)] * len(pairs)
    found = linprog(cost, A_ub=np.array(rows), b_ub=limits, bounds=bounds)
    assert found.status == 0
    return found.fun


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.0, 0.02, 0.3, 10.0]), st.booleans())
def test_fp_confidences_solve_the_linear_program(seed, n_labels, C3, with_ties):
    rng = np.random.default_rng(seed)
    is_candidate = _candidates(rng, 4, n_labels)
    scores = 2 * rng.normal(size=is_candidate.shape)
    if with_ties:
        scores = scores.round()
    problem = PrintedProblem(is_candidate, 1.5, distance=C3 * rng.exponential(size=is_candidate.shape))
    confidence = problem.chosen(is_candidate.astype(float), scores)
    assert not confidence[~is_candidate].any()
    assert confidence.max() <= 1
    assert confidence.sum(axis=1).min() >= 1 - 1e-12
    for i, gamma in enumerate(_gamma(is_candidate)):
        ours = _row_loss(confidence[i], scores[i], 1.5, gamma) + problem.distance[i] @ confidence[i]
        optimum = _linear_program(scores[i], is_candidate[i], problem.distance[i], 1.5, gamma)
        assert_allclose(ours, optimum, atol=1e-8)


def _correlated_problem(seed, n_rows, n_labels, C2):
    rng = np.random.default_rng(seed)
    is_candidate = _candidates(rng, n_rows, n_labels)
    problem = PrintedProblem(is_candidate, 1.0, correlation=C2 * co_occurrence(is_candidate))
    return is_candidate, problem, 2 * rng.normal(size=is_candidate.shape), rng


def _row_values(problem, confidence, scores):
    """Equation 4, row by row."""
    return np.array(
        [
            _row_loss(p, f, problem.C1, gamma) - p @ problem.correlation @ p
            for p, f, gamma in zip(confidence, scores, _gamma(problem.is_candidate), strict=True)
        ]
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.01, 0.1, 1.0]))
def test_lc_confidences_are_better_than_those_of_a_general_solver(seed, C2):
    is_candidate, problem, scores, rng = _correlated_problem(seed, 3, 5, C2)
    confidence = problem.chosen(is_candidate.astype(float), scores)
    assert not confidence[~is_candidate].any()
    ours = _row_values(problem, confidence, scores)
    for i, own in enumerate(is_candidate):
        labels = np.flatnonzero(own)

        def value(cells, i=i, labels=labels):
            p = np.zeros(5)
            p[labels] = cells
            return _row_values(problem, np.tile(p, (3, 1)), scores)[i]

        for _ in range(3):
            found = minimize(
                value,
                rng.uniform(1 / len(labels), 1.0, size=len(labels)),
                bounds=[(0.0, 1.0)] * len(labels),
                constraints={"type": "ineq", "fun": lambda p: p.sum() - 1.0},
                method="SLSQP",
            )
            if found.x.sum() >= 1 - 1e-9:
                assert ours[i] <= value(np.clip(found.x, 0, 1)) + 1e-7


@pytest.mark.parametrize("C2", [0.003, 0.03, 0.3])
def test_tangents_find_nearly_all_of_the_best_sets(C2, monkeypatch):
    is_candidate, problem, scores, rng = _correlated_problem(1, 300, 9, C2)
    exact = _row_values(problem, problem.chosen(is_candidate.astype(float), scores), scores)
    monkeypatch.setattr(printed, "_MAX_ENUMERATED", 0)
    start = is_candidate * rng.random(is_candidate.shape) < 0.5
    start = (start & is_candidate) | (is_candidate & ~(start & is_candidate).any(axis=1, keepdims=True))
    near = _row_values(problem, problem.chosen(start.astype(float), scores), scores)
    assert (near >= exact - 1e-9).all()
    assert (near <= _row_values(problem, start.astype(float), scores) + 1e-9).all()
    assert np.mean(near <= exact + 1e-9) >= 0.9


def test_blocks_of_rows_do_not_matter(monkeypatch):
    is_candidate, problem, scores, _ = _correlated_problem(0, 40, 5, 0.05)
    whole = problem.chosen(is_candidate.astype(float), scores)
    monkeypatch.setattr(printed, "_BLOCK_SETS", 100)
    assert_array_equal(problem.chosen(is_candidate.astype(float), scores), whole)


def test_without_correlation_both_choices_agree():
    rng = np.random.default_rng(0)
    is_candidate = _candidates(rng, 200, 6)
    gain, weight = rng.normal(size=is_candidate.shape), rng.exponential(size=200)
    start = is_candidate.astype(float)
    assert_array_equal(
        best_correlated_confidences(gain, is_candidate, weight, np.zeros((6, 6)), start),
        best_confidences(gain, is_candidate, weight),
    )


def _printed_program(X, confidence, C1, gamma):
    """Equation 3 by a general solver, one slack variable per pair, inner pairs included; its value."""
    n_features, n_labels = X.shape[1], confidence.shape[1]
    pairs = [
        (i, k, j, C1 / gamma[i] * (p[k] - p[j]))
        for i, p in enumerate(confidence)
        for k in range(n_labels)
        for j in range(n_labels)
        if p[k] > p[j]
    ]
    n_model = (n_features + 1) * n_labels
    design = np.zeros((len(pairs), n_model + len(pairs)))
    for number, (i, k, j, _) in enumerate(pairs):
        block = design[number, :n_model].reshape(n_features + 1, n_labels)
        block[:, k], block[:, j] = np.append(X[i], 1.0), -np.append(X[i], 1.0)
    design[:, n_model:] = np.eye(len(pairs))
    penalised = np.r_[np.ones(n_features * n_labels), np.zeros(n_labels + len(pairs))]
    linear = np.r_[np.zeros(n_model), [weight for *_, weight in pairs]]
    found = minimize(
        lambda v: (penalised * v) @ v + linear @ v,
        np.r_[np.zeros(n_model), np.ones(len(pairs))],
        jac=lambda v: 2.0 * penalised * v + linear,
        bounds=[(None, None)] * n_model + [(0.0, None)] * len(pairs),
        constraints={"type": "ineq", "fun": lambda v: design @ v - 1.0, "jac": lambda _: design},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert found.status in (0, 8)  # 8: no further descent, at the accuracy of floats
    return found.fun


def _data(n_rows=10, n_features=2, n_labels=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    truth = X @ rng.normal(size=(n_features, n_labels)) > 0.8
    is_candidate = truth | (rng.random(truth.shape) < 0.4)
    is_candidate[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = True
    return X, is_candidate


@pytest.mark.parametrize("C1", [1.0, 20.0])
def test_the_model_is_that_of_the_printed_program(C1):
    """With confidences inside the candidate set, so that its inner pairs count."""
    X, is_candidate = _data()
    problem = PrintedProblem(is_candidate, C1)
    confidence = best_confidences(np.random.default_rng(1).normal(size=is_candidate.shape), is_candidate, np.ones(10))
    assert len(np.unique(confidence)) > 2
    positive, weight = problem.pairs(confidence)
    solution = solve_ranking_svm(centered_rows(X), positive, weight, tol=1e-9)
    expected = _printed_program(X, confidence, C1, _gamma(is_candidate))
    assert_allclose(problem.objective(solution.objective[-1], confidence), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["lc", "fp"])
@pytest.mark.parametrize("n_rounds", [1, 2, 3])
def test_every_round_solves_the_printed_programs(kind, n_rounds, monkeypatch):
    """Not a comparison of whole runs: intercepts are not unique, and later rounds depend on which ones are found."""
    monkeypatch.setattr(alternation, "_ROUGH_GAP", 1e-9)
    C1 = 20.0
    X, is_candidate = _data(seed=4)
    problem = (
        PrintedProblem(is_candidate, C1, correlation=0.5 * co_occurrence(is_candidate))
        if kind == "lc"
        else PrintedProblem(is_candidate, C1, distance=0.5 * prototype_distances(X, is_candidate))
    )
    found = alternate(centered_rows(X), is_candidate, problem, tol=1e-9, max_iter=n_rounds)
    start = is_candidate.astype(float)
    assert not np.array_equal(found.confidence, start)
    for confidence, objective in ((start, found.objective[0]), (found.confidence, found.objective[-1])):
        extra = (
            -np.einsum("ij,jk,ik->", confidence, problem.correlation, confidence)
            if kind == "lc"
            else (problem.distance * confidence).sum()
        )
        expected = _printed_program(X, confidence, C1, _gamma(is_candidate)) + extra
        assert_allclose(objective, expected, rtol=1e-5)


def test_prototypes_are_means_of_the_rows_with_the_candidate():
    X, is_candidate = _data(30, 3, 4)
    expected = [[np.linalg.norm(x - X[own].mean(axis=0)) for own in is_candidate.T] for x in X]
    assert_allclose(prototype_distances(X, is_candidate), expected, atol=1e-7)


def test_co_occurrence_is_the_share_of_rows_with_both():
    is_candidate = _data(30, 3, 4)[1]
    expected = [[np.mean(a & b) for b in is_candidate.T] for a in is_candidate.T]
    assert_allclose(co_occurrence(is_candidate), expected)


def test_without_their_terms_both_methods_are_one(oracle):
    lc, fp = PMLLC(C2=0.0).fit(oracle.X, oracle.Y), PMLFP(C3=0.0).fit(oracle.X, oracle.Y)
    assert_allclose(lc.coef_, fp.coef_)
    assert_allclose(lc.label_confidence_.data, fp.label_confidence_.data)
    assert len(np.unique(lc.label_confidence_.data)) > 1


def test_with_much_correlation_it_is_rank_svm(oracle):
    """All candidates are trusted; where all sets have one size, the loss is Rank-SVM's."""
    Y = np.zeros_like(oracle.Y)
    np.put_along_axis(Y, np.argsort(-oracle.Y, axis=1, kind="stable")[:, :2], 1, axis=1)
    model = PMLLC(C2=10.0, tol=1e-7).fit(oracle.X, Y)
    assert_allclose(model.label_confidence_.data, 1.0)
    n_pairs, gamma = 2 * 4, 2 * 4 + 2
    expected = RankSVM(C=n_pairs / (2 * gamma), tol=1e-7).fit(oracle.X, Y)
    assert_allclose(model.coef_, expected.coef_, atol=1e-3)
    assert_allclose(model.objective_[-1], 2 * expected.objective_[-1] - 10 * _together(Y), rtol=1e-5)


def _together(Y):
    return sum(Y[i] @ (Y.T @ Y / len(Y)) @ Y[i] for i in range(len(Y)))


def test_far_prototypes_leave_the_nearest_candidate(oracle):
    confidence = PMLFP(C3=1e6).fit(oracle.X, oracle.Y).label_confidence_.toarray()
    distance = np.where(oracle.Y > 0, prototype_distances(oracle.X, oracle.Y > 0), np.inf)
    nearest = np.zeros_like(confidence)
    nearest[np.arange(len(nearest)), distance.argmin(axis=1)] = 1.0
    assert_array_equal(confidence, nearest)


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        (PMLLC, {"C1": 0.0}),
        (PMLLC, {"C2": -1.0}),
        (PMLLC, {"reward": "much"}),
        (PMLLC, {"variant": "other"}),
        (PMLLC, {"max_iter": 0}),
        (PMLFP, {"C1": -1.0}),
        (PMLFP, {"C3": -2.0}),
        (PMLFP, {"normalize": "max"}),
        (PMLFP, {"tol": -1.0}),
    ],
)
def test_impossible_parameters_are_refused(oracle, method, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of {method.__name__} must be"):
        method(**wrong).fit(oracle.X, oracle.Y)
