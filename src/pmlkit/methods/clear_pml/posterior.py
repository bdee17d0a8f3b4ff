r"""The posterior probability that each candidate is true, and the three numbers of the noise model behind it.

A set S of labels is the true one of a row with prior weight :math:`a \theta^{|S|-1} \prod_S \pi_k / (1 - \pi_k)`, the
empty set with weight 1. All true labels are candidates; each other label is one with probability :math:`\rho`.

- :math:`\rho`, the noise floor, is estimated from the rows that score lowest (`noise_floor`).
- :math:`a`, the weight of having a true label at all, by maximum likelihood (`presence_weight`);
  :math:`a = \infty` means that every row has one.
- :math:`\theta`, one minus the competition, is fixed: below 1 a likely candidate speaks against the others of its row.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from pmlkit._typing import BoolArray, FloatArray, IntArray

_LOW_SHARE = 0.3
_PSEUDO_ROWS = 50.0
_QUANTILE = 0.25
_NEVER = 1e-4
_USUAL = 0.6  # share of true candidates above which an estimate is shrunk by half
_PRESENCE_WEIGHTS = np.geomspace(1.0, 1000.0, 13)  # the largest stands for infinity
_CELLS = 4_000_000  # of the likelihood of the presence weight; a sample of rows beyond
_SHIFT_VARIANCE, _LABEL_VARIANCE = 4.0, 0.5  # of the log odds' corrections, for all labels and for each
_NEEDED_GAIN = 2.0  # in log likelihood, to leave the default noise model
_THETAS = (0.05, 0.2, 0.5, 1.0, 2.0)
_PRESENCES = (1.0, 3.0, 10.0, 30.0, 100.0, float("inf"))


def noise_floor(probability: FloatArray, is_candidate: BoolArray) -> float:
    """Estimate the probability that a false label is a candidate.

    The candidate rate among the rows with the lowest scores of a label is an upper bound of its noise rate. One rate
    serves all labels, a low quantile of these bounds: a label that features predict badly has true candidates among
    its lowest scores too, so that its own bound is too high.

    - `probability` (n_samples, n_labels): of being a candidate, by models that did not see the row's candidates;
    - `is_candidate` (n_samples, n_labels).

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import noise_floor
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(size=(4000, 6)) < 0.3
    >>> candidates = truth | (rng.uniform(size=truth.shape) < 0.1)
    >>> round(noise_floor(np.where(truth, 0.9, 0.1) + 0.01 * rng.uniform(size=truth.shape), candidates), 1)
    0.1
    """
    n_rows = len(probability)
    n_low = max(1, int(_LOW_SHARE * n_rows))
    low = np.argpartition(probability, n_low - 1, axis=0)[:n_low]
    n_false = np.take_along_axis(is_candidate, low, axis=0).sum(axis=0)
    typical = n_false.mean() / n_low
    rates = (n_false + _PSEUDO_ROWS * typical) / (n_low + _PSEUDO_ROWS)
    return float(np.clip(np.quantile(rates, _QUANTILE), _NEVER, 0.9))


def true_probabilities(probability: FloatArray, floor: float) -> FloatArray:
    """Return probabilities of being true from those of being a candidate, at noise rate `floor`."""
    return np.asarray(np.clip((probability - floor) / (1.0 - floor), _NEVER, 1.0 - 1e-6))


def presence_weight(probability: FloatArray, is_candidate: BoolArray, floor: float, *, competition: float) -> float:
    """Return the most likely weight of having a true label, from the rows that have candidates.

    - `probability` (n_samples, n_labels): of being true;
    - `is_candidate` (n_samples, n_labels);
    - `floor`, `competition`: see `candidate_confidence`.

    Returns `presence`: on a grid from 1; infinity where its largest value is the likeliest.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import presence_weight
    >>> rng = np.random.default_rng(0)
    >>> truth = np.eye(4, dtype=bool)[rng.integers(0, 4, 2000)]
    >>> chance = np.where(truth, 0.8, 0.05)
    >>> presence_weight(chance, truth | (rng.uniform(size=truth.shape) < 0.1), 0.1, competition=0.8)
    inf
    >>> truth[::2] = False
    >>> noisy = truth | (rng.uniform(size=truth.shape) < 0.2)
    >>> presence_weight(chance[noisy.any(axis=1)], noisy[noisy.any(axis=1)], 0.2, competition=0.8) < 10
    True
    """
    step = -(-probability.size // _CELLS)
    probability, is_candidate = probability[::step], is_candidate[::step]
    seen = is_candidate.any(axis=1)
    if not seen.any():
        return float("inf")
    if not seen.all():
        probability, is_candidate = probability[seen], is_candidate[seen]
    theta = 1.0 - competition
    prior_odds = theta * (probability / (1.0 - probability)).astype(np.float64)
    log_any = np.log1p(prior_odds).sum(axis=1)
    log_given = np.log1p(np.where(is_candidate, prior_odds / floor, 0.0)).sum(axis=1)
    # Rows without candidates are not seen: their probability is taken out of the normalisation.
    unseen = (1.0 - floor) ** probability.shape[1] if np.ndim(floor) == 0 else float(np.prod(1.0 - floor))
    likelihood = []
    for weight in _PRESENCE_WEIGHTS / theta:
        given, total = (_log_one_plus(log_product, weight) for log_product in (log_given, log_any))
        likelihood.append(np.mean(given - total - np.log1p(-unseen * np.exp(-total))))
    best = int(np.argmax(likelihood))
    return float("inf") if best == len(_PRESENCE_WEIGHTS) - 1 else float(_PRESENCE_WEIGHTS[best])


def _log_one_plus(log_product: FloatArray, weight: float) -> FloatArray:
    """Return ``log(1 + weight * (exp(log_product) - 1))`` without overflow."""
    log_rest = log_product + np.log(-np.expm1(-np.maximum(log_product, 1e-300)))
    return np.asarray(np.logaddexp(0.0, np.log(weight) + log_rest))


def candidate_confidence(
    probability: FloatArray, is_candidate: BoolArray, floor: float, *, competition: float, presence: float
) -> FloatArray:
    r"""Return the posterior probability that each candidate is true, given the row's candidate set.

    With odds :math:`o = \pi / ((1 - \pi) \rho)`, a set S of candidates is the true one with weight
    :math:`a \theta^{|S|-1} \prod_{k \in S} o_k`, the empty set with weight 1.

    - `probability` (n_samples, n_labels): of being true, :math:`\pi`;
    - `is_candidate` (n_samples, n_labels);
    - `floor`: probability that a false label is a candidate, :math:`\rho`;
    - `competition`: in [0, 1]; :math:`\theta` is one minus this. With 1 at most one label of a row is true.
    - `presence`: weight of having a true label, :math:`a`; infinity where every row has one. With 1 and no competition
      the candidates are independent.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import candidate_confidence
    >>> row = np.array([[0.5, 0.25, 0.9]]), np.array([[True, True, False]])
    >>> candidate_confidence(*row, 0.5, competition=1.0, presence=np.inf)
    array([[0.75, 0.25, 0.  ]])
    """
    odds = np.where(is_candidate, probability / ((1.0 - probability) * floor), 0.0)
    if competition == 1.0:
        total = odds.sum(axis=1, keepdims=True) + 1.0 / presence
        return np.asarray(odds / np.where(total > 0, total, 1.0))
    theta = 1.0 - competition
    odds *= theta
    alone = odds / (1.0 + odds)
    none = np.exp(np.log1p(-np.minimum(alone, 1.0 - 1e-12)).sum(axis=1, keepdims=True))
    return np.asarray(np.minimum(alone / np.maximum(1.0 - none + none * (theta / presence), 1e-12), 1.0))


def no_true_label(
    probability: FloatArray, is_candidate: BoolArray, floor: float, *, competition: float, presence: float
) -> FloatArray:
    """Return the posterior probability of each row that none of its candidates is true.

    The parameters are those of `candidate_confidence`.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import no_true_label
    >>> no_true_label(np.array([[0.5]]), np.array([[True]]), 0.5, competition=0.0, presence=1.0).round(3)
    array([0.333])
    """
    odds = np.where(is_candidate, probability / ((1.0 - probability) * floor), 0.0)
    if competition == 1.0:
        return np.asarray(1.0 / (1.0 + presence * odds.sum(axis=1))) if np.isfinite(presence) else np.zeros(len(odds))
    theta = 1.0 - competition
    none = np.exp(-np.log1p(theta * odds).sum(axis=1)) * (theta / presence)
    return np.asarray(none / (1.0 - none * (presence / theta) + none)) if np.isfinite(presence) else np.zeros(len(odds))


def shrunk_count(n_true: float, n_candidates: int) -> float:
    """Return an estimated number of true candidates, shrunk where it is unusually high.

    Noise that follows the features looks like truth, so that estimates err on the high side: what lies above
    the share of true candidates that is usual in noisy tags is halved.

    Examples
    --------
    >>> from pmlkit.methods.clear_pml.posterior import shrunk_count
    >>> shrunk_count(50.0, 100), shrunk_count(80.0, 100)
    (50.0, 70.0)
    """
    usual = _USUAL * n_candidates
    return n_true if n_true <= usual else (n_true + usual) / 2.0


def rescale_to_sum(confidence: FloatArray, wanted: float) -> FloatArray:
    """Return confidences whose odds are all multiplied by one number, such that they sum to `wanted`.

    Their order stays; zeros stay zero.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import rescale_to_sum
    >>> rescale_to_sum(np.array([0.2, 0.0, 0.5]), 1.0).round(3)
    array([0.333, 0.   , 0.667])
    """
    given = confidence > 0
    log_odds = logit(np.clip(confidence[given], 1e-6, 1.0 - 1e-6))
    wanted = float(np.clip(wanted, 1e-3 * log_odds.size, (1.0 - 1e-3) * log_odds.size))
    result = np.zeros_like(confidence)
    if log_odds.size:
        shift = brentq(lambda shift: float(expit(log_odds + shift).sum()) - wanted, -40.0, 40.0, xtol=1e-9)
        result[given] = expit(log_odds + shift)
    return result


def likeliest_noise_model(
    chance: FloatArray,
    is_candidate: BoolArray,
    right: BoolArray,
    wrong: BoolArray,
    floor: float,
    *,
    competition: float,
    presence: float,
) -> tuple[float, float]:
    """Return the competition and the presence weight under which the answers are likeliest.

    - `chance`, `is_candidate` (n_samples, n_labels): probabilities of being true, and the candidates as they were
      given, of rows with answers;
    - `right`, `wrong` (n_samples, n_labels): the answers;
    - `competition`, `presence`: defaults, kept unless the answers clearly speak for others.
    """
    asked = (right | wrong) & is_candidate
    is_true = right[asked]

    def fit(competition: float, presence: float) -> float:
        confidence = candidate_confidence(chance, is_candidate, floor, competition=competition, presence=presence)
        log_odds = _log_odds(confidence[asked])
        shift, _ = fit_label_rates(log_odds, np.zeros(len(log_odds), dtype=int), is_true, 1)
        z = log_odds + shift
        return float(np.sum(np.where(is_true, z, 0.0) - np.logaddexp(0.0, z)) - shift**2 / (2.0 * _SHIFT_VARIANCE))

    best = competition, presence
    threshold = fit(*best) + _NEEDED_GAIN
    for theta in _THETAS:
        for weight in _PRESENCES:
            found = fit(1.0 - theta, weight)
            if found > threshold:
                best, threshold = (1.0 - theta, weight), found
    return best


def fit_label_rates(
    log_odds: FloatArray, label: IntArray, is_true: BoolArray, n_labels: int
) -> tuple[float, FloatArray]:
    """Fit how much more or less often candidates are right than their confidences say, by answered cells.

    The corrections have normal priors about zero (MAP by Newton's method). Which cells were asked may depend on their
    confidences: the model is conditional on them.

    - `log_odds` (n_answers,): of the confidences without the answers;
    - `label` (n_answers,);
    - `is_true` (n_answers,).

    Returns `shift`, `per_label` (n_labels,): what is added to the log odds of all labels, and to those of each.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.methods.clear_pml.posterior import fit_label_rates
    >>> _, per_label = fit_label_rates(np.zeros(200), np.arange(200) % 2, np.arange(200) % 2 == 0, 2)
    >>> bool(per_label[0] > 1 > -1 > per_label[1])
    True
    """
    shift, per_label = 0.0, np.zeros(n_labels)
    for _ in range(30):
        p = expit(log_odds + shift + per_label[label])
        rest, slack = is_true - p, p * (1.0 - p)
        weight = np.bincount(label, weights=slack, minlength=n_labels)
        right = np.bincount(label, weights=rest, minlength=n_labels) - per_label / _LABEL_VARIANCE
        diagonal = weight + 1.0 / _LABEL_VARIANCE
        # The labels' own corrections are eliminated from the system, which leaves one equation for the shift.
        curvature = weight.sum() + 1.0 / _SHIFT_VARIANCE - (weight**2 / diagonal).sum()
        step = (rest.sum() - shift / _SHIFT_VARIANCE - (weight * right / diagonal).sum()) / curvature
        steps = (right - weight * step) / diagonal
        shift, per_label = shift + float(np.clip(step, -2.0, 2.0)), per_label + np.clip(steps, -2.0, 2.0)
        if max(abs(step), float(np.abs(steps).max())) < 1e-6:
            break
    return shift, per_label


def _log_odds(confidence: FloatArray) -> FloatArray:
    inside = np.clip(confidence, 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(inside) - np.log1p(-inside))
