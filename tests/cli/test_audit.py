"""The command audit in a real pseudo-terminal: keys, undo, Ctrl-C, going on."""

import csv
import os
import select
import time

import numpy as np
import pytest

import forked

pty = pytest.importorskip("pty", reason="pseudo-terminals are a thing of POSIX")

WORDS = {"cat": "whiskers purr meow", "dog": "bark leash bone", "car": "engine wheel road", "tea": "cup leaf kettle"}


@pytest.fixture
def posts(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "posts.csv"
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["post", "body", "tags"])
        for i in range(120):
            true = list(rng.choice(list(WORDS), size=rng.integers(1, 3), replace=False))
            text = " ".join(rng.choice(" ".join(WORDS[k] for k in true).split(), size=9))
            false = [k for k in WORDS if k not in true and rng.random() < 0.15]
            writer.writerow([f"p{i}", text, ";".join(sorted(true + false))])
    return path


def read_lines(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


class Terminal:
    """A process that thinks it has a terminal."""

    def __init__(self, *words, cwd):
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        self.process = forked.Popen(
            ["audit", *words], stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=environment, code=IN_A_TERMINAL
        )
        os.close(slave)
        self._seen = ""

    def until(self, text, seconds=120):
        """Return what was shown up to a text; what follows it is kept for the next time."""
        end = time.monotonic() + seconds
        while text not in self._seen:
            ready, _, _ = select.select([self._master], [], [], max(end - time.monotonic(), 0))
            assert ready, f"no {text!r} in {self._seen[-2000:]!r}"
            try:
                part = os.read(self._master, 65536)
            except OSError:
                part = b""
            assert part, f"ended without {text!r}: {self._seen[-2000:]!r}"
            self._seen += part.decode(errors="replace")
        shown, _, self._seen = self._seen.partition(text)
        return shown

    def press(self, key):
        os.write(self._master, key.encode())


IN_A_TERMINAL = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {forked.CLI}"


def answers_of(path):
    with open(path, newline="") as stream:
        return [(line["id"], line["label"], line["answer"], line["who"]) for line in csv.DictReader(stream)]


def test_a_person_answers_undoes_interrupts_and_goes_on(posts, tmp_path):
    words = ["posts.csv", "--labels", "tags", "--sep", ";", "--text", "body", "--id", "post", "--who", "ann"]
    terminal = Terminal(*words, cwd=tmp_path)
    first = terminal.until("q stop and save")
    assert "question 1" in first
    assert " right for " in first  # as the keys and the review page have it
    assert "% right" in first
    assert "against" in first
    for number, key in ((2, "x"), (3, "a"), (4, " ")):
        terminal.press(key)
        terminal.until(f"question {number}")
        terminal.until("q stop and save")
    given = answers_of(tmp_path / "answers.csv")
    assert [answer for _, _, answer, _ in given] == ["wrong", "right", "unsure"]
    assert {who for *_, who in given} == {"ann"}
    terminal.press("\x7f")
    terminal.until("question 3")
    terminal.until("q stop and save")
    assert answers_of(tmp_path / "answers.csv") == given[:2]
    terminal.press("?")  # no such key: nothing happens
    terminal.press("\x03")
    terminal.until("2 answers")
    assert terminal.process.wait(60) == 0
    assert answers_of(tmp_path / "answers.csv") == given[:2]

    terminal = Terminal(*words, "-o", "cleaned.csv", cwd=tmp_path)
    seen = terminal.until("q stop and save")
    assert "going on with 2 answers" in seen
    assert "question 3" in seen
    terminal.press("q")
    terminal.until("cleaned.csv")
    assert terminal.process.wait(60) == 0
    before, after = posts.read_text().splitlines(), (tmp_path / "cleaned.csv").read_text().splitlines()
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1

    terminal = Terminal(*words, "--seed", "5", cwd=tmp_path)
    terminal.until("was started with the seed = 0, got 5")
    assert terminal.process.wait(60) != 0


def test_without_a_terminal_it_says_so(posts, tmp_path):
    words = ["audit", "posts.csv", "--labels", "tags"]
    done = forked.run(words, stdin=forked.DEVNULL, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "asks in a terminal, and this is none" in done.stderr


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--precision", "90", "--precision must be between 0 and 1, got 90. For 90 % write --precision 0.9."),
        (
            "--answer-error",
            "5",
            "--answer-error must be at least 0 and below 0.5, got 5. For 5 % write --answer-error 0.05.",
        ),
        ("--settle", "first", "--settle must be one of latest, majority, got 'first'."),
    ],
)  # fmt: skip
def test_shares_in_per_cent_are_refused_with_what_to_write(run, option, value, said):
    result = run("audit", "posts.csv", "--labels", "tags", option, value)
    assert (result.exit_code, result.stderr) == (2, f"error: {said}\n")


def test_clean_takes_answers(posts, tmp_path):
    lines = read_lines(posts)
    with open(tmp_path / "answers.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "label", "answer"])
        writer.writerow([lines[3]["post"], lines[3]["tags"].split(";")[0], "wrong"])
    words = ["clean", "posts.csv", "--labels", "tags", "--sep", ";", "--text", "body", "--id", "post"]
    words += ["--answers", "answers.csv", "-o", "cleaned.csv"]
    done = forked.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = read_lines(tmp_path / "cleaned.csv")
    assert after[3]["tags"] == ";".join(lines[3]["tags"].split(";")[1:])
    assert [line["tags"] for i, line in enumerate(after) if i != 3] == [
        x["tags"] for i, x in enumerate(lines) if i != 3
    ]
