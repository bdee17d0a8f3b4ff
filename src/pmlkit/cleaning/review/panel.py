"""What the page says about a review: estimates, promises, the last answers, and what to look at in the end."""

import difflib
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pmlkit._words import counted
from pmlkit.cleaning.audit.answers import WORDS
from pmlkit.cleaning.estimates import Estimate
from pmlkit.cleaning.review.outputs import NO_CANDIDATES
from pmlkit.cleaning.review.replay import Replay
from pmlkit.cleaning.review.store import StoredEvent

if TYPE_CHECKING:
    from pmlkit.cleaning.audit import Audit


_N_RECENT = 10
_LEAST_TOLD = 20  # answers from which rates are told
_RATE_MINUTES = 10
_LEAST_TIMED = 5  # answers from which a rate is shown
_N_LISTED = 200
_N_RARE = 40
_ALIKE = 0.88
_MAX_NAMES = 3_000


def estimates(audit: "Audit") -> dict[str, Any]:
    """Return what the audit estimates and promises by now."""
    rate, left, certificate = audit.noise_rate_, audit.left_, audit.certificate
    if audit.n_answers < _LEAST_TOLD:
        rate = left = Estimate(np.nan, np.nan, np.nan)
    error = float(audit.answer_error_)
    return {
        "noise": {"rate": _number(rate), "low": _number(rate.low), "high": _number(rate.high)},
        "left": {"estimate": _number(left), "low": _number(left.low), "high": _number(left.high)},
        "certificate": None
        if certificate is None
        else {"n_removed": len(certificate.cells), "precision": certificate.precision},
        "promise": _no_promise(audit) if certificate is None else str(certificate),
        "testing": _testing(audit),
        "test_note": "" if certificate is None else _test_note(audit),
        "agreement": None if np.isnan(error) else 1.0 - 2 * error * (1 - error),
        "next_gain": _next_gain(audit),
    }


def _no_promise(audit: "Audit") -> str:
    if not audit.n_answers:
        return "It begins with a random sample; a promise takes some 60 answers."
    return _test_note(audit) or "So far too few labels are known to be wrong for sure."


def _test_note(audit: "Audit") -> str:
    """Return which set is tested, and how many answers that may still take."""
    test = audit.under_test
    if test is None:
        return ""
    more = test["more_expected"]
    expected = f"about {counted(max(round(more), 1), 'more answer')}" if np.isfinite(more) else "it may not succeed"
    return f"Testing {counted(int(test['size']), 'label')}: {expected}."


def _testing(audit: "Audit") -> float | None:
    """Return how far the test of a set is, None without one."""
    test = audit.under_test
    if test is None or not np.isfinite(test["more_expected"]):
        return None
    return float(test["drawn"] / max(test["drawn"] + test["more_expected"], 1.0))


def _next_gain(audit: "Audit") -> str:
    if not audit.worth_going_on_:
        return "No longer worth it: 50 more answers would settle fewer than ten wrong labels."
    gain = audit.expected_gain(50)
    unseen = f", {gain.certified:,.0f} more may go unseen" if gain.certified >= 1 else ""
    return f"Next 50 answers: about {gain.found:,.0f} wrong ones found{unseen}."


def recent_answers(standing: Sequence[StoredEvent], row_name: Callable[[int], str]) -> list[dict[str, Any]]:
    """Return the last answers about candidates, the latest first."""
    last = islice((event for event in reversed(standing) if event.kind not in NO_CANDIDATES), _N_RECENT)
    return [
        {"seq": e.seq, "label": e.label, "name": row_name(int(e.row or 0)), "answer": e.answer, "who": e.who}
        for e in last
    ]


def answers_per_minute(standing: Sequence[StoredEvent]) -> int | None:
    """Return how many answers came per minute lately, decisions about many rows not counted; None with too few."""
    times = [datetime.fromisoformat(event.at) for event in standing[-100:] if event.kind != "bulk"]
    times = [at for at in times if (times[-1] - at).total_seconds() < 60 * _RATE_MINUTES]
    if len(times) < _LEAST_TIMED:
        return None
    seconds = (times[-1] - times[0]).total_seconds()
    return round(60 * (len(times) - 1) / seconds) if seconds > 1 else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def findings(replay: Replay, names: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the lists of the view "Results" as plain data.

    `names`: nearly equal label names.
    """
    result, audit = replay.result, replay.audit
    settled = {(e.row, e.label) for e in replay.standing.values() if e.kind == "settled"}
    disagreements = [
        _line(replay, int(line.row), str(line.label), str(line.answers))
        for line in audit.contradictions.itertuples()
        if (int(line.row), line.label) not in settled
    ]
    flagged = []
    for row, label in replay.flags:
        cell = replay.position(row, label)
        flagged.append(_line(replay, row, label, (cell is not None and WORDS[audit.verdict[cell]]) or "no answer"))
    rare = [result.label_names[k] for k in result.rare_labels.tolist()]
    return {
        "disagreements": disagreements[:_N_LISTED],
        "flagged": flagged[:_N_LISTED],
        "to_add": [_line(replay, row, label) for row, label in replay.to_add[:_N_LISTED]],
        "n_to_add": len(replay.to_add),
        "names": _names(replay, names[:_N_LISTED]),
        "rare": f"{', '.join(rare[:_N_RARE])}{' …' if len(rare) > _N_RARE else ''}",
        "n_rare": len(rare),
    }


def _names(replay: Replay, pairs: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
    decided = {
        (str(e.label), str((e.shown or {}).get("into"))): e.answer
        for e in replay.standing.values()
        if e.kind == "merge"
    }
    found = []
    for one, other, why in pairs:
        both = (one, other), (other, one)
        into = next((last for first, last in both if decided.get((first, last)) == "right"), None)
        is_apart = any(decided.get(pair) == "wrong" for pair in both)
        found.append({"one": one, "other": other, "why": why, "into": into, "is_apart": is_apart})
    return found


def _line(replay: Replay, row: int, label: str, answers: str = "") -> dict[str, Any]:
    return {"row": row, "label": label, "name": replay.result.row_name(row), "answers": answers}


def similar_names(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return pairs of label names that differ little, with why they are listed.

    Examples
    --------
    >>> from pmlkit.cleaning.review.panel import similar_names
    >>> similar_names(("e-mail", "Email", "music", "label 10", "label 11"))
    [('e-mail', 'Email', 'the same but for case and punctuation')]
    """
    names = list(names)[:_MAX_NAMES]
    found, first = [], dict[str, str]()
    for name in names:
        key = re.sub(r"[\W_]+", "", name.casefold())
        if key and key in first:
            found.append((first[key], name, "the same but for case and punctuation"))
        elif key:
            first[key] = name
    # Names of different numbers mean different things; others are compared where their beginnings agree.
    groups: dict[tuple[str, str], list[str]] = {}
    for key in first:
        groups.setdefault((key[:2], re.sub(r"\D+", " ", key)), []).append(key)
    for same in groups.values():
        for i, one in enumerate(same):
            for other in same[i + 1 :]:
                if one.rstrip("s") == other.rstrip("s"):
                    found.append((first[one], first[other], "singular and plural"))
                elif min(len(one), len(other)) >= 5 and abs(len(one) - len(other)) <= 3:
                    matcher = difflib.SequenceMatcher(None, one, other)
                    if matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE:
                        found.append((first[one], first[other], "spelled alike"))
    return found
