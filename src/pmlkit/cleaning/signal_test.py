"""Whether the evidence predicts the labels at all, and which of them it predicts well enough to judge them."""

import numpy as np
from scipy.stats import rankdata

from pmlkit._typing import CSR, BoolArray, FloatArray

__all__ = ["label_auc", "predicts_labels", "well_predicted"]

_MAX_ROWS = 20_000
_Z95 = 1.645
_LEAST_AUC = 0.6


def label_auc(scores: FloatArray, Y: CSR) -> tuple[FloatArray, FloatArray]:
    """Return per label the AUC of telling its candidates from other labelled rows, and its error if it were 0.5.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        Out-of-fold.
    Y : CSR array of shape (n_samples, n_labels)
        Candidates.

    Returns
    -------
    auc, error : arrays of shape (n_labels,)
        0.5 and infinity for labels that are on no row, or on all.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.signal_test import label_auc
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1]], (20, 1)))
    >>> label_auc(Y.toarray() + 0.5, Y)[0].tolist()
    [1.0, 1.0]
    """
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    rows = labelled[:: max(1, -(-len(labelled) // _MAX_ROWS))]
    given = Y[rows].tocsc()
    auc, error = np.full(Y.shape[1], 0.5), np.full(Y.shape[1], np.inf)
    for k in range(Y.shape[1]):
        mine = given.indices[given.indptr[k] : given.indptr[k + 1]]
        n_with, n_without = len(mine), len(rows) - len(mine)
        if n_with and n_without:
            rank_sum = float(rankdata(scores[rows, k])[mine].sum())
            auc[k] = (rank_sum - n_with * (n_with + 1) / 2) / (n_with * n_without)
            error[k] = np.sqrt((len(rows) + 1) / (12 * n_with * n_without))
    return auc, error


def predicts_labels(scores: FloatArray, Y: CSR) -> bool:
    """Tell whether candidates score higher than other rows of their label, more than chance would have it.

    Features that have nothing to do with the labels, such as a column of random numbers, leave nothing to judge by.
    The probabilities of `pmlkit.cleaning.calibration` were fitted on evidence that means something, and are far off
    where it does not.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        Out-of-fold.
    Y : CSR array of shape (n_samples, n_labels)
        Candidates.

    Returns
    -------
    predicts_labels : bool
        By the rank-sum statistics of all labels together, at a level of 5 %.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.signal_test import predicts_labels
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1]], (20, 1)))
    >>> predicts_labels(Y.toarray() + 0.5, Y), predicts_labels(np.full((40, 2), 0.5), Y)
    (True, False)
    """
    auc, error = label_auc(scores, Y)
    known = np.isfinite(error)
    weight = np.bincount(Y.indices, minlength=Y.shape[1])[known]
    excess = float(weight @ (auc[known] - 0.5))
    return excess > _Z95 * float(np.sqrt(np.square(weight * error[known]).sum()))


def well_predicted(scores: FloatArray, Y: CSR) -> BoolArray:
    """Tell which labels the evidence predicts well enough to say how many of their candidates are false.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.signal_test import well_predicted
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1], [1, 1]], (20, 1)))
    >>> well_predicted(Y.toarray() * [1.0, 0.0] + 0.5, Y).tolist()
    [True, False]
    """
    auc, error = label_auc(scores, Y)
    return np.asarray(auc - _Z95 * np.where(np.isfinite(error), error, 1.0) > _LEAST_AUC)
