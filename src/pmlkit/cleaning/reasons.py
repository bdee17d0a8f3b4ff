"""Why a candidate is doubted, in words and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmlkit._typing import CSR, BoolArray, Features, FloatArray, IntArray
from pmlkit.cleaning.neighbors import most_similar

__all__ = ["Reason", "companions", "explain"]

_N_SIMILAR = 10
_N_NAMED = 4
_USUAL = 0.3  # share of a label's rows from which another label usually comes with it


@dataclass(frozen=True)
class Reason:
    """What speaks against one candidate.

    Attributes
    ----------
    score, typical_score : float
        Of the model, for this row and at the median of the rows with the label.
    similar_with, similar_without : tuple of int
        The most similar rows that have the label, and those that lack it.
    companions : tuple of (int, float, bool)
        Labels that usually come with it: which, on what share of its rows, whether this row has it.
    noise_rate : float
        Estimated share of false ones among the label's candidates.
    """

    score: float
    typical_score: float
    similar_with: tuple[int, ...]
    similar_without: tuple[int, ...]
    companions: tuple[tuple[int, float, bool], ...]
    noise_rate: float

    def sentence(self, label: str, names: Sequence[str], row_name: Sequence[object] | None = None) -> str:
        """Return the reason as text.

        Examples
        --------
        >>> from pmlkit.cleaning.reasons import Reason
        >>> Reason(0.02, 0.7, (4,), (8, 9), ((1, 0.8, False),), 0.25).sentence("cat", ["cat", "pet"])
        "score 0.02 (rows with 'cat' have 0.70 at the median); 2 of the 3 most similar rows lack it (8, 9),
         1 has it (4); it usually comes with 'pet' (80 % of its rows), absent here; about 25 % of the labels 'cat'
         are wrong"
        """
        n_similar = len(self.similar_with) + len(self.similar_without)
        parts = [f"score {self.score:.2f} (rows with {label!r} have {self.typical_score:.2f} at the median)"]
        if n_similar:
            lacking = f"{len(self.similar_without)} of the {n_similar} most similar rows lack it"
            having = f"{len(self.similar_with)} {'has' if len(self.similar_with) == 1 else 'have'} it"
            parts.append(
                f"{lacking}{_listed(self.similar_without, row_name)}, {having}{_listed(self.similar_with, row_name)}"
            )
        for other, share, is_here in self.companions:
            where = "present here too" if is_here else "absent here"
            parts.append(
                f"it usually comes with {names[other]!r} ({share:.0%} of its rows), {where}".replace("%", " %")
            )
        parts.append(f"about {100 * self.noise_rate:.0f} % of the labels {label!r} are wrong")
        return "; ".join(parts)


def _are_in(few: IntArray, many: IntArray) -> BoolArray:
    """Tell which of a few numbers are among many ascending ones."""
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return np.asarray(many[place] == few)


def _listed(rows: Sequence[int], row_name: Sequence[object] | None) -> str:
    if not rows:
        return ""
    shown = ", ".join(str(row if row_name is None else row_name[row]) for row in rows[:_N_NAMED])
    return f" ({shown}{', …' if len(rows) > _N_NAMED else ''})"


def companions(Y: CSR) -> FloatArray:
    """Return for labels j and k the share of the rows with j that also have k, with zeros on the diagonal.

    Examples
    --------
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.reasons import companions
    >>> companions(sparse.csr_array([[1, 1], [1, 0]])).tolist()
    [[0.0, 0.5], [1.0, 0.0]]
    """
    indicator = Y.astype(np.float64)
    together = (indicator.T @ indicator).toarray()
    count = np.maximum(together.diagonal(), 1.0)
    np.fill_diagonal(together, 0.0)
    return np.asarray(together / count[:, None])


def explain(
    X: Features,
    Y: CSR,
    scores: FloatArray,
    noise_rate: FloatArray,
    rows: IntArray,
    labels: IntArray,
    *,
    n_similar: int = _N_SIMILAR,
) -> list[Reason]:
    """Explain some candidates.

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    Y : CSR array of shape (n_rows, n_labels)
        Candidates.
    scores : array of shape (n_rows, n_labels)
        Out-of-fold.
    noise_rate : array of shape (n_labels,)
    rows, labels : arrays of int of the same length
        The cells to explain.
    n_similar : int, default=10
        Similar rows to look at. Finding them takes most of the time; 0 leaves them out.

    Returns
    -------
    reasons : list of Reason

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.reasons import explain
    >>> X, Y = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), sparse.csr_array([[1, 1], [1, 0], [0, 1]])
    >>> scores = np.array([[0.9, 0.2], [0.8, 0.1], [0.1, 0.9]])
    >>> explain(X, Y, scores, np.array([0.1, 0.3]), np.array([0]), np.array([1]))[0].similar_without
    (1,)
    """
    if not len(rows):
        return []
    asked, position = np.unique(rows, return_inverse=True)
    neighbor, similarity = most_similar(X, asked, n_similar)
    # A neighbour without any candidate says nothing about this one.
    speaks = (similarity > 0) & (np.diff(Y.indptr)[neighbor] > 0)
    columns = Y.tocsc()
    together = companions(Y)
    typical: dict[int, float] = {}
    reasons = []
    for place, row, label in zip(position.tolist(), rows.tolist(), labels.tolist(), strict=True):
        with_label = columns.indices[columns.indptr[label] : columns.indptr[label + 1]]
        if label not in typical:
            typical[label] = float(np.median(scores[with_label, label]))
        similar = neighbor[place][speaks[place]]
        has_it = _are_in(similar, with_label)
        mine = set(Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist())
        usual = np.flatnonzero(together[label] >= _USUAL)
        usual = usual[np.argsort(-together[label][usual], kind="stable")][:2]
        reasons.append(
            Reason(
                score=float(scores[row, label]),
                typical_score=typical[label],
                similar_with=tuple(similar[has_it].tolist()),
                similar_without=tuple(similar[~has_it].tolist()),
                companions=tuple((int(k), float(together[label, k]), int(k) in mine) for k in usual),
                noise_rate=float(noise_rate[label]),
            )
        )
    return reasons
