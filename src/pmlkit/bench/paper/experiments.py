"""The paper's experiments as benchmark plans."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pmlkit.bench.paper.figures import LFC, RATIOS, REAL, SYNTHETIC, TABLE_2_RATIO
from pmlkit.bench.plan import Plan
from pmlkit.bench.plan_entries import DIGIT_STRIPS
from pmlkit.data import data_home

OUR_SETTING: dict[str, Any] = {"fit_intercept": True, "alpha_scale": "frobenius", "threshold": "size"}
"""Recommended setting of PML-LFC, spelled out so that it does not depend on the defaults of the class;
docs/methods/pml-lfc.md gives the reasons, and says what the paper leaves open."""

_METHODS = {
    LFC: ("PMLLFC", OUR_SETTING),
    "RankSVM": ("RankSVM", {}),
    "ML-KNN": ("MLkNN", {}),
    "PML-LRS": ("PMLLRS", {}),
    "fPML": ("FPML", {}),
    "DRAMA": ("DRAMA", {}),
    "PARTICLE-VLS": ("ParticleVLS", {}),
}
ABLATIONS: dict[str, dict[str, Any]] = {
    f"{LFC}(oF)": {"similarity": "features"},
    f"{LFC}(oL)": {"similarity": "labels"},
    f"{LFC}(nJ)": {"joint": False},
}
"""Variants of figure 3: only features, only labels, not jointly."""

_WEIGHTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_PAPER_WEIGHT = 10.0
SENSITIVITY: dict[str, dict[float, str]] = {
    name: {weight: LFC if weight == _PAPER_WEIGHT else f"{LFC}({name}={weight:g})" for weight in _WEIGHTS}
    for name in ("alpha", "beta")
}
"""Variants of figure 4: the label of each weight; the paper's choice, 10, is PML-LFC itself."""


@dataclass(frozen=True)
class Experiments:
    """Experiments to run; made by `embedded_experiments`, whose example shows them, or `paper_experiments`.

    Attributes
    ----------
    data : tuple of dict
        Data sets of tables 2 and 3, as entries of a plan.
    ablation, sensitivity : str or None
        Data sets of figures 3 and 4; None if the file is absent.
    missing : tuple of str
        Data sets of the paper whose file is absent.
    repeats : int
        Number of random splits.
    repeat_limit : float
        Seconds; a method that takes longer at its first repeat on a data set is run only once there.
    methods : tuple of str
        Methods of tables 2 and 3, by the paper's names.
    """

    data: tuple[dict[str, Any], ...]
    ablation: str | None
    sensitivity: str | None
    missing: tuple[str, ...]
    repeats: int
    repeat_limit: float = math.inf
    methods: tuple[str, ...] = tuple(_METHODS)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the data sets."""
        return tuple(entry["name"] for entry in self.data)

    def first_repeat(self) -> Plan:
        """Return the plan that runs every method once on every case of table 2; what fails is not tried again."""
        half = {"noise": [TABLE_2_RATIO]}
        data = [entry if entry["noise"] == ["own"] else entry | half for entry in self.data]
        return Plan(data, _entries(self.methods), repeats=1)

    def seconds(self, cells: pd.DataFrame) -> dict[tuple[str, str], float]:
        """Return the seconds of the first repeat per (data set, method), without those that failed."""
        first = cells[
            (cells["status"] == "done")
            & (cells["repeat"] == 0)
            & (cells["ratio"].isna() | (cells["ratio"] == TABLE_2_RATIO))
        ]
        seconds = (first["fit_seconds"] + first["predict_seconds"]).tolist()
        return dict(zip(zip(first["data"], first["label"], strict=True), seconds, strict=True))

    def tables(self, cells: pd.DataFrame) -> list[Plan]:
        """Return the plans of tables 2 and 3 for the methods whose first repeat, in `cells`, succeeded."""
        seconds = self.seconds(cells)
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for entry in self.data:
            able = tuple(
                label for label in self.methods if seconds.get((entry["name"], label), math.inf) < self.repeat_limit
            )
            groups.setdefault(able, []).append(entry)
        return [Plan(data, _entries(able), repeats=self.repeats) for able, data in groups.items() if able]

    def run_once(self, cells: pd.DataFrame) -> list[tuple[str, str, float]]:
        """Return (data set, method, seconds) of the methods that took too long to be repeated."""
        found = self.seconds(cells).items()
        return [
            (data, label, seconds)
            for (data, label), seconds in found
            if data in self.names and label in _METHODS and seconds >= self.repeat_limit
        ]

    def figures(self) -> list[Plan]:
        """Return the plans of figures 3 and 4."""
        plans = []
        if self.ablation:
            methods = [_variant(label, params) for label, params in ABLATIONS.items()]
            plans.append(self._at_half(self.ablation, methods))
        if self.sensitivity:
            methods = [
                _variant(label, {name: weight})
                for name, labels in SENSITIVITY.items()
                for weight, label in labels.items()
                if label != LFC
            ]
            plans.append(self._at_half(self.sensitivity, methods))
        return plans

    def _at_half(self, name: str, methods: list[dict[str, Any]]) -> Plan:
        return Plan([{"name": name, "noise": [TABLE_2_RATIO]}], methods, repeats=self.repeats)


def paper_experiments(*, repeats: int = 10, repeat_limit: float = math.inf) -> Experiments:
    """Return the paper's experiments on those of its data sets that are in `pmlkit.data.data_home`.

    Parameters
    ----------
    repeats : int, default=10
        Number of random splits; the paper has 10.
    repeat_limit : float, default=inf
        See :class:`Experiments`.

    Examples
    --------
    >>> from pmlkit.bench.paper.experiments import paper_experiments
    >>> experiments = paper_experiments()
    >>> len(experiments.names) + len(experiments.missing)
    8
    """
    there = {name for name in (*SYNTHETIC, *REAL) if (data_home() / f"{name}.npz").is_file()}
    return Experiments(
        data=tuple(
            [{"name": name, "noise": list(RATIOS)} for name in SYNTHETIC if name in there]
            + [{"name": name, "noise": ["own"]} for name in REAL if name in there]
        ),
        ablation="slashdot" if "slashdot" in there else None,
        sensitivity="medical" if "medical" in there else None,
        missing=tuple(name for name in (*SYNTHETIC, *REAL) if name not in there),
        repeats=repeats,
        repeat_limit=repeat_limit,
    )


def embedded_experiments(
    *, repeats: int = 10, n_rows: int = 1000, methods: Sequence[str] = tuple(_METHODS)
) -> Experiments:
    """Return the experiments on the embedded digit strips, which need no file; only claims can be compared.

    Parameters
    ----------
    repeats : int, default=10
        Number of random splits.
    n_rows : int, default=1000
        Number of strips.
    methods : sequence of str
        Methods of tables 2 and 3, by the paper's names; by default all.

    Examples
    --------
    >>> from pmlkit.bench.paper.experiments import embedded_experiments
    >>> experiments = embedded_experiments(repeats=2)
    >>> experiments.names, experiments.ablation
    (('digit-strips:1000',), 'digit-strips:1000')
    """
    name = f"{DIGIT_STRIPS}:{n_rows}"
    return Experiments(({"name": name, "noise": list(RATIOS)},), name, name, (), repeats, methods=tuple(methods))


def _entries(labels: Sequence[str]) -> list[dict[str, Any]]:
    return [{"name": _METHODS[label][0], "label": label, "params": _METHODS[label][1]} for label in labels]


def _variant(label: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"name": "PMLLFC", "label": label, "params": OUR_SETTING | params}
