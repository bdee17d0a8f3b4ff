"""Fit the map from evidence to probabilities of `pmlkit.cleaning.calibration`, and check it on sets it has not seen.

Every benchmark set with features gets uniform, correlated and confusable noise; sets with real candidates keep them;
made data whose features tell more, with less noise, are fitted on, too.
The map is fitted on all sets but one and checked on that one, in turn. Prints how far the estimated precision of the
most suspicious candidates is from the truth, and the coefficients of the map fitted on all sets, which are those of the
library (a test compares them with `--store`, cleaning_calibration.json). Takes ten minutes and more.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from _common import load
from pmlkit.cleaning.calibration import TERMS, cell_terms, log_odds
from pmlkit.cleaning.evidence import cross_fit
from pmlkit.data import PMLDataset, load_digit_strips, make_pml, train_test_rows
from pmlkit.methods import make_classifier

SETS = (
    "emotions", "flags", "foodtruck", "genbase", "cal500", "scene", "yeast", "medical", "enron", "slashdot", "lost_pll",
    "corel5k", "bibtex", "corel16k001", "tmc2007_500", "YeastCC", "YeastMF", "YeastBP",
)  # fmt: skip
KINDS = ("uniform", "correlated", "confusable")
STORED = Path(__file__).with_suffix(".json")
SHARES = (0.01, 0.05, 0.1, 0.2)
_MAX_ROWS, _MAX_CELLS, _MAX_CELLS_TO_TUNE = 4000, 1500, 4000
TUNED = ("odds", "separation", "noise", "rows alone", "separation*separation", "noise*separation", "judgement")
# A user's labels may be much cleaner than those of the benchmarks: a light weight keeps the map from forgetting it.
RATIOS = {0.5: 1.0, 1.0: 1.0, 0.1: 0.15}
# A user's features may predict the labels better: made data, fitted on but never counted.
EASY_RATIOS, _EASY_WEIGHT = (0.1, 0.25, 0.5, 1.0), 0.5


@dataclass(frozen=True)
class Case:
    """The candidates of one noisy set: what the map sees of them, and whether they are false."""

    name: str
    noise: str
    weight: float
    terms: np.ndarray
    is_false: np.ndarray
    label: np.ndarray

    def sample(self, n_cells: int, rng: np.random.Generator) -> "Case":
        """Return the case with at most `n_cells` of its candidates."""
        some = rng.permutation(len(self.is_false))[:n_cells]
        return replace(self, terms=self.terms[some], is_false=self.is_false[some], label=self.label[some])

    @property
    def is_easy(self) -> bool:
        """Whether it is made data, which is fitted on but never counted."""
        return self.noise.startswith("easy")

    @property
    def is_little(self) -> bool:
        """Whether a benchmark set has less noise than is counted."""
        return not self.is_easy and self.noise.endswith(" 10%")

    @property
    def is_counted(self) -> bool:
        """Whether it is one of the benchmark's own cases."""
        return not self.is_easy and not self.is_little

    @property
    def family(self) -> str:
        """Sets that share their features are left out together."""
        return "Yeast" if self.name.startswith("Yeast") else self.name


def noisy_versions(data: PMLDataset, seed: int = 1) -> list[tuple[str, float, PMLDataset]]:
    """Return the noise, its weight and the noisy training rows of a set."""
    train, _ = train_test_rows(data.n_samples, random_state=seed)
    if (data.truth != data.Y).nnz:
        return [("real", 1.0, data.subset(train))]
    rows = np.sort(np.random.default_rng(seed).permutation(train)[:_MAX_ROWS])
    return [
        (f"{kind} {ratio:.0%}", weight, data.with_noise(ratio, kind=kind, random_state=seed).subset(rows))
        for ratio, weight in RATIOS.items()
        for kind in KINDS
    ]


def easy_versions() -> list[tuple[str, str, float, PMLDataset]]:
    """Return name, noise, weight and noisy rows of made data whose features tell the labels well."""
    made = {
        "many features": make_pml(2000, 100, 15, cardinality=2.0, noise=0.0, random_state=3),
        "few features": make_pml(1500, 20, 10, cardinality=3.0, noise=0.0, random_state=4),
        "words": make_pml(2000, 500, 20, cardinality=2.0, noise=0.0, density=0.05, random_state=5),
        "strips": load_digit_strips(2000),
    }
    return [
        (name, f"easy, {kind} {ratio:.0%}", _EASY_WEIGHT, data.with_noise(ratio, kind=kind, random_state=1))
        for name, data in made.items()
        for ratio in EASY_RATIOS
        for kind in KINDS
    ]


def versions(names: tuple[str, ...]) -> Iterator[tuple[str, str, float, PMLDataset]]:
    """Yield name, noise, weight and noisy rows of all cases."""
    for name in names:
        data = load(name)
        if data is not None:
            yield from ((name, *version) for version in noisy_versions(data))
    yield from easy_versions()


def collect(names: tuple[str, ...], method: str) -> list[Case]:
    """Return all cases."""
    cases = []
    for name, noise, weight, noisy in versions(names):
        count = np.bincount(noisy.Y.indices, minlength=noisy.n_labels)
        judged = np.flatnonzero((count >= 5) & (count < noisy.n_samples))
        Y = sparse.csr_array(noisy.Y[:, judged].astype(float))
        evidence = cross_fit(make_classifier(method), noisy.X, Y)
        row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
        is_false = noisy.truth[:, judged].toarray()[row, Y.indices] == 0
        terms = cell_terms(evidence.scores, Y, evidence.confidence)
        cases.append(Case(name, noise, weight, terms, is_false, Y.indices))
        print(f"  {name}, {noise}: done", flush=True)
    return cases


def fit_map(cases: list[Case]) -> tuple[np.ndarray, float]:
    """Return coefficients and intercept of the map: by maximum likelihood, then tuned to the measure."""
    rng = np.random.default_rng(0)
    some = [case.sample(_MAX_CELLS, rng) for case in cases]
    terms = np.concatenate([case.terms for case in some])
    is_false = np.concatenate([case.is_false for case in some])
    weight = np.concatenate([np.full(len(case.terms), 100 * case.weight / len(case.terms)) for case in some])
    centre, scale = terms.mean(axis=0), terms.std(axis=0) + 1e-9
    model = LogisticRegression(max_iter=2000)
    model.fit((terms - centre) / scale, is_false, sample_weight=weight)
    coef = model.coef_[0] / scale
    return tune(cases, coef, float(model.intercept_[0] - coef @ centre), scale)


def tune(cases: list[Case], coef: np.ndarray, intercept: float, scale: np.ndarray) -> tuple[np.ndarray, float]:
    """Move the coefficients of what tells sets apart, so that the estimated precisions come near the true ones."""
    moved = [TERMS.index(term) for term in TUNED]
    small = [case.sample(_MAX_CELLS_TO_TUNE, np.random.default_rng(0)) for case in cases]
    weight = np.array([case.weight for case in cases])

    def moved_by(step: np.ndarray) -> tuple[np.ndarray, float]:
        changed = coef.copy()
        changed[moved] += step[1:] / scale[moved]
        return changed, intercept + step[0]

    def loss(step: np.ndarray) -> float:
        error = np.array([np.subtract(*precisions(case, *moved_by(step))) for case in small])
        return float(weight @ np.hypot(error, 0.05).mean(axis=1) / weight.sum() + 0.003 * step @ step)

    options = {"maxfev": 400, "xtol": 1e-2, "ftol": 1e-3}
    return moved_by(minimize(loss, np.zeros(1 + len(moved)), method="Powell", options=options).x)


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
    parser.add_argument("--store", action="store_true", help=f"write the map and its spreads to {STORED.name}")
    options = parser.parse_args()
    cases = collect(tuple(options.sets.split(",")), options.method)
    coef, intercept = fit_map(cases)
    on_all = np.round(coef, 3), round(intercept, 3)
    print("terms:", ", ".join(TERMS))
    print("coefficients:", ", ".join(f"{value:.3f}" for value in on_all[0]), f"intercept: {on_all[1]:.3f}", flush=True)
    counted = [case for case in cases if case.is_counted]
    _print("fitted on all sets", counted, dict.fromkeys({case.family for case in cases}, on_all))
    maps = held_out_maps(cases)
    _print("each set held out", counted, maps)
    for kind in (*KINDS, "real"):
        _print(f"each set held out, {kind}", [case for case in counted if case.noise.startswith(kind)], maps)
    _print("each set held out, little noise (10 %)", [case for case in cases if case.is_little], maps)
    _print("easy, held out", [case for case in cases if case.is_easy], maps)
    by_set, by_label = spreads(counted, maps)
    print(f"spread of a set and of a label: {by_set:.2f}, {by_label:.2f}")
    if options.store:
        stored = {
            "coefficients": dict(zip(TERMS, on_all[0].tolist(), strict=True)),
            "intercept": on_all[1],
            "spread_of_set": round(by_set, 2),
            "spread_of_label": round(by_label, 2),
        }
        STORED.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
