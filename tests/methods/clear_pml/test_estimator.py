import logging

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from pmlkit import CandidateLogistic, ClearPML, make_classifier
from pmlkit.blocks import RowBlocks
from pmlkit.data import load_digit_strips, make_pml, train_test_rows
from pmlkit.exceptions import PMLWarning
from pmlkit.metrics import cleaning_auc, evaluate


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(600, random_state=3)


def test_no_row_judges_itself(strips):
    """Taking one row's candidates away hardly changes what its scores say of them."""
    model = ClearPML().fit(strips.X, strips.Y)
    Y = strips.Y.toarray()
    flipped = Y.copy()
    flipped[0] = 1 - flipped[0]
    after = ClearPML().fit(strips.X, flipped)
    spread = model.out_of_fold_scores_.std()
    assert np.abs(after.out_of_fold_scores_[0] - model.out_of_fold_scores_[0]).max() < 0.1 * spread


def test_it_beats_logistic_regression_on_digit_strips(strips):
    train, test = train_test_rows(strips.n_samples, random_state=0)
    measured = {}
    for method in (ClearPML(), CandidateLogistic()):
        model = method.fit(strips.X[train], strips.Y[train])
        ranking = evaluate(strips.truth[test], model.decision_function(strips.X[test]))["average_precision"]
        measured[type(method)] = ranking, cleaning_auc(strips.truth[train], strips.Y[train], model.label_confidence_)
    ours, plain = measured[ClearPML], measured[CandidateLogistic]
    assert ours[0] > plain[0]
    assert ours[1] > plain[1]


def test_the_noise_rates_are_near_the_truth():
    data = make_pml(1500, n_features=40, n_labels=8, random_state=0)
    model = ClearPML().fit(data.X, data.Y)
    true_share = data.truth.sum() / data.Y.sum()
    assert model.label_confidence_.sum() / data.Y.sum() == pytest.approx(true_share, abs=0.15)
    assert ((model.noise_rate_ >= 0) & (model.noise_rate_ <= 1)).all()


def test_one_true_label_a_row_is_noticed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 10))
    truth = np.eye(6)[(X[:, :6] + 0.3 * rng.normal(size=(2500, 6))).argmax(axis=1)]
    # The false candidate always follows from the true one.
    Y = np.maximum(truth, np.roll(truth, 1, axis=1) * (rng.uniform(size=(2500, 1)) < 0.8))
    model = ClearPML().fit(X, Y)
    assert model.mode_ == "single"
    assert model.single_weight_ > 0.9
    np.testing.assert_allclose(model.label_confidence_.sum(axis=1), 1.0, atol=0.05)
    single = ClearPML(mode="single", every_row_has_a_label=True).fit(X, Y)
    np.testing.assert_allclose(single.label_confidence_.sum(axis=1), 1.0)
    several = ClearPML(mode="several").fit(X, Y)
    aucs = [cleaning_auc(truth, Y, fitted.label_confidence_) for fitted in (model, several)]
    assert aucs[0] > aucs[1]


def test_unlabelled_rows_are_welcome_and_have_no_scores(strips):
    Y = strips.Y.toarray()
    Y[::3] = 0
    model = ClearPML().fit(strips.X, Y)
    assert np.isnan(model.out_of_fold_scores_[::3]).all()
    assert np.isfinite(model.out_of_fold_scores_[1::3]).all()
    assert model.mode_ == "several"


def test_unlabelled_rows_teach_the_predictor(strips):
    train, test = train_test_rows(strips.n_samples, random_state=0)
    precision = []
    for seed in range(3):
        labelled = np.random.default_rng(seed).permutation(train)[:60]
        Y = np.zeros(strips.Y.shape)
        Y[labelled] = strips.Y[labelled].toarray()
        models = [ClearPML().fit(strips.X[rows], Y[rows]) for rows in (labelled, train)]
        scores = [model.decision_function(strips.X[test]) for model in models]
        precision.append([evaluate(strips.truth[test], found)["average_precision"] for found in scores])
    alone, together = np.mean(precision, axis=0)
    assert together > alone


def test_labels_speak_for_each_other():
    """What the features do not tell of a label, another one tells: they always come together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    first = X[:, 0] + 0.5 * rng.normal(size=600) > 0
    truth = np.column_stack([first, first, rng.uniform(size=(600, 2)) < 0.5]).astype(float)
    model = ClearPML().fit(X, np.maximum(truth, rng.uniform(size=truth.shape) < 0.3))
    assert model._correlations.weights[0, 1] > 0
    assert model._correlations.weights[1, 0] > 0


@pytest.mark.parametrize("seed", range(6))
def test_features_that_say_nothing_give_no_evidence(seed):
    """Held-out scores of labels that exclude each other carry a trace of the row's own ones: nothing may exploit it."""
    rng = np.random.default_rng(seed)
    Y = np.maximum(np.eye(4)[rng.integers(0, 4, 400)], rng.uniform(size=(400, 4)) < 0.1)
    scores = ClearPML().fit(rng.normal(size=(400, 5)), Y).out_of_fold_scores_
    assert np.mean([roc_auc_score(Y[:, k], scores[:, k]) for k in range(4)]) < 0.6


def test_few_landmarks_are_nearly_as_good(strips):
    exact, rough = (ClearPML(n_landmarks=m).fit(strips.X, strips.Y) for m in ("auto", 200))
    assert rough.dual_coef_.shape == (200, 10)
    correlation = np.corrcoef(exact.label_confidence_.data, rough.label_confidence_.data)[0, 1]
    assert correlation > 0.9


def test_memory_bounds_the_kernel_of_many_rows(strips, monkeypatch):
    monkeypatch.setattr("pmlkit.methods.clear_pml.ridge_choice._CELLS", 120 * 600)
    monkeypatch.setattr("pmlkit.methods.clear_pml.ridge_choice._CELLS_IN_DOUBLE", 1)
    model = ClearPML().fit(strips.X, strips.Y)
    assert model.dual_coef_.shape == (120, 10)
    assert cleaning_auc(strips.truth, strips.Y, model.label_confidence_) > 0.8


@pytest.mark.parametrize("threshold", ["hamming", "f1"])
def test_label_sets_follow_the_expected_loss(strips, threshold):
    model = ClearPML(threshold=threshold).fit(strips.X, strips.Y)
    given = model.predict(strips.X).toarray()
    assert given.any(axis=1).all() or threshold == "hamming"
    assert 0 < given.mean() < strips.Y.toarray().mean()


def test_rows_that_say_nothing_give_the_labels_shares():
    Y = np.zeros((40, 3))
    Y[:30, 0] = Y[30:, 1] = 1
    scores = ClearPML().fit(np.ones((40, 2)), Y).decision_function(np.ones((1, 2)))[0]
    assert scores[0] > scores[1] > scores[2]


def test_it_is_the_default_classifier(strips):
    assert isinstance(make_classifier(), ClearPML)
    assert make_classifier("ClearPML", n_landmarks=50).n_landmarks == 50
    with pytest.raises(ValueError, match=r"no method 'ClearPLM'.*Did you mean 'ClearPML'"):
        make_classifier("ClearPLM")


def test_sparse_counts_stay_sparse():
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 5000), density=0.01, rng=rng, format="csr")
    Y = (rng.uniform(size=(300, 4)) < 0.4).astype(int)
    model = ClearPML(n_landmarks=50).fit(X, Y)
    assert model.weighting_ in ("log", "idf")
    assert sparse.issparse(model._kernel.landmarks)


def test_rows_without_a_true_label_are_noticed(strips):
    rng = np.random.default_rng(0)
    truth = strips.truth.toarray()[:, :6]  # strips of the other digits only have no true label left
    candidates = np.maximum(truth, rng.uniform(size=truth.shape) < 0.25)
    kept = candidates.any(axis=1)
    X, truth, candidates = strips.X[kept], truth[kept], candidates[kept]
    without = 1 - truth.any(axis=1).mean()
    model, sure = (ClearPML(every_row_has_a_label=said).fit(X, candidates) for said in ("auto", True))
    assert without > 0.05
    assert 0 < model.share_without_truth_ < 3 * without
    assert sure.share_without_truth_ == 0.0
    assert cleaning_auc(truth, candidates, model.label_confidence_) > cleaning_auc(
        truth, candidates, sure.label_confidence_
    )


def test_the_weight_of_the_modes_moves_with_the_data():
    """Some twenty cells of thousands neither flip the mode nor move the predictions far."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 10))
    truth = np.eye(6)[(X[:, :6] + 0.3 * rng.normal(size=(800, 6))).argmax(axis=1)]
    Y = np.maximum(truth, np.roll(truth, 1, axis=1) * (rng.uniform(size=(800, 1)) < 0.5))
    weights = []
    for seed in range(4):
        kept = Y.copy()
        rows, labels = np.nonzero(Y)
        gone = np.random.default_rng(seed).choice(len(rows), 20, replace=False)
        kept[rows[gone], labels[gone]] = 0
        weights.append(
            ClearPML(every_row_has_a_label=True).fit(X[kept.any(axis=1)], kept[kept.any(axis=1)]).single_weight_
        )
    assert max(weights) - min(weights) < 0.5


def test_two_labels_with_the_same_candidates_are_told(strips):
    Y = strips.Y.toarray()
    Y[:, 1] = Y[:, 0]
    with pytest.warns(PMLWarning, match="'label_0' and 'label_1'"):
        ClearPML().fit(strips.X, Y)
    names = ["cat", "kitten", *(f"other {k}" for k in range(2, Y.shape[1]))]
    with pytest.warns(PMLWarning, match="'cat' and 'kitten'"):
        ClearPML().fit(strips.X, pd.DataFrame(Y, columns=names))
    with pytest.warns(PMLWarning, match="'cat' and 'kitten'"):
        ClearPML().fit(RowBlocks(strips.X, Y, label_names=names))
    Y[:, 2:5] = Y[:, :1]
    with pytest.warns(PMLWarning, match=r"'cat' and 'other 3' and 7 more pairs"):
        ClearPML().fit(strips.X, pd.DataFrame(Y, columns=names))


def test_what_empty_rows_were_taken_for_is_logged(strips, caplog):
    Y = strips.Y.toarray()
    Y[::4] = 0
    for said, reason in (("auto", "do not predict which rows are empty"), ("negative", "as given")):
        with caplog.at_level(logging.INFO, logger="pmlkit"):
            model = ClearPML(empty_rows=said).fit(strips.X, Y)
        assert reason in model.empty_rows_reason_
        assert f"taken for {model.empty_rows_}: {model.empty_rows_reason_}" in caplog.text
        assert "if noise is random" in caplog.text
    assert ClearPML().fit(strips.X[1:3], Y[1:3]).empty_rows_reason_ is None
