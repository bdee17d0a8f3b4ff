import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from pmlkit import ClearPML
from pmlkit.data import load_digit_strips
from pmlkit.methods.clear_pml import posterior
from pmlkit.methods.clear_pml.cells import read_verified
from pmlkit.methods.clear_pml.posterior import fit_label_rates, likeliest_noise_model
from pmlkit.metrics import cleaning_auc


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(500, random_state=5)


def answers_for(strips, rows):
    Y, truth = strips.Y.toarray(), strips.truth.toarray()
    answers = np.zeros(Y.shape)
    answers[rows] = np.where(Y[rows] > 0, np.where(truth[rows] > 0, 1, -1), 0)
    return answers


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_answers_decide_their_own_cells(strips, container):
    answers = answers_for(strips, slice(0, 80))
    model = ClearPML().fit(strips.X, strips.Y, verified=container(answers))
    confidence = model.label_confidence_.toarray()
    assert (confidence[answers > 0] == 1).all()
    assert not confidence[answers < 0].any()
    open_cells = (strips.Y.toarray() > 0) & (answers == 0)
    assert ((confidence[open_cells] > 0) & (confidence[open_cells] < 1)).all()


def test_answers_of_some_rows_help_to_judge_the_others(strips):
    rest = np.arange(250, 500)
    before = ClearPML().fit(strips.X, strips.Y)
    after = ClearPML().fit(strips.X, strips.Y, verified=answers_for(strips, slice(0, 250)))
    auc = [cleaning_auc(strips.truth[rest], strips.Y[rest], m.label_confidence_[rest]) for m in (before, after)]
    assert auc[1] > auc[0]
    true_share = strips.truth[rest].sum() / strips.Y[rest].sum()
    error = [abs(m.label_confidence_[rest].sum() / strips.Y[rest].sum() - true_share) for m in (before, after)]
    assert error[1] < max(error[0], 0.05)


def test_no_answers_change_nothing(strips):
    plain = ClearPML().fit(strips.X, strips.Y)
    same = ClearPML().fit(strips.X, strips.Y, verified=sparse.csr_array(strips.Y.shape))
    np.testing.assert_allclose(same.label_confidence_.data, plain.label_confidence_.data)


def test_a_row_that_lost_all_candidates_stays_labelled(strips):
    answers = np.zeros(strips.Y.shape)
    answers[:5] = -strips.Y[:5].toarray().astype(float)
    model = ClearPML().fit(strips.X, strips.Y, verified=answers)
    assert model.empty_rows_ is None
    assert not model.label_confidence_[:5].sum()
    assert np.isfinite(model.out_of_fold_scores_).all()


def test_answers_tell_how_many_rows_are_without_truth():
    """Without answers, mistakes that follow the features pass for truth."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 8))
    Y = X[:, :5] > 0.3
    X, Y = X[Y.any(axis=1)], Y[Y.any(axis=1)].astype(float)
    without = rng.uniform(size=len(Y)) < 0.4
    truth = np.eye(5)[X[:, :5].argmax(axis=1)] * ~without[:, None]
    answers = np.where(truth > 0, Y, -Y)
    answers[150:] = 0
    shares = {
        known: ClearPML(every_row_has_a_label=known).fit(X, Y, verified=answers).share_without_truth_
        for known in ("auto", True)
    }
    assert ClearPML().fit(X, Y).share_without_truth_ < 0.05
    assert abs(shares["auto"] - without.mean()) < 0.1
    assert shares[True] == 0


def test_answers_find_labels_that_go_together():
    """Where candidates of a row are all true or all false, competition is dropped."""
    rng = np.random.default_rng(0)
    chance = np.full((300, 4), 0.3)
    is_candidate = rng.uniform(size=chance.shape) < 0.6
    all_true = is_candidate.sum(axis=1) >= 3
    answered = is_candidate * np.where(all_true, 1, -1)[:, None]
    answers = read_verified(answered, chance.shape)
    competition, _ = likeliest_noise_model(chance, is_candidate, *answers, 0.2, competition=0.8, presence=np.inf)
    assert competition < 0.5


def test_rates_are_the_most_probable_ones():
    rng = np.random.default_rng(0)
    log_odds, label = rng.normal(size=60), rng.integers(0, 3, 60)
    is_true = rng.uniform(size=60) < expit(log_odds + np.array([1.0, -1.0, 0.0])[label])

    def loss(w):
        z = log_odds + w[0] + w[1:][label]
        prior = w[0] ** 2 / (2 * posterior._SHIFT_VARIANCE) + (w[1:] ** 2).sum() / (2 * posterior._LABEL_VARIANCE)
        return np.sum(np.logaddexp(0, z) - is_true * z) + prior

    best = minimize(loss, np.zeros(4), tol=1e-12).x
    shift, per_label = fit_label_rates(log_odds, label, is_true, 3)
    np.testing.assert_allclose([shift, *per_label], best, atol=1e-4)


def test_wrong_answers_are_refused(strips):
    with pytest.raises(ValueError, match=r"shape of y, \(500, 10\), got \(3, 10\)"):
        ClearPML().fit(strips.X, strips.Y, verified=np.zeros((3, 10)))
    with pytest.raises(ValueError, match="got other values"):
        ClearPML().fit(strips.X, strips.Y, verified=np.full(strips.Y.shape, 2))
