"""What a person should look at in the end: disagreements, flagged questions, added labels, nearly equal names."""

from collections.abc import Sequence
from typing import Any

from pmlkit.cleaning.audit.answers import WORDS
from pmlkit.cleaning.review.replay import Replay

__all__ = ["findings"]

_N_LISTED = 200
_N_RARE = 40


def findings(replay: Replay, names: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the lists of the view "Results" as plain data.

    Parameters
    ----------
    replay : Replay
    names : sequence of (name, name, reason)
        Nearly equal label names.
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
    return {"row": row, "label": label, "name": replay.row_name(row), "answers": answers}
