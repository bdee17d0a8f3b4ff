"""CandidateLogistic on blocks of rows: the answers of memory."""

import os
import signal
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from dask_workers import two_workers
from pmlkit import CandidateLogistic, clean
from pmlkit.blocks import RowBlocks
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import DataError

STRIPS = load_digit_strips(240, random_state=3)
X, Y = STRIPS.X, STRIPS.Y.toarray().copy()
Y[::7] = 0  # unlabelled rows
CUTS = (0, 50, 51, 130, 240)


def in_blocks(X, Y, cuts=CUTS, **options):
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    return RowBlocks([X[part] for part in parts], [Y[part] for part in parts], **options)


def here(array, client=None):
    return array.compute() if client is None else array.compute(scheduler=client)


def assert_same(model, whole, X, client=None):
    assert (model.normalize_, model.C_) == (whole.normalize_, whole.C_)
    confidence = here(model.label_confidence_, client).toarray()
    np.testing.assert_allclose(confidence, whole.label_confidence_.toarray(), atol=1e-6)
    np.testing.assert_allclose(here(model.out_of_fold_scores_, client), whole.out_of_fold_scores_, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-6)
    assert model.threshold_offset_ == pytest.approx(whole.threshold_offset_, abs=1e-6)


@pytest.fixture(params=["all rows", "a sample"])
def hessian_of(request, monkeypatch):
    """Whether the rows whose Hessian the client has are all rows or some."""
    if request.param == "a sample":
        monkeypatch.setattr("pmlkit.methods.block_logistic._SAMPLE_ROWS", 80)


@pytest.mark.usefixtures("hessian_of")
@pytest.mark.parametrize(
    "params", [{}, {"normalize": "standard", "n_folds": 3}, {"normalize": None, "C": 0.3, "threshold": "f1"}]
)
def test_the_answers_of_memory(params):
    assert_same(CandidateLogistic(**params).fit(in_blocks(X, Y)), CandidateLogistic(**params).fit(X, Y), X)


def test_few_labels_at_a_time_and_sparse_rows(monkeypatch):
    monkeypatch.setattr("pmlkit.methods.block_logistic._REGRESSIONS", 20)
    rows = sparse.csr_array(np.where(X > 0.3, X, 0.0))
    assert_same(CandidateLogistic().fit(in_blocks(rows, Y)), CandidateLogistic().fit(rows, Y), rows)


def test_more_rows_than_are_ranked_and_than_decide(monkeypatch):
    """Folds by each row's own hash, the choice of C and the threshold by a sample: in memory and in blocks alike."""
    monkeypatch.setattr("pmlkit.numerics.content.RANKED_ROWS", 100)
    monkeypatch.setattr("pmlkit.methods.logistic._CHOICE_ROWS", 90)
    monkeypatch.setattr("pmlkit.methods.block_logistic._RULE_ROWS", 50)
    whole = CandidateLogistic().fit(X, Y)
    assert_same(CandidateLogistic().fit(in_blocks(X, Y)), whole, X)
    assert_same(CandidateLogistic().fit(in_blocks(X, Y, (0, 120, 240))), whole, X)


def test_blocks_and_labels_with_nothing_to_learn_from():
    """A block without rows, one without candidates, a label in the last block only, one of all rows, one of none."""
    candidates = Y.copy()
    candidates[50:130] = 0
    candidates[:, 0], candidates[:, 1] = 0, 0
    candidates[230:, 0] = 1
    candidates[candidates.any(axis=1), 2] = 1
    model = CandidateLogistic(C=1.0, normalize="unit").fit(in_blocks(X, candidates, (0, 50, 50, 51, 130, 240)))
    assert_same(model, CandidateLogistic(C=1.0, normalize="unit").fit(X, candidates), X)


def test_names_of_the_last_block_are_labels():
    names = [[["sun"]] * 60, [["sun", "sea"], []] * 30]
    rows = RowBlocks([X[:60], X[60:120]], names)
    model = CandidateLogistic(C=1.0, normalize="unit").fit(rows)
    assert model.label_names_.tolist() == ["sea", "sun"]
    assert_same(model, CandidateLogistic(C=1.0, normalize="unit").fit(X[:120], names[0] + names[1]), X)


def test_identical_rows_get_the_labels_shares():
    same, candidates = np.ones((20, 3)), np.zeros((20, 2), dtype=int)
    candidates[:5, 0], candidates[:, 1] = 1, 1
    model = CandidateLogistic().fit(RowBlocks([same[:8], same[8:]], [candidates[:8], candidates[8:]]))
    assert_same(model, CandidateLogistic().fit(same, candidates), same)


def test_no_candidates_at_all_are_told():
    with pytest.raises(ValueError, match="no candidate label in any row"):
        CandidateLogistic().fit(in_blocks(X, 0 * Y))


def test_blocks_of_other_widths_are_told():
    with pytest.raises(DataError, match="Block 1 of X has 3 columns and the first block 64"):
        CandidateLogistic().fit(RowBlocks([X[:50], X[50:, :3]], [Y[:50], Y[50:]]))


def test_a_budget_and_an_interrupted_fit(tmp_path, monkeypatch):
    whole = CandidateLogistic().fit(X, Y)
    rows = RowBlocks(X, Y, memory_budget="1MB", checkpoint=tmp_path / "c")
    reduce, calls = rows.engine._reduce, []

    def stops(*arguments):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return reduce(*arguments)

    monkeypatch.setattr(rows.engine, "_reduce", stops)
    with pytest.raises(KeyboardInterrupt):
        CandidateLogistic().fit(rows)
    assert list((tmp_path / "c").glob("pass-*.npz"))
    assert_same(CandidateLogistic().fit(RowBlocks(X, Y, memory_budget="1MB", checkpoint=tmp_path / "c")), whole, X)
    assert not (tmp_path / "c").exists()


def collections(chunk):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(chunk, -1)), da.from_array(Y, chunks=(chunk, -1))


@pytest.mark.parametrize("chunk", [50, 240])
def test_dask_workers_give_the_answers_of_memory(dask_client, monkeypatch, chunk):
    monkeypatch.setattr("pmlkit.methods.block_logistic._SAMPLE_ROWS", 80)
    x, y = collections(chunk)
    model = CandidateLogistic().fit(RowBlocks(x, y, client=dask_client))
    assert_same(model, CandidateLogistic().fit(X, Y), X, dask_client)
    scores = model.decision_function(RowBlocks(x, client=dask_client))
    assert scores.chunks[0] == x.chunks[0]
    np.testing.assert_allclose(scores.compute(scheduler=dask_client), model.decision_function(X))


def test_no_block_comes_to_the_client(dask_client, monkeypatch):
    """What reductions bring is small: samples of rows, hashes, coefficients."""
    monkeypatch.setattr("pmlkit.methods.block_logistic._SAMPLE_ROWS", 20)
    monkeypatch.setattr("pmlkit.methods.block_logistic._RULE_ROWS", 20)
    rows = RowBlocks(*collections(60), client=dask_client)
    reduce, arrays = rows.engine._reduce, []

    def seen(call, combine, places):
        found = reduce(call, combine, places)
        arrays.extend(part for part in (found if isinstance(found, list) else [found]) if hasattr(part, "shape"))
        return found

    monkeypatch.setattr(rows.engine, "_reduce", seen)
    monkeypatch.setattr(rows.engine, "load", None)
    CandidateLogistic(C=1.0, normalize="unit").fit(rows)
    assert arrays
    assert max(part.shape[0] for part in arrays if part.ndim == 2 and part.shape[1] == X.shape[1]) < 25


def test_a_killed_worker_does_not_change_the_answer():
    with two_workers() as client:
        rows = RowBlocks(*collections(50), client=client)
        victim = next(iter(client.run(os.getpid).values()))
        reduce, calls = rows.engine._reduce, []

        def kills(*arguments):
            calls.append(1)
            if len(calls) == 11:
                os.kill(victim, signal.SIGKILL)
            return reduce(*arguments)

        rows.engine._reduce = kills
        model = CandidateLogistic().fit(rows)
        assert len(calls) > 11
        assert_same(model, CandidateLogistic().fit(X, Y), X, client)


def test_clean_judges_blocks_by_it():
    found, whole = clean(in_blocks(X, Y), method=CandidateLogistic()), clean(X, Y, method=CandidateLogistic())
    np.testing.assert_allclose(found.doubt, whole.doubt, atol=1e-5)
    assert found.suspects[["row", "label"]].equals(whole.suspects[["row", "label"]])
