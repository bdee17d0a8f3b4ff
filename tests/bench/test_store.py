import contextlib
import math
import os
import resource
import signal
import sqlite3

import numpy as np
import pandas as pd
import pytest

import forked
from pmlkit.bench import Plan, load_cells, load_plan_facts, parse_plan, run
from pmlkit.bench.cells import METRICS, expand
from pmlkit.bench.sandbox import Outcome
from pmlkit.bench.store import CellCounts, Store
from pmlkit.bench.store_reader import COLUMNS, StoreFull
from pmlkit.exceptions import DataError

FAILED = Outcome(None, "no luck", 1.5)


def answer(value=0.25, **changes):
    return Outcome(dict.fromkeys((*METRICS, "fit_seconds", "predict_seconds"), value) | changes, None, 3.0)


def begin(store, cells, **options):
    store.begin(cells, **({"command": "pmlkit bench", "plan": "", "jobs": 1} | options))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.sqlite"


def test_cells_come_back_as_they_were_and_in_the_order_of_the_plan(path, fast_plan):
    cells = expand(fast_plan("Fast", "Raises", noise=[1.0, 0.5]))
    exact = math.pi / 3
    with Store(path) as store:
        begin(store, cells)
        for cell in reversed(cells):
            assert store.claim(cell)
            store.finish(cell, FAILED if "Raises" in cell.label else answer(exact, macro_f1=float("nan")))
    found = load_cells(path)
    assert tuple(found.columns) == COLUMNS
    assert found[["ratio", "label", "repeat"]].to_numpy().tolist() == [
        [ratio, label, repeat] for ratio in (1.0, 0.5) for label in ("Fast", "Raises") for repeat in (0, 1)
    ]
    done = found[found["status"] == "done"]
    assert (done["one_error"] == exact).all()
    assert done["macro_f1"].isna().all()
    assert done["reason"].isna().all()
    failed = found[found["status"] == "failed"]
    assert failed["reason"].tolist() == ["no luck"] * 4
    assert failed["hamming_loss"].isna().all()
    assert found["seed"].tolist() == [cells[0].seed, cells[-1].seed] * 4
    assert found[["n_rows", "n_features", "n_labels"]].drop_duplicates().to_numpy().tolist() == [[60, 6, 4]]
    assert (found["noise"] == "uniform").all()
    assert (found["method"] == found["label"]).all()
    assert (found["params"] == "{}").all()


def test_own_noise_has_no_ratio(path, noisy_file):
    cells = expand(Plan([noisy_file], ["MLkNN"], repeats=1))
    with Store(path) as store:
        begin(store, cells)
        begin(store, cells)
        assert store.claim(cells[0])
        store.finish(cells[0], answer())
    found = load_cells(path)
    assert found["noise"].tolist() == ["own"]
    assert found["ratio"].isna().all()


def test_an_empty_store_has_all_columns(path, fast_plan):
    with Store(path) as store:
        begin(store, expand(fast_plan("Fast")))
    found = load_cells(path)
    assert found.empty
    assert tuple(found.columns) == COLUMNS
    assert found["ratio"].dtype == np.float64


def test_a_cell_is_claimed_once_and_given_back_at_the_end(path, fast_plan):
    cells = expand(fast_plan("Fast"))
    with Store(path) as first, Store(path) as second:
        begin(first, cells)
        begin(second, cells)
        assert first.claim(cells[0])
        assert not second.claim(cells[0])
        assert second.take_over() == 0
        assert second.counts() == CellCounts(done=0, failed=0, running=1, planned=1)
        first.close()
        assert second.claim(cells[0])
        second.finish(cells[0], answer())
        assert not second.claim(cells[0])
        assert second.counts() == CellCounts(done=1, failed=0, running=0, planned=1)


CLAIMER = """
import sys, time
from pmlkit.bench import Plan
from pmlkit.bench.cells import expand
from pmlkit.bench.store import Store
cells = expand(Plan([sys.argv[2]], ["bench_methods:Fast"], noise=[0.5], repeats=2))
store = Store(sys.argv[1])
store.begin(cells, command="", plan="", jobs=1)
print(store.claim(cells[0]), flush=True)
time.sleep(600)
"""


def test_claims_of_a_process_stand_while_it_lives_and_not_after(path, small_file, fast_plan):
    cells = expand(fast_plan("Fast"))
    with forked.Popen([path, small_file], code=CLAIMER, stdout=forked.PIPE) as other:
        try:
            assert other.stdout.readline() == b"True\n"
            with Store(path) as store:
                begin(store, cells)
                assert store.take_over() == 0
                assert not store.claim(cells[0])
                other.send_signal(signal.SIGSTOP)
                assert store.take_over() == 0
                other.kill()
                other.wait()
                assert store.take_over() == 1
                assert store.claim(cells[0])
        finally:
            other.kill()


def test_what_another_code_or_parameter_made_is_not_shown_as_current(path, fast_plan):
    def run(scale, repeats):
        cells = expand(fast_plan({"name": "Fast", "label": "mine", "params": {"scale": scale}}, repeats=repeats))
        with Store(path) as store:
            begin(store, cells)
            for cell in cells:
                if store.claim(cell):
                    store.finish(cell, answer(scale))

    run(1.0, repeats=3)
    run(2.0, repeats=1)
    found = load_cells(path)
    # Two repeats of the old parameters beside one of the new would be a lie.
    assert found["one_error"].tolist() == [2.0]
    old = load_cells(path, superseded=True)
    assert old["one_error"].tolist() == [1.0] * 3
    assert old["label"].tolist() == ["mine"] * 3
    run(1.0, repeats=1)
    assert load_cells(path)["one_error"].tolist() == [1.0] * 3


def test_two_plans_share_a_store_and_what_they_have_in_common(path, fast_plan):
    first = expand(fast_plan("Fast", repeats=1))
    second = expand(fast_plan({"name": "Fast", "label": "again", "params": {"scale": 1}}, "Raises", repeats=1))
    with Store(path) as store:
        begin(store, first, plan="first")
        store.claim(first[0])
        store.finish(first[0], answer())
        begin(store, second, plan="second")
        assert store.counts() == CellCounts(done=1, failed=0, running=0, planned=1)
    assert load_cells(path)["label"].tolist() == ["Fast", "again"]
    assert load_cells(path)["params"].tolist() == ["{}", '{"scale": 1}']


def test_failed_cells_are_kept_or_tried_again(path, fast_plan):
    cells = expand(fast_plan("Fast", repeats=1))
    with Store(path) as store:
        begin(store, cells)
        store.claim(cells[0])
        store.finish(cells[0], FAILED)
        begin(store, cells)
        assert store.planned() == set()
        begin(store, cells, retry_failed=True)
        assert store.planned() == {cells[0].key}
        store.claim(cells[0])
        store.finish(cells[0], answer())
    assert load_cells(path)[["status", "reason"]].to_numpy().tolist() == [["done", None]]


def test_how_to_run_it_again(path, fast_plan):
    plan = fast_plan("Fast", repeats=1)
    run(plan, path, command="pmlkit bench p.toml")
    run(fast_plan("Fast", repeats=2), path, command="pmlkit bench q.toml")
    run(plan, path, command="pmlkit bench r.toml")
    facts = load_plan_facts(path)
    assert [fact.command for fact in facts] == ["pmlkit bench q.toml", "pmlkit bench r.toml"]
    assert parse_plan(facts[-1].plan) == plan
    assert facts[-1].started < facts[-1].finished


def test_a_store_from_a_newer_version_is_refused_and_left_alone(path, fast_plan):
    run(fast_plan("Fast", repeats=1), path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    for use in (load_cells, load_plan_facts, Store):
        with pytest.raises(DataError, match=r"made by a newer pmlkit \(store version 2;.*upgrade pmlkit"):
            use(path)
    assert path.read_bytes() == before


def test_what_is_not_a_store_is_refused_and_left_alone(tmp_path):
    text, other, folder = tmp_path / "text", tmp_path / "other.sqlite", tmp_path / "folder"
    text.write_text("not a database at all, but long enough to look like one" * 20)
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (a)")
    before = text.read_bytes()
    for use in (load_cells, Store):
        with pytest.raises(DataError, match="is not a store"):
            use(text)
        with pytest.raises(DataError, match="but not a store"):
            use(other)
        with pytest.raises(DataError, match="is a folder"):
            use(folder)
    assert text.read_bytes() == before
    with contextlib.closing(sqlite3.connect(other)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    with pytest.raises(DataError, match="There is no store"):
        load_cells(tmp_path / "absent.sqlite")
    with pytest.raises(DataError, match="There is no folder"):
        Store(tmp_path / "no" / "results.sqlite")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DROP TABLE places", "its table 'places' is absent"),
        ("ALTER TABLE cells RENAME COLUMN reason TO why", "its table 'cells' is absent or not as pmlkit makes it"),
        ("UPDATE places SET label = CAST(x'81' AS TEXT)", "UTF-8"),
        ("UPDATE places SET params = '[1'", r"'\[1' is not a JSON object"),
        ("UPDATE cells SET versions = '3'", "'3' is not a JSON object"),
        ("CREATE VIEW more AS SELECT * FROM cells", "it holds a view or a trigger"),
    ],
)
def test_a_damaged_store_gets_one_sentence(path, fast_plan, damage, message):
    run(fast_plan("Fast", repeats=1), path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with pytest.raises(DataError, match=rf"results.sqlite' is a damaged store: .*{message}.*Run the benchmark into"):
        load_cells(path)


def test_a_store_that_would_change_results_is_not_written_to(path, fast_plan):
    run(fast_plan("Fast", repeats=1), path)
    trigger = "CREATE TRIGGER t AFTER UPDATE ON cells BEGIN UPDATE cells SET hamming_loss = 0 WHERE key = NEW.key; END"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(trigger)
    with pytest.raises(DataError, match="it holds a view or a trigger"):
        run(fast_plan("Fast", repeats=2), path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_in_a_folder_that_cannot_be_written_to_can_be_read(path, fast_plan):
    run(fast_plan("Fast", repeats=1), path)
    path.parent.chmod(0o500)
    try:
        assert len(load_cells(path)) == 1
    finally:
        path.parent.chmod(0o700)


def test_reading_leaves_nothing_beside_the_store_and_changes_nothing(path, fast_plan):
    run(fast_plan("Fast", repeats=1), path)
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}
    assert len(load_cells(path)) == 1
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir()} == before


def test_a_store_is_read_while_it_is_written(path, fast_plan):
    cells = expand(fast_plan("Fast"))
    with Store(path) as store:
        begin(store, cells)
        for number, cell in enumerate(cells):
            store.claim(cell)
            store.finish(cell, answer())
            assert len(load_cells(path)) == number + 1


def test_a_full_disk_loses_nothing_that_was_finished(path, fast_plan):
    """The kernel refuses to let the files grow, as it does on a full disk."""
    cells = expand(fast_plan("Fast", repeats=400))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    n_finished = 0

    def fill(store):
        nonlocal n_finished
        for cell in cells:
            store.claim(cell)
            store.finish(cell, answer(n_finished / 8))
            n_finished += 1

    try:
        with Store(path) as store:
            begin(store, cells)
            limit = sum(file.stat().st_size for file in path.parent.glob("results.sqlite*")) + 2**16
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(StoreFull, match="cells finished so far are kept; make room"):
                fill(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 0 < n_finished < 400
    assert load_cells(path)["one_error"].tolist() == [number / 8 for number in range(n_finished)]
    with Store(path) as store:
        begin(store, cells)
        store.take_over()
        assert store.counts() == CellCounts(done=n_finished, failed=0, running=0, planned=400 - n_finished)


def test_many_cells_are_read_fast_enough_to_report(path, fast_plan):
    cells = expand(fast_plan("Fast", repeats=3000))
    with Store(path) as store:
        begin(store, cells)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE cells SET status = 'done', one_error = repeat")
    found = load_cells(path)
    assert found["one_error"].tolist() == found["repeat"].tolist() == list(range(3000))
    assert isinstance(found, pd.DataFrame)
