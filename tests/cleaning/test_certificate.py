"""The certificate's promise, by simulation on the edge of being false, and its parts against slow references."""

import numpy as np
import pytest
from scipy.stats import binom

from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WRONG
from pmlkit.cleaning.audit.certificate import (
    Attempt,
    Certificate,
    log_wealth,
    null_count,
    propose,
    removable,
    settle,
)

BETS = [0.92, 0.94, 0.96, 0.98, 0.99, 0.999]
WEIGHTS = np.array([1, 1, 1, 1.5, 1.5, 1.5]) / 7.5


def most_allowed(n_runs: int, rate: float = 0.05) -> int:
    """As many failures as a rate of 5 % exceeds once in a million times."""
    return int(binom.isf(1e-6, n_runs, rate))


def slow_wealth(is_wrong: np.ndarray, n_unseen: int, n_null: int) -> list[float]:
    wealth = WEIGHTS.copy()
    path = []
    for t, wrong in enumerate(is_wrong):
        m = (n_null - is_wrong[:t].sum()) / (n_unseen - t)
        for j, p in enumerate(BETS):
            q = max(p, m)
            wealth[j] *= q / m if wrong else (1 - q) / (1 - m)
        path.append(wealth.sum())
    return path


def one_set(known: np.ndarray, draws: np.ndarray, budget: float = 0.05) -> Attempt:
    return Attempt(known, draws, np.zeros(len(known), int), np.zeros(len(draws), int), budget, np.array([0.95]))


def test_wealth_equals_the_product_written_out():
    rng = np.random.default_rng(0)
    for n_null in (80, 120, 178):
        is_wrong = rng.permutation(np.arange(200) < 178)[:70]
        assert np.allclose(np.exp(log_wealth(is_wrong, 200, n_null, 0.9)), slow_wealth(is_wrong, 200, n_null))


def test_wealth_is_one_on_average_over_all_orders_if_the_statement_is_just_false():
    # All orders of 6 candidates of which 4 are wrong, 4 being the most that the null allows.
    from itertools import permutations

    orders = np.array(sorted(set(permutations([True] * 4 + [False] * 2))))
    for n_draws in range(1, 6):
        wealth = np.exp(log_wealth(orders[:, :n_draws], 6, 4, 0.6))
        mean = wealth[:, -1].mean()
        # Exactly, until an order may have run out of one kind; never more.
        assert mean == pytest.approx(1.0) if n_draws <= 2 else mean <= 1.0 + 1e-12


def test_more_wrong_ones_than_the_null_allows_refute_it_and_no_bet_is_made_where_all_may_be_wrong():
    assert log_wealth(np.array([True, True]), 10, 1, 0.9)[-1] == np.inf
    assert log_wealth(np.array([True, True]), 2, 2, 0.9).tolist() == [0.0, 0.0]
    assert null_count(100, 0.9) == 89
    assert null_count(101, 0.9) == 90
    assert null_count(10, 0.7) == 6


def test_the_wealth_rarely_grows_on_the_edge():
    # The whole population just under the promise, everything drawn, never given up.
    rng = np.random.default_rng(1)
    n_runs = 4000
    for n, budget in ((60, 0.05), (300, 0.05), (300, 0.2)):
        truth = np.arange(n) < null_count(n, 0.9)
        draws = rng.permuted(np.tile(truth, (n_runs, 1)), axis=1)
        reached = log_wealth(draws, n, null_count(n, 0.9), 0.9).max(axis=1) >= -np.log(budget)
        assert reached.sum() <= most_allowed(n_runs, budget)
        assert reached.any()


def test_nested_sets_share_one_budget():
    # The smaller sets are good, the larger ones are bad by one candidate each.
    rng = np.random.default_rng(2)
    n_runs, false = 2000, 0
    sizes = np.array([100, 150, 200, 300])
    level = np.searchsorted(sizes, np.arange(300), side="right")
    wrong = np.zeros(300, dtype=bool)
    wrong[:92] = True
    for low, high in ((100, 150), (150, 200), (200, 300)):
        wrong[low : low + null_count(high, 0.9) - wrong.sum()] = True
    verdict = np.where(wrong, WRONG, RIGHT)
    for _ in range(n_runs):
        order = rng.permutation(300)
        none = np.empty(0, int)
        attempt = Attempt(none, order, none, level[order], 0.05, np.full(4, 0.95))
        certified = settle([attempt], verdict, precision=0.9, budget=0.1).certified
        false += certified is not None and certified[1] > 0
    assert 0 < false <= most_allowed(n_runs)


def test_many_tests_of_sets_chosen_by_earlier_answers_stay_within_the_budget():
    # The person tests and tests again, with all that is known, until the budget is used up.
    rng = np.random.default_rng(3)
    n_runs, n_false = 400, 0
    for _ in range(n_runs):
        wrong = rng.permutation(np.arange(250) < 222)
        verdict = np.zeros(250, dtype=np.int8)
        attempts: list[Attempt] = []
        for _ in range(5):
            # Leave out what was seen to be right, as long as the statement about the rest is false.
            open_cells = np.flatnonzero(verdict != RIGHT)
            while wrong[open_cells].sum() > null_count(len(open_cells), 0.9):
                seen = open_cells[(verdict[open_cells] == WRONG)]
                if not len(seen):
                    break
                open_cells = np.setdiff1d(open_cells, seen[: max(1, len(seen) // 4)])
            if wrong[open_cells].sum() > null_count(len(open_cells), 0.9) or len(open_cells) < 20:
                break
            known = open_cells[verdict[open_cells] != UNKNOWN]
            draws = rng.permutation(open_cells[verdict[open_cells] == UNKNOWN])
            left = settle(attempts, verdict, precision=0.9, budget=0.05).budget
            attempts.append(one_set(known, draws, left / 2))
            asked = draws[: int(rng.integers(5, 60))]
            verdict[asked] = np.where(wrong[asked], WRONG, RIGHT)
            if settle(attempts, verdict, precision=0.9, budget=0.05).certified is not None:
                n_false += 1
                break
    assert n_false <= most_allowed(n_runs)


def test_answers_that_nobody_asked_for_do_not_pass_for_random_draws():
    # Somebody answers all wrong candidates, truly, and none of the right ones.
    rng = np.random.default_rng(4)
    n_runs, n_false, n_naive = 2000, 0, 0
    truth = np.arange(300) < null_count(300, 0.9)
    for _ in range(n_runs):
        wrong = rng.permutation(truth)
        verdict = np.where(wrong, WRONG, UNKNOWN)
        draws = rng.permutation(300)
        n_false += settle([one_set(np.empty(0, int), draws)], verdict, precision=0.9, budget=0.05).certified is not None
        answered = verdict[draws] != UNKNOWN
        n_naive += log_wealth(wrong[draws][answered], 300, null_count(300, 0.9), 0.9).max() >= -np.log(0.05)
    assert n_naive == n_runs  # taken for draws they would certify anything
    assert n_false <= most_allowed(n_runs)


def test_answers_count_in_the_drawn_order_whenever_they_come():
    rng = np.random.default_rng(5)
    draws = rng.permutation(400)
    verdict = np.zeros(400, dtype=np.int8)
    for cell in draws[:60][::-1]:
        verdict[cell] = WRONG
        ledger = settle([one_set(np.empty(0, int), draws)], verdict, precision=0.9, budget=0.05)
        assert ledger.progress[0].n_draws in (0, 60)
    assert ledger.certified == (0, 0)
    verdict[draws[20]] = UNKNOWN
    assert settle([one_set(np.empty(0, int), draws)], verdict, precision=0.9, budget=0.05).progress[0].n_draws == 20


def test_a_test_returns_its_budget_only_when_it_succeeds():
    draws = np.arange(400)
    verdict = np.full(400, WRONG, dtype=np.int8)
    failed = one_set(np.empty(0, int), np.arange(100), 0.025)
    ledger = settle([one_set(np.empty(0, int), draws, 0.025)], verdict, precision=0.9, budget=0.05)
    assert (ledger.certified, ledger.budget) == ((0, 0), 0.05)
    verdict[:] = RIGHT
    ledger = settle([failed], verdict, precision=0.9, budget=0.05)
    assert (ledger.certified, ledger.budget) == (None, 0.025)
    # A later answer took the first success back: what followed had too much of the budget.
    verdict[:] = np.where(np.arange(400) < 100, RIGHT, WRONG)
    later = one_set(np.empty(0, int), np.arange(100, 400), 0.03)
    assert settle([failed, later], verdict, precision=0.9, budget=0.05).certified is None


def test_mistaken_answers_at_the_assumed_rate_do_not_break_the_promise():
    rng = np.random.default_rng(6)
    n_runs, n_false, n = 1500, 0, 400
    for _ in range(n_runs):
        wrong = rng.permutation(np.arange(n) < null_count(n, 0.9))
        said = wrong ^ (rng.random(n) < 0.05)
        verdict = np.where(said, WRONG, RIGHT)
        attempt = one_set(np.empty(0, int), rng.permutation(n))
        n_false += settle([attempt], verdict, precision=0.9, budget=0.05, answer_error=0.05).certified is not None
    assert n_false <= most_allowed(n_runs)


def test_mistaken_answers_that_are_assumed_cost_fewer_certificates():
    rng = np.random.default_rng(7)
    passed = {0.0: 0, 0.05: 0}
    for _ in range(60):
        wrong = rng.permutation(np.arange(1000) < 970)
        draws = rng.permutation(1000)
        verdict = np.zeros(1000, dtype=np.int8)
        said = wrong ^ (rng.random(1000) < 0.05)
        verdict[draws[:300]] = np.where(said[draws[:300]], WRONG, RIGHT)
        for rate in passed:
            attempt = one_set(np.empty(0, int), draws)
            ledger = settle([attempt], verdict, precision=0.9, budget=0.05, answer_error=rate)
            passed[rate] += ledger.certified is not None
    assert passed[0.05] > passed[0.0]


def test_sets_are_proposed_only_where_they_pay():
    cells = np.arange(2000)
    none = np.zeros(2000, dtype=np.int8)
    good = np.where(cells < 1000, 0.98, 0.2)
    sizes = propose(cells, good, none, 0, precision=0.9, budget=0.05)
    assert 700 <= sizes[-1] <= 1100
    assert len(sizes) > 1
    assert len(propose(cells, np.full(2000, 0.91), none, 0, precision=0.9, budget=0.05)) == 0
    assert len(propose(cells, good, none, 950, precision=0.9, budget=0.05)) == 0
    # Nothing goes unseen under cover of what was seen.
    seen = np.where(cells < 500, WRONG, UNKNOWN)
    mixed = np.where(cells < 500, 1.0, 0.7)
    assert len(propose(cells[:700], mixed[:700], seen, 0, precision=0.9, budget=0.05)) == 0


def test_what_was_seen_to_be_right_or_left_open_stays():
    verdict = np.array([WRONG, RIGHT, UNSURE, UNKNOWN])
    assert removable(np.arange(4), verdict).tolist() == [0, 3]


def test_the_promise_in_words():
    import pandas as pd

    table = pd.DataFrame({"row": [1, 2], "label": ["a", "b"], "seen": [True, False]})
    text = str(Certificate(table, np.array([3, 5]), 0.9, 0.95, 40, n_unsure=3))
    assert "Of the 2 labels removed at least 90 % are wrong" in text
    assert "fails in at most 5 of 100 such audits, if the answers were right" in text
    assert "3 answers 'unsure' were counted as if the label were right" in text
