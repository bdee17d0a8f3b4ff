"""Questions about candidates, and what answers to them are expected to bring."""

from dataclasses import dataclass

from pmlkit.cleaning.audit.record import Kind

__all__ = ["Gain", "Question"]


@dataclass(frozen=True)
class Question:
    """Is this label of this row wrong?

    Attributes
    ----------
    row : int
    label : str
    kind : {"audit", "suspicious", "certificate", "repeat"}
        Why it is asked: a random sample, the most suspicious, a random draw from the set to be certified, or to see
        whether it is answered alike.
    cell : int
        The candidate's position in ``result.Y.data``.
    name : str
        How the row is called.
    """

    row: int
    label: str
    kind: Kind
    cell: int
    name: str


@dataclass(frozen=True)
class Gain:
    """What some more answers are expected to bring.

    Attributes
    ----------
    found : float
        Wrong labels among those asked.
    certified : float
        Labels that may be removed in addition, unseen.
    """

    found: float
    certified: float
