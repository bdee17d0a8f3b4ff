"""Ranks of given cells among injected ones: the share of random mistakes, and how deep it is safe to remove."""

import numpy as np
import pytest
from scipy.stats import norm

from pmlkit.cleaning import clean
from pmlkit.cleaning.injected_null import RankMixture, SafeDepths, right_share
from pmlkit.data import make_pml


def drawn(share, shift, n_given=6000, n_injected=8000, seed=0):
    """Return ranks of given cells, of which a share is as the injected ones, and which they are."""
    rng = np.random.default_rng(seed)
    is_false = np.arange(n_given) < share * n_given
    injected = np.sort(rng.normal(size=n_injected))
    given = rng.normal(size=n_given) - np.where(is_false, 0.0, shift)
    return RankMixture(1.0 - np.searchsorted(injected, given) / n_injected, n_injected), is_false


def share_by_search(mixture, tail=0.4):
    """Return the share of random mistakes by trying all."""
    share = np.arange(0.0, min(2 * (1 - mixture.rank.mean()), 0.999), 1e-4)
    shift = np.sqrt(2) * norm.ppf(np.clip((mixture.rank.mean() - share / 2) / (1 - share), 0.5, 0.9999))
    expected = share * tail + (1 - share) * norm.cdf(norm.ppf(tail) - shift)
    return share[np.abs(expected - (mixture.rank <= tail).mean()).argmin()]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("shift", [1.5, 3.0])
def test_the_share_is_that_of_a_plain_search_and_near_the_truth(share, shift):
    mixture, _ = drawn(share, shift)
    assert mixture.random_share() == pytest.approx(share_by_search(mixture), abs=2e-4)
    assert mixture.random_share() == pytest.approx(share, abs=0.05)


def test_standard_errors_are_those_of_repeated_draws():
    found = [drawn(0.3, 2.0, seed=seed)[0] for seed in range(60)]
    spread = np.std([mixture.random_share() for mixture in found])
    said = np.mean([mixture.random_share() - mixture.random_share(standard_errors=1.0) for mixture in found])
    assert 0.6 * spread < said < 1.6 * spread


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_the_interval_holds_the_share_and_is_never_empty(share):
    found = [drawn(share, 2.0, n_given=1000, seed=seed)[0].interval() for seed in range(40)]
    assert np.mean([low <= share <= high for low, high in found]) >= 0.9
    assert min(high - low for low, high in found) > 0.03


def test_where_right_labels_rank_even_lower_than_the_model_allows_some_may_be_random_all_the_same():
    rank = np.concatenate([np.full(600, 0.5), np.full(400, 0.9)])
    mixture = RankMixture(rank, 8000)
    assert mixture.random_share() == mixture.random_share(standard_errors=-1.0) == 0.0
    assert mixture.interval()[0] == 0.0
    assert mixture.interval()[1] > 0.03
    assert RankMixture(np.linspace(0, 0.9, 500), 500).interval() == (0.0, 1.0)
    assert RankMixture(np.zeros(0), 100).interval() == (0.0, 1.0)


@pytest.mark.parametrize("shift", [1.0, 1.5, 2.5])
def test_the_bound_of_the_precision_holds_as_often_as_one_standard_error_promises(shift):
    holds = []
    for seed in range(60):
        mixture, is_false = drawn(0.4, shift, n_given=2000, seed=seed)
        depths = mixture.safe_depths()
        first = np.argsort(mixture.rank, kind="stable")
        holds.append([is_false[first[:n]].mean() >= p for n, p in zip(depths.n_cells, depths.precision, strict=True)])
    assert np.mean(holds, axis=0).min() > 0.8


@pytest.mark.parametrize("seed", range(3))
def test_the_margin_of_other_judges_saves_right_labels_that_no_feature_predicts(seed):
    mixture, is_false = drawn(0.5, 2.5, n_given=5000, seed=seed)
    rng = np.random.default_rng(seed)
    is_hidden = ~is_false & (rng.random(5000) < 0.1)
    mixture = RankMixture(np.where(is_hidden, rng.random(5000), mixture.rank), mixture.n_injected)
    first = np.argsort(mixture.rank, kind="stable")
    by_counts = mixture.safe_depths(standard_errors=1.645)
    with_margin = mixture.safe_depths(standard_errors=1.645, model_errors=1.5)
    assert with_margin.random_share < by_counts.random_share - 0.05
    lost = [(~is_false[first[: depths.depth(0.9)]]).sum() for depths in (by_counts, with_margin)]
    assert lost[1] < 0.5 * lost[0]


def test_few_mistakes_are_no_ground_to_remove_anything():
    """Two in a hundred right labels may be unpredictable: they are as many as such mistakes."""
    for seed in range(10):
        assert drawn(0.03, 3.0, n_given=2000, seed=seed)[0].safe_depths().depth(0.85) == 0


def test_depth_falls_with_the_precision_asked_for():
    depths = drawn(0.5, 2.5)[0].safe_depths()
    found = [depths.depth(precision) for precision in (0.5, 0.8, 0.9, 0.95, 1.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1] == 0


def test_right_labels_in_the_tail_by_integrating_the_curve():
    grid = (np.arange(100_000) + 0.5) / 100_000
    assert right_share(grid, 0.8).mean() == pytest.approx(0.2, abs=1e-4)


def test_nothing_is_said_of_no_cells_and_of_ranks_that_tell_nothing():
    nothing = RankMixture(np.zeros(0), 100)
    assert nothing.random_share() == nothing.random_share(standard_errors=1.0) == 0.0
    assert nothing.safe_depths().depth(0.1) == 0
    assert RankMixture(np.full(50, 0.5), 0).safe_depths().random_share == 0.0
    assert RankMixture(np.linspace(0, 0.9, 500), 500).random_share() == 0.0
    assert isinstance(nothing.safe_depths(), SafeDepths)


def test_what_rare_labels_hide_does_not_vouch_for_the_others():
    """Of rare labels all are mistakes, of frequent ones hardly any: nothing may be removed from the latter."""
    data = make_pml(1500, 40, 6, cardinality=2.0, noise=0.0, random_state=0)
    rng = np.random.default_rng(0)
    rare = np.zeros((1500, 60), dtype=np.uint8)
    for k in range(60):
        rare[rng.choice(1500, 25, replace=False), k] = 1
    found = clean(data.X, np.hstack([data.Y.toarray(), rare]))
    assert found.random_mistakes_ > 0.2
    assert found.safe_depths.random_share < 0.1
    assert not found.removable(precision=0.5).any()


def test_removal_by_another_judge_needs_a_wider_margin():
    data = make_pml(1500, 60, 12, cardinality=2.0, noise=1.0, random_state=1)
    own = clean(data.X, data.Y)
    other = clean(data.X, data.Y, pred_probs=own.scores.astype(float))
    assert own.safe_depths.random_share > other.safe_depths.random_share
    assert own.removable().sum() > other.removable().sum()
