"""Run the experiments of the paper again and compare the results with its figures."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from pmlkit.bench.paper.claims import Claim, VariantResults, figure_results, judge_claims
from pmlkit.bench.paper.experiments import ABLATIONS, SENSITIVITY, Experiments, paper_experiments
from pmlkit.bench.paper.figures import (
    LFC,
    REAL,
    RIVALS,
    Figure,
    SizeFigure,
    TestCounts,
    compare_sizes,
    compare_table_2,
    compare_table_3,
    main_results,
)
from pmlkit.bench.paper.output_files import write_files
from pmlkit.bench.plan import Plan
from pmlkit.bench.runner import ProgressCallback, run
from pmlkit.bench.store_reader import load_cells
from pmlkit.bench.summary import Failure, summarize
from pmlkit.data import data_home, read
from pmlkit.exceptions import DataError

PAPER_REPEATS, QUICK_REPEATS = 10, 2
MAX_SECONDS, QUICK_MAX_SECONDS = 3600.0, 40.0  # per cell
_QUICK_SHARE = 0.25  # of the time limit: a quick run does not repeat what takes longer


@dataclass(frozen=True)
class Reproduction:
    """Results of a reproduction beside the paper's; made by `reproduce`, whose example shows them.

    Attributes
    ----------
    experiments : Experiments
        Data sets and repeats that were run, and what was absent.
    sizes : list of SizeFigure
        Table 1: sizes of the data sets.
    figures : list of Figure
        Table 2: means and standard deviations.
    counts : list of TestCounts
        Table 3: wins, ties and losses.
    ablation, sensitivity
        Figures 3 and 4: results of the variants and of the weights.
    claims : list of Claim
        Claims of the paper, each with a ruling (``holds``, ``holds in part``, ``does not hold``, ``not tested``).
    failures : tuple of Failure
        Cells that failed, by reason.
    cells : DataFrame
        All results, see `pmlkit.bench.load_cells`.
    store : path or None
        SQLite file with the results.
    files : tuple of path
        Files that were written.
    n_run : int
        Cells run now; the others were in the store.
    seconds : float
        Duration of the runs.
    """

    experiments: Experiments
    sizes: list[SizeFigure]
    figures: list[Figure]
    counts: list[TestCounts]
    ablation: VariantResults | None
    sensitivity: dict[str, VariantResults | None]
    claims: list[Claim]
    failures: tuple[Failure, ...]
    cells: pd.DataFrame
    store: Path | None = None
    files: tuple[Path, ...] = ()
    n_run: int = 0
    seconds: float = 0.0

    @property
    def n_repeats(self) -> int:
        """Number of repeats of the runs."""
        return int(self.cells["repeat"].nunique())


def reproduce(
    folder: str | os.PathLike[str] = "reproduction",
    *,
    quick: bool = False,
    experiments: Experiments | None = None,
    jobs: int = 1,
    max_seconds: float | None = None,
    repeat_limit: float | None = None,
    retry_failed: bool = False,
    progress: ProgressCallback | None = None,
    command: str = "pmlkit reproduce",
) -> Reproduction:
    """Run the paper of PML-LFC again: tables 1 to 3, figures 3 and 4, and its claims.

    An interrupted run continues when it is called again with the same folder. A method that fails at its first repeat
    on a data set is not run there again, and is listed.

    Parameters
    ----------
    folder : str or path, default="reproduction"
        Folder of the results (``results.sqlite``) and of the files; created if absent.
    quick : bool, default=False
        2 repeats and 40 seconds per cell instead of 10 repeats and one hour.
    experiments : Experiments, optional
        What to run, such as `pmlkit.bench.paper.embedded_experiments()`, which needs no data file. By default the
        paper's experiments on those of its data sets that are in `pmlkit.data.data_home`.
    jobs : int, default=1
        Number of processes.
    max_seconds : float, optional
        Time limit per cell.
    repeat_limit : float, optional
        Seconds; a method that takes longer at its first repeat on a data set is run only once there. By default
        there is no limit; with `quick` it is a quarter of `max_seconds`. Ignored if `experiments` is given.
    retry_failed : bool, default=False
        Whether to run cells again that failed before.
    progress : ProgressCallback, optional
        Receives the parts of the reproduction (`ProgressCallback.stage`) and the progress of their cells.
    command : str
        Command line to show in the page.

    Returns
    -------
    reproduction : Reproduction

    Raises
    ------
    DataError
        If none of the paper's data sets is there, or the folder cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> from pmlkit.bench.paper import embedded_experiments, reproduce
    >>> small = embedded_experiments(repeats=1, n_rows=100, methods=["PML-LFC", "ML-KNN"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = reproduce(folder, experiments=small)
    ...     sorted(path.name for path in result.files)[:3]
    ['figure3.csv', 'figure4.csv', 'means.csv']
    >>> len(result.claims), result.n_run
    (17, 21)
    """
    limit = max_seconds if max_seconds is not None else QUICK_MAX_SECONDS if quick else MAX_SECONDS
    if experiments is None:
        usual = _QUICK_SHARE * limit if quick else math.inf
        experiments = paper_experiments(
            repeats=QUICK_REPEATS if quick else PAPER_REPEATS,
            repeat_limit=usual if repeat_limit is None else repeat_limit,
        )
    if not experiments.data:
        raise DataError(
            f"None of the paper's data sets is there: put {', '.join(f'{name}.npz' for name in experiments.missing)} "
            f"into {str(data_home())!r} (PMLKIT_DATA names the folder), or run embedded_experiments()."
        )
    store = _make_folder(Path(folder)) / "results.sqlite"
    callback = progress or ProgressCallback()
    n_run, seconds = 0, 0.0

    def run_part(name: str, plan: Plan) -> None:
        nonlocal n_run, seconds
        callback.stage(name)
        summary = run(
            plan, store, jobs=jobs, max_seconds=limit, retry_failed=retry_failed, progress=callback, command=command
        )
        n_run, seconds = n_run + summary.n_run, seconds + summary.seconds

    run_part("every method once", experiments.first_repeat())
    for plan in experiments.tables(load_cells(store)):
        run_part(f"tables 2 and 3 on {', '.join(entry.name for entry in plan.data)}", plan)
    for plan in experiments.figures():
        run_part(f"a figure on {plan.data[0].name}", plan)
    result = compare_with_paper(load_cells(store), experiments)
    files = write_files(result, Path(folder), [command])
    return replace(result, store=store, files=tuple(files), n_run=n_run, seconds=seconds)


def _make_folder(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file: choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {str(folder)!r} cannot be made: {error.strerror}.") from error
    return folder


def compare_with_paper(cells: pd.DataFrame, experiments: Experiments) -> Reproduction:
    """Compare the cells of `pmlkit.bench.load_cells` with the figures and the claims of the paper."""
    results = main_results(cells)
    printed = [name for name in experiments.names if not name.startswith("digit-strips")]
    variants = {*ABLATIONS, *(label for labels in SENSITIVITY.values() for label in labels.values()), *RIVALS, LFC}
    known = cells[cells["label"].isin(variants)]
    return Reproduction(
        experiments=experiments,
        sizes=compare_sizes({name: _sizes(name) for name in printed}),
        figures=compare_table_2(results, printed),
        counts=compare_table_3(results),
        ablation=figure_results(cells, [*ABLATIONS, LFC], experiments.ablation),
        sensitivity={
            name: figure_results(cells, list(labels.values()), experiments.sensitivity)
            for name, labels in SENSITIVITY.items()
        },
        claims=judge_claims(cells, experiments),
        failures=summarize(known).failures,
        cells=cells,
    )


def _sizes(name: str) -> dict[str, float]:
    data = read(data_home() / f"{name}.npz")
    truth = data.Y if data.truth is None else data.truth
    values: dict[str, float] = {
        "n_rows": data.n_samples,
        "n_features": data.n_features,
        "n_labels": data.n_labels,
        "true_labels_per_row": truth.nnz / data.n_samples,
    }
    return values | ({"false_candidates": data.Y.nnz - truth.nnz} if name in REAL else {})
