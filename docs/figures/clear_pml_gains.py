"""Draw what ClearPML gains over logistic regression, from the cells of benchmarks/flagship.py.

python benchmarks/flagship.py --out cells.csv
python docs/figures/clear_pml_gains.py cells.csv
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).resolve().parent
MARKS = {
    "uniform": ("o", "#0072B2"),
    "correlated": ("s", "#E69F00"),
    "confusable": ("^", "#009E73"),
    "own": ("D", "#D55E00"),
}
PANELS = {"average_precision": "average precision of new rows", "cleaning_auc": "AUC of finding false candidates"}


def gains(path: Path) -> dict[str, list[tuple[str, str, float]]]:
    """Return, for each measure, (data set, kind of noise, gain) of every configuration."""
    found: dict[tuple[str, str, str, str], list[dict[str, str]]] = defaultdict(list)
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            found[row["data"], row["noise"], row["ratio"], row["method"]].append(row)
    result: dict[str, list[tuple[str, str, float]]] = {name: [] for name in PANELS}
    for (data, noise, ratio, method), rows in found.items():
        others = [found.get((data, noise, ratio, other), []) for other in ("logistic", "logistic C=10")]
        if method != "ClearPML" or not others[0]:
            continue
        for name in PANELS:
            # The better of the two penalties, where both were run.
            ours, *plain = (np.mean([float(row[name]) for row in cells]) for cells in (rows, *others) if cells)
            result[name].append((data, noise, float(ours - max(plain))))
    return result


def main() -> None:
    """Draw both measures side by side, a line for each data set."""
    by_measure = gains(Path(sys.argv[1]))
    names = list(dict.fromkeys(data for data, _, _ in by_measure["average_precision"]))
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 0.3 * len(names) + 1.4), sharey=True, layout="constrained")
    for axis, (measure, title) in zip(axes, PANELS.items(), strict=True):
        axis.axvline(0.0, color="#57606a", linewidth=1)
        for kind, (marker, colour) in MARKS.items():
            points = [(gain, names.index(data)) for data, noise, gain in by_measure[measure] if noise == kind]
            if points:
                label = "real noise" if kind == "own" else kind
                axis.scatter(*zip(*points, strict=True), marker=marker, s=26, color=colour, alpha=0.85, label=label)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xscale("symlog", linthresh=0.02)
        axis.set_xticks([-0.02, 0.0, 0.02, 0.05, 0.1, 0.2], ["−.02", "0", "+.02", "+.05", "+.1", "+.2"])
        axis.minorticks_off()
        axis.grid(axis="y", color="#d0d7de", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("ClearPML less the better of logistic regression with C = 1 and 10", fontsize=11, x=0.01, ha="left")
    figure.savefig(HERE.parent / "images" / "clear-pml-gains.png", dpi=130)


if __name__ == "__main__":
    main()
