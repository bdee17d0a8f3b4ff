r"""The certificate: at least a given share of the labels that go is wrong, whenever the person stops asking.

**The test.** A set S of N candidates is proposed. Some of it is known by earlier answers; the n others are put into an
order drawn uniformly at random, and answered in that order. Let k of these be wrong. Of the first t answers w are
"wrong"; the exact sequence of answers has probability

.. math:: L(k) = \frac{k!}{(k - w)!} \frac{(n - k)!}{(n - k - t + w)!} \frac{(n - t)!}{n!}.

Let M be the probability of the same sequence under any distribution that was fixed before the first draw (here a
mixture of two Beta-binomial ones, one of them around the precision that the noise model predicts). M / L(k) at the true
k is a martingale with mean 1 and never negative, so by Ville's inequality it ever reaches 1 / d with probability at
most d. Call that an accident.

**What is stated.** Candidates of S that are seen to be right stay. Let R be their number so far, wherever their answers
came from. That at least the share P of those that go is wrong is false if k is at most
:math:`K = \lceil P (N - R) \rceil - 1 - \#\text{known wrong}`. The wealth of the test is the smallest M / L(k) over
all k up to K (L has one peak, so this takes one evaluation), and the statement is made when that has reached 1 / d
after any number of draws. Whatever R is, and whenever it is looked at: a false statement needs M / L(k) to have reached
1 / d at the true k, which is an accident.

All this is a function of the drawn order and of the truth. It does not matter, therefore, who answered a candidate,
when, why, and what was known by then: answers are used in the drawn order, and only as far as no candidate in it is
unanswered. Answers that a person volunteers are knowledge; they cannot pass for random draws.

**Several tests.** An error budget of ``1 - confidence`` is kept. A test takes a part of what is left as its d. It gives
it back when it would have succeeded with R = 0, too: then S as a whole holds what is promised, but for an accident. So
until the first accident on a set that does not, no such set has given anything back, and their d add up to at most the
budget. Each has an accident with probability at most its d given all that was known when it began. So a false statement
is ever made with probability at most ``1 - confidence``, although sets depend on all earlier answers and the person
stops at will.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaln, gammaln
from scipy.stats import norm

from pmlkit._typing import FloatArray, IntArray
from pmlkit.cleaning.audit.answers import RIGHT, UNKNOWN, UNSURE, WRONG

if TYPE_CHECKING:
    import pandas as pd

SPENT = 0.7  # of the budget that is left, by a test
_BET_DRAWS = 40.0  # that a test's bet on the predicted precision is worth
_ERROR_SHARE = 0.2  # of a test's error budget for the number of mistaken answers, where mistakes are assumed
_SAFETY, _AT_MOST = 0.005, 0.99  # off the predicted precision, and its cap
_MARGIN = 0.025  # by which the predicted precision must exceed the promise
_GROWTH, _MORE = 1.15, 10  # by which a set must exceed the certified one, by unseen candidates
_LEAST_GAIN, _OVERHEAD = 0.5, 12.0  # candidates per question, and questions on top of the expected ones
_N_SIZES = 200
_PRIOR_DRAWS = 10.0  # that the prediction of a set's precision is worth
_FEW_DRAWS = 15.0  # draws before a test may be given up
_TOO_MANY = 250.0  # draws still expected that make it hopeless
_DRAWS = np.geomspace(4.0, 1000.0, 80)  # grid of numbers of draws for predictions


@dataclass(frozen=True, eq=False)
class Attempt:
    """A set under test."""

    # Candidates that had been answered when the set was proposed, by position in ``Y.data``.
    known: IntArray = field(repr=False)
    draws: IntArray = field(repr=False)  # the others, in the drawn order
    budget: float  # the probability with which a false statement may be made
    predicted: float  # expected share of wrong ones among the draws
    n_right: int = 0  # candidates that had been called right when the set was proposed

    @property
    def cells(self) -> IntArray:
        """The candidates of the set, in the order of their positions."""
        return np.sort(np.concatenate([self.known, self.draws]))


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a test is."""

    has_passed: bool  # whether the statement is made
    is_whole: bool  # whether it would be with what was seen to be right included
    log_wealth: float  # after the latest draw
    n_wrong: int  # draws so far
    n_other: int
    n_kept: int  # members seen not to be wrong, so that they stay


@dataclass(frozen=True, eq=False)
class Ledger:
    """What all tests so far say."""

    certified: int | None  # the attempt that holds the certificate
    budget: float  # the error probability that is left
    progress: list[Progress]  # one per attempt


def null_count(
    size: Any, precision: float, n_known: Any = 0, *, n_right: int = 0, answer_error: float = 0.0, budget: float = 0.05
) -> Any:
    """Return the most "wrong" answers among the unseen of a set, or several, that a false statement allows.

    With mistaken answers, a set with just too few wrong candidates is called wrong on
    ``n_wrong (1 - e) + n_right e`` of its unseen ones on average, plus a fluctuation that a part of the budget is spent
    on. The known ones are in the set because they were called wrong, so all mistakes among their answers are of one
    kind: as many more of the unseen may be wrong.

    `n_known`: how many of the `size` are known to be wrong. `n_right`: candidates that had been called right by then,
    which tells how many right ones were asked about, and so how many of them may have been called wrong.

    Examples
    --------
    >>> from pmlkit.cleaning.audit.certificate import null_count
    >>> int(null_count(100, 0.9)), int(null_count(100, 0.9, 20))
    (89, 69)
    """
    most = np.ceil(precision * size - 1e-9) - 1.0 - n_known
    if answer_error == 0.0:
        return most
    z = float(norm.isf(_ERROR_SHARE * budget / 2.0))
    n_unseen = size - n_known
    most = np.minimum(most + np.minimum(_most_mistaken(n_right, answer_error, z), n_known), n_unseen)
    mean = most * (1.0 - answer_error) + (n_unseen - most) * answer_error
    spread = np.sqrt(n_unseen * answer_error * (1.0 - answer_error))
    return np.where(most < 0.0, most, np.minimum(np.ceil(mean + z * spread), n_unseen))


def _most_mistaken(n_right: int, answer_error: float, z: float) -> float:
    """Return how many right candidates were called wrong at most, if so many candidates were called right.

    Of n right ones that were asked about, n e are called wrong, and up to z standard deviations more; the others are
    among the `n_right`. So their number b solves ``b = e (n_right + b) + z sqrt(e (1 - e) (n_right + b))``.
    """
    e = answer_error
    half = z * np.sqrt(e * (1.0 - e)) / 2.0
    # n_right + b is the square of the larger root of (1 - e) x^2 - 2 half x - n_right = 0.
    root = (half + np.sqrt(half**2 + (1.0 - e) * n_right)) / (1.0 - e)
    return float(root**2 - n_right)


def log_wealth(n_wrong: Any, n_other: Any, n_unseen: Any, n_null: Any, predicted: Any, precision: float) -> FloatArray:
    """Return the logarithm of the wealth of a test, see the head of this module.

    `n_wrong`, `n_other`: draws that were wrong, and others. `n_unseen`: how many candidates the order has in all.
    `n_null`: how many of them are wrong at most if the statement is false. `predicted`: the expected share of wrong
    ones. `precision`: what is to be promised.

    Examples
    --------
    >>> from pmlkit.cleaning.audit.certificate import log_wealth
    >>> float(log_wealth(40, 0, 1000, 899, 0.95, 0.9).round(2))
    3.08
    """
    w, r, n, p = (np.asarray(value, dtype=np.float64) for value in (n_wrong, n_other, n_unseen, predicted))
    ones = (1.0 + precision) / (1.0 - precision)  # a mean half-way between the promise and certainty
    bet = np.logaddexp(
        _log_beta_binomial(w, r, _BET_DRAWS * p, _BET_DRAWS * (1.0 - p)), _log_beta_binomial(w, r, ones, 1.0)
    ) - np.log(2.0)
    likeliest = np.where(w + r > 0.0, np.floor((n + 1.0) * w / np.maximum(w + r, 1.0)), n)
    k = np.maximum(np.minimum(n_null, likeliest), w)
    of_sequence = _log_falling(k, w) + _log_falling(n - k, r) - _log_falling(n, w + r)
    # More wrong ones than a false statement allows: it is refuted with certainty.
    return np.where(w > n_null, np.inf, bet - of_sequence)


def _log_beta_binomial(w: FloatArray, r: FloatArray, a: Any, b: Any) -> FloatArray:
    return np.asarray(betaln(a + w, b + r) - betaln(a, b))


def _log_falling(n: FloatArray, k: FloatArray) -> FloatArray:
    """Return log n (n - 1) ... (n - k + 1)."""
    return np.asarray(gammaln(np.maximum(n, 0.0) + 1.0) - gammaln(np.maximum(n - k, 0.0) + 1.0))


def settle(
    attempts: Sequence[Attempt], verdict: IntArray, *, precision: float, budget: float, answer_error: float = 0.0
) -> Ledger:
    """Go through all tests with the answers as they stand now.

    An answer that was changed afterwards may take a certificate back. A test that had more of the budget than it
    should have had by the answers as they stand now does not count.

    `verdict` (aligned with ``Y.data``): codes of `pmlkit.cleaning.audit.answers`.
    """
    certified, left = None, budget
    n_certified = 0
    done = []
    for i, attempt in enumerate(attempts):
        progress = _progress(attempt, verdict, precision, answer_error)
        if attempt.budget > left * (1.0 + 1e-9):
            progress = replace(progress, has_passed=False, is_whole=False)
        size = len(attempt.known) + len(attempt.draws) - progress.n_kept
        if progress.has_passed and size > n_certified:
            certified, n_certified = i, size
        if not progress.is_whole:
            left -= min(attempt.budget, left)
        done.append(progress)
    return Ledger(certified, left, done)


def _progress(attempt: Attempt, verdict: IntArray, precision: float, answer_error: float) -> Progress:
    answers, known = verdict[attempt.draws], verdict[attempt.known]
    unanswered = answers == UNKNOWN
    n_draws = int(unanswered.argmax()) if unanswered.any() else len(answers)
    w = np.cumsum(np.concatenate([[0], answers[:n_draws] == WRONG]))
    r = np.arange(n_draws + 1) - w
    n_known = int((known == WRONG).sum())
    n_kept = int(np.isin(answers, [RIGHT, UNSURE]).sum() + np.isin(known, [RIGHT, UNSURE]).sum())

    def wealth(kept: int) -> FloatArray:
        size = len(known) + len(answers) - kept
        null = null_count(
            size, precision, n_known, n_right=attempt.n_right, answer_error=answer_error, budget=attempt.budget
        )
        return log_wealth(w, r, len(answers), null, attempt.predicted, precision)

    target = _log_target(attempt.budget, answer_error)
    whole = wealth(0)
    # Where answers may be mistaken, what was called right may be wrong: the statement is about the set as a whole.
    path = whole if answer_error else wealth(n_kept)
    return Progress(
        has_passed=bool(path.max() >= target), is_whole=bool(whole.max() >= target), log_wealth=float(path[-1]),
        n_wrong=int(w[-1]), n_other=int(r[-1]), n_kept=n_kept,
    )  # fmt: skip


def _log_target(budget: float, answer_error: float) -> float:
    return -float(np.log(budget * (1.0 - _ERROR_SHARE if answer_error else 1.0)))


def expected_draws(
    share: Any, n_unseen: Any, size: Any, predicted: Any, budget: float, precision: float, answer_error: float,
    so_far: tuple[int, int] = (0, 0), n_kept: int = 0, n_right: int = 0,
) -> FloatArray:  # fmt: skip
    """Return about how many more draws a test needs if a given share of them is wrong; infinite if it will fail.

    `share`, `n_unseen`, `size` and `predicted` are arrays, an element for each test.
    """
    p, n, size, predicted = (np.asarray(value, float)[..., None] for value in (share, n_unseen, size, predicted))
    p = np.minimum(p, _AT_MOST)
    w, r = so_far[0] + p * _DRAWS, so_far[1] + (1.0 - p) * _DRAWS
    is_possible = w + r <= n
    w, r = np.where(is_possible, w, 0.0), np.where(is_possible, r, 0.0)
    kept = 0.0 if answer_error else n_kept + (1.0 - p) * _DRAWS
    null = null_count(size - kept, precision, size - n, n_right=n_right, answer_error=answer_error, budget=budget)
    wealth = log_wealth(w, r, n, null, predicted, precision)
    has_passed = is_possible & (wealth >= _log_target(budget, answer_error))
    return np.where(has_passed.any(axis=-1), _DRAWS[has_passed.argmax(axis=-1)], np.inf)


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
    """Return the size of the set to put to the test, 0 if none is worth it.

    It is that with the most unseen candidates certified per expected question.

    `cells`: candidates, those certified already first, then the most suspicious; none that was seen to be right.
    `probability` (aligned with `cells`): how likely each is wrong; 1 where it is known. `verdict` (aligned with
    ``Y.data``). `n_certified`: how many are certified already. `precision`, `budget`, `answer_error`: the promise, and
    the error probability that is left.
    """
    least = int(np.ceil(_GROWTH * n_certified + _MORE))
    if len(cells) < least or budget <= 0.0:
        return 0
    sizes = np.unique(np.geomspace(least, len(cells), num=_N_SIZES).round().astype(np.int64))
    is_open = verdict[cells] == UNKNOWN
    n_open = np.cumsum(is_open)[sizes - 1]
    # What was seen to be wrong goes anyway.
    n_gained = n_open - int(is_open[:n_certified].sum())
    expected = np.cumsum(np.where(is_open, probability, 0.0))[sizes - 1] / np.maximum(n_open, 1) - _SAFETY
    called = expected * (1.0 - answer_error) + (1.0 - expected) * answer_error
    bet = np.clip(called, 1.0 - _AT_MOST, _AT_MOST)
    n_right = int((verdict == RIGHT).sum())
    questions = expected_draws(called, n_open, sizes, bet, budget * SPENT, precision, answer_error, n_right=n_right)
    rate = n_gained / (questions + _OVERHEAD)
    # The unseen part must hold by itself, too: nothing is to be removed unseen under cover of what was seen.
    margin = min(_MARGIN, (1.0 - precision) / 4.0)
    possible = (expected > precision + margin) & (n_gained >= _MORE) & (rate > _LEAST_GAIN)
    return int(sizes[np.flatnonzero(possible)[rate[possible].argmax()]]) if possible.any() else 0


def draws_to_go(attempt: Attempt, progress: Progress, precision: float, answer_error: float = 0.0) -> float:
    """Return how many more draws a test is expected to need; infinite if it is expected to fail."""
    if progress.has_passed:
        return 0.0
    so_far = progress.n_wrong, progress.n_other
    share = (progress.n_wrong + _PRIOR_DRAWS * attempt.predicted) / (sum(so_far) + _PRIOR_DRAWS)
    n, size = len(attempt.draws), len(attempt.draws) + len(attempt.known)
    return float(
        expected_draws(
            share, n, size, attempt.predicted, attempt.budget, precision, answer_error,
            so_far=so_far, n_kept=progress.n_kept, n_right=attempt.n_right,
        )
    )  # fmt: skip


def is_over(attempt: Attempt, progress: Progress, precision: float, answer_error: float = 0.0) -> bool:
    """Return whether a test has succeeded, has no more draws, or is expected to need too many of them."""
    n_draws = progress.n_wrong + progress.n_other
    if progress.has_passed or n_draws == len(attempt.draws):
        return True
    return n_draws >= _FEW_DRAWS and draws_to_go(attempt, progress, precision, answer_error) > _TOO_MANY


def removable(cells: IntArray, verdict: IntArray) -> IntArray:
    """Return the candidates of a certified set that may go: all but those seen to be right, or left open."""
    return np.asarray(cells[~np.isin(verdict[cells], [RIGHT, UNSURE])])


class Attempts:
    """All tests of an audit, one after the other.

    `precision`, `confidence`, `answer_error`: the promise, see `pmlkit.cleaning.audit.Audit`. `ledger`: what they say
    by the answers as they stand. `is_active`: whether the last one is under way.
    """

    def __init__(self, precision: float, confidence: float, answer_error: float) -> None:
        self.precision, self.confidence, self.answer_error = precision, confidence, answer_error
        self.begun: list[Attempt] = []
        self.ledger = Ledger(None, 1.0 - confidence, [])
        self.is_active = False

    def settle(self, verdict: IntArray) -> bool:
        """Go through all tests with the answers as they stand; return whether the active one has just ended."""
        self.ledger = settle(
            self.begun, verdict, precision=self.precision, budget=1.0 - self.confidence, answer_error=self.answer_error
        )
        return self.is_active and is_over(self.current, self.progress, self.precision, self.answer_error)

    @property
    def current(self) -> Attempt:
        """The test that is under way."""
        return self.begun[-1]

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return self.ledger.progress[-1]

    @property
    def draws_to_go(self) -> float:
        """How many more draws it is expected to need."""
        return draws_to_go(self.current, self.progress, self.precision, self.answer_error)

    def certified(self, verdict: IntArray) -> IntArray:
        """Return the certified candidates that may go."""
        if self.ledger.certified is None:
            return np.empty(0, dtype=np.int64)
        return removable(self.begun[self.ledger.certified].cells, verdict)

    def begin(self, ranked: IntArray, probability: FloatArray, verdict: IntArray, rng: np.random.Generator) -> bool:
        """Put a set to the test if it is worth it, and return whether that was done.

        `ranked`: candidates by position in ``Y.data``, the most suspicious first. `probability` (aligned with
        `verdict`): how likely each candidate is wrong. `rng`: draws the order.
        """
        held = self.certified(verdict)
        is_held = np.zeros(len(verdict), dtype=bool)
        is_held[held] = True
        is_possible = ~is_held[ranked] & np.isin(verdict[ranked], [UNKNOWN, WRONG])
        is_wrong = verdict[ranked] == WRONG
        cells = np.concatenate([held, ranked[is_possible & is_wrong], ranked[is_possible & ~is_wrong]])
        p = probability[cells]
        size = propose(
            cells, p, verdict, len(held), precision=self.precision, budget=self.ledger.budget,
            answer_error=self.answer_error,
        )  # fmt: skip
        if not size:
            return False
        cells, p = cells[:size], p[:size]
        is_open = verdict[cells] == UNKNOWN
        predicted = float(np.clip(p[is_open].mean() if is_open.any() else 1.0, 0.01, 0.99))
        draws = rng.permutation(cells[is_open])
        n_right = int((verdict == RIGHT).sum())
        self.begun.append(Attempt(cells[~is_open], draws, self.ledger.budget * SPENT, predicted, n_right))
        self.is_active = True
        self.is_active = not self.settle(verdict)
        return True


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
    answer_error : float
        Share of mistaken answers that was assumed.
    n_unsure : int
        Answers that were "unsure".
    disagreement : str
        How often repeated questions were answered differently, in a sentence; empty if none was repeated.

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
