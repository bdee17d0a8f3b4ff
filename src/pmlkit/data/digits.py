"""Digit strips: the embedded data set, images of real handwritten digits."""

from typing import get_args

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from pmlkit._random import generator
from pmlkit._typing import FloatArray, IntArray, RandomState
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.noise import NoiseKind, add_noise

__all__ = ["load_digit_strips"]

_SIDE = 8  # pixels of a digit, both ways
_HEIGHT, _WIDTH = 10, 42  # room for four digits with gaps, and one blank column at each end
_MIN_DIGITS, _MAX_DIGITS = 2, 4
_TRAIN_SHARE = 0.8
_N_PATTERNS = 64
_SOFTNESS = 4.0  # squared distance at which a pattern's response falls to 1/e; unlike digits are about that far apart
_BLOCK_ROWS = 200


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
    if noise not in get_args(NoiseKind):
        raise ValueError(f"noise must be one of {', '.join(get_args(NoiseKind))}, got {noise!r}.")
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
    for start in range(0, len(images), _BLOCK_ROWS):
        block = windows[start : start + _BLOCK_ROWS]
        patches = block.reshape(len(block), -1, flat.shape[1])
        distances = (patches**2).sum(axis=2)[:, :, None] + (flat**2).sum(axis=1) - 2 * patches @ flat.T
        responses[start : start + len(block)] = np.exp(-np.maximum(distances.min(axis=1), 0) / _SOFTNESS)
    return np.round(responses, 6)
