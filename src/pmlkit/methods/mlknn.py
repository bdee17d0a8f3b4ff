"""ML-kNN: multi-label k-nearest neighbours with Bayesian posteriors."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils._param_validation import Interval

from pmlkit._typing import CSR, Features, FloatArray, IntArray
from pmlkit.methods.base import BasePML, Learned
from pmlkit.methods.progress import Progress
from pmlkit.numerics.neighbors import nearest
from pmlkit.numerics.products import cells_at


def _label_votes(neighbor: IntArray, Y: CSR) -> IntArray:
    """Count, for every row and label, the neighbours that carry the label."""
    n_samples, k = neighbor.shape
    adjacency = sparse.csr_array(
        (np.ones(neighbor.size), neighbor.ravel(), np.arange(0, neighbor.size + 1, k)), shape=(n_samples, Y.shape[0])
    )
    return np.asarray((adjacency @ Y).toarray(), dtype=np.int64)


def _posterior_table(votes: IntArray, Y: CSR, k: int, smoothing: float) -> FloatArray:
    """Return P(label | r of k neighbours carry it) for every label and r = 0 ... k.

    Zhang and Zhou (2007), equations 3 to 5: prior and likelihoods are counts over the training rows, smoothed.
    """
    n_samples, n_labels = votes.shape
    cell = votes + np.arange(n_labels) * (k + 1)
    has_label = Y.toarray() > 0
    count = [
        np.bincount(cell[chosen], minlength=n_labels * (k + 1)).reshape(n_labels, k + 1)
        for chosen in (has_label, ~has_label)
    ]
    prior = (smoothing + has_label.sum(axis=0)) / (2 * smoothing + n_samples)
    likelihood = [(smoothing + c) / (smoothing * (k + 1) + c.sum(axis=1, keepdims=True)) for c in count]
    present, absent = prior[:, None] * likelihood[0], (1 - prior[:, None]) * likelihood[1]
    return np.asarray(present / (present + absent))


class MLkNN(BasePML):
    r"""ML-kNN on the candidates: a Bayesian vote of the nearest neighbours.

    A baseline that treats every candidate as true. For each label it counts how many of a row's `n_neighbors` nearest
    training rows carry it, and looks up how often training rows with that count carried the label themselves:

    .. math::

        P(y_j \mid r) = \frac{\pi_j \, P(r \mid y_j)}
            {\pi_j \, P(r \mid y_j) + (1 - \pi_j) \, P(r \mid \bar y_j)} .

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbours that vote. A training row is never its own neighbour. With fewer rows, all the others vote.
    smoothing : float, default=1.0
        Pseudo-count of the probabilities.
    threshold : {"cardinality", "at_least_one", "size", "hamming", "f1"} or float, default=0.5
        How scores become label sets, see :func:`pmlkit.methods.thresholds.fit_threshold`. The
        published method uses 0.5.
    n_jobs : int, optional
        Number of parallel jobs of the neighbour search, as in scikit-learn.

    Attributes
    ----------
    label_confidence_ : CSR array of shape (n_samples, n_labels)
        The vote of each training row's neighbours for its candidates.
    posterior_ : array of shape (n_labels, n_neighbors + 1)
        P(label | count of neighbours that carry it).
    label_names_, classes_, n_features_in_
        See :class:`~pmlkit.methods.base.BasePML`.

    Notes
    -----
    Neighbours are Euclidean; equal distances are settled by the lower row number, as in the
    authors' program, whose numbers this class reproduces. Rows without candidates are left out.

    References
    ----------
    .. [1] M.-L. Zhang and Z.-H. Zhou, "ML-KNN: A lazy learning approach to multi-label
       learning", Pattern Recognition 40(7), 2007.

    Examples
    --------
    >>> from pmlkit import MLkNN
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200, random_state=0)
    >>> model = MLkNN().fit(strips.X, strips.Y)
    >>> model.decision_function(strips.X[:2]).shape
    (2, 10)
    """

    _scores_are_probabilities: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePML._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self, *, n_neighbors: int = 10, smoothing: float = 1.0, threshold: str | float = 0.5, n_jobs: int | None = None
    ) -> None:
        self.n_neighbors = n_neighbors
        self.smoothing = smoothing
        self.threshold = threshold
        self.n_jobs = n_jobs

    def _fit(self, X: Features, Y: CSR, progress: Progress) -> Learned:
        if Y.shape[0] < 2:
            raise ValueError("MLkNN needs at least two rows with candidates, got n_samples = 1.")
        k = min(self.n_neighbors, Y.shape[0] - 1)
        index = NearestNeighbors(n_neighbors=k, n_jobs=self.n_jobs).fit(X)
        votes = _label_votes(nearest(index, k)[1], Y)
        self.posterior_ = _posterior_table(votes, Y, k, self.smoothing)
        self._X, self._Y, self._index = X, Y, index
        scores = self.posterior_[np.arange(Y.shape[1]), votes]
        progress.step("neighbours")
        return Learned(confidence=cells_at(scores, Y), scores=scores)

    def _scores(self, X: Features) -> FloatArray:
        if not hasattr(self, "_index"):  # Model files keep the rows only: a search tree in a file cannot be checked.
            self._index = NearestNeighbors(n_neighbors=self.posterior_.shape[1] - 1, n_jobs=self.n_jobs).fit(self._X)
        votes = _label_votes(nearest(self._index, self.posterior_.shape[1] - 1, X)[1], self._Y)
        return np.asarray(self.posterior_[np.arange(votes.shape[1]), votes])
