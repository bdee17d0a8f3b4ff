import os
import signal
import threading

import pytest

import forked
from bench_processes import environment, n_running, wait_until
from pmlkit.bench import ProgressCallback, load_cells, load_plan_facts, plan_text, run
from pmlkit.bench.cells import METRICS
from pmlkit.bench.plan import parse_plan
from pmlkit.exceptions import DataError

SAME = ["data", "noise", "ratio", "repeat", "method", "params", "label", "status", "reason", *METRICS, "seed"]

RUNNER = """
import os, random, signal, sys, threading
from pmlkit.bench import ProgressCallback, read_plan, run


class Killer(ProgressCallback):
    # Kill this process at a random moment after some cells.
    n_left = int(sys.argv[4])

    def cell_finished(self, cell, outcome):
        self.n_left -= 1
        if self.n_left == 0:
            delay = random.Random(sys.argv[4]).uniform(0, 0.1)
            threading.Timer(delay, os.kill, [os.getpid(), signal.SIGKILL]).start()


if __name__ == "__main__":
    run(read_plan(sys.argv[1]), sys.argv[2], jobs=int(sys.argv[3]), progress=Killer())
"""


@pytest.fixture
def start(tmp_path):
    """Start a run as a process of its own, in a group of its own."""
    started = []

    def call(plan, store, jobs=1, kill_after=0):
        (tmp_path / "plan.toml").write_text(plan_text(plan))
        words = [tmp_path / "plan.toml", store, jobs, kill_after]
        process = forked.Popen(words, code=RUNNER, stderr=forked.PIPE, env=environment())
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


def table(path):
    return load_cells(path)[SAME]


def n_finished(path):
    try:
        return len(load_cells(path))
    except DataError:  # it is not there yet
        return 0


@pytest.fixture
def napping_plan(fast_plan):
    """Forty cells that take their time."""
    return fast_plan({"name": "Fast", "params": {"nap": 0.05}}, "Raises", noise=[0.5, 1.0], repeats=10)


def test_a_second_run_does_only_what_is_missing(fast_plan, tmp_path):
    path = tmp_path / "results.sqlite"
    first = run(fast_plan("Fast", "Raises", repeats=1), path)
    assert (first.n_cells, first.n_run, first.n_failed) == (2, 2, 1)
    second = run(fast_plan("Fast", "Raises", repeats=3), path)
    assert (second.n_cells, second.n_run, second.n_failed) == (6, 4, 3)
    third = run(fast_plan("Fast", "Raises", repeats=3), path, retry_failed=True)
    assert (third.n_cells, third.n_run, third.n_failed) == (6, 3, 3)
    once = tmp_path / "once.sqlite"
    run(fast_plan("Fast", "Raises", repeats=3), once)
    assert table(path).equals(table(once))


def test_two_jobs_give_the_same_table_and_bad_methods_harm_no_other(small_file, fast_plan, tmp_path):
    methods = ["Fast", "Dies", "EatsMemory", "Raises", "Mutates", "GlobalSeed", "NoConfidence"]
    plan = fast_plan(*methods, repeats=2)
    for jobs in (1, 2):
        run(plan, tmp_path / f"{jobs}.sqlite", jobs=jobs, max_mb=300)
    one, two = table(tmp_path / "1.sqlite"), table(tmp_path / "2.sqlite")
    assert one.equals(two)
    assert one.groupby("label")["status"].agg(set).to_dict() == {
        method: {"failed" if method in ("Dies", "EatsMemory", "Raises") else "done"} for method in methods
    }


@pytest.mark.parametrize(("jobs", "kills"), [(1, (3, 5)), (2, (4,))])
def test_kill_9_at_random_moments_and_resume_gives_the_identical_table(napping_plan, start, tmp_path, jobs, kills):
    path = tmp_path / "killed.sqlite"
    for kill_after in kills:
        process = start(napping_plan, path, jobs, kill_after)
        # Until the workers are gone, too: they hold the other end of the pipe.
        process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL
    assert 0 < n_finished(path) < 40
    process = start(napping_plan, path, jobs)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    run(napping_plan, tmp_path / "whole.sqlite")
    assert len(table(path)) == 40
    assert table(path).equals(table(tmp_path / "whole.sqlite"))


def test_two_runs_at_once_share_the_work(napping_plan, start, tmp_path):
    path = tmp_path / "shared.sqlite"
    other = start(napping_plan, path)
    wait_until(lambda: n_finished(path) > 0)
    here = run(napping_plan, path)
    _, errors = other.communicate(timeout=600)
    assert other.returncode == 0, errors
    # Each cell was written once, by the run that had it.
    assert 0 < here.n_run < 40
    run(napping_plan, tmp_path / "whole.sqlite")
    assert table(path).equals(table(tmp_path / "whole.sqlite"))


def test_a_run_takes_over_from_one_that_dies_while_it_waits(fast_plan, start, tmp_path):
    path = tmp_path / "shared.sqlite"
    plan = fast_plan({"name": "Fast", "params": {"nap": 30.0}}, repeats=1)
    other = start(plan, path)
    wait_until(lambda: n_running(path) == 1)
    waiting = Recorder()
    threading.Thread(target=lambda: (waiting.is_waiting.wait(600), other.kill(), other.wait()), daemon=True).start()
    summary = run(plan, path, max_seconds=0.5, progress=waiting)
    assert (summary.n_run, summary.n_failed) == (1, 1)
    assert load_cells(path)["reason"].tolist() == ["took longer than 0.5 s"]


class Recorder(ProgressCallback):
    """Remembers the callbacks."""

    def __init__(self):
        self.told = []
        self.is_waiting = threading.Event()

    def begin(self, n_cells, n_finished, jobs):
        self.told.append(("begin", n_cells, n_finished, jobs))

    def cell_started(self, cell):
        self.told.append(("started", cell.label, cell.repeat))

    def cell_finished(self, cell, outcome):
        self.told.append(("finished", cell.label, cell.repeat, outcome.reason))

    def others_finished(self, n_cells, n_running):
        self.told.append(("others", n_cells, n_running))
        if n_running:
            self.is_waiting.set()

    def end(self):
        self.told.append(("end",))


def test_all_progress_callbacks_are_called(fast_plan, tmp_path):
    run(fast_plan("Fast", repeats=1), tmp_path / "results.sqlite")
    watching = Recorder()
    run(fast_plan("Fast", repeats=2), tmp_path / "results.sqlite", progress=watching)
    assert watching.told == [
        ("begin", 2, 1, 1),
        ("started", "Fast", 1),
        ("finished", "Fast", 1, None),
        ("end",),
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_stops_at_once_and_gives_cells_back(fast_plan, start, tmp_path, jobs):
    path = tmp_path / "results.sqlite"
    plan = fast_plan({"name": "Fast", "params": {"nap": 60.0}}, repeats=3)
    process = start(plan, path, jobs)
    wait_until(lambda: n_running(path) >= jobs)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=600)
    assert process.returncode != 0
    assert n_running(path) == 0
    assert load_plan_facts(path)[-1].finished is None


@pytest.mark.filterwarnings("ignore:A worker stopped:UserWarning")
def test_a_method_that_ends_the_worker_is_given_up(fast_plan, start, tmp_path):
    # In a process of its own: the reusable workers of this one should live.
    path = tmp_path / "results.sqlite"
    process = start(fast_plan("KillsParent", "Fast", repeats=1), path, jobs=2)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    found = load_cells(path).set_index("label")
    assert found.loc["KillsParent", "reason"] == "the worker process died twice while running it"
    assert found.loc["Fast", "status"] == "done"


def test_workers_in_place_of_dead_ones_end_with_a_run_that_is_killed(fast_plan, start, tmp_path):
    # All three cells are under way when the first ends its worker; then they run one by one, by other workers.
    slow = {"name": "Fast", "params": {"nap": 60.0}}
    plan = fast_plan("KillsParent", "Fast", slow, repeats=1)
    process = start(plan, tmp_path / "results.sqlite", jobs=2, kill_after=2)
    assert process.wait() == -signal.SIGKILL
    # They hold the other end of the pipe, and idle they would for 300 s.
    process.communicate(timeout=200)


def test_a_local_dask_cluster_gives_the_same_table(fast_plan, tmp_path):
    pytest.importorskip("distributed")
    plan = fast_plan("Fast", "Raises", repeats=2)
    run(plan, tmp_path / "here.sqlite")
    run(plan, tmp_path / "dask.sqlite", dask="local", jobs=2)
    assert table(tmp_path / "dask.sqlite").equals(table(tmp_path / "here.sqlite"))


def test_a_dask_scheduler_that_is_not_there(fast_plan, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("pmlkit.blocks.executors._PATIENCE", "1s")
    with pytest.raises(OSError, match="No Dask scheduler answers at 'tcp://127.0.0.1:1'"):
        run(fast_plan("Fast"), tmp_path / "results.sqlite", dask="tcp://127.0.0.1:1")


def test_nonsense_is_refused_before_anything_is_written(fast_plan, tmp_path):
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        run(fast_plan("Fast"), tmp_path / "results.sqlite", jobs=0)
    with pytest.raises(ValueError, match="must be more than 0"):
        run(fast_plan("Fast"), tmp_path / "results.sqlite", max_seconds=0)
    with pytest.raises(ValueError, match="no data set"):
        run(parse_plan('data = ["nowhere"]'), tmp_path / "results.sqlite")
    assert not list(tmp_path.iterdir())
