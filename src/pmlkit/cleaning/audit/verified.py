"""Cleaning results that know answers: what was called wrong goes, what was called right stays, the rest is learned."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pmlkit.cleaning.audit.engine import Audit

if TYPE_CHECKING:
    from pmlkit.cleaning.result import CleaningResult

__all__ = ["with_answers"]


def with_answers(result: "CleaningResult", verified: Any) -> "CleaningResult":
    """Return a result whose doubts are learned from answers.

    Parameters
    ----------
    result : CleaningResult
        Made without answers.
    verified : Answers, DataFrame, path of a CSV file, or audit
        With several answers about a candidate the latest counts.

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
    audit = Audit(result, answers=verified)
    if not audit.n_answers:
        return result
    audit.learn()
    return replace(
        result,
        doubt=audit.probability,
        overall_rate=audit.noise_rate_,
        known=audit.verdict,
        before_answers=audit.result,
    )
