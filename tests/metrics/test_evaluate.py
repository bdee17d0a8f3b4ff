"""`evaluate` agrees with the single measures and counts what it drops."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from pmlkit import metrics
from pmlkit.exceptions import PMLWarning

RNG = np.random.default_rng(5)
TRUTH = RNG.integers(0, 2, (40, 4))
TRUTH[:3] = 0
TRUTH[3:5] = 1
SCORES = RNG.integers(0, 6, (40, 4)) / 6
PREDICTIONS = (SCORES > 0.5).astype(int)
RANKING = ("ranking_loss", "one_error", "coverage", "average_precision")
SETS = ("hamming_loss", "micro_f1", "macro_f1")


@pytest.mark.parametrize("convention", ["zhang", "sklearn"])
@pytest.mark.parametrize("ties", [None, "zhang", "pessimistic", "average"])
def test_equals_the_single_measures(convention, ties):
    result = metrics.evaluate(TRUTH, SCORES, PREDICTIONS, convention=convention, ties=ties)
    for name in RANKING:
        assert result[name] == getattr(metrics, name)(TRUTH, SCORES, convention=convention, ties=ties)
    for name in SETS:
        assert result[name] == getattr(metrics, name)(TRUTH, PREDICTIONS, convention=convention)


def test_keys_types_and_dropped_rows():
    result = metrics.evaluate(TRUTH, SCORES, PREDICTIONS)
    five = ["hamming_loss", "ranking_loss", "one_error", "coverage", "average_precision"]
    assert list(result) == [*five, "micro_f1", "macro_f1", "rows_dropped"]
    n_true = TRUTH.sum(axis=1)
    assert result["rows_dropped"] == np.sum((n_true == 0) | (n_true == 4)) >= 5
    assert type(result.pop("rows_dropped")) is int
    assert all(type(value) is float for value in result.values())
    assert metrics.evaluate(TRUTH, SCORES, convention="sklearn")["rows_dropped"] == 0


def test_without_predictions_the_set_measures_are_nan():
    result, full = metrics.evaluate(TRUTH, SCORES), metrics.evaluate(TRUTH, SCORES, PREDICTIONS)
    assert all(np.isnan(result[name]) for name in SETS)
    assert {name: result[name] for name in RANKING} == {name: full[name] for name in RANKING}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_sparse_arrays_equal_dense(frame):
    labels = list("abcd")
    expected = metrics.evaluate(TRUTH, SCORES, PREDICTIONS)
    frames = [frame(dict(zip(labels, table.T, strict=True))) for table in (TRUTH, SCORES, PREDICTIONS)]
    assert metrics.evaluate(*frames) == expected
    assert metrics.evaluate(frames[0], SCORES, sparse.csr_array(PREDICTIONS)) == expected
    assert metrics.evaluate(sparse.csr_array(TRUTH), frames[1], PREDICTIONS.astype(bool)) == expected


def test_one_warning_when_every_row_is_dropped():
    with pytest.warns(PMLWarning, match="each of the 2 rows has no true label or all of them") as caught:
        result = metrics.evaluate([[0, 0], [1, 1]], [[0.1, 0.2], [0.1, 0.2]])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result["rows_dropped"] == 2
    assert result["coverage"] == 0.5
    assert all(np.isnan(result[name]) for name in ("ranking_loss", "one_error", "average_precision"))
