"""ClearPML with thousands of labels: cost and memory follow the candidates."""

import itertools

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.special import expit

from pmlkit import ClearPML
from pmlkit.blocks import LocalEngine, RowBlocks
from pmlkit.cleaning.evidence import cross_fit
from pmlkit.methods.clear_pml import many_labels
from pmlkit.methods.clear_pml.cells import cells_of_block
from pmlkit.methods.clear_pml.feature_weighting import fit_weighting
from pmlkit.methods.clear_pml.many_labels import MANY_LABELS, fit_shared_curve, frequency_floor
from pmlkit.methods.clear_pml.word_ridge import PENALTY, word_ridge
from pmlkit.persistence import load, save

N_LABELS = MANY_LABELS + 1
WORDS_PER_LABEL, N_WORDS = 3, 1_500


def texts(n_rows=400, *, seed=0, n_topics=60):
    """Rows with words of one or two of a few labels; the other labels are false candidates only."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(n_topics, size=(n_rows, 2))
    words = rng.integers(N_WORDS, size=(n_rows, 14))
    words[:, :6] = np.repeat(topics, WORDS_PER_LABEL, axis=1) * WORDS_PER_LABEL + rng.integers(0, 3, (n_rows, 6))
    X = indicator(words, (n_rows, N_WORDS))
    truth = indicator(topics, (n_rows, N_LABELS))
    extra = rng.integers(n_topics, N_LABELS, size=(n_rows, 2))
    return X, sparse.csr_array(((truth + indicator(extra, truth.shape)) > 0).astype(float)), truth


def indicator(columns, shape):
    rows = np.repeat(np.arange(shape[0]), columns.shape[1])
    table = sparse.csr_array((np.ones(columns.size), (rows, columns.ravel())), shape=shape)
    return sparse.csr_array((table > 0).astype(float))


def in_blocks(X, Y, sizes=(70, 1, 200), **options):
    cuts = [slice(a, b) for a, b in itertools.pairwise([0, *np.cumsum(sizes), X.shape[0]])]
    return RowBlocks([X[cut] for cut in cuts], [Y[cut] for cut in cuts], **options)


def solved(X, Y, n_blocks=3):
    engine = LocalEngine(n_blocks)
    cuts = np.array_split(np.arange(X.shape[0]), n_blocks)
    cells = engine.of([cells_of_block(Y[cut]) for cut in cuts])
    blocks = engine.of([X[cut] for cut in cuts])
    ridge = word_ridge(engine, blocks, cells, fit_weighting(X, "log"), n_cells=X.nnz)
    return ridge, engine.map(many_labels.candidate_values, cells)


def found_scores(ridge, target, model):
    parts = ridge.engine.map(_scores, ridge.source, ridge.cells, target, rows=ridge.rows, weights=ridge.weights(model))
    return parts.compute()


def _scores(source, cells, target, *, rows, weights):
    return np.concatenate([part for _, part in rows.loo_scores(source, None, cells, target, weights)])


def test_word_ridge_with_all_directions_is_ridge_regression_with_one_more_diagonal():
    """X'X + D + penalty: the directions hold all of X'X, and its diagonal counts once more."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 30), density=0.2, rng=rng, format="csr")
    full = rng.random((60, 8)) < 0.3
    full[~full.any(axis=1), 0] = True
    Y = sparse.csr_array(full.astype(float))
    ridge, target = solved(X, Y)
    weighted = fit_weighting(X, "log").transform(X).toarray()
    diagonal = np.diag((weighted**2).sum(axis=0) + PENALTY)
    expected = weighted @ np.linalg.solve(diagonal + weighted.T @ weighted, weighted.T @ Y.toarray())
    kernel, coef = ridge.kernel_of(ridge.fit(target))
    np.testing.assert_allclose(kernel.times(sparse.csr_array(weighted), coef), expected, atol=2e-4)


def test_held_out_scores_do_not_know_the_row():
    X, Y, _ = texts(90)
    ridge, target = solved(X, Y)
    before = found_scores(ridge, target, ridge.fit(target))
    row = 41
    changed = Y.tolil()
    changed[row] = 0.0
    changed[row, 5] = 1.0
    ridge, target = solved(X, sparse.csr_array(changed))
    after = found_scores(ridge, target, ridge.fit(target))
    np.testing.assert_allclose(after[row], before[row], atol=1e-5)
    others = np.delete(np.arange(90), row)
    assert np.abs(after[others] - before[others]).max() > 1e-3


def test_held_out_scores_equal_those_of_slow_sums():
    X, Y, _ = texts(50)
    ridge, target = solved(X, Y)
    found = found_scores(ridge, target, ridge.fit(target))
    rows, kernel, full = fit_weighting(X, "log").transform(X).toarray(), ridge.rows.kernel, Y.toarray()
    squares = (rows**2).sum(axis=0)
    for i in range(50):
        rest = np.delete(np.arange(50), i)
        words = rows[rest].T @ full[rest]
        own = rows[i] / (squares - rows[i] ** 2 + PENALTY) @ words
        inside = (rows * np.sqrt(1.0 / (squares + PENALTY))) @ (kernel.directions * np.sqrt(squares + PENALTY)[:, None])
        strength = np.linalg.inv(np.eye(len(kernel.shrinkage)) + inside[rest].T @ inside[rest])
        along = inside[i] @ (np.eye(len(strength)) - strength) @ (kernel.directions.T @ words)
        np.testing.assert_allclose(found[i], own - along, atol=1e-5)


def test_the_curve_is_the_most_likely_one():
    rng = np.random.default_rng(0)
    frequency = rng.uniform(0.01, 0.2, 30)
    spread = rng.uniform(0.5, 2.0, 30)
    scores = rng.normal(size=(400, 30)) * spread
    target = rng.random(scores.shape) < frequency * np.exp(np.minimum(scores / spread, 1.5))
    curve = fit_shared_curve(scores, sparse.csr_array(target.astype(float)), spread, frequency)
    units = np.log1p(np.maximum(scores, 0.0) / spread)
    design = np.stack([np.ones_like(units), units, units**2, np.log(frequency) + 0.0 * units], axis=-1)

    def loss(coef):
        chance = np.clip(expit(design @ coef), 1e-12, 1.0 - 1e-12)
        return -np.sum(np.where(target, np.log(chance), np.log1p(-chance)))

    best = optimize.minimize(loss, np.zeros(4)).fun
    assert abs(loss(curve.coef) - best) < 1e-2
    np.testing.assert_allclose(curve.probabilities(scores), expit(design @ curve.coef))
    np.testing.assert_allclose(curve.at_cells(scores[:, 3], np.full(400, 3)), expit(design[:, 3] @ curve.coef))


@pytest.mark.parametrize(("same", "share"), [(0.0, 0.3), (0.03, 0.0), (0.02, 0.2)])
def test_false_candidates_are_counted_whatever_they_follow(same, share):
    rng = np.random.default_rng(0)
    frequency = rng.uniform(0.02, 0.2, 40)
    truth = rng.random((4_000, 40)) < frequency
    false = same + share * frequency
    candidates = truth | (rng.random(truth.shape) < false)
    rates = candidates.mean(axis=0)
    floor = frequency_floor(truth + 0.1 * rng.random(truth.shape), sparse.csr_array(candidates.astype(float)), rates)
    np.testing.assert_allclose(floor, false, rtol=0.15, atol=2e-3)


@pytest.fixture(scope="module")
def fitted():
    X, Y, truth = texts()
    return X, Y, truth, ClearPML().fit(X, Y)


def test_true_labels_are_ranked_before_frequent_and_false_ones(fitted):
    _, Y, truth, model = fitted
    new, _, new_truth = texts(200, seed=1)
    best, scores = model.predict_top_k(new, 2)
    best = np.char.partition(best.astype(str), "_")[:, :, 2].astype(int)
    assert new_truth[np.arange(200), best[:, 0]].mean() > 0.9
    assert (np.diff(scores, axis=1) <= 0).all()
    np.testing.assert_allclose(scores, np.sort(model.decision_function(new), axis=1)[:, :-3:-1])
    row = np.repeat(np.arange(400), np.diff(Y.indptr))
    is_true = truth[row, Y.indices] > 0
    confidence = model.label_confidence_.data
    assert confidence[is_true].mean() > 0.2 + confidence[~is_true].mean()
    assert (model.mode_, model.empty_rows_, model.regularization_) == ("several", None, PENALTY)
    assert sparse.issparse(model.dual_coef_)


@pytest.mark.parametrize("budget", [None, "1MB"])
def test_blocks_give_the_answers_of_memory(fitted, budget):
    X, Y, _, whole = fitted
    assert_same(whole, ClearPML().fit(in_blocks(X, Y, memory_budget=budget)), X)


def test_a_block_without_candidates(fitted):
    X, Y, _, _ = fitted
    kept = np.ones(X.shape[0])
    kept[70:110] = 0.0
    partly = sparse.csr_array(sparse.diags_array(kept) @ Y)
    partly.eliminate_zeros()
    whole = ClearPML().fit(X, partly)
    assert_same(whole, ClearPML().fit(in_blocks(X, partly, sizes=(70, 40))), X)


def assert_same(whole, cut, X):
    np.testing.assert_allclose(cut.label_confidence_.compute().data, whole.label_confidence_.data, atol=1e-6)
    np.testing.assert_allclose(cut.out_of_fold_scores_.compute(), whole.out_of_fold_scores_, atol=1e-6)
    np.testing.assert_allclose(cut.decision_function(X), whole.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(cut.threshold_offset_, whole.threshold_offset_, atol=1e-6)


@pytest.mark.parametrize("mode", ["auto", "single"])
def test_measurements_have_landmarks(mode):
    rng = np.random.default_rng(0)
    topic = rng.integers(40, size=300)
    X = np.eye(40)[topic] @ rng.normal(size=(40, 12)) + 0.1 * rng.normal(size=(300, 12))
    Y = indicator(np.column_stack([topic, rng.integers(N_LABELS, size=300)]), (300, N_LABELS))
    whole = ClearPML(mode=mode).fit(X, Y)
    assert (whole.decision_function(X).argmax(axis=1) == topic).mean() > 0.95
    assert_same(whole, ClearPML(mode=mode).fit(in_blocks(X, Y)), X)


def test_many_held_out_scores_are_kept_where_they_matter(fitted, monkeypatch):
    X, Y, _, whole = fitted
    monkeypatch.setattr(many_labels, "_DENSE_CELLS", 1)
    model = ClearPML().fit(X, Y)
    held_out = model.out_of_fold_scores_
    assert held_out.nnz < 20 * X.shape[0]
    row = np.repeat(np.arange(X.shape[0]), np.diff(held_out.indptr))
    np.testing.assert_allclose(held_out.data, whole.out_of_fold_scores_[row, held_out.indices], rtol=1e-5)
    assert ((held_out > 0).astype(float).multiply(Y)).nnz == Y.nnz
    best = np.sort(whole.out_of_fold_scores_, axis=1)[:, -10:]
    assert all((np.sort(held_out[[i]].data)[-10:] == best[i]).all() for i in range(X.shape[0]))
    assert model.training_record_["best_is_candidate"] > 0.3
    with pytest.raises(ValueError, match="clean needs a score of every label"):
        cross_fit(ClearPML(), X, Y)


def test_rows_without_candidates_are_left_out(fitted):
    X, Y, _, _ = fitted
    empty = Y.tolil()
    empty[::7] = 0.0
    empty = sparse.csr_array(empty)
    model = ClearPML().fit(X, empty)
    assert model.empty_rows_ == "unlabelled"
    assert np.isnan(model.out_of_fold_scores_[::7]).all()
    assert not np.isnan(model.out_of_fold_scores_[1]).any()


def test_a_model_file_holds_the_sparse_coefficients(fitted, tmp_path):
    X, _, _, model = fitted
    save(model, tmp_path / "model.skops")
    np.testing.assert_allclose(load(tmp_path / "model.skops").decision_function(X), model.decision_function(X))


def test_what_thousands_of_labels_do_not_have_is_said(fitted):
    X, Y, _, _ = fitted
    with pytest.raises(ValueError, match=r"verified= is not supported for more than 2,000 labels, got 2,001"):
        ClearPML().fit(X, Y, verified=sparse.csr_array(Y.shape))
    with pytest.raises(ValueError, match=r"empty_rows='negative' is not supported for more than 2,000 labels"):
        ClearPML(empty_rows="negative").fit(X, Y)


def test_dask_workers_give_the_answers_of_memory(fitted, dask_client):
    da = pytest.importorskip("dask.array")
    X, Y, _, whole = fitted
    x, y = (da.from_array(part.toarray(), chunks=(150, -1)).map_blocks(sparse.csr_array) for part in (X, Y))
    model = ClearPML().fit(RowBlocks(x, y, client=dask_client))
    found = model.label_confidence_.compute(scheduler=dask_client)
    np.testing.assert_allclose(sparse.csr_array(found).data, whole.label_confidence_.data, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-6)
