"""How well false candidates are found, against one-vs-rest logistic regression and cleanlab; and what it is good for.

For every set and noise, on the training rows of some splits:
- ranking: average precision and AUC of finding false candidates, against 1 - p of cross-validated logistic regression;
- cleanlab: precision at its own number of flags, cleanlab having the same probabilities and being restricted to
  candidates, and the seconds of both;
- training: test average precision and Hamming loss of one-vs-rest logistic regression fitted on the cleaned labels
  against the raw ones, and on the true ones: what perfect cleaning would bring. Sparse rows get unit length and C = 10
  (with C = 1 perfect cleaning would bring nothing on most sets: so strong a penalty profits from false positives),
  dense columns are standardised, with C = 1; `--unit-rows` gives all sets unit rows and C = 10.
Prints every case, then wins and losses.
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import Normalizer, StandardScaler

from _common import load
from cleaning_calibration import KINDS, SETS
from pmlkit import CandidateLogistic
from pmlkit.cleaning import clean
from pmlkit.data import PMLDataset, train_test_rows
from pmlkit.metrics import cleaning_auc, cleaning_average_precision, evaluate, precision_at

COLUMNS = (
    "ap", "ap_lr", "auc", "auc_lr", "p_flag", "p_flag_cl", "s", "s_cl",
    "test_ap", "test_ap_raw", "test_ap_true", "ham", "ham_raw", "ham_true",
)  # fmt: skip


def versions(data: PMLDataset, ratios: list[float]) -> list[tuple[str, float | None]]:
    """Return the noises that a set is tried with."""
    if (data.truth != data.Y).nnz:
        return [("real", None)]
    return [(kind, ratio) for kind in KINDS for ratio in ratios]


def run_case(
    data: PMLDataset, kind: str, ratio: float | None, seed: int, *, max_rows: int, method: str, unit_rows: bool
) -> dict:
    """Return the measures of one split."""
    train, test = train_test_rows(data.n_samples, random_state=seed)
    if len(train) > max_rows:
        train = np.sort(np.random.default_rng(seed).permutation(train)[:max_rows])
    noisy = data if ratio is None else data.with_noise(ratio, kind=kind, random_state=seed)
    X, Y, truth = noisy.X[train], sparse.csr_array(noisy.Y[train].astype(float)), noisy.truth[train]
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    kept = np.flatnonzero((count >= 5) & (count < Y.shape[0]))
    Y, truth = sparse.csr_array(Y[:, kept]), truth[:, kept]

    started = time.perf_counter()
    result = clean(X, Y, method=method)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    flags, probability = cleanlab_flags(X, Y)
    seconds_cleanlab = time.perf_counter() - started

    rank = np.empty(len(result.order))
    rank[result.order] = np.arange(len(result.order), 0, -1)
    ours = sparse.csr_array((-rank, Y.indices, Y.indptr), shape=Y.shape)
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    is_false = truth.toarray()[row, Y.indices] == 0
    n_flags = int(flags.sum())
    found = {
        "ap": cleaning_average_precision(truth, Y, ours),
        "ap_lr": cleaning_average_precision(truth, Y, probability),
        "auc": cleaning_auc(truth, Y, ours),
        "auc_lr": cleaning_auc(truth, Y, probability),
        "p_flag": precision_at(truth, Y, ours, n_flags) if n_flags else np.nan,
        "p_flag_cl": float(is_false[flags].mean()) if n_flags else np.nan,
        "s": seconds,
        "s_cl": seconds_cleanlab,
    }
    cleaned = result.cleaned(Y)
    test_truth = data.truth[test][:, kept]
    true = sparse.csr_array(truth.astype(float))
    for name, labels in (("", cleaned), ("_raw", Y), ("_true", true)):
        scores = logistic_scores(X, labels, data.X[test], unit_rows=unit_rows or sparse.issparse(X))
        measures = evaluate(test_truth, scores, scores >= 0.5)
        found[f"test_ap{name}"] = measures["average_precision"]
        found[f"ham{name}"] = measures["hamming_loss"]
    return found


def logistic_scores(X: Any, Y: sparse.csr_array, X_new: Any, *, unit_rows: bool) -> np.ndarray:
    """Return the probabilities of one-vs-rest logistic regression."""
    scaler = Normalizer() if unit_rows else StandardScaler()
    model = LogisticRegression(solver="liblinear", C=10.0) if unit_rows else LogisticRegression(max_iter=200)
    rows, new, dense = scaler.fit_transform(X), scaler.transform(X_new), Y.toarray()
    scores = np.tile(dense.mean(axis=0), (new.shape[0], 1))
    for k in np.flatnonzero(dense.any(axis=0) & ~dense.all(axis=0)):
        scores[:, k] = model.fit(rows, dense[:, k]).predict_proba(new)[:, 1]
    return scores


def cleanlab_flags(X: object, Y: sparse.csr_array) -> tuple[np.ndarray, sparse.csr_array]:
    """Return which candidates cleanlab flags, aligned with ``Y.data``, and the cross-validated probabilities."""
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class

    from pmlkit.cleaning.evidence import cross_fit

    probability = cross_fit(CandidateLogistic(), X, Y).scores.astype(float)
    lists = [part.tolist() for part in np.split(Y.indices, Y.indptr[1:-1])]
    flagged = find_multilabel_issues_per_class(labels=lists, pred_probs=probability, n_jobs=1)
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    on_candidates = sparse.csr_array((probability[row, Y.indices], Y.indices, Y.indptr), shape=Y.shape)
    return np.asarray(flagged)[row, Y.indices].astype(bool), on_candidates


def main() -> None:
    """Run all cases and print the table and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--ratios", default="0.5,1.0")
    parser.add_argument("--max-rows", type=int, default=4000)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--unit-rows", action="store_true")
    options = parser.parse_args()
    how = {"max_rows": options.max_rows, "method": options.method, "unit_rows": options.unit_rows}
    ratios = [float(ratio) for ratio in options.ratios.split(",")]
    print(f"{'case':32s}" + "".join(f"{name:>12s}" for name in COLUMNS))
    table, names = [], []
    for name in options.sets.split(","):
        data = load(name)
        if data is None:
            continue
        for kind, ratio in versions(data, ratios):
            runs = [run_case(data, kind, ratio, seed, **how) for seed in range(options.splits)]
            mean = [float(np.mean([run[column] for run in runs])) for column in COLUMNS]
            label = f"{name} {kind}" + ("" if ratio is None else f" {ratio:.0%}")
            print(f"{label:32s}" + "".join(f"{value:12.3f}" for value in mean), flush=True)
            table.append(mean)
            names.append(label)
    score(np.array(table), names)


def score(table: np.ndarray, names: list[str]) -> None:
    """Print wins and losses."""
    value = {column: table[:, j] for j, column in enumerate(COLUMNS)}
    flagged = ~np.isnan(value["p_flag_cl"])  # cleanlab may flag nothing at all
    wins = {
        "average precision against logistic regression": value["ap"] > value["ap_lr"],
        "precision at cleanlab's flags": value["p_flag"][flagged] > value["p_flag_cl"][flagged],
        "no slower than cleanlab with its probabilities": value["s"] <= value["s_cl"],
        **{
            f"trained on {kind} labels, {title} not worse by more than .001": sign
            * (value[f"{column}{ending}"] - value[f"{column}_raw"])
            >= -1e-3
            for kind, ending in (("cleaned", ""), ("true", "_true"))
            for title, column, sign in (("test average precision", "test_ap", 1), ("Hamming loss", "ham", -1))
        },
    }
    print()
    for title, won in wins.items():
        cases = names if len(won) == len(names) else [name for name, has in zip(names, flagged, strict=True) if has]
        lost = [name for name, is_won in zip(cases, won, strict=True) if not is_won]
        print(f"{title}: {won.sum()} of {len(won)} ({won.mean():.0%}). Lost: {', '.join(lost) or 'none'}.")
    print(f"mean AUC {value['auc'].mean():.3f}, of logistic regression {value['auc_lr'].mean():.3f}")
    noisy = np.array(["100%" in name for name in names])
    if noisy.any():
        for kind, ending in (("cleaned", ""), ("true", "_true")):
            share = (value[f"test_ap{ending}"] > value["test_ap_raw"])[noisy].mean()
            print(f"trained on {kind} labels at 100 % noise: better test average precision in {share:.0%} of cases")


if __name__ == "__main__":
    main()
