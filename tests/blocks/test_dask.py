"""Blocks on real Dask workers."""

import os
import signal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dask_workers import two_workers
from pmlkit import ClearPML, clean
from pmlkit.blocks import RowBlocks, executor
from pmlkit.blocks.executors import ClusterError, _Task
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import DataError

da = pytest.importorskip("dask.array")

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 6))
Y = (rng.uniform(size=(90, 3)) < 0.5).astype(int)


def test_states_stay_on_the_workers(dask_client):
    blocks = RowBlocks(da.from_array(X, chunks=(20, 4)), da.from_array(Y, chunks=(30, 3)), client=dask_client)
    assert blocks.sizes == (20, 20, 20, 20, 10)
    assert np.allclose(blocks.engine.reduce(np.sum, blocks.X), X.sum())
    squares = blocks.engine.map(np.square, blocks.X)
    assert all(not isinstance(part, np.ndarray) for part in squares.parts)
    assert np.allclose(blocks.engine.reduce(np.sum, squares), (X**2).sum())
    lazy = blocks.lazy(np.add, blocks.X, squares, width=6, dtype=float)
    assert lazy.chunks == ((20, 20, 20, 20, 10), (6,))
    assert np.allclose(lazy.compute(scheduler=dask_client), X + X**2)


def test_values_that_are_not_kept_belong_to_the_task_that_needs_them(dask_client):
    """Each task costs milliseconds beside its work, so a chain of functions is one task."""
    engine = RowBlocks(da.from_array(X, chunks=(30, 6)), client=dask_client).engine
    start = engine.map(np.add, engine.of([X[:30], X[30:60], X[60:]]), engine.of([1.0, 2.0, 3.0]))
    squares = engine.map(np.square, engine.map(np.add, start, start, keep=False), keep=False)
    (task,) = {type(part) for part in squares.parts}
    leaves = _Task.of(engine, task(np.sum, [squares], {"axis": 0}), 1).leaves
    assert [leaf.key for leaf in leaves] == [start.parts[1].key] * 2
    expected = (2.0 * (X + np.repeat([1.0, 2.0, 3.0], 30)[:, None])) ** 2
    np.testing.assert_allclose(engine.reduce(np.sum, squares, axis=0), expected.sum(axis=0))
    assert engine.reduce(len, squares, only=[]) is None


def test_sparse_chunks_and_rows_by_number(dask_client):
    chunks = da.from_array(X, chunks=(40, 6)).map_blocks(sparse.csr_array)
    blocks = RowBlocks(chunks, da.from_array(Y, chunks=(40, 3)), client=dask_client)
    assert all(sparse.issparse(block) for block in blocks.X)
    assert np.allclose(blocks.take_rows(blocks.X, [0, 41, 89]).toarray(), X[[0, 41, 89]])


@pytest.mark.parametrize(("limit", "most"), [(10**9, 250 * 10**6), (500 * 10**6, 0), (0, 10**15)])
def test_workers_keep_what_fits_beside_their_own_needs(dask_client, monkeypatch, limit, most):
    """Two workers: 60 % of each limit, less 350 MB; a limit of zero is none."""
    engine = RowBlocks(da.from_array(X), client=dask_client).engine
    workers = {"workers": {name: {"memory_limit": limit} for name in "ab"}}
    monkeypatch.setattr(type(dask_client), "scheduler_info", lambda *_, **__: workers)
    assert engine.keeps(most)
    assert engine.keeps(most + 1) == (limit == 0)


def test_without_a_cluster_blocks_are_read_one_by_one():
    blocks = RowBlocks(da.from_array(X, chunks=(40, 6)), da.from_array(Y, chunks=(40, 3)))
    assert np.allclose(blocks.X.compute(), X)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (da.from_array(X), Y, "give both in blocks"),
        (da.from_array(X), da.from_array(Y[:80]), "X has 90 rows and y 80"),
        (da.from_array(X)[da.from_array(X[:, 0] > 0)], da.from_array(Y), "X has blocks of unknown sizes"),
    ],
)
def test_wrong_collections_are_told(x, y, sentence):
    with pytest.raises(DataError, match=sentence):
        RowBlocks(x, y)


def fit_on(client, X, Y, chunk, **params):
    x, y = da.from_array(X, chunks=(chunk, X.shape[1])), da.from_array(np.asarray(Y), chunks=(chunk, Y.shape[1]))
    return ClearPML(**params).fit(RowBlocks(x, y, client=client))


def assert_same(model, whole, X, client):
    confidence = model.label_confidence_.compute(scheduler=client)
    np.testing.assert_allclose(confidence.toarray(), whole.label_confidence_.toarray(), atol=1e-6)
    held_out = model.out_of_fold_scores_.compute(scheduler=client)
    np.testing.assert_allclose(held_out, whole.out_of_fold_scores_, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-6)
    assert model.threshold_offset_ == pytest.approx(whole.threshold_offset_, abs=1e-6)


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(400, random_state=3)


@pytest.mark.parametrize("chunk", [60, 400])
def test_the_answers_of_memory(dask_client, strips, chunk):
    Y = strips.Y.toarray().copy()
    Y[::5] = 0
    whole = ClearPML().fit(strips.X, Y)
    model = fit_on(dask_client, strips.X, Y, chunk)
    assert model.label_confidence_.chunks[0] == tuple(min(chunk, 400 - a) for a in range(0, 400, chunk))
    assert_same(model, whole, strips.X, dask_client)


def test_collections_are_given_to_fit_as_they_are(dask_client, strips):
    x = da.from_array(strips.X, chunks=(200, strips.X.shape[1]))
    y = da.from_array(strips.Y.toarray(), chunks=(200, 10))
    with dask_client.as_current():
        model = ClearPML(n_landmarks=100).fit(x, y)
        assert_same(model, ClearPML(n_landmarks=100).fit(strips.X, strips.Y), strips.X, dask_client)
        assert model.predict_proba(x).shape == (400, 10)


def test_clean_finds_the_suspects_of_memory(dask_client, strips):
    Y = strips.Y.toarray().copy()
    Y[::9] = 0
    Y[:, 3] = 0
    Y[:2, 3] = 1  # too rare to be judged
    x, y = da.from_array(strips.X, chunks=(150, strips.X.shape[1])), da.from_array(Y, chunks=(150, 10))
    found, whole = clean(RowBlocks(x, y, client=dask_client)), clean(strips.X, Y)
    np.testing.assert_allclose(found.doubt, whole.doubt, atol=1e-6)
    assert np.array_equal(found.order, whole.order)
    assert found.suspects[["row", "label"]].equals(whole.suspects[["row", "label"]])
    assert found.rare_labels.tolist() == whole.rare_labels.tolist() == [3]
    assert found.noise_rate_.overall == pytest.approx(whole.noise_rate_.overall, abs=1e-6)


def test_sparse_chunks_and_a_sample_of_rows(dask_client, monkeypatch):
    monkeypatch.setattr("pmlkit.methods.clear_pml.confidence_rounds._SAMPLE_ROWS", 150)
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.uniform(size=(500, 40)) * (rng.uniform(size=(500, 40)) < 0.1))
    Y = ((X @ rng.normal(size=(40, 6))) > 0.3) | (rng.uniform(size=(500, 6)) < 0.1)
    Y[:, 0] |= ~Y.any(axis=1)
    whole = ClearPML(n_landmarks=80).fit(X, Y)
    chunks = da.from_array(X.toarray(), chunks=(130, 40)).map_blocks(sparse.csr_array)
    labels = da.from_array(Y.astype(int), chunks=(130, 6)).map_blocks(sparse.csr_array)
    model = ClearPML(n_landmarks=80).fit(RowBlocks(chunks, labels, client=dask_client))
    assert_same(model, whole, X, dask_client)


def test_wide_text_is_solved_by_columns_on_the_workers(dask_client, monkeypatch):
    monkeypatch.setattr("pmlkit.methods.clear_pml.ridge_choice.LANDMARKS", 60)
    monkeypatch.setattr("pmlkit.methods.clear_pml.ridge_choice._ALL_ROWS_OF_TEXT", 10)
    numbers = np.random.default_rng(0)
    words = np.where(numbers.uniform(size=(300, 200)) < 0.05, 1.0, 0.0)
    truth = (words[:, :4] > 0).astype(int)
    truth[:, 0] |= ~truth.any(axis=1)
    given = truth | (numbers.uniform(size=truth.shape) < 0.2)
    whole = ClearPML().fit(sparse.csr_array(words), given)
    chunks = da.from_array(words, chunks=(70, 200)).map_blocks(sparse.csr_array)
    cut = ClearPML().fit(RowBlocks(chunks, da.from_array(given, chunks=(70, 4)), client=dask_client))
    assert whole.dual_coef_.shape == (200, 4)
    assert_same(cut, whole, words, dask_client)


def test_predictions_are_lazy(dask_client, strips):
    model = ClearPML().fit(strips.X, strips.Y)
    rows = RowBlocks(da.from_array(strips.X, chunks=(150, strips.X.shape[1])), client=dask_client)
    scores = model.decision_function(rows)
    assert scores.chunks == ((150, 150, 100), (10,))
    np.testing.assert_allclose(scores.compute(scheduler=dask_client), model.decision_function(strips.X))
    sets = model.predict(rows).compute(scheduler=dask_client)
    assert np.array_equal(sets, model.predict(strips.X).toarray())


def test_frames_of_dask_and_names_in_late_partitions(dask_client):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=3)
    labels = pd.DataFrame(Y, columns=["sea", "sun", "wind"])
    blocks = RowBlocks(frame, dd.from_pandas(labels, npartitions=3), client=dask_client)
    assert blocks.label_names == ("sea", "sun", "wind")
    assert blocks.names_in == list("abcdef")
    assert np.array_equal(blocks.Y.compute().toarray(), Y)


def test_a_killed_worker_does_not_change_the_answer(strips):
    """In a cluster of its own: one of two workers is killed -9 while the fit runs."""
    whole = ClearPML().fit(strips.X, strips.Y)
    with two_workers() as client:
        x, y = (
            da.from_array(strips.X, chunks=(50, strips.X.shape[1])),
            da.from_array(strips.Y.toarray(), chunks=(50, 10)),
        )
        data = RowBlocks(x, y, client=client)
        victim = next(iter(client.run(os.getpid).values()))
        reduce, calls = data.engine._reduce, []

        def kills(*arguments):
            calls.append(1)
            if len(calls) == 9:
                os.kill(victim, signal.SIGKILL)
            return reduce(*arguments)

        data.engine._reduce = kills
        model = ClearPML().fit(data)
        assert len(calls) > 9
        assert_same(model, whole, strips.X, client)


def test_a_lost_scheduler_is_told_and_the_fit_resumes(strips, tmp_path):
    distributed = pytest.importorskip("distributed")
    whole = ClearPML().fit(strips.X, strips.Y)
    x, y = da.from_array(strips.X, chunks=(200, strips.X.shape[1])), da.from_array(strips.Y.toarray(), chunks=(200, 10))
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "protocol": "tcp",
        "dashboard_address": "127.0.0.1:0",
        "scheduler_kwargs": {"dashboard": False},
        "host": "127.0.0.1",
    }
    cluster = distributed.LocalCluster(**options)
    client = distributed.Client(cluster, set_as_default=False)
    data = RowBlocks(x, y, client=client, checkpoint=tmp_path / "c")
    reduce, calls = data.engine._reduce, []

    def loses(*arguments):
        calls.append(1)
        if len(calls) == 9:
            cluster.close()
        return reduce(*arguments)

    data.engine._reduce = loses
    with pytest.raises(ClusterError, match=r"connection to the Dask scheduler was lost.*checkpoint="):
        ClearPML().fit(data)
    client.close()
    assert list((tmp_path / "c").glob("pass-*.npz"))
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        model = ClearPML().fit(RowBlocks(x, y, client=client, checkpoint=tmp_path / "c"))
        assert_same(model, whole, strips.X, client)


def test_workers_of_another_version_are_told(dask_client, monkeypatch):
    monkeypatch.setattr("pmlkit.__version__", "99.0")
    with pytest.raises(ClusterError, match=r"has pmlkit .* and this is 99.0: install the same version"):
        RowBlocks(da.from_array(X), da.from_array(Y), client=dask_client)


def test_a_worker_without_pmlkit_is_told(dask_client, monkeypatch):
    answer = {"tcp://1.2.3.4:5": ModuleNotFoundError("No module named 'pmlkit'")}
    monkeypatch.setattr(type(dask_client), "run", lambda *_, **__: answer)
    with pytest.raises(ClusterError, match="cannot import pmlkit .* install pmlkit"):
        RowBlocks(da.from_array(X), da.from_array(Y), client=dask_client)


def test_workers_that_are_started_here_let_no_other_user_in():
    """A scheduler runs whatever it is sent, so that one on loopback is open to every user of the machine."""
    distributed = pytest.importorskip("distributed")
    with executor(workers=1, memory="1GB") as started:
        address = started.client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        for outsider, security in (
            (address.replace("tls://", "tcp://"), None),
            (address, distributed.Security.temporary()),
        ):
            with pytest.raises(OSError):  # noqa: PT011 - reset, timed out or refused, as it comes
                distributed.Client(outsider, security=security, timeout="1s", set_as_default=False)
        assert started.client.submit(abs, -1).result() == 1
