"""The command line in processes of its own that start at once: forked from one that has read the modules already.

A new interpreter takes seconds to read NumPy, scikit-learn and pandas, and the tests would start a hundred. Everything
else is as in a new process: its own streams, working folder, environment, signals and exit code. Tests of the start
itself use `subprocess`.
"""

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

CLI = "from pmlkit.cli import main; main()"
PIPE, DEVNULL, STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT


class Popen:
    """What `subprocess.Popen` is for ``python -m pmlkit WORDS...``, as far as the tests use it.

    With `code` it is ``python -c CODE WORDS...`` instead.
    """

    def __init__(self, words, *, stdin=None, stdout=None, stderr=None, cwd=None, env=None, text=False, code=CLI):
        self.stdin = self.stdout = self.stderr = None
        self.args, self._text, passed, closed = [str(word) for word in words], text, [], []
        for number, name, given in ((0, "stdin", stdin), (1, "stdout", stdout), (2, "stderr", stderr)):
            if given == PIPE:
                reading, writing = os.pipe()
                mine, other = (writing, reading) if number == 0 else (reading, writing)
                setattr(self, name, os.fdopen(mine, ("w" if number == 0 else "r") + ("" if text else "b")))
                closed.append(other)
            elif given == DEVNULL:
                other = os.open(os.devnull, os.O_RDWR)
                closed.append(other)
            elif given == STDOUT:
                other = passed[1]
            else:
                other = number if given is None else given if isinstance(given, int) else given.fileno()
            passed.append(other)
        request = {"words": self.args, "cwd": str(cwd or Path.cwd()), "env": dict(env or os.environ), "code": code}
        self.returncode = None
        mine, theirs = socket.socketpair()
        server = _server()
        with server.lock:
            socket.send_fds(server.socket, [_framed(request)], [*passed, theirs.fileno()])
            server.socket.recv(1)  # all is taken over
        for other in closed:
            os.close(other)
        theirs.close()
        self._answers = mine.makefile("r")
        mine.close()  # with its file
        self.pid = int(self._answers.readline())

    def wait(self, timeout=None):
        """Wait for the end and return the exit code."""
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
            self._answers.close()
        return self.returncode

    def poll(self):
        """Return the exit code; None is never told, for no test asks while it runs."""
        return self.returncode

    def communicate(self, timeout=None):
        """Return what it says until its end."""
        said = {}
        readers = [threading.Thread(target=lambda n=n: said.update({n: getattr(self, n).read()}))
                   for n in ("stdout", "stderr") if getattr(self, n) and not getattr(self, n).closed]  # fmt: skip
        for reader in readers:
            reader.daemon = True
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():  # it, or a process that it started, still runs
                raise subprocess.TimeoutExpired(self.args, timeout)
        self.wait()
        for name in said:
            getattr(self, name).close()
        return said.get("stdout"), said.get("stderr")

    def send_signal(self, number):
        """Send a signal."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self):
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def run(words, *, capture_output=False, text=False, check=False, input=None, timeout=None, **options):
    """Run a command to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    if input is not None:
        options["stdin"] = PIPE
    process = Popen(words, text=text, **options)
    if input is not None:
        threading.Thread(target=lambda: (process.stdin.write(input), process.stdin.close())).start()
    stdout, stderr = process.communicate(timeout)
    done = subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


def _framed(request):
    content = json.dumps(request).encode()
    return len(content).to_bytes(4, "big") + content


class _Server:
    def __init__(self):
        self.lock = threading.Lock()
        self.socket, other = socket.socketpair()
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, __file__, str(other.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[other.fileno()], env=environment, start_new_session=True)
        other.close()
        atexit.register(self.end)

    def end(self):
        self.socket.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:  # a test has left a command running
            self.process.kill()


@functools.cache
def _server():
    return _Server()


def _serve(number):
    """Fork a process for every request, which forks the command and waits for it; end with the last connection."""
    import skops.io  # noqa: F401  reads most of what the commands need

    import pmlkit.cleaning.review  # noqa: F401
    from pmlkit.cli import app  # noqa: F401
    from pmlkit.data import load_digit_strips  # noqa: F401
    from pmlkit.methods import all_methods

    all_methods()
    connection = socket.socket(fileno=number)
    while True:
        content, fds, *_ = socket.recv_fds(connection, 65536, 4)
        if not content:
            break
        size = 4 + int.from_bytes(content[:4], "big")
        while len(content) < size:
            content += connection.recv(65536)
        if os.fork() == 0:
            connection.close()
            _watch(json.loads(content[4:]), fds)
        for fd in fds:
            os.close(fd)
        connection.send(b"x")
        _reap(os.WNOHANG)
    _reap(0)


def _reap(how):
    """Take the exit codes of children that have ended; their processor time then counts as this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, how)[0]:
            pass


def _watch(request, fds):
    """Run the command in a child and tell its number and its end."""
    *streams, answers = fds
    child = os.fork()
    if child == 0:
        os.close(answers)
        _become(request, streams)
    for fd in streams:
        os.close(fd)
    os.write(answers, f"{child}\n".encode())
    os.write(answers, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    os._exit(0)


def _become(request, streams):
    code = 1
    try:
        os.setsid()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        for fd in streams:
            if fd > 2:
                os.close(fd)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(k, mode, closefd=False) for k, mode in enumerate("rww"))
        sys.argv = ["pmlkit", *request["words"]]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from pmlkit.cli import output

        for console in (output.OUT, output.ERR):
            console.__init__(stderr=console.stderr, markup=False, highlight=False, emoji=False)
        try:
            exec(request["code"], {"__name__": "__main__"})
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 120
        os._exit(code)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
