"""The paper's figures, what contradicts what in them, and our figures beside them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bench_cells import make_cells
from pmlkit._words import FIVE
from pmlkit.bench.cells import expand
from pmlkit.bench.paper.claims import judge_claims
from pmlkit.bench.paper.experiments import ABLATIONS, SENSITIVITY, embedded_experiments, paper_experiments
from pmlkit.bench.paper.figures import (
    LFC,
    RATIOS,
    REAL,
    RIVALS,
    SYNTHETIC,
    compare_sizes,
    compare_table_2,
    compare_table_3,
    contradictions,
    main_results,
    table,
    table_3_faults,
    tally,
)
from pmlkit.bench.paper.reproduction import compare_with_paper, verdict_text, write_files
from pmlkit.data import PMLDataset, write

SETS = (*SYNTHETIC, *REAL)
CASES = tuple((name, "uniform", ratio) for name in SYNTHETIC for ratio in RATIOS) + tuple(
    (name, "own", np.nan) for name in REAL
)


def cells_by_quality(quality, n_repeats=5, cases=CASES):
    return make_cells(quality, cases=cases, n_repeats=n_repeats)


@pytest.fixture
def experiments(monkeypatch, tmp_path):
    """The paper's experiments, with empty files in place of its data sets."""
    monkeypatch.setenv("PMLKIT_DATA", str(tmp_path))
    for name in SETS:
        (tmp_path / f"{name}.npz").touch()
    return paper_experiments(repeats=5)


@pytest.fixture
def our_win():
    """Cells in which PML-LFC is the best everywhere, its variants are worse and its weights are best at ten."""
    quality = {LFC: 0.9} | {rival: 0.5 - 0.03 * i for i, rival in enumerate(RIVALS)}
    quality |= {f"{LFC}(oF)": 0.7, f"{LFC}(oL)": 0.7, f"{LFC}(nJ)": 0.4}
    quality |= {label: 0.6 for labels in SENSITIVITY.values() for label in labels.values() if label != LFC}
    return cells_by_quality(quality)


# --- what the paper prints


def test_tables_are_complete():
    assert tuple(table(1)["data"]) == SETS
    # 8 sets x 5 metrics x 7 methods, without PARTICLE-VLS on three sets and RankSVM on one
    assert len(table(2)) == 8 * 5 * 7 - 3 * 5 - 5
    assert set(table(2)["outcome"].dropna()) == {"win", "tie", "loss"}
    assert table(2).loc[table(2)["method"] == LFC, "outcome"].isna().all()
    counts = table(3)
    assert (counts.loc[counts["metric"] != "total", ["wins", "ties", "losses"]].sum(axis=1) == 23).all()


def test_totals_of_table_3_are_its_sums():
    counts = table(3).set_index(["metric", "rival"])
    for rival in RIVALS:
        expected = sum(counts.loc[(metric.key, rival)] for metric in FIVE)
        pd.testing.assert_series_equal(counts.loc[("total", rival)], expected, check_names=False)


def test_known_contradictions_are_found():
    found = {(one.data, one.metric, one.method) for one in contradictions()}
    for data in ("slashdot", "enron", *REAL):
        assert {(data, "hamming_loss", "ML-KNN"), (data, "ranking_loss", "ML-KNN")} <= found
    assert ("corel5k", "hamming_loss", "DRAMA") in found
    assert {("corel5k", "ranking_loss", "PML-LRS"), ("corel5k", "coverage", "PML-LRS")} <= found
    assert {("YeastCC", "coverage", LFC), ("YeastMF", "coverage", LFC)} <= found
    assert not {one for one in found if one[0] == "scene"}


def test_the_bounds_on_coverage_hold_for_real_rankings():
    """What `contradictions` relies on, on random truths and scores."""
    from pmlkit.metrics import coverage, ranking_loss

    rng = np.random.default_rng(0)
    for q, most in [(6, 3), (22, 3), (40, 9)]:
        truth = np.zeros((60, q), dtype=int)
        for row in truth:
            row[rng.choice(q, rng.integers(1, most + 1), replace=False)] = 1
        scores = rng.normal(size=truth.shape) + rng.choice([0, 1, 3]) * truth
        loss, depth = ranking_loss(truth, scores), coverage(truth, scores)
        assert loss * (q - 1) / q <= depth + 1e-12
        assert depth <= (most * loss * (q - 1) + most - 1) / q + 1e-12


def test_faults_of_table_3():
    faults = table_3_faults()
    assert {fault.rival for fault in faults if fault.has_impossible_tests} == {"RankSVM", "PARTICLE-VLS"}
    text = " ".join(fault.reason for fault in faults)
    assert "PARTICLE-VLS has no figures on YeastBP, YeastCC, YeastMF, but 115 tests are counted" in text
    assert "RankSVM has no figures on YeastBP" in text
    assert "Table 2 marks 1 loss against ML-KNN by coverage, table 3 counts 0" in text


# --- the grid


def test_grid_has_23_cases(experiments):
    assert experiments.names == SETS
    assert experiments.missing == ()
    assert sum(len(entry["noise"]) for entry in experiments.data) == 23


def test_missing_files_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PMLKIT_DATA", str(tmp_path))
    (tmp_path / "scene.npz").touch()
    experiments = paper_experiments()
    assert experiments.names == ("scene",)
    assert experiments.missing == tuple(name for name in SETS if name != "scene")
    assert experiments.figures() == []


def test_embedded_plans_can_be_expanded():
    experiments = embedded_experiments(repeats=2, n_rows=100)
    n_methods = len(experiments.first_repeat().methods)
    assert len(expand(experiments.first_repeat())) == n_methods
    assert n_methods == 7
    figure_3, figure_4 = experiments.figures()
    assert [variant.label for variant in figure_3.variants()] == list(ABLATIONS)
    assert len(figure_4.variants()) == 10
    assert len(expand(figure_4)) == 20


def test_what_fails_at_first_is_not_tried_again():
    experiments = embedded_experiments(repeats=3, n_rows=100)
    labels = [variant.label for variant in experiments.first_repeat().variants()]
    cells = make_cells(dict.fromkeys(labels, 0.5), cases=((experiments.names[0], "uniform", 0.5),), n_repeats=1)
    (plan,) = experiments.tables(cells)
    assert [variant.label for variant in plan.variants()] == labels
    cells.loc[cells["label"] == "DRAMA", "status"] = "failed"
    (plan,) = experiments.tables(cells)
    assert [variant.label for variant in plan.variants()] == [label for label in labels if label != "DRAMA"]
    assert (plan.repeats, plan.data[0].noise) == (3, RATIOS)


def test_what_takes_long_is_not_repeated():
    name = "digit-strips:100"
    cells = make_cells({LFC: 0.5, "ML-KNN": 0.5}, cases=((name, "uniform", 0.5), (name, "uniform", 2.0)), n_repeats=1)
    cells.loc[cells["ratio"] == 2.0, "fit_seconds"] = 999.0  # only the first look counts
    cells.loc[(cells["label"] == LFC) & (cells["ratio"] == 0.5), "fit_seconds"] = 12.0
    experiments = replace(embedded_experiments(repeats=2, n_rows=100), repeat_limit=10.0)
    (plan,) = experiments.tables(cells)
    assert [variant.label for variant in plan.variants()] == ["ML-KNN"]
    assert experiments.run_once(cells) == [(name, LFC, pytest.approx(12.1))]


# --- ours beside the paper's


def cells_like_table_2(shift=0.0):
    """Return cells with the very means of table 2, each metric worse by `shift`."""
    rows = []
    for (data, method), group in table(2).groupby(["data", "method"]):
        noise, ratio = ("own", np.nan) if data in REAL else ("uniform", 0.5)
        for repeat, wiggle in enumerate((-0.0002, 0.0002)):
            row = {"data": data, "noise": noise, "ratio": ratio, "repeat": repeat, "method": method, "params": "{}"}
            row |= {"label": method, "status": "done", "reason": None}
            for one in group.itertuples():
                sign = -1 if one.metric == "average_precision" else 1
                row[one.metric] = one.mean + sign * shift + wiggle
            rows.append(row)
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("shift", "expected"), [(0.0, "same"), (0.009, "same"), (0.2, "worse"), (-0.2, "better")])
def test_verdicts_of_table_2(shift, expected):
    figures = compare_table_2(main_results(cells_like_table_2(shift)), SETS)
    assert len(figures) == 8 * 5 * 7
    counts = tally([one.verdict for one in figures])
    doubtful = len(contradictions())
    assert counts == {expected: 260 - doubtful, "inconsistent": doubtful, "no result": 20}
    assert all(one.note for one in figures if one.verdict == "inconsistent")


def test_a_result_that_the_paper_has_not():
    cells = cells_like_table_2()
    extra = cells[(cells["data"] == "YeastBP") & (cells["method"] == LFC)].assign(method="RankSVM", label="RankSVM")
    figures = compare_table_2(main_results(pd.concat([cells, extra])), SETS)
    (one,) = [f for f in figures if (f.data, f.method, f.metric.key) == ("YeastBP", "RankSVM", "one_error")]
    assert one.verdict == "no figure"


def test_counts_of_table_3(our_win):
    counts = compare_table_3(main_results(our_win))
    assert len(counts) == 6 * 6
    for one in counts:
        n_tests = 115 if one.metric is None else 23
        assert one.ours == (n_tests, 0, 0)
        assert (one.better_means, one.n_means) == (n_tests, n_tests)
        if one.rival in ("RankSVM", "PARTICLE-VLS"):
            assert one.verdict == "inconsistent"
        else:
            assert one.verdict == ("same" if one.theirs[0] >= 0.95 * n_tests else "better")


def test_one_repeat_has_a_mean_but_no_test():
    cells = cells_by_quality({LFC: 0.9, "DRAMA": 0.5}, n_repeats=1)
    (total,) = [one for one in compare_table_3(main_results(cells)) if one.rival == "DRAMA" and one.metric is None]
    assert (total.ours, total.better_means, total.n_means) == ((0, 0, 0), 115, 115)
    assert total.verdict == "no result"


def test_sizes():
    facts = {"n_rows": 2407, "n_features": 294, "n_labels": 6, "true_labels_per_row": 1.0740}
    assert {one.verdict for one in compare_sizes({"scene": facts})} == {"same"}
    wrong = compare_sizes({"scene": facts | {"n_rows": 2406}})
    assert [one.what for one in wrong if one.verdict == "inconsistent"] == ["n_rows"]


# --- claims


def rulings(cells, experiments):
    return {claim.says: claim.ruling for claim in judge_claims(cells, experiments)}


def test_claims_hold_where_the_method_wins(our_win, experiments):
    found = rulings(our_win, experiments)
    assert found.pop("There, ML-KNN has the lower ranking loss") == "does not hold"
    assert found.pop("On medical PML-LFC slightly loses to RankSVM and DRAMA") == "does not hold"
    assert set(found.values()) == {"holds"}
    assert len(found) == 16


def test_claims_fail_where_it_loses(experiments):
    quality = {LFC: 0.3} | {rival: 0.5 + 0.03 * i for i, rival in enumerate(RIVALS)}
    quality |= {f"{LFC}(oF)": 0.7, f"{LFC}(oL)": 0.5, f"{LFC}(nJ)": 0.8}
    quality |= {label: 0.6 for labels in SENSITIVITY.values() for label in labels.values() if label != LFC}
    found = rulings(cells_by_quality(quality), experiments)
    assert found.pop("There, ML-KNN has the lower ranking loss") == "holds"
    assert found.pop("On medical PML-LFC slightly loses to RankSVM and DRAMA") == "holds"
    assert set(found.values()) == {"does not hold"}


def test_a_method_that_is_level_with_a_variant_is_not_better(experiments):
    cells = cells_by_quality({LFC: 0.8, f"{LFC}(oF)": 0.7, f"{LFC}(oL)": 0.7})
    level = cells[cells.label == LFC].assign(label=f"{LFC}(nJ)", method=f"{LFC}(nJ)")
    found = {claim.says: claim for claim in judge_claims(pd.concat([cells, level], ignore_index=True), experiments)}
    claim = found["PML-LFC is better than its variants oF, oL and nJ by all five metrics"]
    assert claim.ruling == "does not hold"
    assert "better than all three by no metric; to three decimals level" in claim.evidence.lower()
    assert found["Its variant nJ is the worst by all five metrics"].ruling == "does not hold"


def test_claims_that_were_not_run(experiments):
    cells = cells_by_quality({LFC: 0.9, "DRAMA": 0.5}, cases=(("scene", "uniform", 0.5),))
    found = judge_claims(cells, experiments)
    tested = {claim.says for claim in found if claim.ruling != "not tested"}
    assert tested == {
        "On the synthetic data sets PML-LFC frequently outperforms the other methods",
        "PML-LFC is significantly better than DRAMA in 80.87 % of 115 tests",
    }


def test_two_repeats_are_no_test(experiments):
    cells = cells_by_quality({LFC: 0.9, "DRAMA": 0.5}, n_repeats=2)
    (claim,) = [one for one in judge_claims(cells, experiments) if "DRAMA in 80.87" in one.says]
    assert claim.ruling == "not tested"
    assert "With 2 repeats" in claim.evidence


# --- files


def test_files(our_win, monkeypatch, tmp_path):
    home, folder = tmp_path / "data", tmp_path / "out"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setenv("PMLKIT_DATA", str(home))
    for name in ("slashdot", "medical", "YeastMF"):
        truth = np.eye(6, dtype=int)
        write(PMLDataset(np.eye(6), np.ones((6, 6), int) if name in REAL else truth, truth=truth), home / f"{name}.npz")
    experiments = paper_experiments(repeats=5)
    cells = our_win[our_win["data"].isin(experiments.names)].reset_index(drop=True)
    cells.loc[cells["label"] == "DRAMA", ["status", "reason"]] = ["failed", "took | longer <b>"]
    found = compare_with_paper(cells, experiments)
    paths = write_files(found, folder, ["pmlkit reproduce"])
    assert sorted(path.name for path in paths) == sorted(
        [
            "means.csv",
            "table1.csv",
            "table2.csv",
            "table3.csv",
            "figure3.csv",
            "figure4.csv",
            "verdict.md",
            "report.html",
        ]
    )
    assert all(path.stat().st_size for path in paths)
    text = verdict_text(found)
    assert text == (folder / "verdict.md").read_text(encoding="utf-8")
    assert "No data file: scene, enron, corel5k, YeastBP, YeastCC." in text
    assert "- DRAMA on slashdot, 50 % uniform (5 repeats): took \\| longer &lt;b>." in text
    assert "Table 1, slashdot: rows 3782; the data have 6.000" in text
    html = (folder / "report.html").read_text(encoding="utf-8")
    for section in ("claims", "table1", "table2", "table3", "figure3", "figure4", "doubts", "ranks", "again"):
        assert f'id="{section}"' in html
    assert "took | longer &lt;b&gt;" in html
    figure_4 = pd.read_csv(folder / "figure4.csv")
    assert list(figure_4["parameter"].value_counts()) == [6, 6]
    assert pd.read_csv(folder / "figure3.csv")["method"].tolist() == [*ABLATIONS, LFC]
