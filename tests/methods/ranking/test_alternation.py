"""The alternation of models and confidences: callbacks, and what the variants are worth."""

import numpy as np

from pmlkit.data import load_digit_strips, make_pml
from pmlkit.methods.ranking import PMLFP, PMLLC, RankSVM
from pmlkit.methods.ranking.alternation import alternate
from pmlkit.methods.ranking.convex import LabelCorrelation
from pmlkit.methods.ranking.pml_lc import candidate_similarity
from pmlkit.metrics import average_precision
from pmlkit.numerics.spectral import centered_rows


def test_a_callback_ends_it():
    rng = np.random.default_rng(0)
    X, is_candidate = rng.normal(size=(40, 5)), rng.random((40, 4)) < 0.5
    is_candidate[:, 0] |= ~is_candidate.any(axis=1)
    problem = LabelCorrelation(is_candidate, 1.0, 0.0, candidate_similarity(is_candidate), 0.1)
    options = {"tol": 1e-6, "max_iter": 10}
    stopped = alternate(centered_rows(X), is_candidate, problem, on_iteration=lambda: True, **options)
    assert stopped.n_iter == 1
    assert stopped.solution.gap <= 1e-6
    assert alternate(centered_rows(X), is_candidate, problem, **options).n_iter > 1


def _synthetic_cases(seed):
    """Dense and text-like made-up rows and strips of digits, each with three kinds of noise."""
    for kind in ("uniform", "correlated", "confusable"):
        yield make_pml(250, 40, 10, noise=1.0, kind=kind, random_state=seed)
        yield make_pml(250, 600, 10, noise=1.0, kind=kind, density=0.03, random_state=seed)
        yield load_digit_strips(250, kind, seed, ratio=1.0)


def test_convex_variants_are_better_than_rank_svm_more_often_than_not():
    """With defaults, which were chosen on other seeds."""
    methods = {"rank": RankSVM(), "lc": PMLLC(variant="convex"), "fp": PMLFP(variant="convex")}
    precision = {name: [] for name in methods}
    for data in _synthetic_cases(seed=7):
        train, test = data.subset(slice(0, 200)), data.subset(slice(200, None))
        for name, values in precision.items():
            scores = methods[name].fit(train.X, train.Y).decision_function(test.X)
            values.append(average_precision(test.truth, scores))
    baseline = np.array(precision.pop("rank"))
    for name, values in precision.items():
        assert np.mean(np.array(values) > baseline) >= 0.5, name
        assert np.mean(values) > baseline.mean(), name
