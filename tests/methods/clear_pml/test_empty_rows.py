import numpy as np
import pytest
from scipy import sparse

from pmlkit import ClearPML
from pmlkit.data import load_digit_strips
from pmlkit.methods.clear_pml.empty_rows import decide_by_sample
from pmlkit.methods.clear_pml.feature_weighting import feature_moments


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_emptiness_that_features_show_is_negative_and_chance_is_not(container):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * (rng.uniform(size=(400, 5)) < 0.5)
    assert decide_by_sample(container(X), X[:, 0] > 0.3, feature_moments(X)).meaning == "negative"
    for seed in range(5):
        is_empty = np.random.default_rng(seed).uniform(size=400) < 0.3
        assert decide_by_sample(container(X), is_empty, feature_moments(X)).meaning == "unlabelled"


def test_the_reason_is_logged_by_a_fit(caplog):
    caplog.set_level("INFO", logger="pmlkit")
    X = np.random.default_rng(0).normal(size=(200, 3))
    Y = np.column_stack([X[:, 1] > 0, X[:, 1] <= 0]) & (X[:, :1] < 0.5)
    model = ClearPML().fit(X, Y.astype(int))
    assert model.empty_rows_reason_.startswith("features predict which rows are empty (leave-one-out AUC 0.9")
    assert model.empty_rows_reason_ in caplog.text


def test_negative_rows_lower_the_scores_of_rows_like_them():
    strips = load_digit_strips(400, random_state=3)
    Y = strips.Y.toarray()
    blank = np.zeros((150, strips.X.shape[1]))
    blank += 0.01 * np.random.default_rng(0).uniform(size=blank.shape)
    X, Y = np.vstack([strips.X, blank[:100]]), np.vstack([Y, np.zeros((100, Y.shape[1]))])
    scores = {
        kind: ClearPML(empty_rows=kind).fit(X, Y).decision_function(blank[100:]) for kind in ("unlabelled", "negative")
    }
    assert scores["negative"].mean() < 0.7 * scores["unlabelled"].mean()
    assert ClearPML().fit(X, Y).empty_rows_ == "negative"
    assert ClearPML().fit(strips.X, strips.Y).empty_rows_ is None


def test_unlabelled_rows_leave_the_judgement_of_the_others_as_it_is():
    strips = load_digit_strips(600, random_state=1)
    is_empty = np.arange(600) % 5 == 0
    Y = strips.Y.toarray() * ~is_empty[:, None]
    alone = ClearPML().fit(strips.X[~is_empty], Y[~is_empty])
    together = ClearPML().fit(strips.X, Y)
    assert together.empty_rows_ == "unlabelled"
    assert np.corrcoef(alone.label_confidence_.data, together.label_confidence_.data)[0, 1] > 0.99


def test_wide_text_takes_every_labelled_row_as_landmark_beside_unlabelled_ones():
    rng = np.random.default_rng(0)
    X = sparse.random_array((1500, 1200), density=0.02, rng=rng, format="csr")
    Y = np.c_[X[:, :40].sum(axis=1) > 0.4, X[:, 40:80].sum(axis=1) > 0.4].astype(float)
    Y[~Y.any(axis=1), 0] = 1.0
    Y[rng.permutation(1500)[:300]] = 0.0
    model = ClearPML().fit(X, Y)
    assert (model.empty_rows_, len(model.dual_coef_)) == ("unlabelled", 1200)
