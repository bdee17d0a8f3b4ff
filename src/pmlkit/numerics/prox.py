"""Proximal operators and projections, each a pure function on arrays."""

import numpy as np
from scipy import linalg

from pmlkit._typing import FloatArray, IntArray

_SMALL = 32
"""Largest matrix for which all eigenpairs cost less than a subset of them."""


def soft_threshold(A: FloatArray, amount: float) -> FloatArray:
    """Shrink every entry towards zero: the proximal operator of ``amount * sum |a|``."""
    return np.asarray(np.sign(A) * np.maximum(np.abs(A) - amount, 0.0))


def nuclear_prox(A: FloatArray, amount: float) -> tuple[FloatArray, FloatArray]:
    """Shrink every singular value: the proximal operator of the nuclear norm.

    Returns `shrunk` (m, k): ``U max(S - amount, 0) V'``. Returns `singular_values`: those of `shrunk` that are not
    zero, largest first: their sum is its nuclear norm and their number its rank.

    Only the smaller of the two Gram matrices is diagonalised, and only the part of its spectrum above the threshold, so
    that the cost is that of two thin products. Singular values below about 1e-8 of the largest cannot be told from zero
    this way; where such a value would survive, that is where `amount` is that small, a full SVD is taken.
    """
    if A.shape[0] < A.shape[1]:
        shrunk, values = nuclear_prox(A.T, amount)
        return shrunk.T, values
    gram = A.T @ A
    ceiling = float(np.trace(gram))
    if amount <= 1e-5 * np.sqrt(ceiling):
        U, s, Vt = linalg.svd(A, full_matrices=False, check_finite=False)
        kept = s > amount
        values = s[kept] - amount
        return np.asarray((U[:, kept] * values) @ Vt[kept]), values
    if ceiling <= amount * amount:
        return np.zeros_like(A), np.zeros(0, dtype=A.dtype)
    if len(gram) <= _SMALL:
        squared, V = np.linalg.eigh(gram)
        kept = squared > amount * amount
        squared, V = squared[kept], V[:, kept]
    else:
        squared, V = linalg.eigh(gram, subset_by_value=(amount * amount, np.inf), driver="evr", check_finite=False)
    s, V = np.sqrt(squared[::-1]), V[:, ::-1]
    shrink = 1.0 - amount / s
    if 2 * len(s) > len(gram):
        return A @ ((V * shrink) @ V.T), s - amount
    return ((A @ V) * shrink) @ V.T, s - amount


def project_rows_to_simplex(values: FloatArray, indptr: IntArray, total: float | FloatArray = 1.0) -> FloatArray:
    """Project every row of a sparse pattern on ``{p >= 0, sum p = total}``.

    `values` (n_cells,): the cells of all rows, one row after the other (the ``data`` of a CSR array). `indptr`
    (n_samples + 1,): where each row begins (the ``indptr`` of that CSR array). Empty rows are allowed.

    All rows at once: cells are sorted by (row, -value), and the largest number of cells that stay
    positive is found from their running sums (Held, Wolfe and Crowder 1974).
    """
    sizes = np.diff(indptr)
    row = np.repeat(np.arange(len(sizes)), sizes)
    mass = np.broadcast_to(np.asarray(total, dtype=float), len(sizes))
    # The projection does not change when a row is shifted, nor when cells that become zero anyway are raised:
    # both keep the numbers in the sums below small.
    occupied = sizes > 0
    top = np.zeros(len(sizes))
    if len(values):
        top[occupied] = np.maximum.reduceat(values, indptr[:-1][occupied])
    values = np.maximum(values - top[row], -2.0 * mass[row])
    descending = values[np.lexsort((-values, row))]
    place = np.arange(len(values)) - np.repeat(indptr[:-1], sizes)
    running = _running_sums(descending, sizes, indptr)
    stays = descending * (place + 1) > running - mass[row]
    n_positive = np.bincount(row[stays], minlength=len(sizes))
    last = indptr[:-1][occupied] + n_positive[occupied] - 1
    shift = np.zeros(len(sizes))
    shift[occupied] = (running[last] - mass[occupied]) / n_positive[occupied]
    return np.asarray(np.maximum(values - shift[row], 0.0))


def _running_sums(values: FloatArray, sizes: IntArray, indptr: IntArray) -> FloatArray:
    """Return cumulative sums that restart in each row."""
    if not len(values):
        return values
    sums = np.cumsum(values)
    before = np.concatenate([[0.0], sums])[indptr[:-1]]
    return np.asarray(sums - np.repeat(before, sizes))
