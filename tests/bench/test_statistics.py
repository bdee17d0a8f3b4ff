"""The statistics against scipy, scikit-posthocs and autorank, and on tables where those give up."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from pmlkit.bench.statistics import (
    complete_cases,
    critical_distance,
    friedman,
    holm,
    mean_ranks,
    paired_t_test,
    rank_biserial,
    rank_groups,
    wilcoxon_holm,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    scikit_posthocs = pytest.importorskip("scikit_posthocs")
    autorank = pytest.importorskip("autorank")
    from autorank._util import _critical_distance

nan = float("nan")

tables = st.integers(2, 6).flatmap(
    lambda k: st.integers(3, 9).flatmap(
        lambda n: arrays(float, (n, k), elements=st.integers(0, 6).map(lambda value: value / 8))
    )
)


@pytest.fixture
def table():
    rng = np.random.default_rng(4)
    return rng.normal(size=(18, 5)) + np.array([0.0, 0.3, 0.9, 0.9, 2.0])


def with_ties(table):
    return np.round(table)


# --- paired t-test


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_paired_t_test_equals_scipy(lower_is_better):
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(80, 10)) + 0.8, rng.normal(size=(80, 10))
    tests = paired_t_test(first, second, lower_is_better=lower_is_better)
    expected = stats.ttest_rel(first, second, axis=1)
    np.testing.assert_allclose(tests.p_value, expected.pvalue, rtol=1e-12)
    sign = -1 if lower_is_better else 1
    np.testing.assert_array_equal(
        tests.outcome, np.where(expected.pvalue < 0.05, sign * np.sign(expected.statistic), 0)
    )
    assert ((expected.pvalue > 0.05) & (expected.pvalue < 0.1)).any()  # near misses, too
    assert sum(tests.counts) == 80


def test_paired_t_test_leaves_out_missing_pairs():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=10), rng.normal(size=10)
    first[2], second[5] = nan, nan
    both = ~np.isnan(first) & ~np.isnan(second)
    tests = paired_t_test(first, second)
    np.testing.assert_allclose(tests.p_value, stats.ttest_rel(first[both], second[both]).pvalue, rtol=1e-12)
    assert tests.n_pairs == 8


def test_paired_t_test_where_nothing_varies():
    tests = paired_t_test([[0.5] * 4, [0.6] * 4, [0.4] * 4, [0.5, nan, nan, nan]], [[0.5] * 4] * 4)
    np.testing.assert_array_equal(tests.outcome, [0, 1, -1, 0])
    np.testing.assert_array_equal(tests.p_value, [1, 0, 0, nan])
    assert tests.counts == (1, 1, 1)  # one repeat is no test


def test_rounding_noise_is_a_tie():
    tests = paired_t_test([0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2], [0.3, 0.3, 0.3])
    assert tests.outcome == 0


# --- ranks, Friedman, critical distance


@pytest.mark.parametrize("change", [lambda table: table, with_ties])
def test_friedman_equals_scipy(table, change):
    values = change(table)
    result = friedman(values)
    expected = stats.friedmanchisquare(*values.T)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-10)


def test_a_case_with_a_gap_is_left_out(table):
    gappy = table.copy()
    gappy[3, 1] = gappy[7, 4] = nan
    whole = np.delete(table, [3, 7], axis=0)
    np.testing.assert_array_equal(complete_cases(gappy), ~np.isin(np.arange(18), [3, 7]))
    assert friedman(gappy) == friedman(whole)
    np.testing.assert_array_equal(mean_ranks(gappy), mean_ranks(whole))


def test_autorank_agrees(table):
    import pandas as pd

    frame = pd.DataFrame(table, columns=list("abcde"))
    theirs = autorank.autorank(frame, alpha=0.05, force_mode="nonparametric")
    assert friedman(table).p_value == pytest.approx(theirs.pvalue, rel=1e-10)
    assert critical_distance(5, 18) == pytest.approx(theirs.cd, rel=1e-4)  # theirs comes from a fitted formula
    ranks = pd.Series(mean_ranks(table), index=frame.columns)
    np.testing.assert_allclose(ranks[theirs.rankdf.index], theirs.rankdf["meanrank"], rtol=1e-12)


@pytest.mark.parametrize(("k", "n"), [(2, 5), (3, 30), (7, 23), (20, 500)])
def test_critical_distance_is_autoranks(k, n):
    assert critical_distance(k, n) == pytest.approx(_critical_distance(0.05, k, n), rel=2e-4)


def test_critical_distance_is_demsars():
    # q_0.05 of his table 5 for 2, 5 and 10 classifiers, which is the quantile over sqrt(2)
    for k, q in [(2, 1.960), (5, 2.728), (10, 3.164)]:
        assert critical_distance(k, 30) == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * 30)), abs=5e-4)


def test_all_tied():
    same = np.full((6, 3), 0.25)
    assert (friedman(same).statistic, friedman(same).p_value) == (0.0, 1.0)
    np.testing.assert_array_equal(wilcoxon_holm(same), np.ones((3, 3)))
    np.testing.assert_array_equal(mean_ranks(same), [2, 2, 2])
    assert rank_groups(mean_ranks(same), critical_distance(3, 6)) == [(0, 1, 2)]


def test_two_methods():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(12, 2)) + np.array([0.0, 1.5])
    wins = int((values[:, 1] > values[:, 0]).sum())
    # Friedman with two methods is the sign test's chi-squared.
    assert friedman(values).statistic == pytest.approx((2 * wins - 12) ** 2 / 12)


@pytest.mark.parametrize("values", [np.full((4, 3), nan), np.empty((0, 3)), np.array([[0.1], [0.2]])])
def test_nothing_to_compare(values):
    assert np.isnan(friedman(values).p_value)
    assert np.isnan(critical_distance(values.shape[1], 0))


def test_a_vector_is_refused():
    with pytest.raises(ValueError, match="table of cases by methods, got an array of shape"):
        friedman([1.0, 2.0])


@settings(max_examples=60, deadline=None)
@given(tables)
def test_ranks_by_counting(values):
    """A rank is one, and the number of better methods, and half of the number of equal ones."""
    expected = [
        np.mean([1 + sum(row > row[j]) + (sum(row == row[j]) - 1) / 2 for row in values])
        for j in range(values.shape[1])
    ]
    np.testing.assert_allclose(mean_ranks(values), expected)
    np.testing.assert_allclose(mean_ranks(-values, lower_is_better=True), expected)


@settings(max_examples=60, deadline=None)
@given(tables)
def test_friedman_does_not_depend_on_direction_or_order(values):
    result = friedman(values)
    assert 0 <= result.p_value <= 1
    assert friedman(-values).statistic == pytest.approx(result.statistic)
    assert friedman(values[::-1, ::-1]).statistic == pytest.approx(result.statistic)


@settings(max_examples=60, deadline=None)
@given(arrays(float, st.integers(1, 9), elements=st.floats(1, 9)), st.floats(0.1, 5))
def test_groups_are_the_largest_runs_within_the_distance(ranks, distance):
    groups = rank_groups(ranks, distance)
    for group in groups:
        assert np.ptp(ranks[list(group)]) < distance
    for i in range(len(ranks)):
        for j in range(i):
            together = any({i, j} <= set(group) for group in groups)
            assert together == (abs(ranks[i] - ranks[j]) < distance)
    assert not any(set(one) < set(other) for one in groups for other in groups)


# --- Wilcoxon and Holm


@pytest.mark.parametrize("change", [lambda table: table, with_ties])
def test_wilcoxon_holm_equals_posthocs(table, change):
    values = change(table)
    expected = scikit_posthocs.posthoc_wilcoxon(values.T, p_adjust="holm").to_numpy()
    np.testing.assert_allclose(wilcoxon_holm(values), expected, rtol=1e-10)


def test_wilcoxon_against_a_reference_adjusts_for_fewer_tests(table):
    found = wilcoxon_holm(table, reference=2)
    others = [0, 1, 3, 4]
    plain = [stats.wilcoxon(table[:, 2] - table[:, j]).pvalue for j in others]
    np.testing.assert_allclose(found[2, others], holm(plain), rtol=1e-12)
    assert np.isnan(found[0, 1])
    with pytest.raises(ValueError, match="one of 5 methods, got 5"):
        wilcoxon_holm(table, reference=5)


def test_wilcoxon_uses_the_cases_that_a_pair_has(table):
    gappy = table.copy()
    gappy[:4, 0] = nan
    gappy[:, 3] = nan
    found = wilcoxon_holm(gappy)
    rest = [1, 2, 4]
    pairs = [(0, 1, 4), (0, 2, 4), (0, 4, 4), (1, 2, 0), (1, 4, 0), (2, 4, 0)]
    plain = [stats.wilcoxon(table[skip:, i] - table[skip:, j]).pvalue for i, j, skip in pairs]
    np.testing.assert_allclose([found[i, j] for i, j, _ in pairs], holm(plain), rtol=1e-12)
    assert np.isnan(found[3, rest]).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_step_by_step(p_values):
    """The smallest p-value counts n times, the next n - 1 times; none falls below an earlier one."""
    expected, floor = {}, 0.0
    for step, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, (len(p_values) - step) * p_values[position])
        expected[position] = min(floor, 1.0)
    np.testing.assert_allclose(holm(p_values), [expected[position] for position in range(len(p_values))], atol=1e-14)
    np.testing.assert_allclose(holm([*p_values, nan])[:-1], holm(p_values))


# --- effect sizes


def test_groups_are_the_pairs_that_nemenyis_test_does_not_separate(table):
    p_values = scikit_posthocs.posthoc_nemenyi_friedman(table).to_numpy()
    groups = rank_groups(mean_ranks(table), critical_distance(5, 18))
    for i, j in itertools.combinations(range(5), 2):
        assert any({i, j} <= set(group) for group in groups) == (p_values[i, j] > 0.05)


def test_rank_biserial_is_the_share_of_the_rank_sums(table):
    first, second = table[:, 0], table[:, 2]
    # scipy's statistic is the smaller of the two rank sums.
    smaller, total = stats.wilcoxon(first, second).statistic, 18 * 19 / 2
    assert abs(rank_biserial(first, second)) == pytest.approx((total - 2 * smaller) / total)
    assert rank_biserial(first, second) == -rank_biserial(second, first)
    assert rank_biserial(first, second, lower_is_better=True) == rank_biserial(second, first)


def test_rank_biserial_where_nothing_varies():
    one, two = [0.5] * 5, [0.7] * 5
    assert (rank_biserial(one, one), rank_biserial(one, two)) == (0, -1)
    assert np.isnan(rank_biserial([nan] * 5, two))
