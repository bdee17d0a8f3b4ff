"""Little memory, folders that cannot be written, clocks that go backwards, two processes: nothing half done or lost."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

import forked
from pmlkit import bench
from pmlkit.bench import load_cells
from pmlkit.bench import store as bench_store
from pmlkit.cleaning.review import store as review_store
from pmlkit.cleaning.review.store import AnswerStore, Event
from post_tables import make_posts, write_posts

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, permissions and signals are of POSIX")

POSTS = ["posts.csv", "--labels", "tags", "--sep", ";", "--text", "body"]
WRITING = {
    "convert": ["convert", "posts.csv", "out.npz", "--labels", "tags", "--sep", ";", "--text", "body"],
    "noise": ["noise", "small.csv", "out.npz"],
    "fit": ["fit", *POSTS, "-m", "MLkNN", "-o", "out.skops"],
    "predict": ["predict", "model.skops", "posts.csv", "-o", "out.csv"],
    "clean": ["clean", *POSTS, "-o", "out.csv", "--log", "log.csv"],
    "export": ["export", *POSTS, "--to", "prodigy", "-o", "out.jsonl"],
    "import-answers": ["import-answers", "given.csv", "--from", "csv", "-o", "out.csv"],
    "apply": ["apply", "review.sqlite", *POSTS, "-o", "out.csv"],
    "bench": ["bench", "--data", "small.csv", "-m", "MLkNN", "--noise", "1", "--repeats", "1", "-o", "out.sqlite"],
    "report": ["report", "done.sqlite", "-o", "out.html"],
    "reproduce": ["reproduce", "--quick", "--embedded", "-o", "out"],
    "review": ["review", *POSTS, "--answers", "out.sqlite", "--no-browser"],
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with what the commands read."""
    from pmlkit import open_table
    from pmlkit.data import PMLDataset, load_digit_strips, write

    folder = tmp_path_factory.mktemp("inputs")
    write_posts(make_posts(60), folder / "posts.csv")
    strips = load_digit_strips(60)
    write(PMLDataset(strips.X, strips.truth, truth=strips.truth, label_names=strips.label_names), folder / "small.csv")
    table = open_table(folder / "posts.csv", labels="tags", sep=";", text="body")
    row, label = 0, table.label_names[table.Y.indices[0]]
    (folder / "given.csv").write_text(f"row,label,answer\n{row},{label},wrong\n")
    with AnswerStore(folder / "review.sqlite") as store:
        store.append([Event("ann", "answer", "selection", row, label, "wrong")])
    for words in (
        [*WRITING["fit"][:-1], "model.skops"],
        [*WRITING["bench"][:-1], "done.sqlite"],
    ):
        forked.run(words, cwd=folder, capture_output=True, check=True)
    return folder


TERMINATED = """
import os, signal, sys
when = []
def hook(event, arguments):
    if event in ("open", "sqlite3.connect") and not when and {name!r} in str(arguments[0]):
        when.append(event)
        os.kill(os.getpid(), signal.SIGTERM)
sys.addaudithook(hook)
from pmlkit.cli import main
main()
"""
READS = {
    "noise": "small.csv",
    "import-answers": "given.csv",
    "apply": "review.sqlite",
    "bench": "small.csv",
    "report": "done.sqlite",
    "reproduce": "results.sqlite",
}
READING = {
    "info": ["info", *POSTS],
    "evaluate": ["evaluate", "model.skops", "posts.csv", "--option", "truth=truth"],
    "audit": ["audit", *POSTS, "--answers", "out.csv", "--who", "ann"],
}


@pytest.mark.parametrize("command", [*WRITING, *READING])
def test_a_command_that_is_terminated_while_it_reads_writes_nothing(prepared, tmp_path, command):
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    code = TERMINATED.format(name=READS.get(command, "posts.csv"))
    done = forked.run((WRITING | READING)[command], cwd=tmp_path, capture_output=True, text=True, code=code)
    assert done.returncode == 143, done.stderr
    assert done.stderr.splitlines()[-1] == "stopped: terminated by a signal."
    assert "Traceback" not in done.stderr
    left = {path.name for path in tmp_path.iterdir()} - {path.name for path in prepared.iterdir()}
    assert left <= ({"out"} if command == "reproduce" else set())  # its folder
    assert not list(tmp_path.rglob("*.part"))


AS_NOBODY = """
import os
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
from pmlkit.cli import main
main()
"""


@pytest.mark.parametrize("name", WRITING)
def test_a_folder_that_cannot_be_written_is_said_in_one_sentence(name, prepared, tmp_path):
    folder = tmp_path / "inputs"
    folder.mkdir()
    for path in prepared.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    for parent in [tmp_path, *tmp_path.parents]:  # of the tests' own folders, which only their owner may enter
        if parent.name.startswith(("pytest-", "popen-", "test_")):
            parent.chmod(0o755)
    before = sorted(os.listdir(folder))
    folder.chmod(0o555)
    try:  # root may write everywhere, so the command runs as another user
        done = forked.run(WRITING[name], cwd=folder, capture_output=True, text=True, code=AS_NOBODY, timeout=300)
    finally:
        folder.chmod(0o755)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(folder)) == before


WITH_LITTLE_MEMORY = """
import resource
with open("/proc/self/statm") as stream:
    held = int(stream.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + {room}, held + {room}))
from pmlkit.cli import main
main()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the size of a process is read from /proc")
@pytest.mark.parametrize("name", sorted(set(WRITING) - {"reproduce", "review"}))
@pytest.mark.parametrize("room", [0, 2**23, 2**25])
def test_too_little_memory_is_said_in_one_sentence_or_is_enough(name, room, prepared, tmp_path):
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = sorted(os.listdir(tmp_path))
    done = forked.run(
        WRITING[name], cwd=tmp_path, capture_output=True, text=True, code=WITH_LITTLE_MEMORY.format(room=room),
        timeout=300,
    )  # fmt: skip
    new = sorted(set(os.listdir(tmp_path)) - set(before))
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert {word for word in WRITING[name] if word.startswith(("out.", "log."))} <= set(new)
        assert not [left for left in new if left.endswith(".part")]
    else:
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "error: there is not enough memory for this.")
        assert new == []


@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_too_little_memory_for_a_library_is_said_in_one_sentence(module):
    script = f"""
import builtins, sys
sys.argv = ["pmlkit", "info", "nothing.csv"]
from pmlkit.cli import main
real = builtins.__import__
def importing(name, *rest, **more):
    if name == {module!r}:
        raise ImportError("core.so: failed to map segment from shared object")
    return real(name, *rest, **more)
builtins.__import__ = importing
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: there is not enough memory for this.\n"


STOPPED = """
import os, signal, sys

def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and os.path.basename(arguments[0]) in {names}:
        sys.stderr.flush()
        os.kill(os.getpid(), signal.{number})

from pmlkit.cli import main
sys.addaudithook(hook)
main()
"""


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
@pytest.mark.parametrize("name", sorted(set(WRITING) - {"reproduce", "report", "apply"}))
def test_every_command_ends_by_a_signal_without_a_trace(name, number, code, prepared, tmp_path):
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = sorted(os.listdir(tmp_path))
    program = STOPPED.format(names=("posts.csv", "small.csv", "model.skops", "given.csv"), number=number)
    done = forked.run(WRITING[name], cwd=tmp_path, capture_output=True, text=True, code=program, timeout=300)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1].startswith("stopped: ")
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == before


class Clock(datetime):
    """A clock that goes back a day each time that it is read."""

    n_read = 0

    @classmethod
    def now(cls, tz=None):
        """Return a time before the last one."""
        cls.n_read += 1
        return datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=cls.n_read)


def test_answers_keep_their_order_when_the_clock_goes_backwards(tmp_path, monkeypatch):
    monkeypatch.setattr(review_store, "datetime", Clock)
    path = tmp_path / "a.sqlite"
    with AnswerStore(path) as store:
        for answer in ("wrong", "right", "unsure"):
            last = store.append([Event("ann", "answer", "selection", 1, "cat", answer)])[0]
        store.append([Event("ann", "undo", "selection", undoes=last)])
    with AnswerStore(path) as store:
        assert [event.answer for event in store.standing()] == ["wrong", "right"]
        times = [event.at for event in store.events()]
        assert times == sorted(times, reverse=True)


def test_a_benchmark_is_gone_on_with_when_the_clock_goes_backwards(tmp_path, monkeypatch):
    plan = bench.Plan(["digit-strips:60"], ["MLkNN"], noise=[0.5, 1.0], repeats=2)
    bench.run(plan, tmp_path / "a.sqlite")
    monkeypatch.setattr(bench_store, "datetime", Clock)
    half = bench.Plan(["digit-strips:60"], ["MLkNN"], noise=[0.5], repeats=2)
    bench.run(half, tmp_path / "b.sqlite")
    assert bench.run(plan, tmp_path / "b.sqlite").n_run == 2
    assert Clock.n_read > 0
    same = ["noise", "ratio", "repeat", "status", "average_precision"]
    first, second = (
        load_cells(tmp_path / name)[same].sort_values(same[:3]).reset_index(drop=True)
        for name in ("a.sqlite", "b.sqlite")
    )
    assert first.equals(second)


def test_an_audit_counts_answers_in_their_order_when_the_clock_goes_backwards():
    from pmlkit import clean
    from pmlkit.data import load_digit_strips

    strips = load_digit_strips(100)
    audits = [clean(strips.X, strips.Y).audit(random_state=0) for _ in range(2)]
    for i in range(12):
        for audit, day in zip(audits, (1 + i, 28 - i), strict=True):
            audit.answer(audit.next(), "wrong" if i % 3 else "right", when=f"2026-01-{day:02}T00:00:00+00:00")
    first, second = audits
    assert first.noise_rate_ == second.noise_rate_
    assert (first.verdict == second.verdict).all()


def test_processes_make_and_answer_one_store_at_once(tmp_path):
    code = """
import multiprocessing, sys, traceback
from pmlkit.cleaning.review.store import AnswerStore, Event

def answer(path, who, start):
    start.wait()
    with AnswerStore(path) as store:
        for i in range(10):
            store.append([Event(who, "answer", "selection", i, "cat", "wrong", client=f"{who} {i}")])

fork = multiprocessing.get_context("fork")
for turn in range(20):
    start = fork.Barrier(3)
    people = [fork.Process(target=answer, args=(f"{turn}.sqlite", who, start)) for who in ("ann", "bob", "eve")]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert [person.exitcode for person in people] == [0, 0, 0], turn
"""
    done = forked.run([], code=code, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    for turn in range(20):
        with AnswerStore(tmp_path / f"{turn}.sqlite") as store:
            events = store.standing()
        for who in ("ann", "bob", "eve"):
            assert [event.row for event in events if event.who == who] == list(range(10))


def test_a_store_that_another_process_writes_while_it_is_opened_is_waited_for(tmp_path):
    path = tmp_path / "a.sqlite"
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    at_once = pytest.raises(sqlite3.OperationalError, match="locked")  # SQLite does not wait here
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as late, at_once:
        late.execute("PRAGMA journal_mode = WAL")
    ending = threading.Timer(0.3, other.close)
    ending.start()
    with AnswerStore(path) as store:
        assert store.last == 0
    ending.join()
