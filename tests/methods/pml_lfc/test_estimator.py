import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import normalize

import lfc_reference as reference
from pmlkit import PMLLFC
from pmlkit.data import add_noise
from pmlkit.methods.pml_lfc import similarity

SIMILARITIES = ["both", "features", "labels"]
ROW_SUMS = ["penalty", "simplex"]
exact = PMLLFC.as_printed(tol=0, w_tol=1e-12, random_state=0)


def with_params(**params):
    return clone(exact).set_params(**params)


def small_problem(seed=0, n=50, d=8, q=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = (rng.random((n, q)) < 0.3).astype(int)
    Y[np.arange(n), rng.integers(q, size=n)] = 1
    return X, Y


def append_ones(X):
    return np.hstack([X, np.ones((len(X), 1))])


class TestStoredNumbers:
    """Against an independent implementation (tests/oracle)."""

    def test_printed_bandwidth(self, oracle):
        model = with_params(row_sum_weight=1.0, bandwidth="paper", normalize=None).fit(oracle.X, oracle.Y)
        assert_allclose(model.label_confidence_.toarray(), oracle.load("lfc_paper_P"), atol=1e-8)
        assert_allclose(model.coef_.T, oracle.load("lfc_paper_W"), atol=1e-7)
        assert_allclose(model.decision_function(oracle.X_test), oracle.load("lfc_paper_scores_test"), atol=1e-7)
        history = json.loads((oracle.folder / "lfc_meta.json").read_text())["lfc_paper"]["history"]
        assert_allclose(model.objective_[:-1], [half["total"] for half in history], rtol=1e-6)

    def test_mean_bandwidth(self, oracle):
        model = with_params(alpha=1.0, beta=0.1, row_sum_weight=1.0, normalize=None)
        # The stored run took the width without its column of ones, which adds nothing to a distance.
        model.fit(append_ones(oracle.X), oracle.Y)
        assert_allclose(model.bandwidth_, 1.1729372665203217, rtol=1e-12)
        assert_allclose(model.label_confidence_.toarray(), oracle.load("lfc_mean_P"), atol=1e-7)
        assert_allclose(model.coef_.T, oracle.load("lfc_mean_W"), atol=1e-6)


class TestAgainstThePlainReference:
    @pytest.mark.parametrize("row_sum", ROW_SUMS)
    @pytest.mark.parametrize("compare", SIMILARITIES)
    def test_same_confidences_and_predictor(self, compare, row_sum):
        X, Y = small_problem()
        width = reference.mean_distance(X)
        model = with_params(alpha=3.0, similarity=compare, row_sum=row_sum, normalize=None).fit(X, Y)
        P, W = reference.pml_lfc(X, Y, alpha=3.0, beta=10.0, lam=10.0, similarity=compare, width=width, row_sum=row_sum)
        assert_allclose(model.label_confidence_.toarray(), np.minimum(P, 1.0), rtol=1e-7, atol=1e-9)
        assert_allclose(model.coef_.T, W, atol=1e-7)
        A = reference.similarity_matrix(X, Y, compare, width)
        lam = 10.0 if row_sum == "penalty" else 0.0
        assert_allclose(model.objective_[-1], reference.objective(X, Y, A, W, P, 3.0, 10.0, lam), rtol=1e-9)

    @pytest.mark.parametrize(
        ("compare", "row_sum"), [("both", "penalty"), ("both", "simplex"), ("features", "penalty")]
    )
    @pytest.mark.parametrize("name", ["scene", "enron", "slashdot", "corel5k"])
    def test_real_data(self, name, compare, row_sum, benchmark_data):
        """On 100 rows and 8 labels of the real sets; benchmarks/lfc.py takes all of them."""
        data = benchmark_data(name).subset(np.arange(100))
        truth = data.truth.toarray().astype(int)
        truth = truth[:, np.argsort(-truth.sum(axis=0))[:8]]
        rows = truth.any(axis=1)
        Y = add_noise(truth[rows], 0.5, random_state=0).toarray()
        model = with_params(similarity=compare, row_sum=row_sum, max_iter=3).fit(data.X[rows], Y)
        X = normalize(data.X[rows])
        P, W = reference.pml_lfc(
            X.toarray() if sparse.issparse(X) else X,
            Y,
            alpha=10.0,
            beta=10.0,
            lam=10.0,
            similarity=compare,
            width=model.bandwidth_,
            row_sum=row_sum,
            n_outer=3,
            n_inner=400,
        )
        assert_allclose(model.label_confidence_.toarray(), np.minimum(P, 1.0), atol=1e-6 * P.max())
        assert_allclose(model.coef_.T, W, atol=1e-4 * np.abs(W).max())


class TestObjective:
    @given(
        seed=st.integers(0, 10_000),
        alpha=st.sampled_from([0.01, 1.0, 10.0]),
        beta=st.sampled_from([0.0, 0.01, 1.0, 100.0]),
        lam=st.sampled_from([0.0, 1.0, 10.0]),
        compare=st.sampled_from(SIMILARITIES),
        row_sum=st.sampled_from(ROW_SUMS),
        approx=st.sampled_from(["exact", "features"]),
        joint=st.booleans(),
    )
    @settings(max_examples=30, deadline=None)
    def test_never_rises(self, seed, alpha, beta, lam, compare, row_sum, approx, joint):
        X, Y = small_problem(seed, n=25, d=4, q=4)
        model = PMLLFC(
            alpha=alpha,
            beta=beta,
            row_sum_weight=lam,
            similarity=compare,
            row_sum=row_sum,
            kernel_approx=approx,
            joint=joint,
            tol=0,
            random_state=0,
        ).fit(X, Y)
        rise = np.diff(model.objective_)
        assert (rise <= 1e-9 * np.abs(model.objective_[:-1]) + 1e-9).all()
        assert np.isfinite(model.coef_).all()

    def test_simplex_rows_sum_to_one(self):
        X, Y = small_problem()
        model = with_params(row_sum="simplex").fit(X, Y)
        assert_allclose(model.label_confidence_.sum(axis=1), 1.0, atol=1e-9)

    def test_tolerance_stops_early(self):
        X, Y = small_problem()
        assert with_params(tol=0.5, max_iter=50).fit(X, Y).n_iter_ < 10
        assert with_params(tol=0, max_iter=13).fit(X, Y).n_iter_ == 13

    def test_certificate_holds(self):
        X, Y = small_problem()
        assert PMLLFC(w_tol=1e-7).fit(X, Y).optimality_gap_ <= 1e-7


class TestSettings:
    def test_the_defaults_are_the_recommended_setting(self, oracle):
        """An intercept, an alpha that does not depend on scale, and a threshold that follows a row's scores."""
        given = PMLLFC(fit_intercept=True, alpha_scale="frobenius", threshold="size", random_state=0)
        assert_array_equal(
            PMLLFC(random_state=0).fit(oracle.X, oracle.Y).predict(oracle.X_test),
            given.fit(oracle.X, oracle.Y).predict(oracle.X_test),
        )
        assert PMLLFC().get_params() == given.set_params(random_state=None).get_params()

    def test_as_printed_equals_the_plain_reference(self):
        """Equation by equation: no intercept, and alpha as it is."""
        X, Y = small_problem()
        model = PMLLFC.as_printed(alpha=3.0, normalize=None, tol=0, w_tol=1e-12).fit(X, Y)
        width = reference.mean_distance(X)
        P, W = reference.pml_lfc(X, Y, alpha=3.0, beta=10.0, lam=10.0, similarity="both", width=width)
        assert_allclose(model.label_confidence_.toarray(), np.minimum(P, 1.0), rtol=1e-7, atol=1e-9)
        assert_allclose(model.decision_function(X), X @ W, atol=1e-7)
        assert_array_equal(model.intercept_, 0.0)

    def test_as_printed_takes_parameters(self):
        model = PMLLFC.as_printed(fit_intercept=True, beta=2.0)
        assert (model.fit_intercept, model.beta, model.alpha_scale) == (True, 2.0, "paper")


class TestOptions:
    def test_apart_ignores_the_predictor(self):
        """The ablation nJ: features reach the confidences through the similarity alone."""
        X, Y = small_problem()
        one = with_params(joint=False, similarity="labels", alpha=0.1).fit(X, Y)
        other = with_params(joint=False, similarity="labels", alpha=100.0).fit(X[::-1] ** 2, Y)
        assert_allclose(one.label_confidence_.data, other.label_confidence_.data, rtol=1e-12)
        together = with_params(similarity="labels", alpha=0.1).fit(X, Y)
        assert np.abs(one.label_confidence_.data - together.label_confidence_.data).max() > 1e-6

    def test_pair_scale_divides_beta_by_the_rows(self):
        X, Y = small_problem()
        one = with_params(beta_scale="pairs", beta=10.0).fit(X, Y)
        other = with_params(beta=10.0 / 49).fit(X, Y)
        assert_allclose(one.coef_, other.coef_, atol=1e-9)

    def test_printed_bandwidth_is_n_times_the_mean_distance(self):
        X, Y = small_problem()
        assert_allclose(
            with_params(bandwidth="paper").fit(X, Y).bandwidth_, 50 * with_params().fit(X, Y).bandwidth_, rtol=1e-12
        )

    def test_a_large_alpha_lowers_the_rank(self):
        X, Y = small_problem()
        ranks = [with_params(alpha=alpha).fit(X, Y).rank_ for alpha in (0.01, 4.0, 1e4)]
        assert ranks[0] > ranks[1] > ranks[2] == 0

    def test_weights_count_rows(self):
        X, Y = small_problem()
        weight = np.random.default_rng(1).integers(0, 4, size=len(X))
        one = with_params().fit(X, Y, sample_weight=weight)
        other = with_params().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
        assert_allclose(one.coef_, other.coef_, atol=1e-8)
        assert_allclose(one.objective_, other.objective_, rtol=1e-9)

    @pytest.mark.parametrize("row_sum", ROW_SUMS)
    def test_fractional_weights_never_raise_the_objective(self, row_sum):
        X, Y = small_problem()
        weight = np.random.default_rng(1).random(len(X)) * 2
        model = with_params(row_sum=row_sum).fit(X, Y, sample_weight=weight)
        assert (np.diff(model.objective_) <= 1e-9 * np.abs(model.objective_[:-1])).all()

    def test_warm_start_over_a_grid_reuses_the_kernel(self, monkeypatch):
        X, Y = small_problem()
        made = []
        original = similarity.gaussian_block
        monkeypatch.setattr(similarity, "gaussian_block", lambda *args: made.append(1) or original(*args))
        model = with_params(warm_start=True)
        kernels = []
        for alpha in (1.0, 3.0):
            for beta in (1.0, 10.0):
                model.set_params(alpha=alpha, beta=beta, max_iter=300, tol=1e-10).fit(X, Y)
                kernels.append(len(made))
        assert kernels == [Y.shape[1]] * 4
        cold = with_params(alpha=3.0, beta=10.0, max_iter=300, tol=1e-10).fit(X, Y)
        assert_allclose(model.objective_[-1], cold.objective_[-1], rtol=1e-3)
        assert pickle.loads(pickle.dumps(model)).rank_ == model.rank_

    def test_warm_start_notices_other_data(self):
        X, Y = small_problem()
        model = with_params(warm_start=True).fit(X, Y)
        assert_allclose(model.fit(2 + X, Y).coef_, with_params().fit(2 + X, Y).coef_, atol=1e-9)

    def test_intercept_equals_centred_data(self):
        """The fit with an intercept is the fit to centred features and confidences."""
        X, Y = small_problem()
        X += 3.0
        model = with_params(fit_intercept=True, normalize=None, max_iter=1, beta=0.0, row_sum_weight=0.0).fit(X, Y)
        P = model.label_confidence_.toarray()
        W = reference.predictor_step(X - X.mean(axis=0), P - P.mean(axis=0), 10.0, np.zeros((8, 5)), 20_000, 1e-13)
        assert_allclose(model.coef_.T, W, atol=1e-6)
        assert_allclose(model.intercept_, P.mean(axis=0) - X.mean(axis=0) @ W, atol=1e-6)

    @pytest.mark.parametrize("shape", [(50, 8), (20, 30)])
    def test_intercept_sparse_weighted_and_wide(self, shape):
        X, Y = small_problem(n=shape[0], d=shape[1])
        X = np.where(X > 0.5, X, 0.0)
        weight = np.random.default_rng(1).integers(0, 3, size=len(X))
        options = {"fit_intercept": True, "alpha_scale": "frobenius"}
        one = with_params(**options).fit(sparse.csr_array(X), Y, sample_weight=weight)
        other = with_params(**options).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
        assert_allclose(one.coef_, other.coef_, atol=1e-7)
        assert_allclose(one.intercept_, other.intercept_, atol=1e-7)
        assert_allclose(one.objective_, other.objective_, rtol=1e-8)
        assert (np.diff(one.objective_) <= 1e-9 * np.abs(one.objective_[:-1])).all()

    def test_frobenius_alpha_does_not_depend_on_units(self):
        X, Y = small_problem()
        options = {"fit_intercept": True, "alpha_scale": "frobenius", "normalize": None}
        one, other = with_params(**options).fit(X, Y), with_params(**options).fit(1000 * X, Y)
        assert_allclose(other.coef_ * 1000, one.coef_, atol=1e-6)

    def test_unlabelled_rows_change_nothing(self):
        X, Y = small_problem()
        Y[::5] = 0
        model = with_params().fit(X, Y)
        kept = Y.any(axis=1)
        assert_array_equal(model.coef_, with_params().fit(X[kept], Y[kept]).coef_)


class TestAwkwardData:
    def test_all_rows_identical(self):
        _, Y = small_problem()
        model = with_params().fit(np.ones((50, 3)), Y)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.label_confidence_.data).all()

    def test_all_zero_features(self):
        _, Y = small_problem()
        model = with_params().fit(np.zeros((50, 3)), Y)
        assert model.rank_ == 0
        assert np.isfinite(model.decision_function(np.zeros((2, 3)))).all()

    def test_same_candidates_everywhere(self):
        X, _ = small_problem()
        model = with_params().fit(X, np.tile([1, 1, 0, 1, 0], (50, 1)))
        assert_allclose(model.label_confidence_.toarray()[:, 0], model.label_confidence_.toarray()[:, 1])

    @pytest.mark.parametrize("name", ["alpha", "beta", "row_sum_weight", "tol"])
    def test_negative_numbers_are_refused(self, name):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            PMLLFC(**{name: -1.0}).fit(*small_problem())

    def test_zero_width_is_refused(self):
        with pytest.raises(ValueError, match="'bandwidth' parameter"):
            PMLLFC(bandwidth=0.0).fit(*small_problem())

    def test_many_sparse_features_stay_sparse(self):
        """100,000 features: a d x d matrix would take 80 GB."""
        rng = np.random.default_rng(0)
        X = sparse.random_array((300, 100_000), density=2e-4, rng=rng, format="csr")
        Y = (rng.random((300, 4)) < 0.4).astype(int)
        Y[~Y.any(axis=1), 0] = 1
        model = PMLLFC(random_state=0).fit(X, Y)
        assert model.coef_.shape == (4, 100_000)
        assert model.decision_function(X).shape == (300, 4)
