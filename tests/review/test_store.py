import os
import sqlite3
import threading

import pytest

import forked
from pmlkit.cleaning.review.store import AnswerStore, Event
from pmlkit.exceptions import DataError


def answer(row=0, label="a", said="wrong", **values):
    return Event("ann", "answer", "audit", row=row, label=label, answer=said, **values)


def test_entries_come_back_as_they_were(store):
    event = answer(3, "<b>", "unsure", seconds=1.5, shown={"confidence": 0.25}, client="key")
    seq = store.append([event])[0]
    found = store.events()[0]
    assert found.seq == seq
    assert {name: getattr(found, name) for name in Event.__dataclass_fields__} == event.__dict__


def test_an_entry_sent_twice_is_stored_once(store):
    first = store.append([answer(client="same")])
    assert store.append([answer(client="same"), answer(client="other")]) == [*first, first[0] + 1]
    assert len(store.events()) == 2


def test_an_undo_hides_an_answer_and_deletes_nothing(store):
    first, second = store.append([answer(0), answer(1)])
    store.append([Event("ann", "undo", "audit", undoes=first)])
    assert [event.seq for event in store.standing()] == [second]
    assert len(store.events()) == 3


def test_a_failed_batch_leaves_nothing(store):
    with pytest.raises(DataError, match="could not be written"):
        store.append([answer(), answer(said="perhaps")])
    assert store.events() == []


def test_other_data_are_refused(tmp_path):
    AnswerStore(tmp_path / "a.sqlite", fingerprint="one").close()
    AnswerStore(tmp_path / "a.sqlite", fingerprint="one").close()
    with pytest.raises(DataError, match="about other data"):
        AnswerStore(tmp_path / "a.sqlite", fingerprint="two")


def test_a_newer_store_is_refused(tmp_path):
    AnswerStore(tmp_path / "a.sqlite").close()
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="newer version"):
        AnswerStore(tmp_path / "a.sqlite")


def test_another_sqlite_file_is_refused_and_not_changed(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    with pytest.raises(DataError, match="not a store of answers"):
        AnswerStore(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused_and_not_changed(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text("id,tags\n1,a\n" * 200)
    with pytest.raises(DataError, match="could not be opened"):
        AnswerStore(path)
    assert path.read_text() == "id,tags\n1,a\n" * 200
    with pytest.raises(DataError, match="not a file"):
        AnswerStore(tmp_path)
    with pytest.raises(DataError, match="no folder"):
        AnswerStore(tmp_path / "absent" / "a.sqlite")


def test_two_writers_lose_nothing(tmp_path):
    path = tmp_path / "a.sqlite"
    AnswerStore(path).close()

    def write(who):
        with AnswerStore(path) as mine:
            for row in range(60):
                mine.append([Event(who, "answer", "audit", row=row, label="a", answer="wrong")])

    threads = [threading.Thread(target=write, args=(who,)) for who in ("ann", "ben", "eve")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with AnswerStore(path) as store:
        events = store.events()
    assert sorted((e.who, e.row) for e in events) == sorted(
        (who, row) for who in ("ann", "ben", "eve") for row in range(60)
    )


def test_writers_that_wait_share_a_transaction_and_a_bad_one_fails_alone(store):
    said = {}

    def write(name, event):
        try:
            said[name] = store.append([event])
        except DataError as error:
            said[name] = str(error)

    with store._write_lock:  # the disk is busy
        threads = []
        for number in range(6):
            event = answer(number, said="perhaps" if number == 2 else "wrong")
            threads.append(threading.Thread(target=write, args=(number, event)))
            threads[-1].start()
            while len(store._waiting) <= number:
                pass
    for thread in threads:
        thread.join()
    assert "could not be written" in said.pop(2)
    assert sorted(event.row for event in store.events()) == [0, 1, 3, 4, 5]
    assert {event.seq: event.row for event in store.events()} == {seqs[0]: row for row, seqs in said.items()}
    assert store._waiting == []


_WRITER = """
import sys
from pmlkit.cleaning.review.store import AnswerStore, Event
with AnswerStore(sys.argv[1]) as store:
    for row in range(100_000):
        store.append([Event("ann", "answer", "audit", row=row, label="a", answer="wrong")])
        print(row, flush=True)
"""


@pytest.mark.parametrize("n_answers", [1, 17, 60])
def test_what_was_acknowledged_survives_kill_9(tmp_path, n_answers):
    path = tmp_path / "a.sqlite"
    with forked.Popen([path], code=_WRITER, stdout=forked.PIPE, text=True) as writer:
        for _ in range(n_answers):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().split()[:-1])])
    with AnswerStore(path) as store:
        rows = [event.row for event in store.events()]
    assert rows == list(range(len(rows)))
    assert len(rows) > acknowledged


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of file sizes are a POSIX feature")
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path):
    path = tmp_path / "a.sqlite"
    program = f"""
import resource, signal
from pmlkit.exceptions import DataError
from pmlkit.cleaning.review.store import AnswerStore, Event
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = AnswerStore({str(path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
n = 0
try:
    while n < 5000:
        store.append([Event("ann", "answer", "audit", row=n, label="a" * 200, answer="wrong")])
        n += 1
except DataError as error:
    print(n, "could not be written" in str(error))
"""
    said = forked.run([], code=program, capture_output=True, text=True, check=True).stdout.split()
    with AnswerStore(path) as store:
        assert len(store.events()) == int(said[0]) > 0
    assert said[1] == "True"
