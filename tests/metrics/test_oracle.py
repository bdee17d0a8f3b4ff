"""Every number that the MATLAB programs and scikit-learn gave on the six oracle cases."""

import json
from pathlib import Path

import numpy as np
import pytest

from pmlkit.metrics import average_precision, coverage, one_error, ranking_loss

FOLDER = Path(__file__).parents[1] / "oracle" / "metrics"
EXPECTED = json.loads((FOLDER / "metrics_expected.json").read_text())
CASES = sorted(EXPECTED)


def load(case):
    truth = np.loadtxt(FOLDER / f"m_{case}_T.csv", delimiter=",", dtype=int)
    return truth, np.loadtxt(FOLDER / f"m_{case}_S.csv", delimiter=",")


def zhang_values(truth, scores, *, normalize):
    return {
        "ranking_loss": ranking_loss(truth, scores),
        "one_error": one_error(truth, scores),
        "coverage": coverage(truth, scores, normalize=normalize, empty_rows="keep"),
        "average_precision": average_precision(truth, scores),
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("program", "normalize"),
    [("original_pm1", False), ("original_called_with_01", False), ("particle_repo_01", True)],
)
def test_matlab(case, program, normalize):
    values = zhang_values(*load(case), normalize=normalize)
    expected = dict(zip(EXPECTED[case]["order"], EXPECTED[case]["matlab"][program], strict=True))
    # null: the program fails when an empty row is not coded as -1.
    known = {name: value for name, value in expected.items() if value is not None}
    assert {name: values[name] for name in known} == pytest.approx(known, abs=1e-9)


def test_original_program_answers_every_case():
    assert len(CASES) == 6
    assert all(None not in EXPECTED[case]["matlab"]["original_pm1"] for case in CASES)


@pytest.mark.parametrize("case", CASES)
def test_sklearn(case):
    truth, scores = load(case)
    values = {
        "label_ranking_loss": ranking_loss(truth, scores, convention="sklearn"),
        "coverage_error": coverage(truth, scores, convention="sklearn", normalize=False),
        "coverage_normalised_minus1": coverage(truth, scores, convention="sklearn"),
        "lrap": average_precision(truth, scores, convention="sklearn"),
        "one_error_argmax_all_rows": one_error(truth, scores, convention="sklearn"),
    }
    assert values == pytest.approx(EXPECTED[case]["sklearn"], abs=1e-9)


def test_our_coverage_leaves_out_the_empty_row():
    truth, scores = load("empty_row")
    n_rows = len(truth)
    matlab = EXPECTED["empty_row"]["matlab"]["original_pm1"][2]
    assert coverage(truth, scores, normalize=False) == pytest.approx((matlab + 1) * n_rows / (n_rows - 1) - 1, abs=1e-9)
