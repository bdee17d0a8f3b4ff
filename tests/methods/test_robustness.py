"""Legitimate but odd input, each case once the cause of a wrong answer."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from pmlkit import PMLLFC, CandidateClassifier, CandidateLogistic, MLkNN
from pmlkit.data import load_digit_strips
from pmlkit.methods import all_methods, fitting
from pmlkit.methods.pml_lfc.basis import eigenbasis
from pmlkit.methods.thresholds import fit_threshold
from pmlkit.numerics.content import content_folds
from pmlkit.numerics.neighbors import nearest
from pmlkit.numerics.prox import project_rows_to_simplex
from pmlkit.numerics.scaling import column_scale, scaled
from pmlkit.testing import _problem


def split_cells(matrix):
    """Store every cell as two halves of itself: the same matrix, not in canonical form."""
    csr = sparse.csr_array(matrix, dtype=float)
    parts = np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr
    return sparse.csr_array(parts, shape=csr.shape)


def repeat_cells(Y):
    csr = sparse.csr_array(Y, dtype=float)
    return sparse.csr_array((np.repeat(csr.data, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)


@pytest.mark.parametrize("method", [MLkNN, CandidateLogistic, PMLLFC])
def test_cells_stored_in_halves_are_one_cell(method):
    X, Y = _problem()
    whole, halves = method().fit(sparse.csr_array(X), Y), method().fit(split_cells(X), Y)
    assert_allclose(halves.decision_function(split_cells(X)), whole.decision_function(X), atol=1e-9)


def test_a_candidate_stored_twice_is_refused():
    X, Y = _problem()
    with pytest.raises(ValueError, match=r"got the value\(s\) 2"):
        MLkNN().fit(X, repeat_cells(Y))


@pytest.mark.parametrize("name", sorted(all_methods()))
def test_unsorted_read_only_input_is_left_alone(name):
    X, Y = _problem()
    csr = sparse.csr_array(X)
    reverse = np.concatenate([np.arange(b, e)[::-1] for b, e in zip(csr.indptr[:-1], csr.indptr[1:], strict=True)])
    unsorted = sparse.csr_array((csr.data[reverse], csr.indices[reverse], csr.indptr), shape=csr.shape)
    before = unsorted.indices.copy()
    unsorted.data.flags.writeable = unsorted.indices.flags.writeable = False
    method = all_methods()[name]()
    if "normalize" in method.get_params():
        method.set_params(normalize=None)
    assert np.isfinite(method.fit(unsorted, Y).decision_function(unsorted)).all()
    assert_array_equal(unsorted.indices, before)


def test_ties_are_taken_whole_or_not_at_all():
    scores = np.concatenate([np.full(10, 0.9), np.full(80, 0.5), np.full(10, 0.1)]).reshape(50, 2)
    Y = sparse.csr_array(np.ones((50, 2)))
    for wanted, expected in ((12, 10), (60, 90), (90, 90), (3, 0)):
        rule = fit_threshold("cardinality", scores, Y, np.full(100, wanted / 100), natural_cut=0.5)
        assert (scores >= rule.offset).sum() == expected


def test_constant_scores_give_one_label_not_all():
    X, Y = _problem()
    assert (PMLLFC.as_printed(alpha=1e6).fit(X, Y).predict(X).sum(axis=1) == 1).all()


@pytest.mark.parametrize("threshold", ["cardinality", "size"])
def test_weights_reach_the_threshold(threshold):
    X, Y = _problem()
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    one = PMLLFC(alpha=0.1, threshold=threshold).fit(X, Y, sample_weight=weight)
    other = PMLLFC(alpha=0.1, threshold=threshold).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    assert_allclose(one.threshold_offset_, other.threshold_offset_, rtol=1e-6)
    assert_array_equal(one.predict(X), other.predict(X))


def test_scale_of_large_constants_and_mixed_units():
    constant = np.full((1001, 1), 1234567.891)
    assert column_scale(constant)[0] == column_scale(sparse.csr_array(constant))[0] == 1.0
    z = np.random.default_rng(0).normal(size=(50, 2))
    assert_allclose(column_scale(z * [1e18, 50]), z.std(axis=0) * [1e18, 50])
    assert_allclose(column_scale(z * 1e-20), z.std(axis=0) * 1e-20)


@pytest.mark.parametrize("factor", [1e-150, 1e-18, 1e150])
def test_unit_rows_of_any_size(factor):
    X = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
    expected = [[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]]
    assert_allclose(scaled(X * factor, "unit"), expected)
    assert_allclose(scaled(sparse.csr_array(X * factor), "unit").toarray(), expected)


def test_neighbours_of_large_numbers_close_together():
    seconds = 1.6e9 + np.arange(30.0)[:, None]
    neighbor = nearest(NearestNeighbors().fit(seconds), 3)[1]
    assert neighbor[7].tolist() == [6, 8, 5]


def test_rows_that_differ_only_in_double_precision_are_no_twins():
    X = 1e9 + np.arange(30.0)[:, None]
    assert len(set(content_folds(X, 5).tolist())) == 5


def test_projection_of_huge_values():
    projected = project_rows_to_simplex(np.array([1e17, 0, 0.5, 0.5]), np.array([0, 2, 4]))
    assert_allclose(projected, [1.0, 0.0, 0.5, 0.5])


def test_one_hot_features_too_large_to_diagonalise(monkeypatch):
    from pmlkit.methods.pml_lfc import basis

    monkeypatch.setattr(basis, "LARGEST_DIAGONALISED", 5)
    X = sparse.csr_array(np.eye(10)[np.arange(40) % 10])
    assert eigenbasis(X, center=True).largest > 0
    assert eigenbasis(sparse.csr_array((40, 10)), center=True).largest == 0.0


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_shifting_features_changes_nothing_with_an_intercept(container):
    X, Y = _problem()
    options = {"fit_intercept": True, "normalize": None, "w_tol": 1e-10}
    one, other = PMLLFC(**options).fit(X, Y), PMLLFC(**options).fit(container(X + 1e4), Y)
    assert_allclose(other.decision_function(container(X + 1e4)), one.decision_function(X), atol=1e-5)


def test_whole_number_label_names_come_back():
    X, Y = _problem()
    frame = pd.DataFrame(Y)
    answer = MLkNN().fit(X, frame).predict(X)
    assert list(answer.columns) == list(frame.columns)
    assert ((answer == frame).to_numpy()).shape == Y.shape


class TestWarmStart:
    def test_from_penalty_to_simplex(self):
        X, Y = _problem()
        model = PMLLFC(warm_start=True, tol=0).fit(X, Y).set_params(row_sum="simplex").fit(X, Y)
        assert_allclose(model.label_confidence_.sum(axis=1), 1.0, atol=1e-9)

    def test_another_seed_draws_another_map(self):
        X, Y = _problem()
        options = {"kernel_approx": "features", "warm_start": True}
        model = PMLLFC(random_state=0, **options).fit(X, Y)
        similarity = model._warm[0].similarity
        assert model.set_params(random_state=5).fit(X, Y)._warm[0].similarity is not similarity


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("method", [CandidateLogistic, CandidateClassifier])
def test_small_fits_keep_linear_algebra_to_one_thread(monkeypatch, few, method):
    asked = []
    monkeypatch.setattr(fitting, "one_blas_thread", lambda when: asked.append(when) or nullcontext())
    monkeypatch.setattr(fitting, "_MANY_ROWS", 100 if few else 10)
    strips = load_digit_strips(50)
    method().fit(strips.X, strips.Y)
    assert asked == [few and method is CandidateLogistic]
