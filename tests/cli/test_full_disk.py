"""Disks that are full, really: every output is whole or absent, and the user is told in one sentence."""

import contextlib
import errno
import os
import subprocess
import sys

import pytest

from post_tables import make_posts, write_posts

CLEAN_OUTPUTS = {
    "table.csv": "posts.csv",
    "table.csv.gz": "posts.csv",
    "table.jsonl": "posts.jsonl",
    "table.parquet": "posts.parquet",
    "table.arff": "posts.arff",
}
pytestmark = [
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("eager"),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same posts in all formats, and how each is read."""
    folder = tmp_path_factory.mktemp("tables")
    options = {f"posts.{ending}": write_posts(make_posts(), folder / f"posts.{ending}")
               for ending in ("csv", "jsonl", "parquet", "arff")}  # fmt: skip
    return folder, options


@contextlib.contextmanager
def mounted(folder, options):
    """Mount a small disk of its own."""
    folder.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no command mount")
    if done.returncode:
        pytest.skip("only root can mount a small disk; the limit on the size of files is tested all the same")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def full_disk(tmp_path):
    """A disk with at most a page left, and an old file on it."""
    with mounted(tmp_path / "disk", "size=64k") as folder:
        (folder / "old").write_text("old")
        with (folder / "filler").open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            stream.write(bytes(64 * 1024 - 2 * 4096))
        yield folder, contextlib.nullcontext


def test_a_read_only_disk_is_refused_before_the_work(run, tmp_path):
    with mounted(tmp_path / "disk", "ro") as folder:
        result = run("fit", tmp_path / "nowhere.csv", "-o", folder / "model.skops")
    assert result.stderr == f"error: Nothing can be written in the folder {str(folder)!r}: choose another.\n"


@contextlib.contextmanager
def small_files(n_bytes=1500):
    """Let no file grow beyond some bytes. Python ignores the signal, so the write fails."""
    resource = pytest.importorskip("resource", reason="limits on the size of files are of POSIX")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def size_limit(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "old").write_text("old")
    return folder, small_files


@pytest.fixture(params=["full_disk", "size_limit"])
def disk(request):
    """A folder where nothing of a reasonable size can be written, and in what context that is so."""
    return request.getfixturevalue(request.param)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_refused(run, disk, words, name):
    """Run the command onto a new file and onto an old one: neither may appear, vanish or change."""
    folder, limited = disk
    before = content(folder)
    for target, more in ((folder / name, []), (folder / "old", ["--force"])):
        with limited():
            result = run(*(target if word == "TARGET" else word for word in words), *more)
        errors = [line for line in result.stderr.splitlines() if not line.startswith(("note:", "progress:"))]
        assert errors == [f"error: {str(target)!r} could not be written: {errors[0].rpartition(': ')[2]}"]
        assert any(os.strerror(code) in errors[0] for code in (errno.ENOSPC, errno.EFBIG))
        assert result.exit_code == 1
        assert result.stdout == ""
        assert content(folder) == before


@pytest.mark.parametrize("name", CLEAN_OUTPUTS)
def test_the_cleaned_table(run, disk, tables, name):
    folder, options = tables
    before = content(folder)
    source = CLEAN_OUTPUTS[name]
    check_refused(run, disk, ["clean", folder / source, *options[source], "-o", "TARGET"], name)
    assert content(folder) == before


@pytest.mark.parametrize("option", ["--report", "--log"])
def test_what_is_said_about_the_table(run, disk, tables, option):
    folder, options = tables
    check_refused(run, disk, ["clean", folder / "posts.csv", *options["posts.csv"], option, "TARGET"], "page")


def test_one_output_that_fails_leaves_no_other(run, tables, tmp_path):
    folder, options = tables
    for name in ("table.csv", "log.csv"):
        (tmp_path / name).write_text("old")
    outputs = ["-o", tmp_path / "table.csv", "--log", tmp_path / "log.csv", "--report", tmp_path / "page.html"]
    words = ["clean", folder / "posts.csv", *options["posts.csv"], *outputs, "--force"]
    with small_files(32_000):  # the page is the longest of the three, and comes last
        result = run(*words)
    last = result.stderr.splitlines()[-1]  # a slow machine shows progress before it
    assert last.startswith(f"error: {str(tmp_path / 'page.html')!r} could not be written")
    assert content(tmp_path) == {"table.csv": b"old", "log.csv": b"old"}
    assert run(*words).exit_code == 0
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes["table.csv"] < 32_000 < sizes["page.html"]
    assert 100 < sizes["log.csv"] < 32_000


def test_a_model_and_its_predictions(run, disk, tables, tmp_path):
    folder, options = tables
    fit = ["fit", folder / "posts.csv", *options["posts.csv"], "-m", "CandidateLogistic", "-o"]
    check_refused(run, disk, [*fit, "TARGET"], "model.skops")
    assert run(*fit, tmp_path / "model.skops").exit_code == 0
    new = tmp_path / "new.jsonl"
    write_posts(make_posts(600), new)
    for more in ([], ["--scores"]):
        check_refused(run, disk, ["predict", tmp_path / "model.skops", new, "-o", "TARGET", *more], "out.csv")


def test_nothing_else_is_said_by_the_process(tables, tmp_path):
    """Python complains at its end about streams that it cannot flush: not here."""
    resource = pytest.importorskip("resource", reason="limits on the size of files are of POSIX")
    folder, options = tables
    words = ["clean", folder / "posts.parquet", *options["posts.parquet"], "-o", tmp_path / "out.parquet"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))  # noqa: E731
    done = process(*map(str, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)
    assert done.returncode == 1
    said = [line for line in done.stderr.decode().splitlines() if not line.startswith("progress: ")]  # if it is slow
    assert len(said) == 1
    assert said[0].startswith("error: ")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def full_device():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "wb") as stream:
        yield stream


def process(*words, **streams):
    """Run the command with buffered streams, as it is outside of tests."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "pmlkit", *words]
    return subprocess.run(command, check=False, timeout=120, env=environment, **streams)


@pytest.mark.parametrize("words", [["methods", "--json"], ["--help"]])
def test_standard_output_on_a_full_disk(full_device, words):
    done = process(*words, stdout=full_device, stderr=subprocess.PIPE)
    assert done.stderr.decode() == f"error: standard output could not be written: {os.strerror(errno.ENOSPC)}.\n"
    assert done.returncode == 1


def test_messages_on_a_full_disk_change_nothing(full_device):
    done = process("methods", "zebra", stdout=subprocess.PIPE, stderr=full_device)
    assert (done.returncode, done.stdout) == (2, b"")


def test_closed_streams_change_nothing(tables, tmp_path):
    """Started with `>&- 2>&- <&-`, as some daemons do."""
    if os.name != "posix":
        pytest.skip("streams are closed by a POSIX shell")
    folder, options = tables
    out = tmp_path / "out.csv"
    words = ["clean", folder / "posts.csv", *options["posts.csv"], "-o", out]
    close = '"$@" >&- 2>&- <&-'
    done = subprocess.run(
        ["sh", "-c", close, "sh", sys.executable, "-m", "pmlkit", *map(str, words)], check=False, timeout=120
    )
    assert done.returncode == 0
    assert out.read_bytes().count(b"\r\n") == 241
