r"""The certificate: at least a given share of a set of candidates is wrong, whenever the person stops asking.

**The test of one set.** A set S of candidates is proposed. Some of it is known by earlier answers; the others are put
into an order drawn uniformly at random, and answered in that order. If fewer than ``precision * |S|`` candidates of S
are wrong, at most :math:`K = \lceil P |S| \rceil - 1 - \#\text{known wrong}` of the n unseen ones are; so given the
draws so far, of which w were wrong, draw t + 1 is wrong with probability at most

.. math:: m_t = (K - w) / (n - t).

A wealth that starts at 1 is multiplied by :math:`q / m_t` if the draw is wrong and by :math:`(1 - q) / (1 - m_t)` if it
is not, with :math:`q = \max(p_j, m_t)`, and averaged over a few :math:`p_j`. Its expected factor is
:math:`\mu q / m_t + (1 - \mu)(1 - q) / (1 - m_t)`, which increases with the true chance :math:`\mu \le m_t` and is 1 at
:math:`\mu = m_t`: a supermartingale. By Ville's inequality it ever reaches :math:`1 / d` with probability at most d.

The wealth is a function of the drawn order and of the truth alone. It does not matter, therefore, who answered a
candidate, when, why, and what was known by then: answers are used in the drawn order, and only as far as no candidate
in it is unanswered. Answers that a person volunteers are knowledge; they cannot pass for random draws.

**Several sets.** An error budget of ``1 - confidence`` is kept. A test takes half of what is left as its d, and gives
it back when it succeeds. Call a set bad if the statement about it is false. Until the first bad set succeeds no bad set
has given anything back, so the d of the bad sets tested by then add up to at most the budget; a bad set succeeds with
probability at most its d given all that was known when it was proposed. So some bad set ever succeeds with probability
at most ``1 - confidence``, although sets depend on all earlier answers and the person stops at will.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WRONG

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attempt", "Certificate", "Ledger", "expected_draws", "log_wealth", "null_count", "propose", "settle"]

_BETS = np.array([0.2, 0.4, 0.6, 0.8, 0.9, 0.99])
_BET_WEIGHTS = np.array([1.0, 1.0, 1.0, 1.5, 1.5, 1.5]) / 7.5
_ERROR_SHARE = 0.2  # of a test's error budget for the number of mistaken answers, where mistakes are assumed
_SAFETY, _AT_MOST = 0.005, 0.99  # off the predicted precision, and its cap
_MARGIN = 0.025  # by which the predicted precision must exceed the promise
_GROWTH, _MORE = 1.15, 10  # by which a set must exceed the certified one
_LEAST_GAIN, _OVERHEAD = 0.5, 5.0  # candidates per question, and questions on top of the expected ones
_FEW_DRAWS, _TOO_MANY = 15, 250  # draws before a test may be given up, and draws still expected that make it hopeless


@dataclass(frozen=True, eq=False)
class Attempt:
    """One set under test.

    Attributes
    ----------
    known : array of int
        Candidates of the set that had been answered when it was proposed, by position in ``Y.data``.
    draws : array of int
        The others, in the drawn order.
    budget : float
        The probability with which the test may succeed though the statement is false.
    predicted : float
        Expected share of wrong ones among `draws`.
    """

    known: IntArray = field(repr=False)
    draws: IntArray = field(repr=False)
    budget: float
    predicted: float

    @property
    def size(self) -> int:
        """Number of candidates in the set."""
        return len(self.known) + len(self.draws)


@dataclass(frozen=True, eq=False)
class Ledger:
    """What all tests so far say.

    Attributes
    ----------
    certified : int
        Which attempt holds the certificate; -1 if none.
    budget : float
        The error probability that is left.
    log_wealth : list of float
        The final log wealth of each attempt.
    n_drawn : list of int
        How many draws of each attempt were used.
    """

    certified: int
    budget: float
    log_wealth: list[float]
    n_drawn: list[int]
    passed: list[bool]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What may be removed, and what is promised about it; ``str()`` states it.

    Attributes
    ----------
    removed : DataFrame
        ``row``, ``label`` and ``seen`` (whether a person called it wrong); with ``id`` where rows have names.
    cells : array of int
        The same by position in ``Y.data``.
    precision : float
        At least this share of the removed labels is wrong.
    confidence : float
        The probability that such audits end without a false statement.
    n_answers : int
        Answers given so far.
    """

    removed: "pd.DataFrame" = field(repr=False)
    cells: IntArray = field(repr=False)
    precision: float
    confidence: float
    n_answers: int
    answer_error: float = 0.0
    n_unsure: int = 0
    disagreement: str = ""

    def __str__(self) -> str:
        n_removed, n_seen = len(self.cells), int(self.removed["seen"].sum())
        often = 100.0 * (1.0 - self.confidence)
        trust = "if the answers were right"
        if self.answer_error:
            trust = f"if {_percent(self.answer_error)} of the answers were mistaken, in both directions alike"
        parts = [
            f"Of the {n_removed:,} labels removed at least {_percent(self.precision)} are wrong; this statement fails "
            f"in at most {often:g} of 100 such audits, {trust}.",
            f"It is about the {n_removed:,} labels as a whole, {n_seen:,} of which were seen and called wrong: it says "
            "nothing about a single one, or about labels that stay.",
        ]
        if self.n_unsure:
            parts.append(f"{self.n_unsure:,} answers 'unsure' were counted as if the label were right.")
        if self.disagreement:
            parts.append(self.disagreement)
        return " ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def null_count(size: int, precision: float, *, answer_error: float = 0.0, budget: float = 0.05) -> int:
    """Return the largest number of "wrong" answers in a set that a false statement allows.

    With mistaken answers, a set with just too few wrong candidates is called wrong on
    ``n_wrong (1 - e) + n_right e`` of them on average, plus a fluctuation that a part of the budget is spent on.

    Examples
    --------
    >>> from pmlkit.cleaning.audit.certificate import null_count
    >>> null_count(100, 0.9)
    89
    """
    most = int(np.ceil(precision * size - 1e-9)) - 1
    if answer_error == 0.0:
        return most
    mean = most * (1.0 - answer_error) + (size - most) * answer_error
    spread = np.sqrt(size * answer_error * (1.0 - answer_error))
    return min(int(np.ceil(mean + float(norm.isf(_ERROR_SHARE * budget)) * spread)), size)


def log_wealth(is_wrong: BoolArray, n_unseen: int, n_null: int | IntArray, precision: float) -> FloatArray:
    """Return the logarithm of the wealth after each draw.

    Parameters
    ----------
    is_wrong : bool array of shape (..., n_draws)
        Answers in the drawn order.
    n_unseen : int
        How many unseen candidates the order has in all.
    n_null : int
        How many of them are wrong at most if the statement is false.
    precision : float
        What is to be promised.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.audit.certificate import log_wealth
    >>> log_wealth(np.ones(40, dtype=bool), 1000, 899, 0.9)[[0, 39]].round(2).tolist()
    [0.08, 3.57]
    """
    n_draws = is_wrong.shape[-1]
    n_before: IntArray = np.cumsum(is_wrong, axis=-1) - is_wrong
    left = np.asarray(n_null) - n_before
    chance = np.clip(left / (n_unseen - np.arange(n_draws)), 0.0, 1.0)
    total = np.full((len(_BETS), *is_wrong.shape), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for j, bet in enumerate(precision + (1.0 - precision) * _BETS):
            q = np.maximum(bet, chance)
            factor = np.where(is_wrong, np.log(q) - np.log(chance), np.log1p(-q) - np.log1p(-chance))
            # If all that is left may be wrong, the draw says nothing.
            total[j] = np.cumsum(np.where(chance >= 1.0, 0.0, factor), axis=-1)
        wealth = np.asarray(logsumexp(total, axis=0, b=_BET_WEIGHTS.reshape(-1, *[1] * is_wrong.ndim)))
    # More wrong ones than a false statement allows: it is refuted with certainty.
    refuted = np.cumsum(is_wrong, axis=-1) > np.asarray(n_null)
    return np.where(refuted, np.inf, wealth)


def settle(
    attempts: Sequence[Attempt], verdict: IntArray, *, precision: float, budget: float, answer_error: float = 0.0
) -> Ledger:
    """Go through all tests with the answers as they stand now.

    An answer that was changed afterwards may take a certificate back. A test that had more of the budget than it
    should have had by the answers as they stand now does not count.

    Parameters
    ----------
    attempts : sequence of Attempt
    verdict : array aligned with ``Y.data``
        One of `pmlkit.cleaning.audit.answers`' codes.
    precision, budget, answer_error : float

    Returns
    -------
    ledger : Ledger
    """
    certified, left = -1, budget
    wealths, drawn, passes = [], [], []
    for i, attempt in enumerate(attempts):
        answers = verdict[attempt.draws]
        unanswered = answers == UNKNOWN
        n_drawn = int(unanswered.argmax()) if unanswered.any() else len(answers)
        test_budget = attempt.budget * (1.0 - _ERROR_SHARE if answer_error else 1.0)
        n_null = null_count(attempt.size, precision, answer_error=answer_error, budget=attempt.budget)
        n_null -= int((verdict[attempt.known] == WRONG).sum())
        wealth = np.inf if n_null < 0 else 0.0
        reached = wealth
        if n_drawn and n_null >= 0:
            path = log_wealth(answers[:n_drawn] == WRONG, len(attempt.draws), n_null, precision)
            wealth, reached = float(path[-1]), float(path.max())
        passed = reached >= -np.log(test_budget) and attempt.budget <= left * (1.0 + 1e-9)
        if passed and (certified < 0 or attempt.size > attempts[certified].size):
            certified = i
        if not passed:
            left -= min(attempt.budget, left)
        wealths.append(wealth)
        drawn.append(n_drawn)
        passes.append(passed)
    return Ledger(certified, left, wealths, drawn, passes)


def expected_draws(predicted: FloatArray, chance: FloatArray, log_target: float) -> FloatArray:
    """Return about how many draws a test needs: the target over the wealth's growth per draw."""
    p, m = np.clip(predicted, 1e-6, _AT_MOST), np.clip(chance, 1e-6, 1.0 - 1e-6)
    growth = p * np.log(p / m) + (1.0 - p) * np.log((1.0 - p) / (1.0 - m))
    return np.where(p > m, log_target / np.maximum(growth, 1e-12), np.inf)


def propose(
    cells: IntArray,
    probability: FloatArray,
    verdict: IntArray,
    n_certified: int,
    *,
    precision: float,
    budget: float,
    answer_error: float = 0.0,
) -> int:
    """Return how many of some cells, taken from the front, to put to the test; 0 if none is worth it.

    Parameters
    ----------
    cells : array of int
        Candidates, those certified already first, then the most suspicious; none that was seen to be right.
    probability : array aligned with `cells`
        How likely each is wrong; 1 and 0 where it is known.
    verdict : array aligned with ``Y.data``
    n_certified : int
        How many are certified already.
    precision, budget, answer_error : float
        The promise, and the error probability that is left.
    """
    least = int(np.ceil(_GROWTH * n_certified + _MORE))
    if len(cells) < least or budget <= 0.0:
        return 0
    # A grid of sizes, finer than 2 % apart.
    sizes = np.unique(np.geomspace(least, len(cells), num=400).round().astype(np.int64))
    is_known = verdict[cells] != UNKNOWN
    n_known_wrong = np.cumsum(verdict[cells] == WRONG)[sizes - 1]
    n_unseen = np.cumsum(~is_known)[sizes - 1]
    expected = np.cumsum(np.where(is_known, 0.0, probability))[sizes - 1]
    overall = (n_known_wrong + expected) / sizes - _SAFETY
    unseen = expected / np.maximum(n_unseen, 1) - _SAFETY
    if answer_error:
        unseen = unseen * (1.0 - answer_error) + (1.0 - unseen) * answer_error
    null = np.array([null_count(int(k), precision, answer_error=answer_error, budget=budget / 2.0) for k in sizes])
    chance = (null - n_known_wrong) / np.maximum(n_unseen, 1)
    test_budget = budget / 2.0 * (1.0 - _ERROR_SHARE if answer_error else 1.0)
    questions = np.where(chance < 0.0, 0.0, expected_draws(unseen, chance, -float(np.log(test_budget))))
    gain = (sizes - n_certified) / (questions + _OVERHEAD)
    margin = min(_MARGIN, (1.0 - precision) / 4.0)
    # The unseen part must hold by itself, too: nothing is to be removed unseen under cover of what was seen.
    possible = (np.minimum(overall, unseen) > precision + margin) & (n_unseen > questions) & (gain > _LEAST_GAIN)
    return int(sizes[np.flatnonzero(possible)[gain[possible].argmax()]]) if possible.any() else 0


def draws_to_go(attempt: Attempt, ledger: Ledger, index: int, verdict: IntArray, precision: float) -> float:
    """Return how many more draws a test is expected to need; infinite if it is expected to fail."""
    n_drawn = ledger.n_drawn[index]
    n_wrong = int((verdict[attempt.draws[:n_drawn]] == WRONG).sum())
    share = (n_wrong + 10.0 * attempt.predicted) / (n_drawn + 10.0)
    n_null = null_count(attempt.size, precision) - int((verdict[attempt.known] == WRONG).sum()) - n_wrong
    target = -np.log(attempt.budget) - ledger.log_wealth[index]
    n_left = max(len(attempt.draws) - n_drawn, 1)
    return float(expected_draws(np.array(share), np.array(n_null / n_left), target))


def is_over(attempt: Attempt, ledger: Ledger, index: int, verdict: IntArray, precision: float) -> bool:
    """Tell whether a test has succeeded, has no more draws, or is expected to need too many of them."""
    n_drawn = ledger.n_drawn[index]
    if ledger.passed[index] or n_drawn == len(attempt.draws):
        return True
    return n_drawn >= _FEW_DRAWS and draws_to_go(attempt, ledger, index, verdict, precision) > _TOO_MANY


def removable(attempt: Attempt, verdict: IntArray) -> IntArray:
    """Return the candidates of a certified set that may go: all but those seen to be right, or left open."""
    cells = np.sort(np.concatenate([attempt.known, attempt.draws]))
    kept = np.isin(verdict[cells], [RIGHT, UNSURE])
    return np.asarray(cells[~kept])
