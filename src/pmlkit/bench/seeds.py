"""Digests and seeds: the same words give the same numbers, on every machine."""

import hashlib
import json
from typing import Any

__all__ = ["canonical_json", "derive_seed", "digest"]


def canonical_json(value: Any) -> str:
    """Return a value as JSON in one way only: keys sorted.

    Examples
    --------
    >>> from pmlkit.bench.seeds import canonical_json
    >>> canonical_json({"beta": 10.0, "alpha": 1})
    '{"alpha": 1, "beta": 10.0}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def digest(*parts: Any) -> str:
    """Return 24 hexadecimal digits that stand for the parts.

    Examples
    --------
    >>> from pmlkit.bench.seeds import digest
    >>> len(digest("scene", 0.5)), digest("scene", 0.5) == digest("scene", 0.5), digest("a", "b") == digest("ab")
    (24, True, False)
    """
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:24]


def derive_seed(*parts: Any) -> int:
    """Return a seed of 31 bits, which every kind of `random_state` takes, from what it is for.

    Examples
    --------
    >>> from pmlkit.bench.seeds import derive_seed
    >>> derive_seed(0, "scene", 1) == derive_seed(0, "scene", 1) != derive_seed(0, "scene", 2)
    True
    """
    return int(digest(*parts), 16) % 2**31
