"""Cells of a plan: each is one method on one split of one data set with one kind and ratio of noise."""

import functools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pmlkit import __version__, _metric_info
from pmlkit.bench.fingerprints import code_fingerprint, derive_seed, digest
from pmlkit.bench.plan import Plan
from pmlkit.bench.plan_entries import DataEntry, PlanError, Tune, Variant, load_method
from pmlkit.bench.problem import Source, find_source
from pmlkit.exceptions import DataError

__all__ = ["METRICS", "PROTOCOL", "Cell", "build_model", "expand"]

logger = logging.getLogger(__name__)

PROTOCOL = 1
"""Version of the evaluation of a cell; cells of an older version are not current."""

METRICS = tuple(metric.key for metric in _metric_info.METRICS)
"""Keys of the metrics of a cell."""

_SHARED_CODE = ("pmlkit.data.digits", "pmlkit.data.noise", "pmlkit.data.splits", "pmlkit.metrics")


@dataclass(frozen=True)
class Cell:
    """One cell, with everything that a worker needs to run it.

    - `key`: digest of everything that could change the result.
    - `group`: the same without the repeat.
    - `data`, `label`: names of the data set and of the method in the results.
    - `ratio`: None for ``own``.
    - `repeat`, `seed`: the seed is derived from the repeat; split, noise and method are seeded by it.
    - `params`: parameters of the method.
    - `shown_params`: parameters that differ from the defaults, as canonical JSON.
    - `grid`, `tune`: values to tune over on the training rows, and how.
    """

    key: str
    group: str
    data: str
    label: str
    source: Source
    noise: str
    ratio: float | None
    repeat: int
    seed: int
    method: str
    params: Mapping[str, Any]
    shown_params: str
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tune: Tune | None = None

    @property
    def title(self) -> str:
        """Short description."""
        noise = "own" if self.ratio is None else f"{self.noise} {self.ratio:g}"
        return f"{self.data}, {noise}, {self.label}, repeat {self.repeat}"


def expand(plan: Plan) -> list[Cell]:
    """Return the cells of a plan; cells that share a split are adjacent.

    Notes
    -----
    The key of a cell is a digest of the content of the data set, the noise, the repeat and the seed of the plan, the
    method with all its parameters (defaults included), how it is tuned, the version of pmlkit and the code of the
    method, of the noise, of the splits and of the metrics.
    """
    cells = []
    variants = plan.variants()
    for entry in plan.data:
        source = find_source(entry)
        noises = list(_noises(plan, entry, source))
        groups = {
            (noise, ratio, variant.label): digest(
                [source.fingerprint, noise, ratio, plan.seed, _identity(variant, plan)]
            )
            for noise, ratio in noises
            for variant in variants
        }
        for repeat in range(plan.repeats):
            seed = derive_seed(plan.seed, source.fingerprint, repeat)
            for noise, ratio in noises:
                for variant in variants:
                    group = groups[noise, ratio, variant.label]
                    cells.append(
                        Cell(
                            key=digest(group, repeat),
                            group=group,
                            data=entry.name,
                            label=variant.label,
                            source=source,
                            noise=noise,
                            ratio=ratio,
                            repeat=repeat,
                            seed=seed,
                            method=variant.method,
                            params=variant.params,
                            shown_params=variant.shown_params,
                            grid=variant.grid,
                            tune=plan.tune if variant.grid else None,
                        )
                    )
    return cells


def build_model(method: str, params: Mapping[str, Any], seed: int) -> Any:
    """Return an unfitted model with `random_state=seed`, unless its parameters set it."""
    model = load_method(method)(**params)
    if "random_state" in model.get_params() and "random_state" not in params:
        model.set_params(random_state=seed)
    return model


def _noises(plan: Plan, entry: DataEntry, source: Source) -> Iterator[tuple[str, float | None]]:
    """Yield the noise kinds and ratios of one data set."""
    wanted, kinds = entry.noise or plan.noise, entry.kinds or plan.kinds
    ratios = [float(value) for value in wanted if value != "own"]
    if "own" in wanted and source.has_own:
        yield "own", None
        if entry.noise is None:
            return
    elif "own" in wanted and not ratios:
        lacks = "candidates of its own" if source.has_truth else "truth to measure against"
        raise PlanError(f"{entry.name!r} has no {lacks}: give it a noise ratio instead of 'own'.", "noise", "own")
    elif source.has_own and entry.n_strips is None:
        logger.warning("%s has candidates of its own; they are dropped for noise added to its truth.", entry.name)
    for kind in kinds:
        for ratio in ratios:
            yield kind, ratio


def _identity(variant: Variant, plan: Plan) -> list[Any]:
    """Return everything about a variant that could change its results."""
    params = build_model(variant.method, variant.params, seed=0).get_params()
    if "random_state" not in variant.params:
        params.pop("random_state", None)
    tuned = [plan.tune.folds, plan.tune.metric, _plain(variant.grid)] if plan.tune and variant.grid else None
    return [variant.method, _plain(params), tuned, __version__, PROTOCOL, _code(variant.method)]


@functools.cache
def _code(method: str) -> str:
    return code_fingerprint([load_method(method).__module__, *_SHARED_CODE])


def _plain(value: Any) -> Any:
    """Return a JSON value that is the same on every machine; 1 and 1.0 are equal."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return float(value)
    text = repr(value)
    if " at 0x" in text:
        raise DataError(f"The parameter value {text} has no lasting name: give the method plain values.")
    return text
