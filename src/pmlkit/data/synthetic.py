"""Data that needs no file: synthetic data of any size, and images of real handwritten digits."""

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from scipy import optimize, sparse, special
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from pmlkit._arrays import generator
from pmlkit._typing import CSR, BoolArray, FloatArray, IntArray, RandomState
from pmlkit._words import check_choice
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.noise import NoiseKind, add_noise

_BLOCK_ROWS = 20_000
_PILOT_ROWS = 8_000  # rows drawn to tune the thresholds: the mean number of labels is then right within about 2 %
_SHARED = 0.7  # share of a label's variance that comes from the factors the labels have in common
_SEPARATION = 3.0  # distance that one label moves a dense row, in standard deviations of the noise
_LABEL_WORDS = 0.5  # share of a row's words that come from its labels, the others from the common vocabulary
_WORD_SPREAD = 2.0  # how far labels differ in their words (standard deviation of log frequencies)


def make_pml(
    n_samples: int = 1000,
    n_features: int = 100,
    n_labels: int = 10,
    *,
    cardinality: float = 2.0,
    noise: float = 0.5,
    kind: NoiseKind = "uniform",
    density: float = 1.0,
    rank: int | None = None,
    unlabelled: float = 0.0,
    random_state: RandomState = None,
) -> PMLDataset:
    r"""Make a data set whose labels follow from its features and go together in groups.

    Parameters
    ----------
    n_samples, n_features, n_labels : int, default=1000, 100, 10
        Sizes.
    cardinality : float, default=2.0
        Mean number of true labels of a labelled row, above 0 and below `n_labels`. From 1 on,
        every labelled row has at least one.
    noise : float, default=0.5
        False candidates per true label, see :func:`~pmlkit.data.noise.add_noise`.
    kind : {"uniform", "correlated", "confusable"}, default="uniform"
        Which labels become false candidates.
    density : float, default=1.0
        1 makes dense real features. Less makes sparse text-like counts (float32) in which about
        this share of the cells is not zero: a few words are frequent and most are rare,
        and each label has words of its own.
    rank : int, optional
        Number of hidden factors that tie the labels together, from 1 to `n_labels`: the
        fewer, the more the labels are correlated. By default the square root of `n_labels`.
    unlabelled : float, default=0.0
        Share of the rows (below 1) that lose all their labels, candidates and truth.
    random_state : int, Generator, RandomState or None, default=None
        Seed; the same seed gives the same data.

    Returns
    -------
    data : PMLDataset
        With its truth.

    Notes
    -----
    Label `k` is true where :math:`\sqrt{0.7}\, b_k^\top z_i + \sqrt{0.3}\, e_{ik}` exceeds a
    threshold, with a few factors :math:`z_i` per row; some labels are frequent, others rare. A
    dense row is the sum of one direction per true label, one per factor, and unit noise; half
    the words of a sparse row come from the vocabularies of its true labels. Rows are made in
    blocks, so memory is a small multiple of the result.

    Examples
    --------
    >>> from pmlkit.data import make_pml
    >>> make_pml(200, 20, 5, noise=1.0, random_state=0)
    PMLDataset 'synthetic': 200 rows, 20 features (dense float64), 5 labels, ...
    >>> make_pml(200, 5000, 5, density=0.01, random_state=0).X.dtype
    dtype('float32')
    """
    for name, size in (("n_samples", n_samples), ("n_features", n_features), ("n_labels", n_labels)):
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}.")
    if not 0 < cardinality < n_labels:
        raise ValueError(f"cardinality must be above 0 and below n_labels={n_labels}, got {cardinality}.")
    if not 0 < density <= 1:
        raise ValueError(f"density must be above 0 and at most 1, got {density}.")
    if not 0 <= unlabelled < 1:
        raise ValueError(f"unlabelled must be a share of the rows from 0 to below 1, got {unlabelled}.")
    if rank is None:
        rank = max(1, round(n_labels**0.5))
    elif not isinstance(rank, int | np.integer) or not 1 <= rank <= n_labels:
        raise ValueError(f"rank must be a whole number from 1 to n_labels={n_labels}, got {rank!r}.")

    rng = generator(random_state)
    labels = _LabelModel.draw(n_labels, rank, cardinality, rng)
    features = (_DenseModel if density == 1 else _TextModel).draw(n_features, n_labels, rank, density, rng)
    X_blocks, T_blocks = [], []
    for start in range(0, n_samples, _BLOCK_ROWS):
        factors, truth = labels.rows(min(_BLOCK_ROWS, n_samples - start), rng)
        T_blocks.append(sparse.csr_array(truth, dtype=np.uint8))
        X_blocks.append(features.rows(factors, T_blocks[-1], rng))
    X: Any = np.concatenate(X_blocks) if density == 1 else sparse.vstack(X_blocks, format="csr")
    del X_blocks
    T = sparse.vstack(T_blocks, format="csr")
    if unlabelled:
        T = _blank(T, rng.permutation(n_samples)[: round(unlabelled * n_samples)])
    Y = add_noise(T, noise, kind, random_state=rng, X=X if kind == "confusable" else None)
    # No other reference exists: read-only arrays are used without a copy.
    for part in (X,) if density == 1 else (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    seed = random_state if isinstance(random_state, int | None) else type(random_state).__name__
    provenance = (
        f"make_pml({n_samples}, {n_features}, {n_labels}, cardinality={cardinality}, noise={noise}, kind={kind!r}, "
        f"density={density}, rank={rank}, unlabelled={unlabelled}, random_state={seed})"
    )
    return PMLDataset(X, Y, truth=T, name="synthetic", provenance=provenance)


def _blank(T: CSR, rows: Any) -> CSR:
    """Return the labels without those of the given rows."""
    keep = np.ones(T.shape[0], dtype=np.uint8)
    keep[rows] = 0
    blanked = (sparse.diags_array(keep, format="csr", dtype=np.uint8) @ T).tocsr()
    blanked.eliminate_zeros()
    return blanked


@dataclass(frozen=True)
class _LabelModel:
    """Labels that are true where the sum of a few shared factors and own noise exceeds a threshold."""

    loadings: FloatArray
    thresholds: FloatArray
    at_least_one: bool

    @classmethod
    def draw(cls, n_labels: int, rank: int, cardinality: float, rng: np.random.Generator) -> "_LabelModel":
        loadings = rng.standard_normal((n_labels, rank))
        loadings *= np.sqrt(_SHARED) / np.linalg.norm(loadings, axis=1, keepdims=True)
        frequency = rng.permutation(np.arange(1, n_labels + 1) ** -0.5)
        share = np.clip(cardinality * frequency / frequency.sum(), 1e-6, 0.95)
        model = cls(loadings, -special.ndtri(share), cardinality >= 1)
        # Filling up empty rows raises the mean: lift all thresholds until the mean is the one asked for.
        _, margins = model._margins(_PILOT_ROWS, rng)
        lowest = float(model.at_least_one)

        def excess(lift: float) -> float:
            return float(np.maximum((margins > lift).sum(axis=1), lowest).mean()) - cardinality

        low, high = float(margins.min()) - 1, float(margins.max()) + 1
        lift = high if excess(high) >= 0 else optimize.bisect(excess, low, high, xtol=1e-4)
        return cls(loadings, model.thresholds + lift, model.at_least_one)

    def _margins(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        factors = rng.standard_normal((n_samples, self.loadings.shape[1]))
        own = rng.standard_normal((n_samples, len(self.thresholds)))
        return factors, factors @ self.loadings.T + np.sqrt(1 - _SHARED) * own - self.thresholds

    def rows(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray]:
        """Return factors and truth of new rows."""
        factors, margins = self._margins(n_samples, rng)
        truth = margins > 0
        if self.at_least_one:
            empty = np.flatnonzero(~truth.any(axis=1))
            truth[empty, margins[empty].argmax(axis=1)] = True
        return factors, truth


@dataclass(frozen=True)
class _DenseModel:
    """One direction per label and one per factor, plus unit noise."""

    by_label: FloatArray
    by_factor: FloatArray

    @classmethod
    def draw(cls, n_features: int, n_labels: int, rank: int, density: float, rng: np.random.Generator) -> "_DenseModel":
        scale = n_features**-0.5
        by_label = rng.standard_normal((n_labels, n_features)) * (_SEPARATION * scale)
        return cls(by_label, rng.standard_normal((rank, n_features)) * scale)

    def rows(self, factors: FloatArray, truth: CSR, rng: np.random.Generator) -> FloatArray:
        X: FloatArray = truth.astype(np.float64) @ self.by_label
        X += factors @ self.by_factor
        X += rng.standard_normal(X.shape)
        return X


@dataclass(frozen=True)
class _TextModel:
    """Words drawn from a common vocabulary and from those of the row's labels."""

    cumulative: FloatArray
    """Word frequencies summed up, a line per label and a last one for the common words; line j runs from j to j + 1."""
    length: float
    """Mean number of words of a row."""

    @classmethod
    def draw(cls, n_features: int, n_labels: int, rank: int, density: float, rng: np.random.Generator) -> "_TextModel":
        common = rng.permutation(1 / (np.arange(n_features) + 3.0))
        words = np.vstack([common * np.exp(_WORD_SPREAD * rng.standard_normal((n_labels, n_features))), common])
        words /= words.sum(axis=1, keepdims=True)
        in_row = _LABEL_WORDS * words[:-1] + (1 - _LABEL_WORDS) * words[-1]

        def excess(log_length: float) -> float:
            return float(-np.expm1(-np.exp(log_length) * in_row).mean()) - density

        length = np.exp(optimize.brentq(excess, -50, 50, xtol=1e-3))
        cumulative = np.cumsum(words, axis=1)
        cumulative /= cumulative[:, -1:]
        cumulative += np.arange(n_labels + 1)[:, None]
        return cls(cumulative.ravel(), float(length))

    def rows(self, factors: FloatArray, truth: CSR, rng: np.random.Generator) -> CSR:
        n_samples, n_labels = truth.shape
        n_features = len(self.cumulative) // (n_labels + 1)
        row = np.repeat(np.arange(n_samples), rng.poisson(self.length, n_samples))
        n_true = np.diff(truth.indptr)
        is_label_word = (rng.random(len(row)) < _LABEL_WORDS) & (n_true[row] > 0)
        line = np.full(len(row), n_labels)
        chosen = row[is_label_word]
        pick = (rng.random(len(chosen)) * n_true[chosen]).astype(np.int64)
        line[is_label_word] = truth.indices[truth.indptr[chosen] + pick]
        place = np.searchsorted(self.cumulative, line + rng.random(len(row)), side="right")
        # Rounding can push a draw past the end of its line: the last word of the line is meant.
        word = np.minimum(place - line * n_features, n_features - 1)
        counts = sparse.coo_array((np.ones(len(row), np.float32), (row, word)), shape=(n_samples, n_features))
        return counts.tocsr()


_SIDE = 8  # pixels of a digit, both ways
_HEIGHT, _WIDTH = 10, 42  # room for four digits with gaps, and one blank column at each end
_MIN_DIGITS, _MAX_DIGITS = 2, 4
_TRAIN_SHARE = 0.8
_N_PATTERNS = 64
_SOFTNESS = 4.0  # squared distance at which a pattern's response falls to 1/e; unlike digits are about that far apart
_BLOCK_STRIPS = 200


def load_digit_strips(
    n: int = 2000, noise: NoiseKind | float = "confusable", random_state: RandomState = 0, *, ratio: float = 1.0
) -> PMLDataset:
    """Make images of two to four handwritten digits whose labels are the digits shown, plus false ones.

    Parameters
    ----------
    n : int, default=2000
        Number of strips, at least 5.
    noise : {"confusable", "uniform", "correlated"} or float, default="confusable"
        Which false candidates: digits that look like one of those shown (a 9 where there is a
        3), any digit, or digits often shown together with those of the strip. A number is the
        `ratio` of confusable ones.
    random_state : int, Generator, RandomState or None, default=0
        Seed; the same seed gives the same data, and the same strips whatever the noise.
    ratio : float, default=1.0
        False candidates per digit shown, see :func:`~pmlkit.data.noise.add_noise`.

    Returns
    -------
    data : PMLDataset
        Ten labels, "0" to "9"; the truth is the set of digits shown (a digit shown twice counts
        once). `media` holds the images, uint8 of shape (n, 10, 42), dark digits on white.

    Notes
    -----
    The digits are the 1,797 real scans of 8 x 8 pixels that come with scikit-learn, pasted with
    small gaps and at different heights; nothing is downloaded. A scan is used many times over,
    so a random split would show the same one to both sides. Therefore **the first 80 % of the
    rows use one part of the scans and the last 20 % the other part**: train on the first
    ``int(0.8 * n)`` rows and test on the rest, and no scan is on both sides.

    The features come from the pixels alone, never from the labels: k-means finds 64 typical
    shapes among the scans of the first part, and feature `j` says how well shape `j` matches
    the strip at the place where it matches best (from 0 to 1). So it does not matter where a
    digit stands, and a linear model can learn from them.

    Confusable noise follows the distances between the mean images of the ten digits.

    Examples
    --------
    >>> from pmlkit.data import load_digit_strips
    >>> data = load_digit_strips(50)
    >>> data.X.shape, data.media.shape
    ((50, 64), (50, 10, 42))
    >>> data.label_names
    ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    """
    if not isinstance(n, int | np.integer) or n < 5:
        raise ValueError(f"n must be a whole number of at least 5 strips, got {n!r}.")
    if isinstance(noise, int | float):
        noise, ratio = "confusable", float(noise)
    check_choice(noise, get_args(NoiseKind), "noise")
    rng = generator(random_state)
    scans, digits = load_digits(return_X_y=True)
    scans = (scans / 16).reshape(-1, _SIDE, _SIDE)
    order = rng.permutation(len(scans))
    parts = np.split(order, [int(_TRAIN_SHARE * len(order))])
    n_train = int(_TRAIN_SHARE * n)
    pasted = [_paste(scans, parts[0], n_train, rng), _paste(scans, parts[1], n - n_train, rng)]
    images, shown = (np.concatenate(both) for both in zip(*pasted, strict=True))
    # Before the noise: the same seed then gives the same rows, whatever the noise.
    patterns = _find_patterns(scans[parts[0]], seed=int(rng.integers(2**31)))

    truth = np.zeros((n, 10), dtype=np.uint8)
    row, place = np.nonzero(shown >= 0)
    truth[row, digits[shown[row, place]]] = 1
    confusion = _look_alikes(scans, digits) if noise == "confusable" else None
    Y = add_noise(truth, ratio, noise, random_state=rng, confusion=confusion)
    seed = random_state if isinstance(random_state, int | None) else type(random_state).__name__
    return PMLDataset(
        _responses(images, patterns),
        Y,
        truth=truth,
        feature_names=[f"shape_{j}" for j in range(_N_PATTERNS)],
        label_names=[str(digit) for digit in range(10)],
        media=np.round(255 * (1 - images)).astype(np.uint8),
        name="digit strips",
        provenance=(
            "Strips of 2 to 4 scans of sklearn.datasets.load_digits; the first 80 % of the rows and the others share "
            f"no scan; {noise} noise, {ratio} false candidates per digit shown, random_state={seed}."
        ),
    )


def _paste(scans: FloatArray, pool: IntArray, n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return `n` strips (ink from 0 to 1) and the numbers of the scans in each, -1 where there is none."""
    n_digits = rng.integers(_MIN_DIGITS, _MAX_DIGITS + 1, n)
    picked = rng.choice(pool, (n, _MAX_DIGITS))
    picked[np.arange(_MAX_DIGITS) >= n_digits[:, None]] = -1
    steps = _SIDE + rng.integers(1, 3, (n, _MAX_DIGITS))
    lefts = np.cumsum(steps, axis=1) - steps
    slack = _WIDTH - 2 - _SIDE - lefts[np.arange(n), n_digits - 1]
    lefts += 1 + rng.integers(0, slack + 1)[:, None]
    tops = rng.integers(0, _HEIGHT - _SIDE + 1, (n, _MAX_DIGITS))
    images = np.zeros((n, _HEIGHT, _WIDTH))
    row, place = np.nonzero(picked >= 0)
    down = tops[row, place][:, None] + np.arange(_SIDE)
    across = lefts[row, place][:, None] + np.arange(_SIDE)
    images[row[:, None, None], down[:, :, None], across[:, None, :]] = scans[picked[row, place]]
    return images, picked


def _look_alikes(scans: FloatArray, digits: IntArray) -> FloatArray:
    """Return how much each pair of digits looks alike, by the distance of their mean images."""
    means = np.stack([scans[digits == digit].mean(axis=0).ravel() for digit in range(10)])
    distances = ((means[:, None] - means) ** 2).sum(axis=2)
    closeness: FloatArray = np.exp(-4 * distances / np.median(distances[distances > 0]))
    return closeness


def _find_patterns(scans: FloatArray, seed: int) -> FloatArray:
    """Return typical digit shapes, with a blank column on both sides so that halves of two neighbours do not match."""
    kmeans = KMeans(_N_PATTERNS, n_init=1, random_state=seed).fit(scans.reshape(len(scans), -1))
    return np.pad(kmeans.cluster_centers_.reshape(-1, _SIDE, _SIDE), ((0, 0), (0, 0), (1, 1)))


def _responses(images: FloatArray, patterns: FloatArray) -> FloatArray:
    """Return, for each strip and pattern, the best match over all places of the strip.

    Rounded, so that every machine has the same rows: hashes of rows decide on folds and samples.
    """
    n_patterns, *window = patterns.shape
    flat = patterns.reshape(n_patterns, -1)
    windows = np.lib.stride_tricks.sliding_window_view(images, window, axis=(1, 2))
    responses = np.empty((len(images), n_patterns))
    for start in range(0, len(images), _BLOCK_STRIPS):
        block = windows[start : start + _BLOCK_STRIPS]
        patches = block.reshape(len(block), -1, flat.shape[1])
        distances = (patches**2).sum(axis=2)[:, :, None] + (flat**2).sum(axis=1) - 2 * patches @ flat.T
        responses[start : start + len(block)] = np.exp(-np.maximum(distances.min(axis=1), 0) / _SOFTNESS)
    return np.round(responses, 6)
