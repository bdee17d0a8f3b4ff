"""Run tasks in a forked process with limits of time and memory.

Forking costs several milliseconds, so one process runs several tasks. It is killed when a task exceeds a limit, and
replaced after some tasks, so that what a task leaves behind cannot accumulate.
"""

import contextlib
import ctypes
import json
import logging
import multiprocessing
import os
import signal
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pmlkit._files import interrupts_held

_IS_LINUX = sys.platform == "linux"
# Elsewhere the peak of memory cannot be reset, so that each task needs a process of its own.
_TASKS_PER_PROCESS = 25 if _IS_LINUX else 1
_PREPARATION = 600.0  # minimum time limit of the preparation, in seconds
_LOOK_EVERY = 0.5  # seconds between two checks that the process is alive
_PR_SET_PDEATHSIG = 1
_MEGABYTE = 2**20
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))

Work = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Budget:
    """Limits of a task.

    `seconds`: wall-clock time. `megabytes`: memory (address space) beyond what the process has at the start.
    """

    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Outcome:
    """Outcome of a task.

    `answer`: its result. `reason`: why there is none. `peak_mb`: memory that it added at its peak; 0 if the process was
    killed.
    """

    answer: dict[str, Any] | None
    reason: str | None
    peak_mb: float


class Sandbox:
    """Run tasks in a fork of this process.

    `prepare` is called in the fork with a task, which must be picklable, and returns the work: a callable that returns
    a dict for JSON. Only the work counts against the budget. What `prepare` caches serves later tasks.
    """

    def __init__(self, prepare: Callable[[Any], Work]) -> None:
        self._prepare = prepare
        self._process: _Process | None = None

    def run(self, task: Any, budget: Budget) -> Outcome:
        """Run a task and return its outcome."""
        if self._process is not None and not self._process.is_usable:
            self.close()
        if self._process is None:
            self._process = _Process(self._prepare)
        try:
            outcome, is_reusable = self._process.run(task, budget)
        except BaseException:
            self.close()
            raise
        if not is_reusable:
            self.close()
        return outcome

    def close(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.end()
            self._process = None


class _Process:
    """The fork, seen from its parent."""

    def __init__(self, prepare: Callable[[Any], Work]) -> None:
        self._pipe, other_end = multiprocessing.Pipe()
        self._n_tasks = 0
        self._status: int | None = None
        parent = os.getpid()
        with interrupts_held():
            self._pid = os.fork()
            if self._pid == 0:
                self._pipe.close()
                _serve(prepare, parent, other_end)
        other_end.close()

    @property
    def is_usable(self) -> bool:
        """Whether it is alive and may run another task."""
        return self._n_tasks < _TASKS_PER_PROCESS and not self._has_died()

    def run(self, task: Any, budget: Budget) -> tuple[Outcome, bool]:
        """Return the outcome, and whether the process can run another task."""
        self._n_tasks += 1
        try:
            self._pipe.send((task, budget))
            message = self._receive(max(budget.seconds, _PREPARATION))
            if message.get("begins"):
                message = self._receive(budget.seconds)
        except TimeoutError as error:
            return Outcome(None, str(error), 0.0), False
        except (EOFError, ConnectionError):
            self.end()
            return Outcome(None, _death(self._status or 0), 0.0), False
        return Outcome(message.get("answer"), message.get("reason"), message.get("peak_mb", 0.0)), True

    def _receive(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        parent = os.getppid()
        while not self._pipe.poll(min(max(deadline - time.monotonic(), 0.0), _LOOK_EVERY)):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"took longer than {seconds:g} s")
            if self._has_died():  # though something that it started still holds the pipe
                raise EOFError
            if os.getppid() != parent:
                raise SystemExit(1)  # there is no process left to receive the answer
        message: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        return message

    def _has_died(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> None:
        """Kill it and all its children: it leads a process group."""
        if self._status is not None:
            return
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self._pid, signal.SIGKILL)
        _, self._status = os.waitpid(self._pid, 0)
        self._pipe.close()


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, however it ends (Linux only)."""
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before this was said
        os._exit(1)


def _serve(prepare: Callable[[Any], Work], parent: int, pipe: Any) -> NoReturn:
    """Main loop of the fork: run one task after the other; exit without clean-up when there are no more."""

    def answer(message: dict[str, Any]) -> None:
        pipe.send_bytes(json.dumps(message).encode())

    try:
        _set_up_child(parent)
        while True:
            task, budget = pipe.recv()
            try:
                work = prepare(task)
            except Exception as error:
                answer({"reason": _sentence(error)})
                continue
            answer({"begins": True})
            answer(_do(work, budget))
            del work
    finally:
        os._exit(0)


def _do(work: Work, budget: Budget) -> dict[str, Any]:
    _trim_memory()
    with _limited_memory(budget):
        before = _restart_peak()
        try:
            message: dict[str, Any] = {"answer": work()}
        except MemoryError:
            message = {"reason": f"ran out of memory: needs more than {budget.megabytes:,.0f} MB"}
        except BaseException as error:
            message = {"reason": _sentence(error)}
        return message | {"peak_mb": max(0.0, (_peak() - before) / _MEGABYTE)}


def _set_up_child(parent: int) -> None:
    os.setpgid(0, 0)
    die_with_parent(parent)
    if _IS_LINUX:
        # If the machine runs out of memory, the kernel should kill this process first.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Locks of these may be held by a thread that was not copied.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    logging.disable()
    os.environ.update(dict.fromkeys(_THREAD_SETTINGS, "1"))


@contextlib.contextmanager
def _limited_memory(budget: Budget) -> Iterator[None]:
    import resource  # POSIX only

    is_limited = False
    with contextlib.suppress(ValueError, OSError):
        limit = _pages(0) + int(budget.megabytes * _MEGABYTE)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        is_limited = True
    yield
    if is_limited:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _trim_memory() -> None:
    """Return freed memory to the system; otherwise the next task would seem to need less than it does."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc


def _restart_peak() -> int:
    """Reset the peak of memory, and return what is in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _pages(1) or _peak()


def _peak() -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _pages(column: int) -> int:
    """Return a number of /proc/self/statm in bytes; 0 where there is no such file."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _sentence(error: BaseException) -> str:
    """Return an error in one line, with the line of the user's own file in which it arose, if there is one."""
    text = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    # The deepest frame of a user's file, else of pmlkit, else of any library.
    frame = max(enumerate(frames), key=lambda item: (_closeness(item[1].filename), item[0]), default=(0, None))[1]
    where = f" ({Path(frame.filename).name}, line {frame.lineno})" if frame else ""
    return f"{type(error).__name__}: {text[:400]}{where}" if text else f"{type(error).__name__}{where}"


def _closeness(filename: str) -> int:
    """Return 2 for a user's file, 1 for one of pmlkit, 0 for Python's and those of installed packages."""
    path = os.path.abspath(filename)
    if path.startswith(_PACKAGE):
        return 1
    is_library = filename.startswith("<") or path.startswith(_LIBRARIES) or "site-packages" in Path(path).parts
    return 0 if is_library else 2


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"the process was ended by {name}, perhaps for lack of memory"
    return f"the process ended by itself with exit code {os.WEXITSTATUS(status)}"
