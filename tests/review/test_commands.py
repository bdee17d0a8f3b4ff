"""The commands of the review as a user calls them: real processes, a killed server, files that go round."""

import contextlib
import csv
import json
import os
import signal
import sqlite3

import httpx
import pytest

import forked
from pmlkit.cleaning.review.store import AnswerStore
from post_tables import make_posts, write_posts


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    path = tmp_path_factory.mktemp("posts") / "posts.csv"
    rows = make_posts()
    return path, rows, write_posts(rows, path)


def pmlkit(*words, **options):
    return forked.run(words, capture_output=True, text=True, **options)


class Served:
    """A review server in a process of its own."""

    def __init__(self, *words):
        self.process = forked.Popen(
            ["review", *words, "--no-browser"], stdout=forked.PIPE, stderr=forked.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if "http://" not in line:
            pytest.fail(line + self.process.communicate()[1])
        self.address = line.partition("The review page: ")[2].strip()

    def client(self):
        base = self.address.partition("/?")[0]
        client = httpx.Client(base_url=base, follow_redirects=True, timeout=60, headers={"origin": base})
        client.get(self.address).raise_for_status()
        return client

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.process.communicate()[0], self.process.returncode


def answer(client, rows, key):
    card = client.get("/api/card").json()["card"]
    truth = rows[card["row"]][3]
    said = "right" if card["label"] in truth else "wrong"
    body = {"row": card["row"], "label": card["label"], "kind": card["kind"], "answer": said, "client": key}
    client.post("/api/answer", json=body).raise_for_status()
    return card["row"], card["label"], said


def test_answers_survive_a_killed_server_and_are_applied(posts, tmp_path):
    path, rows, options = posts
    store = tmp_path / "answers.sqlite"
    given = []
    for turn, number in enumerate([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]):
        server = Served(path, *options, "--answers", store)
        with contextlib.closing(server.client()) as client:
            for i in range(8):
                given.append(answer(client, rows, f"{turn}-{i}"))
            assert client.get("/api/state").json()["state"]["answers"] == len(given)
        said, code = server.end(number)
        assert code == (130 if number == signal.SIGINT else -number)
    assert "24 answers" in said
    with AnswerStore(store) as opened:
        assert [(e.row, e.label, e.answer) for e in opened.standing()] == given

    cleaned = tmp_path / "cleaned.csv"
    done = pmlkit("apply", store, path, *options, "-o", cleaned, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    wrong = {(row, label) for row, label, said in given if said == "wrong"}
    assert facts["called_wrong"] == len(wrong)
    before, after = (list(csv.reader(file.read_text().splitlines())) for file in (path, cleaned))
    n_gone = 0
    for i, (old, new) in enumerate(zip(before[1:], after[1:], strict=True)):
        gone = set(old[2].split(";")) - set(new[2].split(";"))
        assert [old[0], old[1], old[3]] == [new[0], new[1], new[3]]
        assert {label for row, label in wrong if row == i} <= gone
        n_gone += len(gone)
    assert n_gone == facts["called_wrong"] + facts["certified"]


def test_answers_of_another_table_are_refused(posts, tmp_path):
    path, rows, options = posts
    store = tmp_path / "answers.sqlite"
    server = Served(path, *options, "--answers", store)
    with contextlib.closing(server.client()) as client:
        answer(client, rows, "one")
    server.end()
    other = tmp_path / "other.csv"
    write_posts(make_posts(200), other)
    for words in (
        ("apply", store, other, *options, "-o", tmp_path / "c.csv"),
        ("review", other, *options, "--answers", store),
    ):
        done = pmlkit(*words)
        assert done.returncode == 1
        assert "about other data" in done.stderr
    assert not (tmp_path / "c.csv").exists()
    done = pmlkit("review", path, *options, "--answers", store, "--precision", "0.8")
    assert done.returncode == 1
    assert "begun with precision 0.9" in done.stderr


def test_a_table_that_changed_since_and_a_newer_store_are_refused(posts, tmp_path):
    path, rows, options = posts
    table, store = tmp_path / "posts.csv", tmp_path / "answers.sqlite"
    table.write_bytes(path.read_bytes())
    server = Served(table, *options, "--answers", store)
    with contextlib.closing(server.client()) as client:
        answer(client, rows, "one")
    server.end()
    before = table.read_text()
    first = before.splitlines()[1]
    tags = first.split(",")[2]
    table.write_text(before.replace(first, first.replace(f",{tags},", f",{tags.partition(';')[0]};new,"), 1))
    done = pmlkit("review", table, *options, "--answers", store, "--no-browser")
    assert done.returncode == 1
    assert "the table or its labels changed since" in " ".join(done.stderr.split())
    table.write_text(before)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for words in (("review", table, *options, "--answers", store), ("apply", store, table, *options, "-o", "c.csv")):
        done = pmlkit(*words, cwd=tmp_path)
        assert done.returncode == 1
        assert "newer version of pmlkit" in " ".join(done.stderr.split())


def test_without_a_browser_the_address_is_printed_and_served(posts, tmp_path):
    path, _, options = posts
    words = ["review", path, *options, "--answers", tmp_path / "a.sqlite"]
    nowhere = os.environ | {"BROWSER": "/absent/browser", "PATH": "/absent", "DISPLAY": ""}
    process = forked.Popen(words, stdout=forked.PIPE, stderr=forked.PIPE, text=True, env=nowhere)
    address = process.stdout.readline().partition("The review page: ")[2].strip()
    assert httpx.get(address).status_code == 303
    process.send_signal(signal.SIGINT)
    said = process.communicate()
    assert "0 answers" in said[0]
    assert "Traceback" not in said[1]


@pytest.mark.parametrize("tool", ["label-studio", "prodigy"])
def test_tasks_go_out_and_answers_come_back(posts, tmp_path, tool):
    path, rows, options = posts
    tasks, annotated, answers = tmp_path / "tasks.json", tmp_path / "done.json", tmp_path / "answers.csv"
    assert pmlkit("export", path, *options, "--to", tool, "-o", tasks, "--top", 40).returncode == 0
    if tool == "prodigy":
        lines = [json.loads(line) for line in tasks.read_text().splitlines()]
        doubts = [line["meta"]["doubt"] for line in lines]
        for line in lines:
            line["answer"] = "accept" if line["label"] in rows[line["meta"]["row"]][3] else "reject"
        annotated.write_text("\n".join(map(json.dumps, lines)))
    else:
        lines = json.loads(tasks.read_text())
        doubts = [line["predictions"][0]["score"] for line in lines]
        for line in lines:
            said = "right" if line["data"]["label"] in rows[line["data"]["row"]][3] else "wrong"
            result = {"type": "choices", "from_name": "answer", "to_name": "text", "value": {"choices": [said]}}
            line["annotations"] = [{"result": [result], "completed_by": 1, "created_at": "2026-01-01"}]
        annotated.write_text(json.dumps(lines))
    assert len(doubts) == 40
    assert doubts == sorted(doubts, reverse=True)
    done = pmlkit("import-answers", annotated, "--from", tool, "-o", answers)
    assert done.returncode == 0, done.stderr
    with answers.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    assert len(found) == 40
    assert all((line["answer"] == "right") == (line["label"] in rows[int(line["row"])][3]) for line in found)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--precision", "90"), 2, "--precision 0.9"),
        (("--port", "1"), None, "cannot be used"),
        (("--answers", "absent/a.sqlite"), 1, "no folder"),
    ],
)
def test_bad_words_get_one_sentence(posts, tmp_path, words, code, said):
    path, _, options = posts
    if words[0] == "--port":
        import socket

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = pmlkit("review", path, *options, "--port", port, "--no-browser", cwd=tmp_path)
            assert done.returncode == 1
    else:
        done = pmlkit("review", path, *options, *words, "--no-browser", cwd=tmp_path)
        assert done.returncode == code
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_an_unknown_tool_is_named(posts, tmp_path):
    path, _, options = posts
    done = pmlkit("export", path, *options, "--to", "labelstudio", "-o", tmp_path / "t.json")
    assert done.returncode == 2
    assert "Did you mean" in done.stderr
    (tmp_path / "x.json").write_text("{}")
    done = pmlkit("import-answers", tmp_path / "x.json", "--from", "label-studio", "-o", tmp_path / "a.csv")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
