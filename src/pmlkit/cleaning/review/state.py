"""What the page says about a review: estimates, promises and the last answers, as plain data."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit.cleaning.estimates import Estimate
from pmlkit.cleaning.review.applied import NO_CANDIDATES
from pmlkit.cleaning.review.store import StoredEvent

if TYPE_CHECKING:
    from pmlkit.cleaning.audit import Audit

__all__ = ["answers_per_minute", "estimates", "recent_answers"]

_N_RECENT = 10
_LEAST_TOLD = 20  # answers from which rates are told
_RATE_MINUTES = 10
_LEAST_TIMED = 5  # answers from which a rate is told


def estimates(audit: "Audit") -> dict[str, Any]:
    """Return what the audit estimates and promises by now."""
    rate, left, certificate = audit.noise_rate_, audit.left_, audit.certificate
    if audit.n_answers < _LEAST_TOLD:
        rate = left = Estimate(np.nan, np.nan, np.nan)
    error = audit.answer_error_.value
    return {
        "noise": {"rate": _number(rate.value), "low": _number(rate.low), "high": _number(rate.high)},
        "left": {"estimate": _number(left.value), "low": _number(left.low), "high": _number(left.high)},
        "certificate": None
        if certificate is None
        else {"n_removed": len(certificate.cells), "precision": certificate.precision},
        "promise": _no_promise(audit) if certificate is None else str(certificate),
        "testing": _testing(audit),
        "agreement": None if np.isnan(error) else 1.0 - 2 * error * (1 - error),
        "next_gain": _next_gain(audit),
    }


def _no_promise(audit: "Audit") -> str:
    if not audit.n_answers:
        return "It begins with a random sample; a promise takes some 60 answers."
    test = audit.under_test
    if test is None:
        return "So far too few labels are known to be wrong for sure."
    more = test["more_expected"]
    expected = f"about {more:.0f} more answers" if np.isfinite(more) else "it may not succeed"
    return f"Testing a set of {test['size']:,} labels: {expected}."


def _testing(audit: "Audit") -> float | None:
    """Return how far the test of a set is, None without one."""
    test = audit.under_test
    if test is None or not np.isfinite(test["more_expected"]):
        return None
    return float(test["drawn"] / max(test["drawn"] + test["more_expected"], 1.0))


def _next_gain(audit: "Audit") -> str:
    if not audit.worth_going_on_:
        return "No longer worth it: 50 more answers would find or release fewer than ten wrong labels."
    gain = audit.expected_gain(50)
    unseen = f", {gain.certified:,.0f} more may go unseen" if gain.certified >= 1 else ""
    return f"Next 50 answers: about {gain.found:,.0f} wrong ones found{unseen}."


def recent_answers(standing: Sequence[StoredEvent], row_name: Callable[[int], str]) -> list[dict[str, Any]]:
    """Return the last answers about candidates, the latest first."""
    last = [event for event in standing if event.kind not in NO_CANDIDATES][-_N_RECENT:]
    return [
        {"seq": e.seq, "label": e.label, "name": row_name(int(e.row or 0)), "answer": e.answer, "who": e.who}
        for e in reversed(last)
    ]


def answers_per_minute(standing: Sequence[StoredEvent]) -> int | None:
    """Return how many answers came per minute lately, decisions about many rows not counted; None with too few."""
    times = [datetime.fromisoformat(event.at) for event in standing[-200:] if event.kind != "bulk"]
    times = [at for at in times if (times[-1] - at).total_seconds() < 60 * _RATE_MINUTES]
    if len(times) < _LEAST_TIMED:
        return None
    seconds = (times[-1] - times[0]).total_seconds()
    return round(60 * (len(times) - 1) / seconds) if seconds > 1 else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
