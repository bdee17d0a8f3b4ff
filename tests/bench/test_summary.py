"""From cells to what a report tells, against plain loops over the same cells."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench_cells import CASES, METHODS, fail, make_cells
from pmlkit._words import METRICS
from pmlkit.bench.statistics import critical_distance, holm, rank_biserial
from pmlkit.bench.summary import Case, collect, means_csv, method_names, summarize


def values(cells, case, method, key):
    """Return one method's values on one case, by repeat."""
    data, noise, ratio = case
    same_ratio = cells["ratio"].isna() if math.isnan(ratio) else cells["ratio"] == ratio
    chosen = (cells["data"] == data) & (cells["noise"] == noise) & same_ratio & (cells["method"] == method)
    return cells[chosen].sort_values("repeat")[key].to_numpy()


def test_means_and_deviations():
    cells = make_cells()
    results = collect(cells.sample(frac=1, random_state=0))  # whatever the order of the cells
    assert results.methods == ("fair", "good", "poor")
    assert [case.data for case in results.cases] == ["scene", "scene", "scene", "yeast"]
    for c, case in enumerate(CASES):
        for m, method in enumerate(results.methods):
            expected = values(cells, case, method, "coverage")
            assert results.mean("coverage")[c, m] == pytest.approx(expected.mean())
            assert results.deviation("coverage")[c, m] == pytest.approx(expected.std(ddof=1))


def test_failed_cells_are_gaps():
    cells = make_cells()
    cells = fail(cells, (cells["method"] == "poor") & (cells["repeat"] > 0))
    results = collect(cells)
    poor = results.methods.index("poor")
    assert not np.isnan(results.mean("one_error")[:, poor]).any()
    assert np.isnan(results.deviation("one_error")[:, poor]).all()  # one repeat has no spread


def test_metrics_without_a_value_are_left_out():
    cells = make_cells().assign(cleaning_auc=np.nan)
    assert "cleaning_auc" not in [metric.key for metric in collect(cells).metrics()]
    assert "cleaning_auc" not in [one.metric.key for one in summarize(cells).metrics]


def test_order_reference_and_tests():
    cells = make_cells()
    summary = summarize(cells, reference="fair")
    assert summary.methods == ("good", "fair", "poor")
    for one in summary.metrics:
        key, sign = one.metric.key, -1 if one.metric.lower_is_better else 1
        for rival in one.comparisons:
            outcomes, means = [], []
            for case in CASES:
                first, second = values(cells, case, "fair", key), values(cells, case, rival.rival, key)
                test = stats.ttest_rel(sign * first, sign * second)
                outcomes.append(int(np.sign(test.statistic)) if test.pvalue < 0.05 else 0)
                means.append((first.mean(), second.mean()))
            assert (rival.wins, rival.ties, rival.losses) == tuple(outcomes.count(sign) for sign in (1, 0, -1))
            first, second = np.array(means).T
            assert rival.difference == pytest.approx(sign * (first - second).mean())
            assert rival.effect == pytest.approx(
                rank_biserial(first, second, lower_is_better=one.metric.lower_is_better)
            )
        plain = [
            stats.wilcoxon(
                [values(cells, case, "fair", key).mean() - values(cells, case, rival, key).mean() for case in CASES]
            ).pvalue
            for rival in ("good", "poor")
        ]
        np.testing.assert_allclose([rival.p_value for rival in one.comparisons], holm(plain))


def test_ranks_of_a_clear_order():
    for one in summarize(make_cells()).metrics:
        np.testing.assert_array_equal(one.ranking.ranks, [1, 2, 3])
        assert one.ranking.distance == pytest.approx(critical_distance(3, 4))
        assert one.best[:, 0].all()
        assert not one.best[:, 1:].any()


def test_a_method_that_mostly_failed_is_left_out_of_the_ranks():
    cells = make_cells()
    cells = fail(cells, (cells["method"] == "poor") & (cells["data"] == "scene"))
    ranking = summarize(cells).main.ranking
    assert ranking.left_out == ("poor",)
    assert np.isnan(ranking.ranks[2])
    assert ranking.test.n_cases == 4  # its gaps cost the others no case
    half = fail(make_cells(), make_cells()["method"].eq("poor") & make_cells()["ratio"].isin([0.1, 0.5]))
    ranking = summarize(half).main.ranking
    assert ranking.left_out == ()
    assert ranking.test.n_cases == 2


def test_failures_are_grouped_by_reason():
    cells = make_cells()
    cells = fail(cells, (cells["method"] == "poor") & (cells["data"] == "yeast"), "took longer than 9 s")
    (failure,) = summarize(cells).failures
    assert (failure.case.data, failure.method, failure.repeats, failure.reason) == (
        "yeast",
        "poor",
        (0, 1, 2, 3),
        "took longer than 9 s",
    )
    assert failure.case.noise_name == "own candidates"
    assert summarize(cells).costs[2].n_failed == 4


def test_names_tell_parameters_apart_where_labels_do_not():
    cells = pd.concat([make_cells({"LFC": 0.8}), make_cells({"LFC": 0.7}).assign(params='{"alpha": 1.0}')])
    assert set(method_names(cells.reset_index(drop=True))) == {"LFC", "LFC(alpha=1.0)"}
    labelled = cells.assign(label=np.where(cells["params"] == "{}", "plain", "tuned")).reset_index(drop=True)
    assert set(method_names(labelled)) == {"plain", "tuned"}


def test_one_method_alone():
    summary = summarize(make_cells({"good": 0.8}))
    assert summary.reference == "good"
    assert all(one.comparisons == () for one in summary.metrics)


def test_nothing_finished():
    cells = make_cells(n_repeats=1)
    with pytest.raises(ValueError, match="None of the 12 cells has finished"):
        summarize(fail(cells, cells.index))


def test_unknown_reference():
    with pytest.raises(ValueError, match="'best'.*good, fair, poor"):
        summarize(make_cells(), reference="best")


def test_noise_names():
    assert Case("a", "uniform", 0.1).noise_name == "10 % uniform"
    assert Case("a", "confusable", 2.0).noise_name == "200 % confusable"


def test_csv_is_the_same_whatever_the_order_and_the_times():
    cells = make_cells()
    other = cells.sample(frac=1, random_state=1).assign(fit_seconds=7.0, peak_mb=1.0, pmlkit_version="9")
    assert means_csv(cells) == means_csv(other)
    changed = cells.copy()
    changed.loc[5, "one_error"] += 1e-6
    assert means_csv(cells) != means_csv(changed)


def test_csv_has_the_numbers():
    cells = make_cells()
    cells = fail(cells, (cells["method"] == "poor") & (cells["data"] == "yeast"))
    lines = means_csv(cells).splitlines()
    header, rows = lines[0].split(","), [line.split(",") for line in lines[1:]]
    assert len(rows) == len(CASES) * len(METHODS)
    assert [row[:4] for row in rows] == sorted([row[:4] for row in rows])
    table = {tuple(row[:4]): dict(zip(header, row, strict=True)) for row in rows}
    row = table["scene", "uniform", "0.5", "good"]
    expected = values(cells, CASES[1], "good", "macro_f1")
    assert row["macro_f1_mean"] == f"{expected.mean():.9f}"
    assert row["macro_f1_std"] == f"{expected.std(ddof=1):.9f}"
    assert (row["done"], row["failed"]) == ("4", "0")
    gap = table["yeast", "own", "", "poor"]
    assert (gap["done"], gap["failed"], gap["one_error_mean"]) == ("0", "4", "")
    assert not any("seconds" in name or "peak" in name for name in header)
    assert len(header) == 7 + 2 * len(METRICS)
