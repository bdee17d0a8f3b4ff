"""A short run of the fuzzer on every reader, always with the same inputs; and what longer runs have found."""

import importlib.util
import logging
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmlkit.cleaning.review.exchange import import_answers
from pmlkit.cleaning.review.store import AnswerStore, Event
from pmlkit.data import read
from pmlkit.exceptions import DataError

_PATH = Path(__file__).parents[1] / "torture" / "fuzz.py"
_SPEC = importlib.util.spec_from_file_location("torture_fuzz", _PATH)
fuzz = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzz)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    logger = logging.getLogger("pmlkit")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield fuzz.samples(tmp_path_factory.mktemp("samples"))
    logger.setLevel(level)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fuzz.READERS)
def test_damaged_files_end_in_errors_of_our_own(samples, name, tmp_path):
    reader, suffix, contents = samples[name]
    path = tmp_path / f"input{suffix}"
    for content in contents:  # the samples themselves are valid
        path.write_bytes(content)
        reader(path)
    outcomes = set()
    make = fuzz.makers({key: given for key, (_, _, given) in samples.items()}).get(name)

    @given(st.sampled_from(contents), st.randoms(use_true_random=False), st.booleans())
    @settings(derandomize=True, max_examples=60, deadline=None, database=None)
    def check(content, chance, is_document):
        for left in tmp_path.iterdir():
            left.unlink(missing_ok=True)
        path.write_bytes(make(chance) if is_document and make else fuzz.damaged(content, chance))
        try:
            reader(path)
        except fuzz.OWN:
            outcomes.add("refused")
        else:
            outcomes.add("read")

    check()
    assert "refused" in outcomes


def test_every_reader_has_a_sample(samples):
    assert list(samples) == list(fuzz.READERS)


@pytest.mark.parametrize("content", [b'a,"b"\r,label:x\r\n1,2,1\r\n', b'a,label:x\n1,"1"\r2\n1,1\n'])
def test_a_line_end_where_none_may_be(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError):
        read(path)


@pytest.mark.parametrize(("column", "value"), [("shown", "{"), ("shown", b"\xff"), ("who", "CAST(X'FF' AS TEXT)")])
def test_a_damaged_store_of_answers(tmp_path, column, value):
    path = tmp_path / "a.sqlite"
    with AnswerStore(path) as store:
        store.append([Event("ann", "answer", "audit", row=3, label="cat", answer="wrong", shown={"a": 1})])
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER IF EXISTS event_stays")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    if isinstance(value, str) and value.startswith("CAST"):
        connection.execute(f"UPDATE event SET {column} = {value}")
    else:
        connection.execute(f"UPDATE event SET {column} = ?", (value,))
    connection.commit()
    connection.close()
    with pytest.raises(DataError), AnswerStore(path) as store:
        store.events()


def test_an_infinite_row(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text('{"label": "a", "answer": "reject", "meta": {"row": 1e999}}')
    with pytest.raises(DataError, match="not an export of prodigy"):
        import_answers(path, "prodigy")
