"""The paper's experiments as plans that the bench can run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pmlkit.bench.paper.facts import LFC, RATIOS, REAL, SYNTHETIC, TABLE_2_RATIO
from pmlkit.bench.plan import DIGIT_STRIPS, Plan
from pmlkit.data import data_home
from pmlkit.methods import all_methods

__all__ = ["ABLATIONS", "SENSITIVITY", "Experiments", "embedded_experiments", "missing_methods", "paper_experiments"]

OUR_SETTING: dict[str, Any] = {"fit_intercept": True, "alpha_scale": "frobenius", "threshold": "size"}
"""PML-LFC as we recommend it; docs/methods/pml-lfc.md says why, and what the paper leaves open."""

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
"""Figure 3: only features, only labels, not jointly."""

_WEIGHTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_PAPER_WEIGHT = 10.0
SENSITIVITY: dict[str, dict[float, str]] = {
    name: {weight: LFC if weight == _PAPER_WEIGHT else f"{LFC}({name}={weight:g})" for weight in _WEIGHTS}
    for name in ("alpha", "beta")
}
"""Figure 4: the label of each weight; 10 is the paper's choice and so PML-LFC itself."""


@dataclass(frozen=True)
class Experiments:
    """What is run.

    Attributes
    ----------
    data : tuple of dict
        Data sets of tables 2 and 3, as entries of a plan.
    ablation, sensitivity : str or None
        The data sets of figures 3 and 4; None where the file is absent.
    missing : tuple of str
        The paper's data sets whose file is absent.
    repeats : int
    repeat_limit : float
        Seconds; a method that took longer at the first look at a data set is left at that.
    """

    data: tuple[dict[str, Any], ...]
    ablation: str | None
    sensitivity: str | None
    missing: tuple[str, ...]
    repeats: int
    repeat_limit: float = math.inf

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets by name."""
        return tuple(entry["name"] for entry in self.data)

    def first_look(self) -> Plan:
        """Return every method once on every case of table 2: what fails here is not tried again."""
        data = [_with_noise(entry, [TABLE_2_RATIO]) for entry in self.data]
        return Plan(data, _entries(_present()), repeats=1)

    def seconds(self, cells: pd.DataFrame) -> dict[tuple[str, str], float]:
        """Return how long each (data set, method) took at the first look; those that failed are not in it."""
        first = cells[
            (cells["status"] == "done")
            & (cells["repeat"] == 0)
            & (cells["ratio"].isna() | (cells["ratio"] == TABLE_2_RATIO))
        ]
        seconds = (first["fit_seconds"] + first["predict_seconds"]).tolist()
        return dict(zip(zip(first["data"], first["label"], strict=True), seconds, strict=True))

    def tables(self, cells: pd.DataFrame) -> list[Plan]:
        """Return the plans of tables 2 and 3 for the methods that stood the first look.

        Parameters
        ----------
        cells : DataFrame
            Of the first look.
        """
        seconds = self.seconds(cells)
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for entry in self.data:
            able = tuple(
                label for label in _present() if seconds.get((entry["name"], label), math.inf) < self.repeat_limit
            )
            groups.setdefault(able, []).append(entry)
        return [Plan(data, _entries(able), repeats=self.repeats) for able, data in groups.items() if able]

    def left_at_one(self, cells: pd.DataFrame) -> list[tuple[str, str, float]]:
        """Return (data set, method, seconds) of what took too long to be repeated."""
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
    """Return the paper's experiments, with the data sets that are there.

    Parameters
    ----------
    repeats : int, default=10
        The paper's.
    repeat_limit : float, default=inf
        See :class:`Experiments`.

    Examples
    --------
    >>> from pmlkit.bench.paper.grid import paper_experiments
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


def embedded_experiments(*, repeats: int = 10, n_rows: int = 1000) -> Experiments:
    """Return the same experiments on the embedded digit strips: no file is needed, and no figure can be compared.

    Parameters
    ----------
    repeats : int, default=10
    n_rows : int, default=1000
        How many strips.

    Examples
    --------
    >>> from pmlkit.bench.paper.grid import embedded_experiments
    >>> experiments = embedded_experiments(repeats=2)
    >>> experiments.names, experiments.ablation
    (('digit-strips:1000',), 'digit-strips:1000')
    """
    name = f"{DIGIT_STRIPS}:{n_rows}"
    return Experiments(({"name": name, "noise": list(RATIOS)},), name, name, (), repeats)


def missing_methods() -> tuple[str, ...]:
    """Return the paper's methods that this installation does not have."""
    return tuple(label for label in _METHODS if label not in _present())


def _present() -> list[str]:
    known = all_methods()
    return [label for label, (name, _) in _METHODS.items() if name in known]


def _entries(labels: Sequence[str]) -> list[dict[str, Any]]:
    return [{"name": _METHODS[label][0], "label": label, "params": _METHODS[label][1]} for label in labels]


def _variant(label: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"name": "PMLLFC", "label": label, "params": OUR_SETTING | params}


def _with_noise(entry: dict[str, Any], ratios: list[float]) -> dict[str, Any]:
    return entry if entry["noise"] == ["own"] else entry | {"noise": ratios}
