"""What is said of labels that other models judge than `ClearPML`, against the truth; and cleanlab's order of the same.

Judges: `ClearPML` and `CandidateLogistic` as ``method=``, and out-of-fold probabilities of scikit-learn's models as
``pred_probs=``. Prints a line per judge and kind of noise, means over the sets: the guessed rate and the expected
precision of the 5 % most suspicious candidates minus the truth, the mean absolute error of the latter, in how many
cases its interval and that of the rate hold, what is removed unseen, and the average precision of finding false
labels by our order and by cleanlab's of the same probabilities.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB

from _certainty_cases import Case, cases
from pmlkit.cleaning import CleaningResult, clean

SETS = ("emotions", "yeast", "scene", "medical", "slashdot", "enron")
METHODS = ("ClearPML", "CandidateLogistic")
MODELS: dict[str, Callable[[], Any]] = {
    "logistic regression, C=10": lambda: OneVsRestClassifier(LogisticRegression(C=10, solver="liblinear")),
    "logistic regression, C=1": lambda: OneVsRestClassifier(LogisticRegression(C=1, solver="liblinear")),
    "random forest": lambda: RandomForestClassifier(40, min_samples_leaf=3, random_state=0),
    "naive Bayes": lambda: OneVsRestClassifier(BernoulliNB(binarize=0.5)),
}


def out_of_fold(model: Any, X: Any, Y: np.ndarray) -> np.ndarray:
    """Return cross-validated probabilities of every label."""
    found = cross_val_predict(model, X, Y, cv=KFold(5, shuffle=True, random_state=0), method="predict_proba")
    if isinstance(found, list):  # of forests: two columns per label, one where a fold has not seen it
        found = np.column_stack([part[:, 1] if part.shape[1] > 1 else np.zeros(len(part)) for part in found])
    return np.asarray(found)


def judged(case: Case) -> Iterator[tuple[str, CleaningResult, np.ndarray | None]]:
    """Yield each judge, what is said, and its probabilities if they were given."""
    for method in METHODS:
        yield method, clean(case.X, case.Y, method=method), None
    Y = case.Y.toarray().astype(int)
    X = case.X.toarray() if case.X.shape[1] < 400 and not isinstance(case.X, np.ndarray) else case.X
    for name, make in MODELS.items():
        probabilities = out_of_fold(make(), X, Y)
        try:
            result = clean(Y=case.Y, pred_probs=probabilities)
        except ValueError as error:
            print(f"  {case.name}, {case.group}, {name} refused, left out: {error}")
            continue
        yield name, result, probabilities


def cleanlab_quality(Y: np.ndarray, probabilities: np.ndarray, result: CleaningResult) -> np.ndarray:
    """Return cleanlab's quality of each candidate: low where it finds it wrong."""
    from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class

    lists = [np.flatnonzero(row).tolist() for row in Y]
    return np.asarray(get_label_quality_scores_per_class(lists, probabilities))[result.rows, result.Y.indices]


def measure(case: Case) -> Iterator[dict[str, Any]]:
    """Compare what is said with the truth."""
    for judge, result, probabilities in judged(case):
        false = case.is_false(result)
        n_first = max(1, round(0.05 * len(false)))
        said, true = result.expected_precision(0.05), float(false[result.order[:n_first]].mean())
        rate = result.noise_rate_.overall
        some, removed = bool(false.any()), result.removable()
        yield {
            "judge": judge,
            "group": case.group,
            "set": case.name,
            "false": false.mean(),
            "rate": rate - false.mean(),
            "random": result.random_mistakes_ - false.mean(),
            "precision": said - true,
            "off_by": abs(said - true),
            "holds": said.low <= true <= said.high,
            "rate_holds": rate.low <= false.mean() <= rate.high,
            "removed": removed.sum(),
            "removed_false": false[removed].sum(),
            "ap": average_precision_score(false, result.doubt) if some else np.nan,
            "ap_cleanlab": average_precision_score(
                false, -cleanlab_quality(case.Y.toarray(), probabilities, result)
            ) if some and probabilities is not None else np.nan,
        }  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Print a line per judge and kind of noise."""
    levels = [float(level) for level in options.levels.split(",")]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    lines = []
    for case in cases(options.sets.split(","), levels, seeds, options.max_rows):
        if options.kinds and case.kind not in (*options.kinds.split(","), "none", "real"):
            continue
        lines.extend(measure(case))
        print(f"  {case.name}, {case.group}, seed {case.seed}: done", flush=True)
    table = pd.DataFrame(lines)
    if options.csv:
        table.to_csv(options.csv, index=False)
    grouped = table.groupby(["group", "judge"], sort=False)
    means = grouped.mean(numeric_only=True).join(grouped.size().rename("cases"))
    print(means.round(3).to_string())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--levels", default="0,0.1,0.5")
    parser.add_argument("--kinds", default="uniform", help="of noise; all if empty")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--max-rows", type=int, default=1000)
    parser.add_argument("--csv", help="write one line per case and judge")
