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


def most_allowed(n_runs: int, rate: float = 0.05) -> int:
    """As many failures as a rate of 5 % exceeds once in a million times."""
    return int(binom.isf(1e-6, n_runs, rate))


def slow_wealth(is_wrong: np.ndarray, n_unseen: int, n_null: int, predicted: float) -> list[float]:
    """Return the smallest likelihood ratio against all false statements, draw by draw."""
    pseudo = np.array([[40 * predicted, 40 * (1 - predicted)], [19, 1]])
    bets = np.full(2, 0.5)
    of_sequence = np.ones(n_null + 1)  # by the true number of wrong ones
    path = []
    for t, wrong in enumerate(is_wrong):
        n_wrong = is_wrong[:t].sum()
        chance = np.clip((np.arange(n_null + 1) - n_wrong) / (n_unseen - t), 0, 1)
        of_sequence = of_sequence * (chance if wrong else 1 - chance)
        seen = pseudo + np.array([n_wrong, t - n_wrong])
        bets = bets * seen[:, 0 if wrong else 1] / seen.sum(axis=1)
        path.append(bets.sum() / of_sequence.max() if of_sequence.max() > 0 else np.inf)
    return path


def wealth_along(is_wrong: np.ndarray, n_unseen: int, n_null: object, predicted: float = 0.95) -> np.ndarray:
    """Return the logarithm of the wealth after every draw; draws along the last axis."""
    w = np.cumsum(is_wrong, axis=-1)
    return log_wealth(w, np.arange(1, is_wrong.shape[-1] + 1) - w, n_unseen, n_null, predicted, 0.9)


def one_set(known: np.ndarray, draws: np.ndarray, budget: float = 0.05) -> Attempt:
    return Attempt(known, draws, budget, 0.95)


def test_wealth_equals_the_ratios_written_out():
    rng = np.random.default_rng(0)
    for n_null in (60, 120, 178):
        for n_true in (110, 178):
            is_wrong = rng.permutation(np.arange(200) < n_true)[:190]
            found = np.exp(wealth_along(is_wrong, 200, n_null, 0.93))
            assert np.allclose(found, slow_wealth(is_wrong, 200, n_null, 0.93))


def test_wealth_is_at_most_one_on_average_over_all_orders_if_the_statement_is_false():
    from itertools import permutations

    for n_true in range(5):  # of 6 candidates, where the null allows 4
        orders = np.array(sorted(set(permutations([True] * n_true + [False] * (6 - n_true)))))
        for n_draws in range(1, 7):
            mean = np.exp(wealth_along(orders[:, :n_draws], 6, 4)[:, -1]).mean()
            assert mean <= 1.0 + 1e-12
            # Exactly one where no other false statement explains the draws better: just after the first one.
            if n_true == 4 and n_draws == 1:
                assert mean > 0.7


def test_more_wrong_ones_than_the_null_allows_refute_it():
    assert wealth_along(np.array([True, True]), 10, 1)[-1] == np.inf
    assert (wealth_along(np.array([True, True]), 2, 2) <= 0.0).all()
    assert [null_count(100, 0.9), null_count(101, 0.9), null_count(10, 0.7)] == [89, 90, 6]


@pytest.mark.parametrize("share", [0.85, 0.89, 0.8999])
def test_few_statements_are_false_at_any_time(share):
    """All is drawn, never given up; the statement is about what was not seen to be right so far."""
    rng = np.random.default_rng(1)
    n_runs = 1000
    for n, budget in ((60, 0.05), (300, 0.05), (300, 0.2)):
        truth = np.arange(n) < null_count(n, share)
        draws = rng.permuted(np.tile(truth, (n_runs, 1)), axis=1)
        w = np.cumsum(draws, axis=1)
        r = np.arange(1, n + 1) - w
        n_false = np.zeros(n_runs, dtype=bool)
        for kept in range(n - truth.sum()):
            null = null_count(n - kept, 0.9)
            if truth.sum() <= null:  # false while so many were seen to be right
                passed = log_wealth(w, r, n, null, 0.95, 0.9) >= -np.log(budget)
                n_false |= (passed & (r <= kept)).any(axis=1)
        assert n_false.sum() <= most_allowed(n_runs, budget)


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
            certified = settle(attempts, verdict, precision=0.9, budget=0.05).certified
            if certified is not None:
                gone = removable(attempts[certified].cells, verdict)
                n_false += wrong[gone].sum() < 0.9 * len(gone)
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
        n_naive += wealth_along(wrong[draws][answered], 300, null_count(300, 0.9)).max() >= -np.log(0.05)
    assert n_naive == n_runs  # taken for draws they would certify anything
    assert n_false <= most_allowed(n_runs)


def test_right_ones_that_nobody_asked_for_make_no_false_statement():
    # Somebody answers some of the right ones, so that they stay; too many others are there for the promise.
    rng = np.random.default_rng(8)
    n_runs, n_false = 2000, 0
    for _ in range(n_runs):
        wrong = rng.permutation(np.arange(300) < 250)
        draws = rng.permutation(300)
        verdict = np.zeros(300, dtype=np.int8)
        verdict[rng.permutation(np.flatnonzero(~wrong))[: int(rng.integers(22))]] = RIGHT
        asked = draws[: int(rng.integers(150))]
        verdict[asked] = np.where(wrong[asked], WRONG, RIGHT)
        if settle([one_set(np.empty(0, int), draws)], verdict, precision=0.9, budget=0.05).certified is not None:
            gone = removable(np.arange(300), verdict)
            n_false += wrong[gone].sum() < 0.9 * len(gone)
    assert n_false <= most_allowed(n_runs)


def test_answers_that_are_withdrawn_are_neither_wrong_nor_kept():
    verdict = np.array([WRONG, UNKNOWN, RIGHT, UNSURE, *[WRONG] * 36], dtype=np.int8)
    progress = settle([one_set(np.arange(3), np.arange(3, 40))], verdict, precision=0.9, budget=0.05).progress[0]
    assert (progress.n_kept, progress.n_wrong, progress.n_other) == (2, 36, 1)


def test_answers_count_in_the_drawn_order_whenever_they_come():
    rng = np.random.default_rng(5)
    draws = rng.permutation(400)
    verdict = np.zeros(400, dtype=np.int8)
    for cell in draws[:60][::-1]:
        verdict[cell] = WRONG
        ledger = settle([one_set(np.empty(0, int), draws)], verdict, precision=0.9, budget=0.05)
        assert ledger.progress[0].n_wrong in (0, 60)
    assert ledger.certified == 0
    verdict[draws[20]] = UNKNOWN
    assert settle([one_set(np.empty(0, int), draws)], verdict, precision=0.9, budget=0.05).progress[0].n_wrong == 20


def test_a_test_returns_its_budget_only_when_it_succeeds():
    draws = np.arange(400)
    verdict = np.full(400, WRONG, dtype=np.int8)
    failed = one_set(np.empty(0, int), np.arange(100), 0.025)
    ledger = settle([one_set(np.empty(0, int), draws, 0.025)], verdict, precision=0.9, budget=0.05)
    assert (ledger.certified, ledger.budget) == (0, 0.05)
    verdict[:100] = np.where(np.arange(100) % 2, RIGHT, UNKNOWN)
    ledger = settle([failed], verdict, precision=0.9, budget=0.05)
    assert (ledger.certified, ledger.budget) == (None, 0.025)
    # A later answer took the first success back: what followed had too much of the budget.
    later = one_set(np.empty(0, int), np.arange(100, 400), 0.03)
    assert settle([failed, later], verdict, precision=0.9, budget=0.05).certified is None
    # What holds only because right ones stay is stated, but gives nothing back.
    verdict = np.where(np.arange(200) % 20, WRONG, RIGHT)
    verdict[110:] = UNKNOWN
    ledger = settle([one_set(np.empty(0, int), np.arange(200), 0.025)], verdict, precision=0.9, budget=0.05)
    assert (ledger.certified, ledger.budget) == (0, 0.025)
    assert not ledger.progress[0].is_whole


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


def test_mistakes_among_those_that_were_called_wrong_before_do_not_break_the_promise():
    """They are in the set because they were called wrong: right ones among them hide wrong ones that are missing."""
    rng = np.random.default_rng(8)
    n_runs, n_false, n_before, n, error = 600, 0, 600, 300, 0.2
    for _ in range(n_runs):
        earlier = rng.random(n_before) < 0.9
        called_wrong = earlier ^ (rng.random(n_before) < error)
        known = earlier[called_wrong]
        size = len(known) + n
        n_wrong = null_count(size - 0.02 * size, 0.9) - known.sum()
        wrong = np.concatenate([known, rng.permutation(np.arange(n) < n_wrong)])
        draws = np.arange(len(known), size)
        said = wrong ^ (rng.random(size) < error)
        verdict = np.where(np.arange(size) < len(known), WRONG, UNKNOWN).astype(np.int8)
        verdict[draws[:60]] = np.where(said[draws[:60]], WRONG, RIGHT)
        attempt = Attempt(np.arange(len(known)), draws, 0.05, 0.95, n_right=int((~called_wrong).sum()))
        ledger = settle([attempt], verdict, precision=0.9, budget=0.05, answer_error=error)
        is_made = ledger.certified is not None
        n_false += is_made and wrong[removable(attempt.cells, verdict)].mean() < 0.9
    assert n_false <= most_allowed(n_runs)


def test_as_many_right_ones_were_called_wrong_as_the_binomial_distribution_allows():
    from pmlkit.cleaning.audit.certificate import _most_mistaken

    for n_asked, error in ((200, 0.05), (500, 0.1), (2000, 0.2)):
        n_mistaken = int(binom.isf(0.01, n_asked, error))
        bound = _most_mistaken(n_asked - n_mistaken, error, 2.326)
        assert bound == pytest.approx(n_mistaken, rel=0.1)


def test_mistaken_answers_that_are_assumed_cost_fewer_certificates():
    rng = np.random.default_rng(7)
    passed = {0.0: 0, 0.05: 0}
    for _ in range(60):
        wrong = rng.permutation(np.arange(4000) < 3880)
        draws = rng.permutation(4000)
        verdict = np.zeros(4000, dtype=np.int8)
        said = wrong ^ (rng.random(4000) < 0.05)
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
    assert 700 <= propose(cells, good, none, 0, precision=0.9, budget=0.05) <= 1100
    assert propose(cells, np.full(2000, 0.91), none, 0, precision=0.9, budget=0.05) == 0
    assert propose(cells, good, none, 950, precision=0.9, budget=0.05) == 0
    # Nothing goes unseen under cover of what was seen.
    seen = np.where(cells < 500, WRONG, UNKNOWN)
    mixed = np.where(cells < 500, 1.0, 0.7)
    assert propose(cells[:700], mixed[:700], seen, 0, precision=0.9, budget=0.05) == 0


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
