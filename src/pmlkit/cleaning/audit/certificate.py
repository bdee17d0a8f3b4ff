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

**Nested sets.** A test proposes a few nested sets at once, with one random order for the largest; restricted to a
smaller set it is a random order of that. Every set has its own wealth from the same draws, and counts as certified when
it and all smaller ones have reached 1 / d. Call a set bad if the statement about it is false: a false statement needs
the smallest bad set to succeed, which has probability at most d. So nothing is paid for testing several.

**Several tests.** An error budget of ``1 - confidence`` is kept. A test takes half of what is left as its d, and gives
it back when all its sets have succeeded. Until the first bad set is certified no test with a bad set has given anything
back, so their d add up to at most the budget; each makes a false statement with probability at most its d given all
that was known when it began. So a false statement is ever made with probability at most ``1 - confidence``, although
sets depend on all earlier answers and the person stops at will.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from pmlkit._typing import BoolArray, FloatArray, IntArray
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WRONG

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attempt", "Certificate", "Ledger", "Progress", "log_wealth", "null_count", "propose", "settle"]

_BETS = np.array([0.2, 0.4, 0.6, 0.8, 0.9, 0.99])
_BET_WEIGHTS = np.array([1.0, 1.0, 1.0, 1.5, 1.5, 1.5]) / 7.5
_ERROR_SHARE = 0.2  # of a test's error budget for the number of mistaken answers, where mistakes are assumed
_SAFETY, _AT_MOST = 0.005, 0.99  # off the predicted precision, and its cap
_MARGIN = 0.025  # by which the predicted precision must exceed the promise
_GROWTH, _MORE = 1.15, 10  # by which a set must exceed the certified one, by unseen candidates
_LEAST_GAIN, _OVERHEAD = 0.5, 5.0  # candidates per question, and questions on top of the expected ones
_N_SIZES = 400
_NESTED = np.array([0.5, 0.65, 0.8, 1.0])  # sizes of nested sets, relative to the largest
_PRIOR_DRAWS = 10.0  # that the prediction of a set's precision is worth
_FEW_DRAWS = 15.0  # draws before a test may be given up
_TOO_MANY = 250.0  # draws still expected that make it hopeless


@dataclass(frozen=True, eq=False)
class Attempt:
    """Nested sets under test, each of which holds the smaller ones.

    Attributes
    ----------
    known : array of int
        Candidates that had been answered when the sets were proposed, by position in ``Y.data``.
    draws : array of int
        The others, in the drawn order.
    known_level, draw_level : arrays of int
        From which set on, counted from 0, each candidate belongs to them.
    budget : float
        The probability with which a false statement may be made.
    predicted : array of shape (n_sets,)
        Expected share of wrong ones among the unseen candidates of each set.
    """

    known: IntArray = field(repr=False)
    draws: IntArray = field(repr=False)
    known_level: IntArray = field(repr=False)
    draw_level: IntArray = field(repr=False)
    budget: float
    predicted: FloatArray

    @property
    def n_sets(self) -> int:
        """Number of nested sets."""
        return len(self.predicted)

    def cells(self, level: int) -> IntArray:
        """Return the candidates of a set, in the order of their positions."""
        parts = self.known[self.known_level <= level], self.draws[self.draw_level <= level]
        return np.sort(np.concatenate(parts))


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a test is.

    Attributes
    ----------
    n_passed : int
        How many of the nested sets have succeeded, the smallest first.
    log_wealth : float
        Of the first set that has not; infinite if all have.
    n_draws, n_wrong, n_left, n_null : int
        Of that set: draws used, wrong ones among them, draws that are left, and how many of those are wrong at most if
        the statement is false.
    """

    n_passed: int
    log_wealth: float
    n_draws: int
    n_wrong: int
    n_left: int
    n_null: int


@dataclass(frozen=True, eq=False)
class Ledger:
    """What all tests so far say.

    Attributes
    ----------
    certified : (int, int) or None
        The attempt and its set that hold the certificate.
    budget : float
        The error probability that is left.
    progress : list of Progress
        One per attempt.
    """

    certified: tuple[int, int] | None
    budget: float
    progress: list[Progress]


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

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from pmlkit.cleaning.audit import Certificate
    >>> removed = pd.DataFrame({"row": [3, 8], "label": ["a", "b"], "seen": [True, False]})
    >>> print(Certificate(removed, np.array([4, 11]), precision=0.9, confidence=0.95, n_answers=120))
    Of the 2 labels removed at least 90 % are wrong; this statement fails in at most 5 of 100 such audits, ...
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
    certified, left = None, budget
    n_certified = 0
    done = []
    for i, attempt in enumerate(attempts):
        progress = _progress(attempt, verdict, precision, answer_error)
        if attempt.budget > left * (1.0 + 1e-9):
            progress = replace(progress, n_passed=0)
        if progress.n_passed:
            size = len(attempt.cells(progress.n_passed - 1))
            if size > n_certified:
                certified, n_certified = (i, progress.n_passed - 1), size
        if progress.n_passed < attempt.n_sets:
            left -= min(attempt.budget, left)
        done.append(progress)
    return Ledger(certified, left, done)


def _progress(attempt: Attempt, verdict: IntArray, precision: float, answer_error: float) -> Progress:
    target = -np.log(attempt.budget * (1.0 - _ERROR_SHARE if answer_error else 1.0))
    found = Progress(0, 0.0, 0, 0, 0, 0)
    for level in range(attempt.n_sets):
        known = attempt.known[attempt.known_level <= level]
        draws = attempt.draws[attempt.draw_level <= level]
        answers = verdict[draws]
        unanswered = answers == UNKNOWN
        n_draws = int(unanswered.argmax()) if unanswered.any() else len(answers)
        is_wrong = answers[:n_draws] == WRONG
        n_null = null_count(len(known) + len(draws), precision, answer_error=answer_error, budget=attempt.budget)
        n_null -= int((verdict[known] == WRONG).sum())
        path = np.array([0.0])
        if n_null < 0:
            path = np.array([np.inf])
        elif n_draws:
            path = log_wealth(is_wrong, len(draws), n_null, precision)
        n_wrong = int(is_wrong.sum())
        found = Progress(level, float(path[-1]), n_draws, n_wrong, len(draws) - n_draws, n_null - n_wrong)
        if path.max() < target:
            return found
    return replace(found, n_passed=attempt.n_sets, log_wealth=np.inf)


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
) -> IntArray:
    """Return the sizes of nested sets to put to the test; none if it is not worth it.

    The largest is that with the most unseen candidates certified per expected question; the smaller ones are there in
    case that it was expected to be better than it is.

    Parameters
    ----------
    cells : array of int
        Candidates, those certified already first, then the most suspicious; none that was seen to be right.
    probability : array aligned with `cells`
        How likely each is wrong; 1 where it is known.
    verdict : array aligned with ``Y.data``
    n_certified : int
        How many are certified already.
    precision, budget, answer_error : float
        The promise, and the error probability that is left.
    """
    least = int(np.ceil(_GROWTH * n_certified + _MORE))
    if len(cells) < least or budget <= 0.0:
        return np.empty(0, dtype=np.int64)
    sizes = np.unique(np.geomspace(least, len(cells), num=_N_SIZES).round().astype(np.int64))
    is_open = verdict[cells] == UNKNOWN
    n_open = np.cumsum(is_open)[sizes - 1]
    # What was seen to be wrong goes anyway.
    n_gained = n_open - int(is_open[:n_certified].sum())
    expected = np.cumsum(np.where(is_open, probability, 0.0))[sizes - 1] / np.maximum(n_open, 1) - _SAFETY
    null = np.array([null_count(int(k), precision, answer_error=answer_error, budget=budget / 2.0) for k in sizes])
    chance = (null - (sizes - n_open)) / np.maximum(n_open, 1)
    target = -float(np.log(budget / 2.0 * (1.0 - _ERROR_SHARE if answer_error else 1.0)))
    called = expected * (1.0 - answer_error) + (1.0 - expected) * answer_error
    questions = np.where(chance < 0.0, 0.0, expected_draws(called, chance, target))
    rate = n_gained / (questions + _OVERHEAD)
    # The unseen part must hold by itself, too: nothing is to be removed unseen under cover of what was seen.
    margin = min(_MARGIN, (1.0 - precision) / 4.0)
    possible = (expected > precision + margin) & (n_gained >= _MORE) & (rate > _LEAST_GAIN) & (questions < n_open)
    if not possible.any():
        return np.empty(0, dtype=np.int64)
    best = int(sizes[np.flatnonzero(possible)[rate[possible].argmax()]])
    nested = np.unique((n_certified + (best - n_certified) * _NESTED).round().astype(np.int64))
    return np.asarray(nested[nested >= min(least, best)])


def draws_to_go(attempt: Attempt, progress: Progress) -> float:
    """Return how many more draws a test is expected to need for its next set; infinite if it is expected to fail."""
    if progress.n_passed == attempt.n_sets:
        return 0.0
    predicted = float(attempt.predicted[progress.n_passed])
    share = (progress.n_wrong + _PRIOR_DRAWS * predicted) / (progress.n_draws + _PRIOR_DRAWS)
    target = -np.log(attempt.budget) - progress.log_wealth
    chance = progress.n_null / max(progress.n_left, 1)
    within = float(expected_draws(np.array(share), np.array(chance), target))
    # Draws outside of the set do not count for it.
    n_set = max(int((attempt.draw_level <= progress.n_passed).sum()), 1)
    return within * len(attempt.draws) / n_set


def is_over(attempt: Attempt, progress: Progress) -> bool:
    """Tell whether a test has succeeded, has no more draws, or is expected to need too many of them."""
    if progress.n_passed == attempt.n_sets or progress.n_left == 0:
        return True
    return progress.n_draws >= _FEW_DRAWS and draws_to_go(attempt, progress) > _TOO_MANY


def removable(cells: IntArray, verdict: IntArray) -> IntArray:
    """Return the candidates of a certified set that may go: all but those seen to be right, or left open."""
    return np.asarray(cells[~np.isin(verdict[cells], [RIGHT, UNSURE])])
