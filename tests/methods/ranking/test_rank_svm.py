"""Rank-SVM against the exact optimum, the authors' numbers and a quadratic program with one variable a pair."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from pmlkit import testing as checks
from pmlkit.exceptions import PMLWarning
from pmlkit.methods.ranking.rank_svm import RankSVM, kernel_map


def _problem(n_rows=12, n_features=3, n_labels=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) + 1.0
    Y = (X @ rng.normal(size=(n_features, n_labels)) + rng.normal(size=(n_rows, n_labels)) > 0.5).astype(int)
    Y[Y.sum(axis=1) == 0, 0] = 1
    Y[0] = 1
    return X, Y


def _objective(kernel, dual_coef, intercept, Y, C):
    """Half the squared norm plus the loss, pair by pair."""
    scores = kernel @ dual_coef + intercept
    loss = 0.0
    for f, own in zip(scores, Y > 0, strict=True):
        pairs = [max(0.0, 1.0 - f[k] + f[j]) for k in np.flatnonzero(own) for j in np.flatnonzero(~own)]
        loss += C * np.mean(pairs) if pairs else 0.0
    return 0.5 * np.trace(dual_coef.T @ kernel @ dual_coef) + loss


def _dual_optimum(kernel, Y, C):
    """The dual quadratic program of the paper, one variable a pair: its value, and one kernel expansion a label."""
    pairs = [
        (i, k, j) for i, own in enumerate(Y > 0) for k in np.flatnonzero(own) for j in np.flatnonzero(~own)
    ]  # row i: candidate k above other label j
    upper = [C / (Y[i].sum() * (Y.shape[1] - Y[i].sum())) for i, _, _ in pairs]
    effect = np.zeros((*Y.shape, len(pairs)))
    for number, (i, k, j) in enumerate(pairs):
        effect[i, k, number], effect[i, j, number] = 1.0, -1.0
    quadratic = np.einsum("ikp,ij,jkr->pr", effect, kernel, effect, optimize=True)
    balance = effect.sum(axis=0)[:-1]  # the labels' sums add up to zero by themselves
    found = minimize(
        lambda a: 0.5 * a @ quadratic @ a - a.sum(),
        0.5 * np.array(upper),
        jac=lambda a: quadratic @ a - 1.0,
        bounds=[(0.0, u) for u in upper],
        constraints={"type": "eq", "fun": lambda a: balance @ a, "jac": lambda _: balance},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    assert found.success
    return -found.fun, effect @ found.x


def test_the_exact_optimum(oracle):
    model = RankSVM(tol=1e-9).fit(oracle.X, oracle.Y)
    stored = json.loads((oracle.folder / "ranksvm_linear_exact_meta.json").read_text())
    assert_allclose(model.objective_[-1], 56.068991746, rtol=1e-9)
    assert_allclose(model.objective_[-1], stored["dual"], rtol=1e-9)
    assert_allclose(model.coef_, oracle.load("ranksvm_linear_exact_W"), atol=1e-4)
    assert_allclose(model.intercept_.sum(), 0.0, atol=1e-10)
    scores = model.decision_function(oracle.X_test)
    assert_allclose(scores, oracle.load("ranksvm_linear_exact_scores_test"), atol=1e-4)


def test_the_default_accuracy(oracle):
    model = RankSVM().fit(oracle.X, oracle.Y)
    assert 56.068991746 <= model.objective_[-1] <= 56.068991746 * (1 + 1e-4)
    assert_allclose(model.coef_, oracle.load("ranksvm_linear_exact_W"), atol=0.01)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_better_than_the_authors_fifty_iterations_and_near_to_them(oracle, kernel):
    rows, new = (
        (oracle.X @ oracle.X.T, oracle.X_test @ oracle.X.T)
        if kernel == "linear"
        else (rbf_kernel(oracle.X, gamma=0.5), rbf_kernel(oracle.X_test, oracle.X, gamma=0.5))
    )
    dual_coef, intercept = oracle.load(f"ranksvm_{kernel}_beta").T, oracle.load(f"ranksvm_{kernel}_bias")
    intercept = intercept - intercept.mean()
    model = RankSVM(kernel=kernel, gamma=0.5).fit(oracle.X, oracle.Y)
    theirs = _objective(rows, dual_coef, intercept, oracle.Y, 1.0)
    assert 0.99 * theirs < model.objective_[-1] < theirs
    scores, their_scores = model.decision_function(oracle.X_test), new @ dual_coef + intercept
    assert_allclose(_within_rows(scores), _within_rows(their_scores), atol=0.1)
    assert np.mean(model.predict(oracle.X_test) == oracle.load(f"ranksvm_{kernel}_labels_test")) > 0.9


def _within_rows(scores):
    return scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_equals_the_quadratic_program_over_pairs(kernel, C):
    X, Y = _problem()
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.4)
    optimum, expansion = _dual_optimum(K, Y, C)
    model = RankSVM(C=C, kernel=kernel, gamma=0.4, tol=1e-9).fit(X, Y)
    assert_allclose(model.objective_[-1], optimum, rtol=1e-6)
    scores = model.decision_function(X)
    assert_allclose(scores - model.intercept_, K @ expansion, atol=1e-3)
    assert_allclose(_objective(K, expansion, model.intercept_, Y, C), optimum, rtol=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 100.0]), st.sampled_from(["linear", "rbf"]))
@example(272, 0.01, "rbf")  # intercepts alone rank all rows: the objective is nothing
def test_the_objective_never_rises_and_ends_within_the_gap(seed, C, kernel):
    X, Y = _problem(30, 4, 4, seed)
    model = RankSVM(C=C, kernel=kernel).fit(X, Y)
    assert model.n_iter_ == len(model.objective_) - 1
    assert (np.diff(model.objective_) <= 0).all()
    assert model.duality_gap_ <= 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PMLWarning)  # as near as rounding allows is near enough
        nearer = RankSVM(C=C, kernel=kernel, tol=1e-6, max_iter=1000).fit(X, Y).objective_[-1]
    nothing = 1e-8 * model.objective_[0]
    assert nearer * (1 - 2e-6) - nothing <= model.objective_[-1] <= nearer * (1 + 1.1e-4) + nothing


def test_one_label_is_a_support_vector_machine():
    X, Y = _problem(60)
    model = RankSVM(C=0.5, tol=1e-9).fit(X, Y[:, 1])
    machine = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, Y[:, 1])
    ours, theirs = model.decision_function(X), machine.decision_function(X)
    # No row lies on a margin here, so a whole interval of constants is optimal: which one is found hangs on rounding.
    assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=1e-4)
    losses = [np.maximum(1.0 - np.where(Y[:, 1] > 0, 1.0, -1.0) * scores, 0.0).sum() for scores in (ours, theirs)]
    assert_allclose(losses[0], losses[1], rtol=1e-6)


def test_few_landmarks_come_near_to_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    Y = (np.sin(2 * X @ rng.normal(size=(2, 4))) + 0.2 * rng.normal(size=(300, 4)) > 0).astype(int)
    whole = RankSVM(kernel="rbf").fit(X, Y)
    few = RankSVM(kernel="rbf", max_landmarks=100).fit(X, Y)
    assert len(whole.landmarks_) > 1.2 * len(few.landmarks_)
    assert np.corrcoef(whole.decision_function(X).ravel(), few.decision_function(X).ravel())[0, 1] > 0.98
    assert few.objective_[-1] < RankSVM().fit(X, Y).objective_[-1], (
        "the kernel gains nothing: the problem tests nothing"
    )


@pytest.mark.parametrize(
    "check", [checks.check_permuting_rows, checks.check_sparse_equals_dense, checks.check_skops_round_trip]
)
def test_the_kernel_obeys_the_contract(check):
    check(RankSVM(kernel="rbf", max_landmarks=30))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_words_for_gamma_are_those_of_scikit_learn(container):
    X, Y = _problem(30)
    for gamma in ("scale", "auto"):
        expected = SVC(gamma=gamma).fit(X, Y[:, 0])._gamma
        assert_allclose(RankSVM(kernel="rbf", gamma=gamma).fit(container(X), Y).gamma_, expected)
    assert RankSVM(kernel="rbf", gamma=0.25).fit(container(X), Y).gamma_ == 0.25


def test_rows_without_pairs_do_not_count(oracle):
    full = np.vstack([oracle.Y, np.ones((5, 6), dtype=int), np.zeros((5, 6), dtype=int)])
    X = np.vstack([oracle.X, np.full((10, 20), 0.5)])
    with_them = RankSVM(tol=1e-9).fit(X, full)
    assert_allclose(with_them.coef_, RankSVM(tol=1e-9).fit(oracle.X, oracle.Y).coef_, atol=1e-4)


def test_what_cannot_be_solved_is_said():
    X, Y = _problem(60)
    with pytest.warns(PMLWarning, match="RankSVM.*3 iterations.*gap"):
        RankSVM(max_iter=3).fit(X, Y)
    with pytest.warns(PMLWarning, match="there is nothing to rank"):
        RankSVM().fit(X, np.ones_like(Y))


@pytest.mark.parametrize(
    "wrong", [{"C": 0.0}, {"kernel": "poly"}, {"gamma": -1.0}, {"max_landmarks": 0}, {"normalize": "max"}, {"tol": 0.0}]
)
def test_impossible_parameters_are_refused(oracle, wrong):
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of RankSVM must be"):
        RankSVM(**wrong).fit(oracle.X, oracle.Y)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_kernel_features_are_exact_on_the_landmarks(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    X[20:] = X[:10]
    made = kernel_map(kind(X), 0.3, 100)
    assert made.landmarks.shape == (20, 4)
    features = made.features(kind(X))
    assert_allclose(features @ features.T, rbf_kernel(X, gamma=0.3), atol=1e-8)
    new, coef = rng.normal(size=(5, 4)), rng.normal(size=(20, 2))
    expected = rbf_kernel(new, made.landmarks, gamma=0.3) @ made.expansion(coef)
    assert_allclose(made.features(kind(new)) @ coef, expected, atol=1e-8)


def test_kernel_features_are_near_with_few_landmarks_and_the_same_in_any_order():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    made = kernel_map(X, 0.2, 100)
    assert 30 <= len(made.landmarks) <= 130
    features = made.features(X)
    assert np.quantile(np.abs(features @ features.T - rbf_kernel(X, gamma=0.2)), 0.99) < 1e-3
    order = rng.permutation(400)
    shuffled = kernel_map(X[order], 0.2, 100).features(X)
    assert np.quantile(np.abs(shuffled @ shuffled.T - features @ features.T), 0.99) < 1e-5
