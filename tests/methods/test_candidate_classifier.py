import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from pmlkit import CandidateClassifier
from pmlkit.data import load_digit_strips
from pmlkit.methods.candidate_classifier import _fit_label
from pmlkit.metrics import cleaning_auc


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(300, random_state=1)


@pytest.mark.parametrize(
    "base", [None, GaussianNB(), KNeighborsClassifier(9), RidgeClassifier()], ids=["none", "weights", "plain", "margin"]
)
def test_any_classifier_learns_to_judge(strips, base):
    model = CandidateClassifier(base, n_folds=3).fit(strips.X, strips.Y)
    assert cleaning_auc(strips.truth, strips.Y, model.label_confidence_) > 0.6
    assert len(model.estimators_) == 10


def test_a_doubtful_candidate_counts_partly_as_absent():
    X = np.array([[0.0], [1.0]])
    present, target = np.array([False, True]), np.array([0.0, 0.7])
    split = _fit_label(LogisticRegression(), X, present, target)
    by_hand = LogisticRegression().fit(
        np.array([[0.0], [1.0], [1.0]]), [False, True, False], sample_weight=[1.0, 0.7, 0.3]
    )
    np.testing.assert_allclose(split.coef_, by_hand.coef_)


def test_a_base_that_cannot_fit_is_refused():
    with pytest.raises(ValueError, match="estimator"):
        CandidateClassifier(estimator="forest").fit(np.ones((4, 1)), np.ones((4, 2)))


def test_an_estimator_that_gives_no_scores_is_refused_before_the_fit():
    with pytest.raises(ValueError, match=r"predict_proba or decision_function, got LinearRegression\(\)"):
        CandidateClassifier(LinearRegression()).fit(np.eye(6), [["a"], ["b"]] * 3)


@pytest.mark.parametrize("X", [["a red sky", "a blue sky"] * 3, [["a red sky"], ["a blue sky"]] * 3])
def test_texts_are_refused_with_where_the_vectorizer_belongs(X):
    y = [["a"], ["b"]] * 3
    model = CandidateClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    with pytest.raises(ValueError, match=r"holds the text 'a red sky'.*TfidfVectorizer\(\), CandidateClassifier\("):
        model.fit(X, y)
    fitted = CandidateClassifier().fit(np.arange(6.0)[:, None], y)
    with pytest.raises(ValueError, match=r"holds the text 'a red sky'"):
        fitted.predict(X)
