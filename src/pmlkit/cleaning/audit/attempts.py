"""The tests for a certificate that an audit has begun, how far they are, and what is certified."""

import numpy as np

from pmlkit._typing import FloatArray, IntArray
from pmlkit.cleaning.audit import certificate as tests
from pmlkit.cleaning.audit.answers import UNKNOWN, WRONG

__all__ = ["Attempts"]


class Attempts:
    """All tests of an audit, one after the other.

    Parameters
    ----------
    precision, confidence, answer_error : float
        The promise, see `pmlkit.cleaning.audit.Audit`.

    Attributes
    ----------
    begun : list of Attempt
    ledger : Ledger
        What they say by the answers as they stand.
    is_active : bool
        Whether the last one is under way.
    """

    def __init__(self, precision: float, confidence: float, answer_error: float) -> None:
        self.precision, self.confidence, self.answer_error = precision, confidence, answer_error
        self.begun: list[tests.Attempt] = []
        self.ledger = tests.Ledger(None, 1.0 - confidence, [])
        self.is_active = False

    def settle(self, verdict: IntArray) -> bool:
        """Go through all tests with the answers as they stand; return whether the active one has just ended."""
        self.ledger = tests.settle(
            self.begun, verdict, precision=self.precision, budget=1.0 - self.confidence, answer_error=self.answer_error
        )
        return self.is_active and tests.is_over(self.current, self.progress, self.precision, self.answer_error)

    @property
    def current(self) -> tests.Attempt:
        """The test that is under way."""
        return self.begun[-1]

    @property
    def progress(self) -> tests.Progress:
        """How far it is."""
        return self.ledger.progress[-1]

    @property
    def draws_to_go(self) -> float:
        """How many more draws it is expected to need."""
        return tests.draws_to_go(self.current, self.progress, self.precision, self.answer_error)

    def certified(self, verdict: IntArray) -> IntArray:
        """Return the certified candidates that may go."""
        if self.ledger.certified is None:
            return np.empty(0, dtype=np.int64)
        return tests.removable(self.begun[self.ledger.certified].cells, verdict)

    def begin(self, ranked: IntArray, probability: FloatArray, verdict: IntArray, rng: np.random.Generator) -> bool:
        """Put a set to the test if it is worth it, and return whether that was done.

        Parameters
        ----------
        ranked : array of int
            Candidates by position in ``Y.data``, the most suspicious first.
        probability : array aligned with `verdict`
            How likely each candidate is wrong.
        verdict : array aligned with ``Y.data``
        rng : Generator
            Draws the order.
        """
        held = self.certified(verdict)
        is_held = np.zeros(len(verdict), dtype=bool)
        is_held[held] = True
        is_possible = ~is_held[ranked] & np.isin(verdict[ranked], [UNKNOWN, WRONG])
        is_wrong = verdict[ranked] == WRONG
        cells = np.concatenate([held, ranked[is_possible & is_wrong], ranked[is_possible & ~is_wrong]])
        p = probability[cells]
        size = tests.propose(
            cells, p, verdict, len(held), precision=self.precision, budget=self.ledger.budget,
            answer_error=self.answer_error,
        )  # fmt: skip
        if not size:
            return False
        cells, p = cells[:size], p[:size]
        is_open = verdict[cells] == UNKNOWN
        predicted = float(np.clip(p[is_open].mean() if is_open.any() else 1.0, 0.01, 0.99))
        draws = rng.permutation(cells[is_open])
        self.begun.append(tests.Attempt(cells[~is_open], draws, self.ledger.budget * tests.SPENT, predicted))
        self.is_active = True
        self.is_active = not self.settle(verdict)
        return True
