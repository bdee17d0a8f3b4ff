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

    Examples
    --------
    >>> from pmlkit.cleaning.audit import Question
    >>> question = Question(row=3, label="sky", kind="suspicious", cell=7, name="p0003")
    >>> f"Is {question.label!r} right for {question.name}?"
    "Is 'sky' right for p0003?"
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

    Examples
    --------
    >>> from pmlkit.cleaning.audit import Gain
    >>> gain = Gain(found=31.5, certified=120.0)
    >>> f"50 more answers: about {gain.found + gain.certified:.0f} more labels can go"
    '50 more answers: about 152 more labels can go'
    """

    found: float
    certified: float
