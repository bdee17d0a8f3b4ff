"""From evidence to probabilities: how likely each candidate is false, without any known truth.

Two steps. First a class-conditional posterior: if false candidates hit every row alike, a label's candidates among
the rows that the evidence speaks against most are all false, which gives the label's noise rate and, by Bayes, the
odds of each cell. Real noise is not that kind, features may tell little, and then those odds are far too sure of
themselves. So a second step tempers them by what can be seen without the truth: how well the evidence predicts the
candidates, how the cell compares with the row's other candidates, how frequent the label is, what `ClearPML` itself
makes of the cell. The few coefficients of that map come from benchmark sets whose truth is known
(benchmarks/cleaning_calibration.py fits them and checks them on sets that they were not fitted on; what it last found
is stored beside it).
"""

import numpy as np
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from pmlkit._arrays import row_of_cells
from pmlkit._typing import CSR, FloatArray, IntArray

_LOW_SHARE = 0.3  # of the rows: those that a label's evidence speaks against
_LOW_QUANTILE = 0.25
_PSEUDO_ROWS = 50
_LEAST_SLOPE = 0.2
_ODDS = (-6.0, 4.0)
_MAX_CELLS = 2_000_000  # on which the curve from scores to candidate rates is fitted

TERMS = (
    "odds",
    "gap",
    "alone",
    "separation",
    "odds*separation",
    "gap*separation",
    "frequency",
    "rows alone",
    "noise",
    "separation*separation",
    "noise*separation",
    "odds*noise",
    "judgement",
)
"""What the map looks at; see `cell_terms`."""

_INTERCEPT = -0.963
_COEFFICIENTS = np.array(
    [0.095, -0.055, -1.668, 2.817, 0.267, 0.237, 0.498, -3.137, 1.333, -0.876, -0.363, 0.322, 0.492],
)


def false_probability(scores: FloatArray, Y: CSR, confidence: FloatArray | None = None) -> FloatArray:
    """Return how likely each candidate is false, aligned with ``Y.data``.

    `scores`: out-of-fold, see `pmlkit.cleaning.evidence.cross_fit`. `Y`: candidates. `confidence` (aligned with
    ``Y.data``): the method's own confidence of each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.calibration import false_probability
    >>> Y = sparse.csr_array(np.tile([[1, 0], [0, 1], [1, 1]], (10, 1)))
    >>> scores = np.tile([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]], (10, 1))
    >>> doubt = false_probability(scores, Y)
    >>> bool(doubt[3] > doubt[0])
    True
    """
    return np.asarray(expit(log_odds(cell_terms(scores, Y, confidence), _COEFFICIENTS, _INTERCEPT)))


def log_odds(terms: FloatArray, coefficients: FloatArray, intercept: float) -> FloatArray:
    """Apply the map: the log odds of being false.

    How steeply they rise with ``odds`` and ``gap`` depends on the data set. Far from the sets that the map was fitted
    on, such as labels without any noise, a slope could turn negative and trust would fall where evidence grows: so
    there is a least slope.

    `terms` (n_candidates, n_terms): from `cell_terms`.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.calibration import TERMS, log_odds
    >>> terms = np.zeros((1, len(TERMS)))
    >>> log_odds(terms, np.ones(len(TERMS)), -1.0).tolist()
    [-1.0]
    """
    weight = dict(zip(TERMS, coefficients, strict=True))
    value = {name: terms[:, j] for j, name in enumerate(TERMS)}
    odds_slope = (
        weight["odds"] + weight["odds*separation"] * value["separation"] + weight["odds*noise"] * value["noise"]
    )
    gap_slope = weight["gap"] + weight["gap*separation"] * value["separation"]
    lift = np.maximum(_LEAST_SLOPE - odds_slope, 0.0) * value["odds"] + np.maximum(-gap_slope, 0.0) * value["gap"]
    return np.asarray(terms @ coefficients + intercept + lift)


def cell_terms(scores: FloatArray, Y: CSR, confidence: FloatArray | None = None) -> FloatArray:
    """Return the terms of the map, one row per candidate and one column per name in `TERMS`.

    ``odds`` are the log odds of being false by the class-conditional posterior; ``gap`` is by how much they exceed
    those of the row's most trusted other candidate; ``alone`` marks a row's only candidate; ``separation`` is the
    logit of the chance that a candidate scores higher than a non-candidate of its label, and ``noise`` that of the
    mean class-conditional posterior, both over the whole set; ``frequency`` is the log share of rows with the label,
    relative to the mean; ``rows alone`` is the share of rows with one candidate; ``judgement`` are the log odds of
    being false by the method's own confidences, or ``odds`` again where it has none, relative to the mean: their
    level jumps between samples of one table, and is another one for another judge.
    """
    row = row_of_cells(Y)
    odds = _class_conditional_odds(scores, Y, row)
    posterior = np.minimum(np.exp(np.minimum(odds, 0.0)), 1.0)
    odds = np.clip(odds, *_ODDS)
    other = -best_other(-odds, Y)  # the most trusted one
    alone = np.isinf(other)
    share = np.bincount(Y.indices, minlength=Y.shape[1]) / Y.shape[0]
    frequency = np.log(share[Y.indices])
    sizes = np.diff(Y.indptr)
    # Below one half there is no evidence, and the map has never seen any such set.
    separation = float(logit(np.clip(_separation(scores, Y, row), 0.5, 0.999)))
    noise = float(logit(np.clip(posterior.mean(), 0.01, 0.99)))
    judgement = odds if confidence is None else np.clip(-logit(confidence), *_ODDS)
    single = {
        "odds": odds,
        "gap": np.clip(np.where(alone, 0.0, odds - np.where(alone, 0.0, other)), -4.0, 4.0),
        "alone": alone.astype(np.float64),
        "separation": np.full(len(odds), separation),
        "frequency": frequency - frequency.mean(),
        "rows alone": np.full(len(odds), (sizes == 1).sum() / max((sizes > 0).sum(), 1)),
        "noise": np.full(len(odds), noise),
        "judgement": judgement - judgement.mean(),
    }
    return np.column_stack([np.prod([single[part] for part in term.split("*")], axis=0) for term in TERMS])


def _class_conditional_odds(scores: FloatArray, Y: CSR, row: IntArray) -> FloatArray:
    """Return log(rate (1 - eta) / ((1 - rate) eta)): eta the candidate rate at the score, rate that of false ones."""
    rate = noise_rates(scores, Y)
    curve = _candidate_curve(scores, Y)
    eta = curve.predict(scores[row, Y.indices])
    return np.asarray(logit(rate)[Y.indices] - logit(eta))


def noise_rates(scores: FloatArray, Y: CSR) -> FloatArray:
    """Return per label the candidate rate among the rows that the evidence speaks against most, capped."""
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    n_low = max(1, int(_LOW_SHARE * len(labelled)))
    columns = Y.tocsc()
    rates = np.empty(Y.shape[1])
    for k in range(Y.shape[1]):
        given = np.zeros(Y.shape[0], dtype=bool)
        given[columns.indices[columns.indptr[k] : columns.indptr[k + 1]]] = True
        lowest = labelled[np.argpartition(scores[labelled, k], n_low - 1)[:n_low]]
        rates[k] = given[lowest].mean()
    rates = (rates * n_low + rates.mean() * _PSEUDO_ROWS) / (n_low + _PSEUDO_ROWS)
    # Above a low quantile it is rather a frequent label that the features do not predict. Each label counts by its
    # number of candidates: an unweighted quantile jumps as rare labels come and go between samples of one table.
    return np.asarray(np.clip(np.minimum(rates, _weighted_quantile(rates, np.diff(columns.indptr))), 1e-5, 0.9))


def _weighted_quantile(values: FloatArray, weights: IntArray) -> float:
    order = np.argsort(values, kind="stable")
    return float(values[order[np.searchsorted(np.cumsum(weights[order]), _LOW_QUANTILE * weights.sum())]])


def _candidate_curve(scores: FloatArray, Y: CSR) -> IsotonicRegression:
    """Return the increasing curve from scores to candidate rates, pooled over labels."""
    labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
    step = -(-len(labelled) * Y.shape[1] // _MAX_CELLS)
    kept = labelled[::step] if step > 1 else labelled
    cells = scores[kept].ravel()
    target = Y[kept].toarray().ravel() > 0
    return IsotonicRegression(out_of_bounds="clip", y_min=1e-4, y_max=1 - 1e-3).fit(cells, target)


def two_best(values: FloatArray, Y: CSR) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return per row the label of its best candidate, its value and that of the second; -1, -inf where there is none.

    `values` (aligned with ``Y.data``).
    """
    order = np.lexsort((-values, row_of_cells(Y)))
    size = np.diff(Y.indptr)
    label = np.full(Y.shape[0], -1, dtype=np.int64)
    best, second = np.full(Y.shape[0], -np.inf), np.full(Y.shape[0], -np.inf)
    one, two = np.flatnonzero(size > 0), np.flatnonzero(size > 1)
    label[one] = Y.indices[order[Y.indptr[one]]]
    best[one] = values[order[Y.indptr[one]]]
    second[two] = values[order[Y.indptr[two] + 1]]
    return label, best, second


def best_other(values: FloatArray, Y: CSR) -> FloatArray:
    """Return per candidate the best value among the row's other candidates, -inf where there is none."""
    row = row_of_cells(Y)
    label, best, second = two_best(values, Y)
    return np.where(label[row] == Y.indices, second[row], best[row])


def _separation(scores: FloatArray, Y: CSR, row: IntArray) -> float:
    """Return the mean over candidates of the share of the label's non-candidates that score lower."""
    labelled = np.diff(Y.indptr) > 0
    columns = Y.tocsc()
    total = 0.0
    for k in range(Y.shape[1]):
        mine = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
        is_other = labelled.copy()
        is_other[mine] = False
        others = np.sort(scores[is_other, k])
        if len(others) and len(mine):
            total += float((np.searchsorted(others, scores[mine, k], "left") / (len(others) + 1)).sum())
        else:
            total += 0.5 * len(mine)
    return total / max(int(Y.nnz), 1)
