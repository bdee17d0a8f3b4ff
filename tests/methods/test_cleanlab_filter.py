import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from pmlkit.methods import cleanlab_filter
from pmlkit.methods.cleanlab_filter import CleanlabFilter
from pmlkit.methods.logistic import CandidateLogistic


@pytest.fixture
def cleanlab():
    return pytest.importorskip("cleanlab", reason="the optional package cleanlab is not installed")


@pytest.fixture
def problem(oracle):
    Y = sparse.csr_array(oracle.Y.astype(float))
    logistic = CandidateLogistic(C=1.0, normalize="unit").fit(oracle.X, oracle.Y)
    learned = CandidateLogistic(C=1.0, normalize="unit")._fit(oracle.X, Y, _Silent())
    assert_array_equal(learned.confidence, logistic.label_confidence_.data)
    return Y, learned.scores


class _Silent:
    def step(self, name):
        return False


@pytest.mark.parametrize("filter_by", ["prune_by_noise_rate", "both", "low_self_confidence"])
def test_flags_what_cleanlab_flags_among_the_candidates(cleanlab, problem, filter_by):
    import cleanlab.filter

    Y, probability = problem
    dense = Y.toarray() > 0
    # cleanlab's interface for one label at a time.
    expected = np.stack(
        [
            cleanlab.filter.find_label_issues(
                labels=dense[:, k].astype(int),
                pred_probs=np.stack([1 - probability[:, k], probability[:, k]], axis=1),
                filter_by=filter_by,
                n_jobs=1,
            )
            for k in range(dense.shape[1])
        ],
        axis=1,
    )
    assert expected[~dense].any(), "cleanlab also flags labels that are missing"
    assert_array_equal(cleanlab_filter._suspects(Y, probability, filter_by), expected[dense])


def test_flagged_rows_are_those_of_the_multi_label_interface(cleanlab, problem):
    from cleanlab.multilabel_classification.filter import find_label_issues

    Y, probability = problem
    lists = [np.flatnonzero(row).tolist() for row in Y.toarray()]
    assert cleanlab_filter._label_lists(Y) == lists
    rows = find_label_issues(labels=lists, pred_probs=probability, n_jobs=1)
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    ours = np.unique(row[cleanlab_filter._suspects(Y, probability, "prune_by_noise_rate")])
    assert len(ours)
    assert set(ours) <= set(np.flatnonzero(rows))


@pytest.mark.parametrize("quality", ["self_confidence", "normalized_margin"])
def test_confidences_are_cleanlab_quality_scores(cleanlab, oracle, problem, quality):
    from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class

    Y, probability = problem
    expected = get_label_quality_scores_per_class(cleanlab_filter._label_lists(Y), probability, method=quality)
    model = CleanlabFilter(quality=quality).fit(oracle.X, oracle.Y)
    assert_allclose(model.label_confidence_.data, expected[oracle.Y > 0], rtol=1e-12)
    assert model.label_confidence_.nnz == Y.nnz


def test_fits_again_without_the_suspects(cleanlab, oracle, problem):
    Y, probability = problem
    model = CleanlabFilter().fit(oracle.X, oracle.Y)
    quality = cleanlab_filter._qualities(Y, probability, "self_confidence")
    cleaned = cleanlab_filter._without(Y, cleanlab_filter._suspects(Y, probability, "prune_by_noise_rate"), quality)
    assert model.n_dropped_ == Y.nnz - cleaned.nnz > 0
    expected = CandidateLogistic(C=1.0, normalize="unit").fit(oracle.X, cleaned.toarray().astype(int))
    assert_array_equal(model.decision_function(oracle.X_test), expected.decision_function(oracle.X_test))


def test_every_row_keeps_its_best_candidate():
    Y = sparse.csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))
    suspect, quality = np.array([True, True, False, True, True]), np.array([0.1, 0.3, 0.2, 0.9, 0.5])
    assert_array_equal(cleanlab_filter._without(Y, suspect, quality).toarray(), [[0, 1, 0], [0, 1, 1], [1, 0, 0]])
    assert Y.nnz == 5


def test_labels_of_all_rows_or_of_none(cleanlab, oracle):
    Y = oracle.Y.copy()
    Y[:, 0], Y[:, 1] = 1, 0
    model = CleanlabFilter().fit(oracle.X, Y)
    assert np.isfinite(model.decision_function(oracle.X_test)).all()


def test_missing_package_is_said_in_one_sentence(oracle, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "cleanlab"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cleanlab", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"pip install 'pmlkit\[cleanlab\]'"):
        CleanlabFilter().fit(oracle.X, oracle.Y)


def test_warnings_of_cleanlab_are_not_repeated_per_label(cleanlab):
    """Five labels of one row each: cleanlab warns five times."""
    X = np.random.default_rng(0).normal(size=(40, 5))
    Y = np.zeros((40, 6), dtype=int)
    Y[:35, 0] = 1
    Y[np.arange(35, 40), np.arange(1, 6)] = 1
    with pytest.warns(UserWarning, match="too few examples") as caught:
        CleanlabFilter().fit(X, Y)
    assert len(caught) == 1
