import itertools

import numpy as np
import pytest
from scipy import sparse

from pmlkit import ClearPML
from pmlkit.blocks import LocalEngine, RowBlocks
from pmlkit.methods.clear_pml import confidence_rounds, primal_ridge, ridge_choice
from pmlkit.methods.clear_pml.block_ridge import all_scores
from pmlkit.methods.clear_pml.cells import cells_of_block
from pmlkit.methods.clear_pml.dual_ridge import dual_ridge
from pmlkit.methods.clear_pml.feature_weighting import fit_weighting
from pmlkit.methods.clear_pml.landmarks import LandmarkKernel
from pmlkit.methods.clear_pml.primal_ridge import LinearKernel

PENALTY = 0.5
CUTS = (slice(0, 1), slice(1, 30), slice(30, 60))


@pytest.fixture
def problem():
    """Rows in three blocks: most of them short, some long, one empty."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 40), density=0.04, rng=rng, format="lil")
    X[5:8] = rng.uniform(0.1, 1.0, size=(3, 40))
    X[9] = 0.0
    X = sparse.csr_array(X)
    X.eliminate_zeros()
    Y = (rng.uniform(size=(60, 3)) < 0.5).astype(int)
    Y[:, 0] |= ~Y.any(axis=1)
    return X, sparse.csr_array(Y.astype(float))


def solved(X, Y, columns, **options):
    engine = LocalEngine(len(CUTS))
    cells = engine.of([cells_of_block(Y[cut]) for cut in CUTS])
    options = {"penalty": PENALTY} | options
    ridge, penalty = primal_ridge.primal_ridge(
        engine, engine.of([X[cut] for cut in CUTS]), cells, fit_weighting(X, "idf"), LinearKernel(columns),
        n_rows=X.shape[0], n_cells=X.nnz, **options,
    )  # fmt: skip
    target = engine.map(primal_ridge.candidate_values, cells)
    return ridge, target, penalty


def loo_scores(ridge, target):
    model = ridge.fit(target)
    found = ridge.engine.map(
        _scores, ridge.source, ridge.leverage, ridge.cells, target, rows=ridge.rows, weights=ridge.weights(model)
    )
    return found.compute(), ridge.on_kernel(model)


def _scores(source, leverage, cells, target, *, rows, weights):
    return np.concatenate(
        [part for _, part in all_scores(source, leverage, cells, target, None, rows=rows, weights=weights)]
    )


def centred_ridge(X, target):
    mean = X.mean(axis=0)
    gram = (X - mean).T @ (X - mean) + PENALTY * np.eye(X.shape[1])
    coef = np.linalg.solve(gram, (X - mean).T @ target)
    return target.mean(axis=0) - mean @ coef, coef


COLUMNS = np.random.default_rng(1).permutation(40)


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[:15]])
def test_left_out_scores_are_those_of_refits_without_the_row(problem, columns):
    X, Y = problem
    ridge, target, _ = solved(X, Y, columns)
    scores, (intercept, coef) = loo_scores(ridge, target)
    dense, given = fit_weighting(X, "idf").transform(X).toarray()[:, columns], Y.toarray()
    expected = centred_ridge(dense, given)
    np.testing.assert_allclose(intercept, expected[0], atol=1e-10)
    np.testing.assert_allclose(coef, expected[1], atol=1e-10)
    for i in range(len(dense)):
        rest = np.arange(len(dense)) != i
        a, b = centred_ridge(dense[rest], given[rest])
        np.testing.assert_allclose(scores[i], a + dense[i] @ b, atol=1e-9)


def test_it_is_the_dual_with_a_linear_kernel(problem):
    X, Y = problem
    ridge, target, _ = solved(X, Y, COLUMNS)
    rows = fit_weighting(X, "idf").transform(X)
    # A Gaussian as wide as this is a constant, which centring takes out.
    dual = dual_ridge(LandmarkKernel(rows, 1e5, linear=True), PENALTY)
    model = dual.fit(Y.toarray())
    np.testing.assert_allclose(loo_scores(ridge, target)[0], dual.loo_scores(Y.toarray(), model), atol=1e-7)


def test_single_precision_is_close(problem, monkeypatch):
    double, single = solved(*problem, COLUMNS), None
    monkeypatch.setattr(primal_ridge, "_COLUMNS_IN_DOUBLE", 10)
    single = solved(*problem, COLUMNS)
    assert single[0].dtype == np.float32
    np.testing.assert_allclose(loo_scores(*single[:2])[0], loo_scores(*double[:2])[0], atol=1e-4)


@pytest.mark.parametrize("n_searched", [40, 10])
def test_the_penalty_is_the_best_of_brute_force_on_the_first_columns(problem, n_searched, monkeypatch):
    X, _ = problem
    monkeypatch.setattr(primal_ridge, "_COLUMNS_TO_SEARCH", n_searched)
    rows = fit_weighting(X, "idf").transform(X)
    Y = (rows[:, COLUMNS[:5]].toarray() > 0.3).astype(float)
    Y[:, 0] = 1.0
    Y = sparse.csr_array(Y)
    _, _, penalty = solved(X, Y, COLUMNS, penalty=None, trial=(X, Y.toarray()), start=3.0)
    errors = {}
    for value in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0):
        ridge, target, _ = solved(X, Y, COLUMNS[:n_searched], penalty=value)
        errors[value] = ((loo_scores(ridge, target)[0] - Y.toarray()) ** 2).sum(axis=1)
    best = min(errors, key=lambda value: errors[value].mean())
    excess = {value: found - errors[best] for value, found in errors.items()}
    within = [v for v, e in excess.items() if v >= best and e.mean() <= e.std() / np.sqrt(len(e))]
    assert penalty == max(within)


def texts(n_rows=400, n_words=300, n_labels=6):
    rng = np.random.default_rng(0)
    topic = rng.integers(0, n_labels, n_rows)
    words = rng.zipf(1.5, size=(n_rows, 10)) % n_words
    words[:, :3] = (topic[:, None] * 7 + rng.integers(0, 7, (n_rows, 3))) % n_words
    X = sparse.csr_array((np.ones(10 * n_rows), (np.repeat(np.arange(n_rows), 10), words.ravel())), (n_rows, n_words))
    X.sum_duplicates()
    Y = np.eye(n_labels, dtype=bool)[topic] | (rng.uniform(size=(n_rows, n_labels)) < 0.1)
    return X, Y.astype(int), topic


@pytest.fixture
def by_columns(monkeypatch):
    monkeypatch.setattr(ridge_choice, "LANDMARKS", 60)
    monkeypatch.setattr(ridge_choice, "_ALL_ROWS_OF_TEXT", 10)


def test_many_rows_of_wide_text_are_solved_by_their_most_frequent_words(by_columns, monkeypatch):
    X, Y, topic = texts()
    model = ClearPML().fit(X[:300], Y[:300])
    n_words = int((X[:300].sum(axis=0) > 0).sum())
    assert model.dual_coef_.shape == (n_words, 6)
    assert (model.decision_function(X[300:]).argmax(axis=1) == topic[300:]).mean() > 0.9
    monkeypatch.setattr(ridge_choice, "_FEWEST_COLUMNS", 50)
    monkeypatch.setattr(ridge_choice, "_MOST_COLUMNS", 50)
    few = ClearPML().fit(X[:300], Y[:300])
    counts = X[:300].count_nonzero(axis=0)
    assert counts[few._kernel.columns].min() >= np.delete(counts, few._kernel.columns).max()
    assert few.dual_coef_.shape == (50, 6)
    assert ClearPML(n_landmarks=40).fit(X, Y).dual_coef_.shape == (40, 6)


def test_the_predictor_takes_the_likelier_power_of_its_scores(by_columns, monkeypatch):
    X, Y, _ = texts()
    chosen = ClearPML().fit(X, Y)
    errors = {}
    for power in confidence_rounds._POWERS:
        monkeypatch.setattr(confidence_rounds, "_POWERS", (power,))
        model = ClearPML(mode="several").fit(X, Y)
        held_out = np.clip(model.out_of_fold_scores_, 1e-6, 1 - 1e-6)
        errors[power] = -np.mean(Y * np.log(held_out) + (1 - Y) * np.log(1 - held_out))
        assert model._calibration.power == power
    assert chosen._calibration.power == min(errors, key=errors.get)
    assert ClearPML(n_landmarks=60).fit(X, Y)._calibration.power == 1.0


def test_dense_rows_give_the_answers_of_sparse_ones(by_columns):
    X, Y, _ = texts()
    sparse_rows, dense = ClearPML().fit(X, Y), ClearPML().fit(X.toarray(), Y)
    np.testing.assert_allclose(sparse_rows.decision_function(X), dense.decision_function(X.toarray()), atol=1e-8)


@pytest.mark.parametrize("n_sampled", [50_000, 90])
@pytest.mark.parametrize("empty", [None, "negative", "unlabelled"])
@pytest.mark.parametrize("budget", [None, "1MB"])
def test_blocks_give_the_answers_of_memory(by_columns, monkeypatch, empty, n_sampled, budget):
    monkeypatch.setattr(confidence_rounds, "_SAMPLE_ROWS", n_sampled)
    X, Y, _ = texts()
    if empty:
        Y[::4] = 0
    params = {"empty_rows": empty} if empty else {}
    edges = [0, 1, 150, 160, 400]
    cuts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    parts = [X[cut] for cut in cuts], [sparse.csr_array(Y)[cut] for cut in cuts]
    whole, cut = ClearPML(**params).fit(X, Y), ClearPML(**params).fit(RowBlocks(*parts, memory_budget=budget))
    np.testing.assert_allclose(cut.decision_function(X), whole.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(cut.label_confidence_.compute().data, whole.label_confidence_.data, atol=1e-6)
    np.testing.assert_allclose(cut.out_of_fold_scores_.compute(), whole.out_of_fold_scores_, atol=1e-6)


def test_a_saved_model_predicts_the_same(by_columns, tmp_path):
    from pmlkit.persistence import load, save

    X, Y, _ = texts()
    model = ClearPML().fit(X, Y)
    save(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load(tmp_path / "m.skops").decision_function(X), model.decision_function(X))
