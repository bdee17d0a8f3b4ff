"""Cleaning results that know answers: what was called wrong goes, what was called right stays, the rest is learned."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._words import counted
from pmlkit.cleaning.audit.answers import RIGHT, WRONG, Settle
from pmlkit.cleaning.audit.engine import Audit
from pmlkit.exceptions import PMLWarning

if TYPE_CHECKING:
    from pmlkit.cleaning.result import CleaningResult

__all__ = ["with_answers"]

_N_LISTED = 3


def with_answers(result: "CleaningResult", verified: Any, settle: Settle = "latest") -> "CleaningResult":
    """Return a result whose doubts are learned from answers.

    Parameters
    ----------
    result : CleaningResult
        Made without answers.
    verified : Answers, DataFrame, path of a CSV file, or audit
    settle : {"latest", "majority"}
        Which of several answers about one candidate counts.

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> first = clean(strips.X, strips.Y).top_suspects(1)
    >>> result = clean(strips.X, strips.Y, verified=first[["row", "label"]].assign(answer="wrong"))
    >>> int(result.removable().sum())
    1
    """
    audit = Audit(result, answers=verified, settle=settle)
    if not audit.n_answers:
        _warn(PMLWarning("The answers are empty: nothing is learned from them."))
        return result
    _tell_contradictions(audit)
    if not np.isin(audit.verdict, [WRONG, RIGHT]).any():
        _warn(PMLWarning("Every answer comes to 'unsure': nothing is learned from them."))
        return replace(result, known=audit.verdict, before_answers=audit.result)
    audit.learn()
    return replace(
        result,
        doubt=audit.probability,
        overall_rate=audit.noise_rate_,
        known=audit.verdict,
        before_answers=audit.result,
    )


def _tell_contradictions(audit: Audit) -> None:
    found = audit.contradictions
    if not len(found):
        return
    rows = found["id"] if "id" in found else found["row"]
    listed = [
        f"{label!r} of {row} ({answers})"
        for row, label, answers in zip(rows[:_N_LISTED], found["label"], found["answers"], strict=False)
    ]
    more = [f"and {len(found) - _N_LISTED} more"] if len(found) > _N_LISTED else []
    counts = "the latest answer counts" if audit.settle == "latest" else "the majority counts"
    many = counted(len(found), "label was", "labels were")
    message = f"{many} answered in different ways, and {counts}: {'; '.join([*listed, *more])}."
    if audit.settle == "latest":
        _warn(PMLWarning(message, option="settle", value="'majority'", remedy=" to let the majority decide"))
    else:
        _warn(PMLWarning(message))


def _warn(warning: PMLWarning) -> None:
    warnings.warn(warning, stacklevel=5)
