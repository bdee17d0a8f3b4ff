"""Stores of a review from a stranger: what they ask for and cannot have is refused in one sentence, not done."""

import sqlite3
from contextlib import closing

import pytest

from pmlkit.cleaning import clean
from pmlkit.cleaning.review.outputs import apply_review
from pmlkit.cleaning.review.replay import Replay
from pmlkit.cleaning.review.store import AnswerStore, Event
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import DataError
from refused import refused


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(40)


@pytest.fixture(scope="module")
def result(strips):
    return clean(strips.X, strips.Y, label_names=strips.label_names)


def _answer(*words, **more):
    return Event("ann", "answer", *words, **more)


def _store(path, strips, *events, **settings):
    with AnswerStore(path) as store:
        store.append([_answer("selection", 0, strips.label_names[strips.Y.indices[0]], "wrong"), *events])
        store.set(**settings)
    return path


def _apply(path, strips):
    return apply_review(path, strips.X, strips.Y, strips.label_names, check=False)


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (("missing", 1, "=cmd", "right"), 1),
        (("missing", 10**9, "0", "right"), 10**9),
        (("missing", -1, "0", "right"), -1),
        (("selection", 10**12, "0", "wrong"), 10**12),
        (("selection", -1, "0", "wrong"), -1),
    ],
    ids=["unknown label", "row too large", "negative row", "answer too far", "answer before all rows"],
)
def test_cells_that_are_not_there(words, row, strips, result, tmp_path):
    path = _store(tmp_path / "a.sqlite", strips, _answer(*words))
    with refused("not there", row=row):
        _apply(path, strips)
    with AnswerStore(path) as store, refused("not there", row=row):
        Replay(result, store)


_ENDLESS = """
DROP TABLE event;
CREATE VIEW event AS WITH RECURSIVE line (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM line)
SELECT seq, '' AS at, '' AS who, 'answer' AS action, 0 AS row, 'a' AS label, 'wrong' AS answer, '' AS kind,
       NULL AS undoes, NULL AS seconds, NULL AS shown, NULL AS client FROM line WHERE seq < 0
"""


@pytest.mark.parametrize(
    "statement",
    [
        _ENDLESS,
        "CREATE TRIGGER t AFTER INSERT ON event BEGIN UPDATE event SET answer = 'wrong' WHERE seq = NEW.seq; END",
        "ALTER TABLE event ADD COLUMN more",
        "DROP TABLE visitor",
    ],
    ids=["a view without end", "a trigger that changes answers", "another column", "a table less"],
)
def test_tables_that_are_not_those_of_a_store_are_refused(statement, strips, tmp_path):
    path = _store(tmp_path / "a.sqlite", strips)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statement)
    with pytest.raises(DataError, match="is damaged: it holds other tables than pmlkit makes"):
        AnswerStore(path)


def test_a_name_that_no_label_has_replaces_none(strips, tmp_path):
    event = _answer("merge", None, strips.label_names[0], "right", shown={"into": "\x1b[31m=x"})
    applied = _apply(_store(tmp_path / "a.sqlite", strips, event), strips)
    assert applied.merged == {}
    assert applied.Y.nnz == strips.Y.nnz - 1


@pytest.mark.parametrize(
    "certificate",
    ["{", "5", "[1]", '{"cells": 5}', '{"cells": [-1]}', '{"cells": [99999]}', '{"cells": ["a"]}', '{"cells": [1.5]}',
     '{"cells": [null]}', '{"cells": [true]}', "[" * 100_000],
)  # fmt: skip
def test_certificates_that_certify_nothing_that_is_there(certificate, strips, tmp_path):
    path = _store(tmp_path / "a.sqlite", strips, certificate=certificate)
    with pytest.raises(DataError, match="certificate in .* is damaged"):
        _apply(path, strips)


def test_settings_and_counts_that_are_damaged(strips, result, tmp_path):
    path = _store(tmp_path / "a.sqlite", strips, settings="[5")
    with AnswerStore(path) as store, pytest.raises(DataError, match="settings in .* are damaged"):
        Replay(result, store)
    with pytest.raises(DataError, match="is damaged"):
        _apply(_store(tmp_path / "b.sqlite", strips, certified_up_to="many"), strips)


@pytest.mark.parametrize(
    ("column", "value"), [("row", "many"), ("row", 1.5), ("label", b"a"), ("shown", "[1]"), ("seconds", "x")]
)
def test_entries_of_a_wrong_type(column, value, strips, tmp_path):
    path = _store(tmp_path / "a.sqlite", strips)
    with closing(sqlite3.connect(path)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(f"UPDATE event SET {column} = ?", (value,))
        connection.commit()
    with AnswerStore(path) as store, refused("of a wrong type", column=column):
        store.standing()


@pytest.mark.parametrize("words", [("selection", None, "0", "wrong"), ("missing", 1, None, "right"), ("audit", 1, "0")])
def test_entries_that_lack_something(words, strips, tmp_path):
    path = _store(tmp_path / "a.sqlite", strips, _answer(*words))
    with AnswerStore(path) as store, pytest.raises(DataError, match="lacks a row, label or answer"):
        store.standing()
