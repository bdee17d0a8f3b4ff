"""PML-LFC on rows in blocks: the answers of memory."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from pmlkit import PMLLFC
from pmlkit.blocks import RowBlocks
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import DataError

STRIPS = load_digit_strips(240, random_state=3)
X, Y = STRIPS.X, STRIPS.Y.toarray().copy()
Y[::7] = 0  # unlabelled rows
SPARSE = sparse.csr_array(np.where(X > 0.4, X, 0.0))
CUTS = (0, 50, 51, 130, 240)


def in_blocks(X, Y, cuts=CUTS):
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    return RowBlocks([X[part] for part in parts], [Y[part] for part in parts])


def assert_same(model, whole, X, client=None):
    confidence = model.label_confidence_
    confidence = confidence.compute() if client is None else confidence.compute(scheduler=client)
    np.testing.assert_allclose(confidence.toarray(), whole.label_confidence_.toarray(), atol=1e-6)
    scores, expected = model.decision_function(X), whole.decision_function(X)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_allclose(model._rule().margin(scores), whole._rule().margin(expected), atol=1e-6)
    # The feature map is in single precision, and the objective a difference of large sums.
    np.testing.assert_allclose(model.objective_, whole.objective_, rtol=1e-5)
    assert (model.kernel_approx_, model.rank_, model.n_iter_) == (whole.kernel_approx_, whole.rank_, whole.n_iter_)
    assert model.bandwidth_ == pytest.approx(whole.bandwidth_)


@pytest.mark.parametrize("rows", [X, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"similarity": "labels", "beta_scale": "pairs"},
        {"similarity": "features", "bandwidth": 0.7},
        {"kernel_approx": "features"},
        {"kernel_approx": "features", "similarity": "features"},
        {"row_sum": "simplex"},
        {"joint": False, "threshold": "cardinality"},
        {"fit_intercept": False, "normalize": "standard", "alpha_scale": "paper", "beta": 0.0},
    ],
    ids=str,
)
def test_the_answers_of_memory(rows, params):
    params = {"random_state": 0, "max_iter": 5, **params}
    assert_same(PMLLFC(**params).fit(in_blocks(rows, Y)), PMLLFC(**params).fit(rows, Y), rows)


def patched(monkeypatch, **values):
    for name, value in values.items():
        for module in ("similarity", "block_similarity"):
            monkeypatch.setattr(f"pmlkit.methods.pml_lfc.{module}.{name}", value)


def test_rare_labels_are_exact_and_frequent_ones_mapped(monkeypatch):
    """Also with kernels that are computed again in each step, and sums of few labels at a time."""
    patched(monkeypatch, EXACT_CELLS=1000, N_FEATURES=28)
    monkeypatch.setattr("pmlkit.methods.pml_lfc.block_similarity._SUMS", 500)
    monkeypatch.setattr("pmlkit.numerics.kernels.EXACT_DISTANCE_ROWS", 100)
    monkeypatch.setattr("pmlkit.methods.pml_lfc.block_steps.EXACT_DISTANCE_ROWS", 100)
    whole = PMLLFC(random_state=0, max_iter=4).fit(X, Y)
    assert whole.kernel_approx_ == "mixed"
    assert_same(PMLLFC(random_state=0, max_iter=4).fit(in_blocks(X, Y)), whole, X)


def test_many_rows_with_rare_labels_are_not_brought_together(monkeypatch):
    patched(monkeypatch, EXACT_CELLS=1000, N_FEATURES=28)
    monkeypatch.setattr("pmlkit.methods.pml_lfc.block_similarity._GATHERED_BYTES", 100)
    mapped = PMLLFC(random_state=0, max_iter=4).fit(in_blocks(X, Y))
    assert_same(mapped, PMLLFC(random_state=0, max_iter=4, kernel_approx="features").fit(X, Y), X)


@pytest.mark.parametrize("kernel_approx", ["exact", "features"])
def test_a_block_without_candidates_and_a_label_of_the_last_block(kernel_approx):
    candidates = Y.copy()
    candidates[50:130] = 0
    candidates[:230, 0] = 0
    candidates[230:, 0] = 1
    candidates[:, 1] = 0
    params = {"random_state": 0, "kernel_approx": kernel_approx, "max_iter": 4}
    model = PMLLFC(**params).fit(in_blocks(X, candidates, (0, 50, 50, 51, 130, 240)))
    assert_same(model, PMLLFC(**params).fit(X, candidates), X)


def test_more_features_than_rows():
    params = {"random_state": 0, "max_iter": 4}
    model, whole = PMLLFC(**params).fit(in_blocks(X[:40], Y[:40], (0, 15, 40))), PMLLFC(**params).fit(X[:40], Y[:40])
    assert_same(model, whole, X)


@pytest.mark.parametrize("row_sum", ["penalty", "simplex"])
def test_a_budget_and_an_interrupted_fit(tmp_path, monkeypatch, row_sum):
    params = {"random_state": 0, "max_iter": 4, "row_sum": row_sum, "kernel_approx": "features"}
    whole = PMLLFC(**params).fit(X, Y)
    rows = RowBlocks(X, Y, memory_budget="1MB", checkpoint=tmp_path / "c")
    reduce, calls = rows.engine._reduce, []

    def stops(*arguments):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return reduce(*arguments)

    monkeypatch.setattr(rows.engine, "_reduce", stops)
    with pytest.raises(KeyboardInterrupt):
        PMLLFC(**params).fit(rows)
    assert_same(PMLLFC(**params).fit(RowBlocks(X, Y, memory_budget="1MB", checkpoint=tmp_path / "c")), whole, X)


@pytest.mark.parametrize(
    ("params", "sentence"), [({"warm_start": True}, "no warm_start"), ({"max_rank": 3}, "no max_rank")]
)
def test_what_blocks_do_not_have_is_told(params, sentence):
    with pytest.raises(ValueError, match=sentence.removeprefix("no ")):
        PMLLFC(**params).fit(in_blocks(X, Y))


def test_too_many_features_no_candidates_and_other_widths_are_told():
    wide = sparse.csr_array((20, 5000))
    with pytest.raises(ValueError, match="up to 4,096 features and 4,096 labels, got 5,000 and 10"):
        PMLLFC().fit(RowBlocks([wide], [Y[:20]]))
    with pytest.raises(ValueError, match="no candidate label in any row"):
        PMLLFC().fit(in_blocks(X, 0 * Y))
    with pytest.raises(DataError, match="Block 1 of X has 3 columns"):
        PMLLFC().fit(RowBlocks([X[:50], X[50:, :3]], [Y[:50], Y[50:]]))


@pytest.mark.parametrize(("chunk", "kernel_approx"), [(90, "auto"), (90, "features"), (240, "features")])
def test_dask_workers_give_the_answers_of_memory(dask_client, chunk, kernel_approx):
    da = pytest.importorskip("dask.array")
    rows = RowBlocks(da.from_array(X, (chunk, -1)), da.from_array(Y, (chunk, -1)), client=dask_client)
    params = {"random_state": 0, "max_iter": 3, "kernel_approx": kernel_approx}
    model = PMLLFC(**params).fit(rows)
    assert_same(model, PMLLFC(**params).fit(X, Y), X, dask_client)
    sets = model.predict(RowBlocks(da.from_array(X, (chunk, -1)), client=dask_client))
    assert np.array_equal(sets.compute(scheduler=dask_client), model.predict(X))
