"""Confident learning: drop the candidates that cleanlab flags, and fit again."""

import warnings
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import StrOptions

from pmlkit._arrays import row_of_cells
from pmlkit._optional import optional_import
from pmlkit._typing import CSR, BoolArray, Features, FloatArray
from pmlkit.methods.base import Learned
from pmlkit.methods.logistic import CandidateLogistic
from pmlkit.methods.progress import Progress
from pmlkit.numerics.products import cells_at
from pmlkit.numerics.scaling import Normalize

_FILTERS = {
    "prune_by_class",
    "prune_by_noise_rate",
    "both",
    "confident_learning",
    "predicted_neq_given",
    "low_normalized_margin",
    "low_self_confidence",
}
_QUALITIES = {"self_confidence", "normalized_margin", "confidence_weighted_entropy"}


def _cleanlab(part: str) -> Any:
    """Return a module of cleanlab's multi-label tools."""
    return optional_import(f"cleanlab.multilabel_classification.{part}")


def _label_lists(Y: CSR) -> list[list[int]]:
    return [labels.tolist() for labels in np.split(Y.indices, Y.indptr[1:-1])]


def _suspects(Y: CSR, probability: FloatArray, filter_by: str) -> BoolArray:
    """Return which candidates cleanlab flags, aligned with ``Y.data``.

    cleanlab also flags labels that are missing; here only candidates can be wrong.
    """
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    # cleanlab cannot handle labels that all rows or none have.
    varied = np.flatnonzero((count > 0) & (count < Y.shape[0]))
    flagged = np.zeros(Y.shape, dtype=bool)
    if len(varied):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            flagged[:, varied] = _cleanlab("filter").find_multilabel_issues_per_class(
                labels=_label_lists(Y[:, varied]), pred_probs=probability[:, varied], filter_by=filter_by, n_jobs=1
            )
        # cleanlab repeats its warnings for every label.
        for message, category in {str(warning.message): warning.category for warning in caught}.items():
            warnings.warn(message, category, stacklevel=2)
    return np.asarray(cells_at(flagged, Y))


def _qualities(Y: CSR, probability: FloatArray, method: str) -> FloatArray:
    """Return cleanlab's quality score of every candidate, aligned with ``Y.data``."""
    if not Y.nnz:
        return np.zeros(0)
    scores = _cleanlab("rank").get_label_quality_scores_per_class(_label_lists(Y), probability, method=method)
    return np.asarray(cells_at(scores, Y))


def _without(Y: CSR, suspect: BoolArray, quality: FloatArray) -> CSR:
    """Return the candidates without the suspects; every row keeps its best one."""
    kept = ~suspect
    if Y.shape[1] > 1:
        row = row_of_cells(Y)
        best_first = np.lexsort((-quality, row))
        kept[best_first[Y.indptr[:-1][np.diff(Y.indptr) > 0]]] = True
    cleaned = sparse.csr_array((kept.astype(np.float64), Y.indices.copy(), Y.indptr.copy()), Y.shape)
    cleaned.eliminate_zeros()
    return cleaned


class CleanlabFilter(CandidateLogistic):
    r"""Confident learning on the candidates: cleanlab flags suspects, logistic regression learns the rest.

    A baseline from current practice. One-vs-rest logistic regressions give every candidate a cross-fitted probability;
    cleanlab compares the candidates with them, label by label, and flags those that are probably wrong; the regressions
    are fitted again without them. Every row keeps at least its best candidate.

    Parameters
    ----------
    C : float or "auto", default=1.0
        Inverse strength of the ridge penalty, as in scikit-learn. ``"auto"`` as in :class:`CandidateLogistic`.
    normalize : {"auto", "unit", "standard"} or None, default="unit"
        Scale rows to unit length, or divide columns by their standard deviation, or neither. ``"auto"`` as in
        :class:`CandidateLogistic`.
    n_folds : int, default=5
        Folds of the cross-fitting.
    max_iter : int, default=1000
        Maximum number of iterations of the solver of the regressions.
    filter_by : str, default="prune_by_noise_rate"
        How cleanlab chooses what to flag, see ``cleanlab.filter.find_label_issues``: ``"prune_by_class"``,
        ``"prune_by_noise_rate"``, ``"both"``, ``"confident_learning"``, ``"predicted_neq_given"``,
        ``"low_normalized_margin"`` or ``"low_self_confidence"``.
    quality : str, default="self_confidence"
        How cleanlab scores the candidates: ``"self_confidence"``, ``"normalized_margin"`` or
        ``"confidence_weighted_entropy"``.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default="cardinality"
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`.
    n_jobs : int, optional
        Number of labels fitted in parallel, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        cleanlab's quality score of each candidate, those that were dropped included.
    n_dropped_ : int
        Number of candidates that were dropped.
    coef_ : array of shape (n_labels, n_features)
        For scaled features.
    intercept_ : array of shape (n_labels,)
    C_, normalize_
        What was used.
    n_iter_ : int
        The largest number of iterations over the labels.
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Needs the package cleanlab. It treats labels one by one and would also flag labels that a row
    lacks; only flagged candidates count here. Rows without candidates are left out.

    References
    ----------
    .. [1] C. Northcutt, L. Jiang and I. Chuang, "Confident learning: Estimating uncertainty in
       dataset labels", Journal of Artificial Intelligence Research 70, 2021.
    .. [2] A. Thyagarajan, E. Snorrason, C. Northcutt and J. Mueller, "Identifying incorrect
       annotations in multi-label classification data", arXiv:2211.13895, 2022.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> from pmlkit.methods.cleanlab_filter import CleanlabFilter
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = CleanlabFilter(filter_by="both")
    >>> model.fit(strips.X, strips.Y).label_confidence_.nnz == strips.Y.nnz  # doctest: +SKIP
    True
    """

    _cross_fits: ClassVar[bool] = False  # The scores are those of a model fitted on all rows.

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CandidateLogistic._parameter_constraints,
        "filter_by": [StrOptions(_FILTERS)],
        "quality": [StrOptions(_QUALITIES)],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        normalize: Normalize = "unit",
        n_folds: int = 5,
        max_iter: int = 1000,
        filter_by: str = "prune_by_noise_rate",
        quality: str = "self_confidence",
        threshold: str | float = "cardinality",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            C=C, normalize=normalize, n_folds=n_folds, max_iter=max_iter, threshold=threshold, n_jobs=n_jobs
        )
        self.filter_by = filter_by
        self.quality = quality

    def _n_tasks(self, Y: CSR) -> int:
        return 2 * super()._n_tasks(Y)

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        _cleanlab("filter")  # fail before the work if it is not installed
        first = super()._fit(X, Y, progress)
        quality = _qualities(Y, first.scores, self.quality)
        cleaned = _without(Y, _suspects(Y, first.scores, self.filter_by), quality)
        self.n_dropped_ = int(Y.nnz - cleaned.nnz)
        again = super()._fit(X, cleaned, progress)
        return Learned(confidence=quality, scores=again.scores, n_iter=again.n_iter)
