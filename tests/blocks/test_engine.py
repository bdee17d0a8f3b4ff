"""Functions over blocks in this process: budgets, laziness, checkpoints."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from pmlkit.blocks import LocalEngine, add
from pmlkit.blocks.engine import Journal, read_packed, write_packed
from pmlkit.exceptions import DataError


def halves(x):
    return x / 2.0, float(x.sum())


def test_states_and_reductions():
    engine = LocalEngine(3)
    x = engine.of([np.full(4, k, dtype=float) for k in range(3)])
    state, total = engine.map_reduce(halves, x)
    assert total == 12.0
    assert state.compute().tolist() == [0.0] * 4 + [0.5] * 4 + [1.0] * 4
    assert engine.reduce(np.max, state, combine=max) == 1.0
    assert engine.reduce(np.max, state, combine=max, only=[0, 1]) == 0.5


def test_add_joins_what_reductions_return():
    first = (np.ones(2), sparse.csr_array(np.eye(2)), [1], None)
    total = add(first, (np.ones(2), sparse.csr_array(np.eye(2)), [2], 3.0))
    assert total[0].tolist() == [2.0, 2.0]
    assert total[1].toarray().tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert total[2:] == ([1, 2], 3.0)


def test_state_beyond_the_budget_goes_to_disk_and_its_files_with_it():
    engine = LocalEngine(4, memory_budget=4000)
    x = engine.of([np.arange(200.0) + k for k in range(4)])
    state = engine.map(np.square, x)
    files = list(Path(engine._folder.name).iterdir())
    assert len(files) == 3  # 1,600 bytes a block, of which one fits
    assert np.array_equal(state.compute(), np.concatenate([(np.arange(200.0) + k) ** 2 for k in range(4)]))
    del state
    gc.collect()
    assert not list(Path(engine._folder.name).iterdir())
    assert engine._held == 0


def test_what_is_not_kept_is_computed_each_time():
    calls = []
    engine = LocalEngine(2)
    state = engine.map(lambda x: calls.append(x) or x, engine.of([1, 2]), keep=False)
    assert calls == []
    assert engine.reduce(int, state) == engine.reduce(int, state) == 3
    assert calls == [1, 2, 1, 2]


def test_nested_values_survive_the_disk(tmp_path):
    value = {"a": (np.arange(3), 1.5, "text", None), "b": [sparse.csr_array(np.eye(2)), np.float32(2.0), True]}
    write_packed(tmp_path / "x.npz", value)
    back = read_packed(tmp_path / "x.npz")
    assert back["a"][0].tolist() == [0, 1, 2]
    assert back["a"][1:] == (1.5, "text", None)
    assert back["b"][0].toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert back["b"][1] == 2.0
    assert back["b"][2] is True


class Interrupted(Exception):
    pass


def a_fit(checkpoint, calls, stop_after=None):
    """Run four passes, each with a state that the next one needs."""
    engine = LocalEngine(2, checkpoint=checkpoint)
    engine.begin({"data": 1})

    def step(x):
        calls.append("step")
        return x + 1, float(x)

    state, totals = engine.of([1, 10]), []
    for k in range(4):
        if k == stop_after:
            raise Interrupted
        state, total = engine.map_reduce(step, state)
        totals.append(total)
    result = list(state), totals
    engine.finish()
    return result


def test_an_interrupted_fit_goes_on_after_its_last_pass(tmp_path):
    whole, calls = a_fit(None, []), []
    with pytest.raises(Interrupted):
        a_fit(tmp_path / "c", calls, stop_after=3)
    assert (len(calls), len(list((tmp_path / "c").glob("pass-*.npz")))) == (6, 3)
    assert a_fit(tmp_path / "c", calls) == whole
    assert not (tmp_path / "c").exists()


def test_the_checkpoint_of_another_fit_is_refused(tmp_path):
    Journal(tmp_path).open({"data": 1})
    with pytest.raises(DataError, match="belongs to another fit"):
        Journal(tmp_path).open({"data": 2})


def test_a_fit_that_was_killed_while_its_checkpoint_began_can_be_repeated(tmp_path, monkeypatch):
    def killed(number):
        raise Interrupted

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(Interrupted):
        Journal(tmp_path).open({"data": 1})
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    Journal(tmp_path).open({"data": 1})


def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(Interrupted):
        a_fit(tmp_path, [], stop_after=3)
    path = tmp_path / "pass-0001.npz"
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 2], bytes(len(content))):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"damaged at pass-0001.npz: delete it"):
            a_fit(tmp_path, [])


def test_a_resumed_fit_keeps_what_it_kept_before(tmp_path):
    """Later passes of the checkpoint were computed from what was kept, however much memory there is now."""
    roomy = LocalEngine(1, memory_budget=3000, checkpoint=tmp_path / "c")
    roomy.begin({"fit": 1})
    assert roomy.keeps(1000)
    again = LocalEngine(1, memory_budget=30, checkpoint=tmp_path / "c")
    again.begin({"fit": 1})
    assert again.keeps(1000)
    assert not again.keeps(1000)
