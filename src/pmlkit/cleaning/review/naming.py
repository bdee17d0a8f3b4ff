"""Label names that are nearly equal, and what becomes of the labels when some of them are merged."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy import sparse

from pmlkit._arrays import as_csr, row_of_cells
from pmlkit._typing import CSR, BoolArray

__all__ = ["final_names", "reviewed_labels", "similar_names"]

_ALIKE = 0.88
_MAX_NAMES = 3_000


def similar_names(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return pairs of label names that differ little, with why they are listed.

    Examples
    --------
    >>> from pmlkit.cleaning.review.naming import similar_names
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


def final_names(merged: Mapping[str, str]) -> dict[str, str]:
    """Return what each merged name ends up as, however many steps that takes.

    Examples
    --------
    >>> from pmlkit.cleaning.review.naming import final_names
    >>> final_names({"Mails": "mails", "mails": "mail"})
    {'Mails': 'mail', 'mails': 'mail'}
    """
    found = {}
    for name in merged:
        seen, last = {name}, merged[name]
        while last in merged and last not in seen:
            seen.add(last)
            last = merged[last]
        found[name] = last
    return {name: last for name, last in found.items() if name != last}


def reviewed_labels(
    Y: CSR,
    label_names: Sequence[str],
    removed: BoolArray,
    added: Iterable[tuple[int, str]] = (),
    merged: Mapping[str, str] | None = None,
) -> CSR:
    """Return labels after a review: some removed, some added, some called by another label's name.

    Where a row has a label under several names that are merged, it stays if one of them stays.

    Parameters
    ----------
    Y : CSR array of shape (n_samples, n_labels)
    label_names : sequence of str
    removed : array aligned with ``Y.data``
    added : iterable of (row, label name)
    merged : mapping of str to str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.review.naming import reviewed_labels
    >>> Y = sparse.csr_array(np.array([[1, 1, 0], [0, 1, 1]], dtype=np.uint8))
    >>> gone = np.array([False, True, False, False])
    >>> reviewed_labels(Y, ["a", "b", "B"], gone, [(0, "B")], {"B": "b"}).toarray().tolist()
    [[1, 1, 0], [0, 1, 0]]
    """
    number = {name: k for k, name in enumerate(label_names)}
    new = [(row, number[label]) for row, label in added]
    rows = np.concatenate([row_of_cells(Y)[~removed], np.array([row for row, _ in new], dtype=np.int64)])
    labels = np.concatenate([Y.indices[~removed], np.array([k for _, k in new], dtype=np.int64)])
    target = np.arange(len(label_names))
    for name, last in final_names(merged or {}).items():
        if name in number and last in number:
            target[number[name]] = number[last]
    found = as_csr(sparse.coo_array((np.ones(len(rows), dtype=np.uint8), (rows, target[labels])), shape=Y.shape))
    found.data[:] = 1
    return found
