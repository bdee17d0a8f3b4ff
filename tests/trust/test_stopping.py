"""A command that is stopped by Ctrl-C or SIGTERM, or killed, leaves no output that is not whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forked
import pmlkit
from pmlkit import _files
from pmlkit._files import replacing, together

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX")

_WRITE = """
import os, sys, time
sys.argv = ["pmlkit", "info", "nothing"]
from pmlkit._files import replacing
from pmlkit.cli.app import app
from pmlkit.cli import data_commands
from pmlkit import cli

def write_and_wait(*_, **__):
    with replacing({target!r}) as stream:
        stream.write(b"half")
        stream.flush()
        print("ready", flush=True)
        while True:
            time.sleep(0.05)

data_commands._read = write_and_wait
cli.main()
"""


def _stopped(target, number):
    code = _WRITE.format(target=str(target))
    process = forked.Popen([], code=code, stdout=forked.PIPE, stderr=forked.PIPE)
    assert process.stdout.readline() == b"ready\n"
    parts = [name for name in os.listdir(target.parent) if name.endswith(".part")]
    assert len(parts) == 1
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors.decode()


@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [
        (signal.SIGINT, 130, "stopped: interrupted from the keyboard.\n"),
        (signal.SIGTERM, 143, "stopped: terminated by a signal.\n"),
    ],
)
def test_a_stopped_command_removes_what_is_half_written(tmp_path, number, code, sentence):
    assert _stopped(tmp_path / "out.csv", number) == (code, sentence)
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(tmp_path):
    assert _stopped(tmp_path / "out.csv", signal.SIGKILL)[0] == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    machine = _files._machine()
    kept = [
        f".x.csv.{machine}-{os.getpid()}-0123abcd.part",  # of a process that runs
        f".x.csv.{(int(machine, 16) ^ 1):08x}-{_unused_process()}-0123abcd.part",  # of another machine
        ".x.csv.part",
        f"x.csv.{machine}-{_unused_process()}-0123abcd.part",
    ]
    for name in kept:
        (tmp_path / name).touch()
    _files._looked_through.discard(tmp_path)
    with replacing(tmp_path / "other.csv") as stream:
        stream.write(b"whole")
    assert left not in os.listdir(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "other.csv"])


def test_the_name_of_a_temporary_file_fits_however_long_the_name(tmp_path):
    target = tmp_path / ("n" * 250)
    with replacing(target) as stream:
        stream.write(b"whole")
    assert os.listdir(tmp_path) == [target.name]


def _unused_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_forked_child_ends_at_once():
    script = """
import os, signal, time
from pmlkit.cli import stop_on_sigterm
stop_on_sigterm()
reading, writing = os.pipe()
child = os.fork()
if not child:
    try:
        os.write(writing, b"x")
        while True:
            time.sleep(0.05)
    finally:
        os._exit(7)
os.read(reading, 1)
os.kill(child, signal.SIGTERM)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=True)
    assert done.stdout.split() == [str(int(signal.SIGTERM)).encode()]


def test_little_is_imported_before_ctrl_c_is_quiet():
    script = "import sys; before = set(sys.modules); import pmlkit.cli; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-S", "-c", script]
    environment = os.environ | {"PYTHONPATH": str(Path(pmlkit.__file__).parents[1])}  # -S leaves out what is installed
    done = subprocess.run(command, capture_output=True, timeout=120, check=True, text=True, env=environment)
    assert set(done.stdout.split()) == {"pmlkit", "pmlkit.cli"}


@pytest.mark.parametrize("module", ["typer", "pmlkit.cli.app", "threading"])
def test_ctrl_c_while_modules_are_imported_is_quiet(module):
    script = f"""
import builtins, os, signal, sys
sys.argv = ["pmlkit", "--version"]
from pmlkit.cli import main
real = builtins.__import__
def importing(name, *rest, **more):
    if name == {module!r}:
        builtins.__import__ = real
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest, **more)
builtins.__import__ = importing
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "stopped: interrupted from the keyboard.\n"


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_that_cannot_be_raised_where_it_comes_is_not_lost(name, code):
    script = f"""
import os, signal, sys, time
sys.argv = ["pmlkit", "info", "nothing"]
from pmlkit import cli
from pmlkit.cli import data_commands

class Swallows:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0)

def wait(*_, **__):
    Swallows()
    while True:
        time.sleep(0.05)

data_commands._read = wait
cli.main()
"""
    done = forked.run([], code=script, capture_output=True, text=True)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("stopped: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_work_is_done_ends_python_without_a_traceback(number):
    script = f"""
import atexit, os, sys
sys.argv = ["pmlkit", "--version"]
from pmlkit.cli import main
atexit.register(os.kill, os.getpid(), {int(number)})
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False, text=True)
    assert (done.returncode, done.stderr) == (-number, "")
    assert done.stdout.startswith("pmlkit ")


def test_an_interrupt_between_two_files_that_belong_together_waits_for_both(tmp_path, monkeypatch):
    real = Path.replace

    def replace(self, target):
        real(self, target)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KeyboardInterrupt), together():  # noqa: PT012
        for name in ("a", "b"):
            with replacing(tmp_path / name) as stream:
                stream.write(b"whole")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
