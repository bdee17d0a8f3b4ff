import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.multiclass import OneVsRestClassifier

from pmlkit.data import synthetic
from pmlkit.data.noise import noise_report
from pmlkit.data.synthetic import make_pml


def strongest_correlation(data):
    correlation = np.corrcoef(data.truth.toarray().T)
    return np.abs(correlation[np.triu_indices(len(correlation), 1)]).max()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 30),
    st.integers(2, 8),
    st.sampled_from([1.0, 0.3, 0.02]),
    st.sampled_from(["uniform", "correlated", "confusable"]),
    st.sampled_from([0.0, 0.3]),
)
def test_any_size_gives_a_valid_data_set(n_rows, n_features, n_labels, density, kind, unlabelled):
    cardinality = 1 + (n_labels - 1) / 3
    data = make_pml(
        *(n_rows, n_features, n_labels),
        **{"cardinality": cardinality, "density": density, "kind": kind, "unlabelled": unlabelled, "random_state": 0},
    )
    assert data.X.shape == (n_rows, n_features)
    assert data.Y.shape == data.truth.shape == (n_rows, n_labels)
    assert sparse.issparse(data.X) == (density < 1)
    assert np.count_nonzero(np.diff(data.truth.indptr) == 0) == round(unlabelled * n_rows)
    assert np.count_nonzero(np.diff(data.Y.indptr) == 0) == round(unlabelled * n_rows)


@pytest.mark.parametrize("density", [1.0, 0.02])
def test_same_seed_same_data(density):
    first, again, other = (make_pml(300, 50, density=density, random_state=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("cardinality", [0.4, 1.0, 1.5, 3.0, 9.0])
def test_number_of_true_labels(cardinality):
    sizes = np.diff(make_pml(6000, 2, 12, cardinality=cardinality, random_state=0).truth.indptr)
    assert sizes.mean() == pytest.approx(cardinality, rel=0.05)
    assert (sizes.min() >= 1) == (cardinality >= 1)


def test_noise_is_that_asked_for():
    data = make_pml(3000, 5, noise=0.7, unlabelled=0.2, random_state=0)
    assert noise_report(data.truth, data.Y)["ratio"] == pytest.approx(0.7, abs=0.05)
    assert make_pml(100, 5, noise=0.0, random_state=0).Y.nnz == make_pml(100, 5, noise=0.0, random_state=0).truth.nnz


def test_confusable_noise_adds_labels_that_a_model_finds_likely():
    data = {kind: make_pml(1000, 30, noise=1.0, kind=kind, random_state=0) for kind in ("uniform", "confusable")}
    truth = data["uniform"].truth.toarray()
    model = OneVsRestClassifier(LogisticRegression()).fit(data["uniform"].X[:500], truth[:500])
    likely = model.predict_proba(data["uniform"].X[500:])
    mean = {kind: likely[(noisy.Y.toarray() - truth)[500:] == 1].mean() for kind, noisy in data.items()}
    assert mean["confusable"] > 1.5 * mean["uniform"]


@pytest.mark.parametrize("density", [0.002, 0.02, 0.3])
def test_density_is_about_that_asked_for(density):
    X = make_pml(1000, 2000, 20, density=density, random_state=0).X
    assert X.nnz / (1000 * 2000) == pytest.approx(density, rel=0.15)
    assert X.dtype == np.float32
    assert X.has_canonical_format
    assert (X.data == np.round(X.data)).all()
    assert X.data.min() == 1


def test_few_words_are_frequent_and_most_are_rare():
    X = make_pml(3000, 2000, 20, density=0.02, random_state=0).X
    frequency = np.sort(np.asarray(X.sum(axis=0)))[::-1]
    assert frequency[:100].sum() > 5 * frequency[-1000:].sum()


@pytest.mark.parametrize(("n_features", "density"), [(60, 1.0), (1000, 0.03)])
def test_labels_can_be_learnt_from_features(n_features, density):
    data = make_pml(1200, n_features, 10, density=density, random_state=0)
    truth = data.truth.toarray()
    model = OneVsRestClassifier(LogisticRegression(max_iter=500)).fit(data.X[:1000], truth[:1000])
    scores = model.decision_function(data.X[1000:])
    prior = np.tile(truth[:1000].mean(axis=0), (200, 1))
    assert label_ranking_average_precision_score(truth[1000:], scores) > 0.8
    assert label_ranking_average_precision_score(truth[1000:], prior) < 0.65


def test_labels_go_together_the_more_the_fewer_factors():
    by_rank = [strongest_correlation(make_pml(4000, 2, 10, rank=rank, random_state=0)) for rank in (1, 3)]
    assert by_rank[0] > by_rank[1] > 0.25


@pytest.mark.parametrize("density", [1.0, 0.05])
def test_blocks_join_rows_of_one_kind(density, monkeypatch):
    monkeypatch.setattr(synthetic, "_BLOCK_ROWS", 700)
    data = make_pml(2000, 200, 5, density=density, random_state=0)
    assert data.X.shape == (2000, 200)
    truth = data.truth.toarray()
    # The first block teaches what holds in the last.
    model = OneVsRestClassifier(LogisticRegression(max_iter=500)).fit(data.X[:700], truth[:700])
    scores = model.decision_function(data.X[1400:])
    assert label_ranking_average_precision_score(truth[1400:], scores) > 0.85


def test_one_label():
    data = make_pml(50, 3, 1, cardinality=0.5, random_state=0)
    assert data.Y.nnz == data.truth.nnz > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be a whole number of at least 1, got 0"),
        ({"n_features": 0}, "n_features must be a whole number of at least 1, got 0"),
        ({"n_labels": 0}, "n_labels must be a whole number of at least 1, got 0"),
        ({"n_labels": 2.5}, "n_labels must be a whole number of at least 1, got 2.5"),
        ({"cardinality": 10.0}, "cardinality must be above 0 and below n_labels=10, got 10.0"),
        ({"cardinality": 0.0}, "cardinality must be above 0"),
        ({"cardinality": np.nan}, "cardinality must be above 0"),
        ({"density": 0.0}, "density must be above 0 and at most 1"),
        ({"density": 1.5}, "density must be above 0 and at most 1"),
        ({"rank": 0}, "rank must be a whole number from 1 to n_labels=10"),
        ({"rank": 11}, "rank must be a whole number from 1 to n_labels=10"),
        ({"unlabelled": 1.0}, "unlabelled must be a share"),
        ({"noise": -1.0}, "ratio must be a finite number"),
        ({"kind": "other"}, "kind must be one of"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_pml(**arguments)
