import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmlkit._words import FIVE
from pmlkit.cli.output import comparison, emit, number, printable
from pmlkit.data import PMLDataset, write

NAMES = ["[red]x[/red]", "\x1b[31mred\x1b[0m", "a\nb\rc", "[/]", ":smile:", "\u202eabc", "\x9b2J"]


@pytest.fixture
def odd(tmp_path):
    """A data set whose label names would steer a careless terminal."""
    labels = np.eye(len(NAMES), dtype=int)
    write(PMLDataset(np.arange(len(NAMES))[:, None], labels, truth=labels, label_names=NAMES), tmp_path / "odd.npz")
    return tmp_path / "odd.npz"


def test_names_are_printed_as_they_are_but_for_control_characters(run, odd):
    shown = run("info", odd).stdout
    for name in ("[red]x[/red]", "[31mred[0m", "a b c", "[/]", ":smile:", "abc", "2J"):
        assert name in shown
    assert not set("\x1b\x9b\r\u202e") & set(shown)


def test_errors_show_names_safely(run, odd, model):
    result = run("evaluate", model, odd)
    assert result.exit_code == 1
    assert "[red]x[/red]" in result.stderr
    assert not set("\x1b\x9b\r\u202e") & set(result.stderr)


def test_json_keeps_names_exactly_and_in_ascii(run, odd):
    shown = run("info", odd, "--json").stdout
    assert shown.isascii()
    assert "\x1b" not in shown
    assert list(json.loads(shown)["label_counts"]) == NAMES


@given(st.text())
def test_printable_text_is_one_printable_line(text):
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)


def test_json_has_no_nan_and_no_numpy(capsys):
    facts = {
        "a": float("nan"),
        "b": np.float32(0.5),
        "c": np.arange(2),
        "d": Path("x"),
        1: (True, None),
        "e": float("inf"),
    }
    emit(facts, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "a": None,
        "b": 0.5,
        "c": [0, 1],
        "d": "x",
        "1": [True, None],
        "e": None,
    }


def test_numbers():
    assert [number(v) for v in (0, 1234567, 0.12345, None, float("nan"))] == ["0", "1,234,567", "0.123", "–", "–"]


def test_the_best_of_each_measure_is_bold_ties_included():
    results = {
        "one": {metric.key: 0.1 for metric in FIVE},
        "two": {metric.key: 0.3 for metric in FIVE},
        "three": {metric.key: 0.1000001 for metric in FIVE},
        "unknown": {metric.key: float("nan") for metric in FIVE},
    }
    table = comparison(results, FIVE)
    is_bold = [["bold" in str(cell.style) for cell in column._cells] for column in table.columns[1:]]
    assert is_bold[:4] == [[True, False, True, False]] * 4  # less is better
    assert is_bold[4] == [False, True, False, False]
    assert [str(column.header)[-1] for column in table.columns[1:]] == list("↓↓↓↓↑")
