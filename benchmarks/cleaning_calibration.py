"""Fit the map from evidence to probabilities of `pmlkit.cleaning.calibration`, and check it on sets it has not seen.

Every benchmark set with features gets uniform, correlated and confusable noise; sets with real candidates keep them.
The map is fitted on all sets but one and checked on that one, in turn. Prints how far the estimated precision of the
most suspicious candidates is from the truth, and the coefficients of the map fitted on all sets.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from _common import load
from pmlkit.cleaning.calibration import TERMS, cell_terms, log_odds
from pmlkit.cleaning.evidence import cross_fit, resolve_method
from pmlkit.data import PMLDataset, train_test_rows

SETS = (
    "emotions", "flags", "foodtruck", "genbase", "cal500", "scene", "yeast", "medical", "enron", "slashdot", "lost_pll",
    "corel5k", "bibtex", "corel16k001", "tmc2007_500", "YeastCC", "YeastMF", "YeastBP",
)  # fmt: skip
KINDS = ("uniform", "correlated", "confusable")
SHARES = (0.01, 0.05, 0.1, 0.2)
_MAX_ROWS, _MAX_CELLS = 4000, 1500
# A user's labels may be much cleaner than those of the benchmarks: a light weight keeps the map from forgetting it.
RATIOS = {0.5: 1.0, 1.0: 1.0, 0.1: 0.15}


@dataclass(frozen=True)
class Case:
    """The candidates of one noisy set: what the map sees of them, and whether they are false."""

    name: str
    noise: str
    weight: float
    terms: np.ndarray
    is_false: np.ndarray
    label: np.ndarray

    @property
    def family(self) -> str:
        """Sets that share their features are left out together."""
        return "Yeast" if self.name.startswith("Yeast") else self.name


def noisy_versions(data: PMLDataset, name: str, seed: int = 1) -> list[tuple[str, float, PMLDataset]]:
    """Return the noise, its weight and the noisy training rows of a set."""
    train, _ = train_test_rows(data.n_rows, random_state=seed)
    if (data.truth != data.Y).nnz:
        return [("real", 1.0, data.subset(train))]
    rows = np.sort(np.random.default_rng(seed).permutation(train)[:_MAX_ROWS])
    return [
        (f"{kind} {ratio:.0%}", weight, data.with_noise(ratio, kind=kind, random_state=seed).subset(rows))
        for ratio, weight in RATIOS.items()
        for kind in KINDS
    ]


def collect(names: tuple[str, ...], method: str) -> list[Case]:
    """Return all cases."""
    cases = []
    for name in names:
        data = load(name)
        if data is None:
            continue
        for noise, weight, noisy in noisy_versions(data, name):
            count = np.bincount(noisy.Y.indices, minlength=noisy.n_labels)
            judged = np.flatnonzero((count >= 5) & (count < noisy.n_rows))
            Y = sparse.csr_array(noisy.Y[:, judged].astype(float))
            scores = cross_fit(resolve_method(method), noisy.X, Y).scores
            row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
            is_false = noisy.truth[:, judged].toarray()[row, Y.indices] == 0
            cases.append(Case(name, noise, weight, cell_terms(scores, Y), is_false, Y.indices))
        print(f"  {name}: done", flush=True)
    return cases


def fit_map(cases: list[Case]) -> tuple[np.ndarray, float]:
    """Return coefficients and intercept of the map."""
    rng = np.random.default_rng(0)
    X, y, weight = [], [], []
    for case in cases:
        some = rng.permutation(len(case.is_false))[:_MAX_CELLS]
        X.append(case.terms[some])
        y.append(case.is_false[some])
        weight.append(np.full(len(some), 100 * case.weight / len(some)))
    terms = np.concatenate(X)
    centre, scale = terms.mean(axis=0), terms.std(axis=0) + 1e-9
    model = LogisticRegression(max_iter=2000)
    model.fit((terms - centre) / scale, np.concatenate(y), sample_weight=np.concatenate(weight))
    coef = model.coef_[0] / scale
    return coef, float(model.intercept_[0] - coef @ centre)


def held_out_maps(cases: list[Case]) -> dict[str, tuple[np.ndarray, float]]:
    """Return for each family of sets the map fitted on all others."""
    families = sorted({case.family for case in cases})
    return {family: fit_map([case for case in cases if case.family != family]) for family in families}


def precisions(case: Case, coef: np.ndarray, intercept: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the estimated and the true precision of the most suspicious candidates, at each share."""
    doubt = expit(log_odds(case.terms, coef, intercept))
    order = np.argsort(-doubt, kind="stable")
    counts = [max(1, round(share * len(order))) for share in SHARES]
    return (
        np.array([doubt[order[:k]].mean() for k in counts]),
        np.array([case.is_false[order[:k]].mean() for k in counts]),
    )


def spreads(cases: list[Case], maps: dict[str, tuple[np.ndarray, float]]) -> tuple[float, float]:
    """Return the standard deviations, in log odds, of what is wrong about a whole set and about a label beyond it."""
    by_set, by_label = [], []
    for case in cases:
        coef, intercept = maps[case.family]
        doubt = expit(log_odds(case.terms, coef, intercept))
        shift = _log_odds(doubt.mean()) - _log_odds(case.is_false.mean())
        by_set.append(shift)
        for k in np.unique(case.label):
            mine = case.label == k
            if mine.sum() >= 50:
                by_label.append(_log_odds(doubt[mine].mean()) - _log_odds(case.is_false[mine].mean()) - shift)
    return float(np.sqrt(np.mean(np.square(by_set)))), float(np.sqrt(np.mean(np.square(by_label))))


def _log_odds(share: float) -> float:
    return float(logit(np.clip(share, 0.02, 0.98)))


def _print(title: str, cases: list[Case], maps: dict[str, tuple[np.ndarray, float]]) -> None:
    error = np.array([np.subtract(*precisions(case, *maps[case.family])) for case in cases])
    print(f"{title}: {len(cases)} cases")
    print("  share of the candidates  " + "".join(f"{share:>8.0%}" for share in SHARES))
    print("  mean |estimate - truth|  " + "".join(f"{value:8.3f}" for value in np.abs(error).mean(axis=0)))
    print("  mean (estimate - truth)  " + "".join(f"{value:+8.3f}" for value in error.mean(axis=0)))


def main() -> None:
    """Fit, check and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--method", default="auto")
    options = parser.parse_args()
    cases = collect(tuple(options.sets.split(",")), options.method)
    on_all = fit_map(cases)
    maps = held_out_maps(cases)
    same = dict.fromkeys(maps, on_all)
    main_cases = [case for case in cases if "10%" not in case.noise]
    _print("fitted on all sets", main_cases, same)
    _print("each set held out", main_cases, maps)
    for kind in (*KINDS, "real"):
        _print(f"each set held out, {kind}", [case for case in main_cases if case.noise.startswith(kind)], maps)
    _print("each set held out, little noise (10 %)", [case for case in cases if "10%" in case.noise], maps)
    print("terms:", ", ".join(TERMS))
    print("coefficients:", ", ".join(f"{value:.3f}" for value in on_all[0]), f"intercept: {on_all[1]:.3f}")
    print("spread of a set and of a label: {:.2f}, {:.2f}".format(*spreads(main_cases, maps)))


if __name__ == "__main__":
    main()
