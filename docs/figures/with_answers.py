"""Draw docs/images/with-answers.png from what ``benchmarks/certainty.py audit --csv`` wrote.

python benchmarks/certainty.py audit --part estimates --seeds 12 --csv docs/figures/audit_estimates.csv
python benchmarks/certainty.py audit --part certificate --seeds 8 --csv docs/figures/audit_payoff.csv
python docs/figures/with_answers.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Told apart without colour vision, and by their markers or dashes.
GROUPS = {
    "10%": ("10 % noise", "#1b4f8a", "o"),
    "50%": ("50 % noise", "#1b9e77", "^"),
    "real": ("real", "#d95f02", "X"),
}
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
COLORS = ("#1b4f8a", "#d95f02", "#1b9e77", "#7570b3", "#000000")


def main() -> None:
    """Draw the expected precision against the true one by answers given, and what is certified by answers given."""
    figure = plt.figure(figsize=(11, 6.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.05])
    calibration(above)
    payoff(below)
    target = ROOT / "docs" / "images" / "with-answers.png"
    figure.savefig(target, dpi=130)
    print(f"wrote {target.relative_to(ROOT)}")


def calibration(figure) -> None:
    """Draw a panel for each number of answers, a point for each audit."""
    table = pd.read_csv(HERE / "audit_estimates.csv")
    numbers = sorted(table["answers"].unique())
    panels = figure.subplots(1, len(numbers), sharey=True)
    for panel, n_answers in zip(panels, numbers, strict=True):
        mine = table[table["answers"] == n_answers]
        panel.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
        for group, (name, color, marker) in GROUPS.items():
            some = mine[mine["group"] == group]
            panel.plot(
                some["said"],
                some["true"],
                marker,
                color=color,
                markersize=4.5,
                alpha=0.55,
                markeredgewidth=0,
                label=name,
            )
        error = (mine["said"] - mine["true"]).abs().mean()
        panel.set(
            title=f"{n_answers} answers: off by {error:.2f}", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal"
        )
        panel.title.set_size(10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("share that is wrong")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left", handletextpad=0.2)
    figure.supxlabel("expected share of wrong labels among the 5 % most suspicious", fontsize=10)


def payoff(figure) -> None:
    """Draw how many labels are certified, and what share of the wrong ones goes, as answers come in."""
    table = pd.read_csv(HERE / "audit_payoff.csv")
    table["share"] = table["removed_wrong"] / table["all_wrong"]
    left, right = figure.subplots(1, 2)
    for number, ((name, noise, _), case) in enumerate(
        table.groupby(["set", "noise", "level"], dropna=False, sort=False)
    ):
        level = case["level"].iloc[0]
        called = f"{name}, {'real noise' if noise == 'real' else f'{100 * level:.0f} % {noise} noise'}"
        style = {"color": COLORS[number], "linestyle": DASHES[number], "linewidth": 1.6}
        for panel, column in ((left, "certified"), (right, "share")):
            panel.plot(case.groupby("answers")[column].median(), label=called, **style)
    left.set(ylabel="labels certified", xlabel="answers given")
    left.set_yscale("symlog", linthresh=20)
    left.set_yticks([0, 20, 100, 500, 2000, 5000], ["0", "20", "100", "500", "2,000", "5,000"])
    left.minorticks_off()
    left.set_ylim(0, 5000)
    right.set(ylabel="share of all wrong labels removed", xlabel="answers given", ylim=(0, None))
    left.legend(frameon=False, fontsize=8, loc="lower right")
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlim(0, 300)


if __name__ == "__main__":
    main()
