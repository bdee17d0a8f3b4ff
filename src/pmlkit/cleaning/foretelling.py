"""Whether the evidence says anything at all about the labels."""

import numpy as np
from scipy.stats import rankdata

from pmlkit._typing import CSR, FloatArray

__all__ = ["foretells"]

_MAX_ROWS = 20_000
_Z95 = 1.645


def foretells(scores: FloatArray, Y: CSR) -> bool:
    """Tell whether candidates score higher than other rows of their label, more than chance would have it.

    Features that have nothing to do with the labels, such as a column of random numbers, leave nothing to judge by.
    The probabilities of `pmlkit.cleaning.calibration` were fitted on evidence that means something, and are far off
    where it does not.

    Parameters
    ----------
    scores : array of shape (n_rows, n_labels)
        Out-of-fold.
    Y : CSR array of shape (n_rows, n_labels)
        Candidates.

    Returns
    -------
    foretells : bool
        By the rank-sum statistics of all labels together, at a level of 5 %.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.foretelling import foretells
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1]], (20, 1)))
    >>> foretells(Y.toarray() + 0.5, Y), foretells(np.full((40, 2), 0.5), Y)
    (True, False)
    """
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    rows = labelled[:: max(1, -(-len(labelled) // _MAX_ROWS))]
    given = Y[rows].tocsc()
    excess = variance = 0.0
    for k in range(Y.shape[1]):
        mine = given.indices[given.indptr[k] : given.indptr[k + 1]]
        n_with, n_without = len(mine), len(rows) - len(mine)
        if n_with and n_without:
            rank_sum = float(rankdata(scores[rows, k])[mine].sum())
            excess += (rank_sum - n_with * (len(rows) + 1) / 2) / n_without
            variance += n_with * (len(rows) + 1) / (12 * n_without)
    return excess > _Z95 * float(np.sqrt(variance))
