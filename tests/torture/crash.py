"""Stop commands by signals at random moments and at every file operation: ``python tests/torture/crash.py [signals]``.

Each command runs in a forked process, which gets SIGKILL, SIGTERM or SIGINT: half of them when it is about to open,
rename or remove a file, the others at a random time. Then: every output is absent or whole, nothing acknowledged is
lost, a stopped command (130, 143) leaves no temporary file and no process, and the next run removes what a killed one
left and ends as if nothing had happened. Prints a table in Markdown; exit code 1 if any of this is not so.
"""

import contextlib
import csv
import os
import pty
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
import numpy as np

from pmlkit import cli, open_table
from pmlkit.bench import load_cells
from pmlkit.cleaning.review.store import AnswerStore
from pmlkit.cli.app import app
from pmlkit.exceptions import DataError
from pmlkit.persistence import load
from post_tables import make_posts, write_posts

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
"""What a command that was stopped ends with; one whose work is done may also end by the signal itself."""
POSTS = ("posts.csv", "--labels", "tags", "--sep", ";", "--text", "body")
STORE = "b.sqlite"
CHECKPOINT = "fit with a checkpoint"
SAME = ["data", "noise", "ratio", "label", "repeat", "status", "average_precision", "ranking_loss"]


class Broken(Exception):
    """A promise that was not kept."""


def expect(holds, what):
    """Raise unless a promise is kept."""
    if not holds:
        raise Broken(what)


@dataclass
class Command:
    """Words of a command and the files that it writes."""

    words: tuple
    outputs: tuple = ()
    store: str = ""
    whole: dict = field(default_factory=dict)
    seconds: float = 0.0
    n_operations: int = 0


COMMANDS = {
    "convert": Command(("convert", "small.csv", "small.npz"), ("small.npz",)),
    "fit": Command(("fit", *POSTS, "-m", "CandidateLogistic", "-o", "m.skops"), ("m.skops",)),
    "predict": Command(("predict", "model.skops", "posts.csv", "-o", "p.csv"), ("p.csv",)),
    "clean": Command(
        ("clean", *POSTS, "-o", "c.csv", "--log", "log.csv", "--suspects", "s.csv", "--report", "r.html"),
        ("c.csv", "log.csv", "s.csv", "r.html"),
    ),
    "export": Command(("export", *POSTS, "--to", "label-studio", "-o", "tasks.json"), ("tasks.json",)),
    "apply": Command(("apply", "review.sqlite", *POSTS, "-o", "a.csv"), ("a.csv",)),
    "noise": Command(("noise", "small.csv", "n.npz"), ("n.npz",)),
    "report": Command(("report", "done.sqlite", "-o", "report.html"), ("report.html",)),
    "bench": Command(
        ("bench", "--data", "small.csv", "-m", "MLkNN,PMLLFC,FPML", "--noise", "0.5,1", "--repeats", "4", "-o", STORE),
        store=STORE,
    ),
    "reproduce": Command(
        ("reproduce", "--quick", "--embedded", "-o", "again"),
        ("again/means.csv", "again/verdict.md", "again/figure4.csv"),
        store="again/results.sqlite",
    ),
    "info": Command(("info", *POSTS)),
    "evaluate": Command(("evaluate", "model.skops", "posts.csv", "--option", "truth=truth")),
    CHECKPOINT: Command((CHECKPOINT,), ("answers.npy",)),
    "review": Command(("review", *POSTS, "--answers", "r.sqlite", "--no-browser")),
    "audit": Command(("audit", *POSTS, "--answers", "answers.csv", "--who", "ann")),
}


def prepare(folder):
    """Write the inputs of all commands."""
    from pmlkit.data import PMLDataset, load_digit_strips, write

    write_posts(make_posts(120), folder / "posts.csv")
    strips = load_digit_strips(60)
    true = PMLDataset(strips.X, strips.truth, truth=strips.truth, label_names=strips.label_names)
    write(true, folder / "small.csv")


def make_reproduction_small():
    """Let ``reproduce --embedded`` take two methods, sixty rows and few weights."""
    from pmlkit.bench import paper
    from pmlkit.bench.paper import experiments

    paper.embedded_experiments = lambda *, repeats: experiments.embedded_experiments(
        repeats=repeats, n_rows=60, methods=["PML-LFC", "ML-KNN"]
    )
    for name, labels in experiments.SENSITIVITY.items():
        experiments.SENSITIVITY[name] = {weight: labels[weight] for weight in (0.001, 10.0)}


def fit_with_checkpoint():
    """Fit ClearPML to row blocks and write its scores: what the library does, as there is no such command."""
    from pmlkit import ClearPML
    from pmlkit._files import replacing
    from pmlkit.blocks import RowBlocks
    from pmlkit.cli import end_on_signals, stop_on_sigterm, stopped_by
    from pmlkit.data import load_digit_strips

    stop_on_sigterm()
    try:
        strips = load_digit_strips(120)
        blocks = RowBlocks([strips.X[:60], strips.X[60:]], [strips.Y[:60], strips.Y[60:]], checkpoint="passes")
        model = ClearPML().fit(blocks)
        with replacing("answers.npy") as stream:
            np.save(stream, model.decision_function(strips.X))
        end_on_signals()
    except KeyboardInterrupt:
        end_on_signals()
        sentence, code = stopped_by()
        print("stopped:", sentence, file=sys.stderr)
        sys.exit(code)


def in_child(words, folder, number=None, operation=None, terminal=None):
    """Fork a process that runs a command; a signal comes with the given operation on files, counted from 0."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:  # until it is about to begin
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        return child
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        for stream, name in ((0, os.devnull), (1, "stdout.txt"), (2, "stderr.txt")):
            opened = terminal or os.open(folder.parent / name if stream else name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, stream)
        if terminal:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(k, mode) for k, mode in enumerate("rww"))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        count = _count_operations(folder, number, operation)
        sys.argv = ["pmlkit", *words]
        try:
            os.write(writing, b"x")
            if words[0] == CHECKPOINT:
                fit_with_checkpoint()
                code = 0
            else:
                cli.main()
        except SystemExit as end:
            code = end.code or 0
        for late in (signal.SIGINT, signal.SIGTERM):  # what comes now is not the command's affair
            signal.signal(late, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            (folder.parent / "operations.txt").write_text(str(count[0]))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _count_operations(folder, number, operation):
    count, owner, inside = [0], os.getpid(), str(folder)

    def hook(event, arguments):
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR) or not isinstance(path, str):
                return
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.truncate", "sqlite3.connect"):
            path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""
        else:
            return
        if os.getpid() == owner and os.path.abspath(path).startswith(inside):
            count[0] += 1
            if number is not None and operation == count[0] - 1:
                os.kill(owner, number)

    sys.addaudithook(hook)
    return count


def ended(child, seconds=120):
    """Return the exit code of a process, negative for a signal; nothing of its session may be left."""
    limit = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > limit:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise Broken(f"it did not end in {seconds} s")
        time.sleep(0.002)
    while _is_alive(child):
        expect(time.monotonic() < limit, "processes were left")
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(status)


def _is_alive(session):
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def said_by(folder):
    """Return what the last command said on stderr; nothing if it was killed before it could."""
    path = folder.parent / "stderr.txt"
    return path.read_text(errors="replace") if path.exists() else ""


def content_of(path):
    """Return what an output says: a model's scores, or the bytes of a file but for the time of day."""
    if path.suffix == ".skops":
        model = load(path)
        return model.decision_function(open_table(path.parent / "posts.csv", like=model).X).tobytes()
    return re.sub(rb"\d\d:\d\d:\d\d|\d+\.\d+ s", b"", path.read_bytes())


def check_files(command, folder, code, number):
    """Check the outputs, what was said, and what was left."""
    said = said_by(folder)
    present = [name for name in command.outputs if (folder / name).exists()]
    for name in present:
        expect(content_of(folder / name) == command.whole[name], f"{name} is not whole")
    expect("Traceback" not in said, f"a traceback: {said}")
    left = [path.name for path in folder.rglob("*.part")]
    if number == signal.SIGKILL and code == -9:
        return
    expect(not left, f"{left} was left")
    expect(code in (0, CODES[number], -number), f"exit code {code}: {said[-300:]}")
    expect(len(present) in (0, len(command.outputs)), f"only {present} was written")
    if code:
        expect(said.splitlines()[-1].startswith("stopped: "), f"it said {said[-300:]!r}")
    else:
        expect(len(present) == len(command.outputs), f"done, but only {present} was written")
        expect(not (folder / "passes").exists(), "a checkpoint was left")


def try_files(name, command, folder, chance, number, by_operation):
    """Stop a command that writes files."""
    if by_operation and command.n_operations:
        child = in_child(command.words, folder, number, chance.randrange(command.n_operations))
    else:
        child = in_child(command.words, folder)
        time.sleep(chance.random() * command.seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)
    code = ended(child)
    check_files(command, folder, code, number)
    again = [*command.words, *(["--force"] if any((folder / o).exists() for o in command.outputs) else [])]
    expect(ended(in_child(again, folder)) == 0, "the next run fails: " + said_by(folder)[-300:])
    check_files(command, folder, 0, signal.SIGINT)
    return 0, code


def _cells(path):
    try:
        return load_cells(path)[SAME].set_index(SAME[:5]).sort_index()
    except DataError:
        return None


def try_store(name, command, folder, chance, number, by_operation):
    """Stop a benchmark: what another process has seen done must stay, and the end is always the same."""
    child = in_child(command.words, folder)
    until, seen = time.monotonic() + chance.random() * command.seconds, None
    while time.monotonic() < until:
        cells = _cells(folder / command.store)
        seen = cells if cells is not None else seen
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)
    code = ended(child)
    expect(code in (0, CODES[number], -number), f"exit code {code}: {said_by(folder)[-300:]}")
    if code != -9:
        expect(not list(folder.rglob("*.part")), "temporary files were left")
    if seen is not None and len(seen):  # an empty frame has other dtypes
        expect(_cells(folder / command.store).loc[seen.index].equals(seen), "a finished cell was lost or has changed")
    expect(ended(in_child(command.words, folder)) == 0, "the next run fails: " + said_by(folder)[-300:])
    expect(_cells(folder / command.store).equals(command.whole["cells"]), "other cells than those undisturbed")
    for output in command.outputs:
        expect(content_of(folder / output) == command.whole[output], f"{output} is not as undisturbed")
    return 0 if seen is None else len(seen), code


def try_review(name, command, folder, chance, number, by_operation):
    """Stop a review server while answers are sent: what it acknowledged must be in the store."""
    child, address = open_page(command, folder)
    acknowledged, sent = [], []
    base = address.partition("/?")[0]

    def send():
        with contextlib.suppress(httpx.HTTPError), httpx.Client(base_url=base, headers={"origin": base}) as client:
            client.get(address, follow_redirects=True)
            for i in range(10_000):
                card = client.get("/api/card").json().get("card")
                if card is None:
                    return
                body = {key: card[key] for key in ("row", "label", "kind")}
                body |= {"answer": "wrong" if i % 3 else "right", "client": str(i)}
                sent.append((body["row"], body["label"], body["answer"]))
                client.post("/api/answer", json=body).raise_for_status()
                acknowledged.append(sent[-1])

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    time.sleep(0.05 + chance.random() * 0.5)
    os.kill(child, number)
    code = ended(child)
    thread.join(60)
    expect(code == CODES[number], f"exit code {code}")
    if acknowledged or (folder / "r.sqlite").exists():
        with AnswerStore(folder / "r.sqlite") as store:
            stored = [(event.row, event.label, event.answer) for event in store.standing()]
        expect(stored in (acknowledged, sent), f"acknowledged {len(acknowledged)}, stored {len(stored)}")
        applying = ("apply", "r.sqlite", *POSTS, "-o", "a.csv")
        if ended(in_child(applying, folder)):
            # Killed between an answer and the certificate that follows from it: it says so, and what to do.
            said = said_by(folder)
            expect(number == signal.SIGKILL and "open the review once more" in said, f"apply says {said[-300:]!r}")
            child, _ = open_page(command, folder)
            os.kill(child, signal.SIGINT)
            expect(ended(child) == CODES[signal.SIGINT], "the review cannot be opened once more")
            expect(ended(in_child(applying, folder)) == 0, f"apply says {said_by(folder)[-300:]!r}")
        expect((folder / "a.csv").exists(), "the answers cannot be applied")
    return len(acknowledged), code


def open_page(command, folder):
    """Start a review; return its process and the address that it prints."""
    out = folder.parent / "stdout.txt"
    out.unlink(missing_ok=True)
    child = in_child(command.words, folder)
    limit = time.monotonic() + 120
    while True:
        found = re.search(r"The review page: (\S+)\n", out.read_text() if out.exists() else "")
        if found:
            return child, found[1]
        expect(time.monotonic() < limit, "no address was printed")
        time.sleep(0.01)


def try_audit(name, command, folder, chance, number, by_operation):
    """Stop an audit in a terminal between keys: every answer before the question that is shown must be in the file."""
    master, slave = pty.openpty()
    child = in_child(command.words, folder, terminal=slave)
    os.close(slave)
    n_keys, shown, acknowledged = chance.randrange(1, 8), "", 0
    keys = [chance.choice("xa") for _ in range(n_keys)]
    limit = time.monotonic() + 120
    for turn, key in enumerate([*keys, ""]):
        while not (
            f"question {turn + 1}" in shown and "q stop and save" in shown.rpartition(f"question {turn + 1}")[2]
        ):
            ready, _, _ = select.select([master], [], [], max(0, limit - time.monotonic()))
            expect(ready, f"question {turn + 1} did not come: {shown[-300:]}")
            shown += os.read(master, 65536).decode(errors="replace")
        acknowledged = turn
        if key:
            os.write(master, key.encode())
    time.sleep(chance.random() * 0.02)
    if chance.random() < 0.5:
        os.write(master, b"x")  # not acknowledged: it may be there or not
        time.sleep(chance.random() * 0.02)
    os.kill(child, number)
    drain = threading.Thread(target=_drain, args=(master,), daemon=True)
    drain.start()
    code = ended(child)
    os.close(master)
    expect(code in (0, CODES[number], -number), f"exit code {code}")
    with (folder / "answers.csv").open(newline="") as stream:
        given = ["x" if line["answer"] == "wrong" else "a" for line in csv.DictReader(stream)]
    expect(given[:acknowledged] == keys[:acknowledged], f"{keys[:acknowledged]} were given, {given} are there")
    expect(len(given) <= acknowledged + 1, f"{given} are there, {keys} were given")
    if code != -9:
        expect(not [name for name in os.listdir(folder) if name.endswith(".part")], "temporary files were left")
    return acknowledged, code


def _drain(master):
    with contextlib.suppress(OSError):
        while os.read(master, 65536):
            pass


TRIALS = {"bench": try_store, "reproduce": try_store, "review": try_review, "audit": try_audit}


def reference(folder):
    """Run every command undisturbed, in this process, so that forked ones find all modules loaded; keep the results."""
    prepare(folder)
    make_reproduction_small()
    before = os.getcwd()
    os.chdir(folder)
    try:
        for words in (COMMANDS["fit"].words, ("predict", "m.skops", "posts.csv", "-o", "p.csv")):
            _call(words)
        _call([*COMMANDS["bench"].words[:-1], "done.sqlite"])
        shutil.copy("m.skops", "model.skops")
        os.remove("p.csv")
        os.remove("m.skops")
    finally:
        os.chdir(before)
    # A review that is applied: six answers, given as a person gives them.
    try_review("review", COMMANDS["review"], folder, random.Random(1), signal.SIGINT, False)
    os.replace(folder / "r.sqlite", folder / "review.sqlite")
    for name in ("a.csv", "r.sqlite-wal", "r.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)
    kept = sorted(os.listdir(folder))
    for name, command in COMMANDS.items():
        if name in ("review", "audit"):
            continue
        start = time.monotonic()
        code = ended(in_child(command.words, folder))
        command.seconds = time.monotonic() - start
        expect(code == 0, f"{name} fails undisturbed: {said_by(folder)}")
        command.n_operations = int((folder.parent / "operations.txt").read_text())
        for output in command.outputs:
            command.whole[output] = content_of(folder / output)
        if command.store:
            command.whole["cells"] = _cells(folder / command.store)
        for left in set(os.listdir(folder)) - set(kept):
            shutil.rmtree(folder / left) if (folder / left).is_dir() else (folder / left).unlink()
    return kept


def _call(words):
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None), contextlib.suppress(SystemExit):
        app(list(words))


def main():
    """Stop every command a number of times and print the table."""
    n_signals = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    only = sys.argv[2].split(",") if len(sys.argv) > 2 else list(COMMANDS)
    n_broken = n_total = 0
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "reference", "work")
        source.mkdir(parents=True)
        kept = reference(source)
        print("| command | signals | stopped | done before | acknowledged results | lost or partial |")
        print("|---|---|---|---|---|---|")
        for k, key in enumerate(only):
            chance = random.Random(f"{key} 0")
            n_here = max(3, n_signals // len(only))
            counts = {"stopped": 0, "done": 0, "acknowledged": 0, "broken": 0}
            for i in range(n_here):
                folder = Path(name, f"{k}-{i}", "work")
                folder.mkdir(parents=True)
                for file in kept:
                    shutil.copy(source / file, folder / file)
                number, by_operation = SIGNALS[i % 3], i % 2 == 0
                try:
                    trial = TRIALS.get(key, try_files)
                    n_acknowledged, code = trial(key, COMMANDS[key], folder, chance, number, by_operation)
                    counts["acknowledged"] += n_acknowledged
                    counts["stopped" if code else "done"] += 1
                except Broken as problem:
                    counts["broken"] += 1
                    print(f"  {key}, {number.name}, trial {i}: {problem}", file=sys.stderr, flush=True)
                shutil.rmtree(folder.parent, ignore_errors=True)
            print(
                f"| `{key}` | {n_here} | {counts['stopped']} | {counts['done']} | {counts['acknowledged']:,} | "
                f"{counts['broken']} |",
                flush=True,
            )
            n_broken += counts["broken"]
            n_total += n_here
    print(f"| all | {n_total} | | | | {n_broken} |")
    return 1 if n_broken else 0


if __name__ == "__main__":
    sys.exit(main())
