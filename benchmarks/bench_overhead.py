"""What a cell of the bench costs beyond fit and predict: the fork, split and noise, metrics, the store."""

import statistics
import sys
import tempfile
from pathlib import Path

from pmlkit.bench import Plan, load_cells, run
from pmlkit.data import make_pml, write

REPEATS = int(sys.argv[1]) if len(sys.argv) > 1 else 25


def overhead(plan: Plan, folder: Path, jobs: int) -> float:
    """Return milliseconds a cell, beyond fit and predict; the start of the run does not count."""
    path = folder / f"{jobs}.sqlite"
    path.unlink(missing_ok=True)
    whole = run(plan, path, jobs=jobs)
    start = run(plan, path, jobs=jobs)
    cells = load_cells(path)
    assert (cells["status"] == "done").all()
    useful = float((cells["fit_seconds"] + cells["predict_seconds"]).sum())
    return 1000 * ((whole.seconds - start.seconds) * jobs - useful) / len(cells)


def main() -> None:
    """MetricInfo with one job and with two, taking turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = make_pml(500, 50, 10, random_state=0)
        write(data.replace(Y=data.truth), folder / "small.npz")
        plan = Plan([folder / "small.npz"], ["MLkNN", "PMLNI"], noise=[0.5, 1.0], repeats=REPEATS)
        run(plan, folder / "warm.sqlite", jobs=2)
        found: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(3):
            for jobs, values in found.items():
                values.append(overhead(plan, folder, jobs))
        for jobs, values in found.items():
            print(
                f"{jobs} job{'s' if jobs > 1 else ''}: {statistics.median(values):.1f} ms a cell beyond fit and predict"
            )


if __name__ == "__main__":
    main()
