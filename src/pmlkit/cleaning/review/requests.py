"""Values of requests, checked: nothing that comes from a browser is trusted."""

from typing import Any

from pmlkit.cleaning.review.store import ANSWERS
from pmlkit.exceptions import DataError

__all__ = ["Given", "read_answer", "read_client", "read_seconds", "read_whole"]

Given = dict[str, Any]


def read_answer(given: Given) -> str:
    """Return the answer of a request."""
    answer = given.get("answer")
    if answer not in ANSWERS:
        raise DataError(f"An answer must be one of {', '.join(ANSWERS)}, got {str(answer)[:40]!r}.")
    return str(answer)


def read_client(given: Given) -> str | None:
    """Return the key by which a request that is sent twice is known."""
    client = given.get("client")
    return None if client is None else str(client)[:100]


def read_seconds(given: Given) -> float | None:
    """Return how long an answer took, where that makes sense."""
    seconds = given.get("seconds")
    return round(float(seconds), 3) if isinstance(seconds, int | float) and 0 <= seconds < 1e6 else None


def read_whole(given: Given, name: str, default: int | None = None) -> int:
    """Return a whole number of a request."""
    value = given.get(name, default)
    try:
        if isinstance(value, bool | float) or value is None or len(str(value)) > 18:
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a whole number, got {str(value)[:40]!r}.") from None
