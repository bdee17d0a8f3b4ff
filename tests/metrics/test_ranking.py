"""The ranking measures against loops that follow the definitions word by word, and their invariants."""

import tracemalloc
from itertools import permutations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from pmlkit.exceptions import PMLWarning
from pmlkit.metrics import _ranking, average_precision, coverage, evaluate, one_error, ranking_loss

MEASURES = {
    "ranking_loss": ranking_loss,
    "one_error": one_error,
    "coverage": coverage,
    "average_precision": average_precision,
}
TIES = ("zhang", "pessimistic", "average")

# Few values, so that most rows have ties; -0.0 equals 0.0, and infinities are scores like any other.
TIED = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf])
FINITE = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1e-300])


@st.composite
def tables(draw, elements=TIED, min_labels=1, max_labels=6, unique_rows=False):
    shape = (draw(st.integers(1, 6)), draw(st.integers(min_labels, max_labels)))
    truth = draw(arrays(bool, shape, elements=st.booleans())).astype(int)
    if unique_rows:
        seed = draw(st.integers(0, 10**6))
        return truth, np.random.default_rng(seed).permuted(np.tile(np.arange(shape[1]) / 7, (shape[0], 1)), axis=1)
    return truth, draw(arrays(float, shape, elements=elements))


# The slow reference: one row at a time, one label at a time.


def ranks_by_index(row):
    """Rank 1 is best; among equal scores the lower index is ranked worse."""
    q = len(row)
    return [1 + sum(row[j] > row[i] or (row[j] == row[i] and j > i) for j in range(q)) for i in range(q)]


def worst_ranks(row):
    return [sum(other >= score for other in row) for score in row]


def row_from_ranks(name, true, ranks):
    """A measure of one row when every label has its own rank, or the worst rank of its equals."""
    relevant = [i for i, flag in enumerate(true) if flag]
    irrelevant = [i for i, flag in enumerate(true) if not flag]
    if name == "coverage":
        return max((ranks[i] for i in relevant), default=0)
    if name == "average_precision":
        if not relevant:
            return 1.0
        return np.mean([sum(ranks[j] <= ranks[i] for j in relevant) / ranks[i] for i in relevant])
    if name == "ranking_loss":
        pairs = [(i, j) for i in relevant for j in irrelevant]
        return np.mean([ranks[i] >= ranks[j] for i, j in pairs]) if pairs else 0.0
    return float(not true[int(np.argmin(ranks))])


def reference_row(name, true, row, ties, convention):
    if ties == "average":
        # Permuting the columns in all ways puts tied labels in all orders, each equally often.
        values = []
        for order in permutations(range(len(row))):
            order = list(order)
            values.append(row_from_ranks(name, true[order], ranks_by_index(row[order])))
        return np.mean(values)
    if name == "one_error":
        best = [i for i in range(len(row)) if row[i] == max(row)]
        if ties == "zhang" or (ties is None and convention == "zhang"):
            return float(not any(true[i] for i in best))
        if ties == "pessimistic":
            return float(not all(true[i] for i in best))
        return float(not true[best[0]])
    by_index = ties == "zhang" or (ties is None and convention == "zhang")
    if by_index and name != "ranking_loss":
        return row_from_ranks(name, true, ranks_by_index(row))
    return row_from_ranks(name, true, worst_ranks(row))


def reference(name, truth, scores, ties=None, convention="zhang"):
    q = truth.shape[1]
    values = []
    for true, row in zip(truth, scores, strict=True):
        n_true = sum(true)
        dropped = n_true == 0 if name == "coverage" else n_true in (0, q)
        if convention == "zhang" and dropped:
            continue
        values.append(reference_row(name, true, row, ties, convention))
    mean = np.mean(values) if values else np.nan
    return (mean - 1) / q if name == "coverage" else mean


@pytest.mark.filterwarnings("ignore::pmlkit.exceptions.PMLWarning")
@pytest.mark.parametrize("name", MEASURES)
@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["zhang", "sklearn"]), st.sampled_from([None, "zhang", "pessimistic"]))
def test_equals_the_definition(name, table, convention, ties):
    truth, scores = table
    value = MEASURES[name](truth, scores, convention=convention, ties=ties)
    assert value == pytest.approx(reference(name, truth, scores, ties, convention), abs=1e-12, nan_ok=True)


@pytest.mark.filterwarnings("ignore::pmlkit.exceptions.PMLWarning")
@pytest.mark.parametrize("name", MEASURES)
@settings(max_examples=25, deadline=None)
@given(tables(max_labels=4), st.sampled_from(["zhang", "sklearn"]))
def test_average_is_the_mean_over_all_orders_of_tied_labels(name, table, convention):
    truth, scores = table
    value = MEASURES[name](truth, scores, convention=convention, ties="average")
    assert value == pytest.approx(reference(name, truth, scores, "average", convention), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", MEASURES)
def test_average_with_larger_groups_of_ties(name):
    rng = np.random.default_rng(3)
    truth, scores = rng.integers(0, 2, (6, 6)), rng.integers(0, 2, (6, 6)).astype(float)
    value = MEASURES[name](truth, scores, ties="average")
    assert value == pytest.approx(reference(name, truth, scores, "average"), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(tables(elements=FINITE, min_labels=2))
def test_equals_scikit_learn(table):
    truth, scores = table
    options = {"convention": "sklearn"}
    assert ranking_loss(truth, scores, **options) == pytest.approx(sklearn.metrics.label_ranking_loss(truth, scores))
    assert average_precision(truth, scores, **options) == pytest.approx(
        sklearn.metrics.label_ranking_average_precision_score(truth, scores)
    )
    assert coverage(truth, scores, normalize=False, **options) == pytest.approx(
        sklearn.metrics.coverage_error(truth, scores)
    )


def permuted(table, seed):
    truth, scores = table
    order = np.random.default_rng(seed).permutation(truth.shape[1])
    return truth[:, order], scores[:, order]


@pytest.mark.filterwarnings("ignore::pmlkit.exceptions.PMLWarning")
@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(0, 10**6))
def test_order_of_columns_does_not_matter_with_ties(table, seed):
    other = permuted(table, seed)
    for name, measure in MEASURES.items():
        invariant = TIES if name in ("ranking_loss", "one_error") else ("pessimistic", "average")
        for ties in invariant:
            for convention in ("zhang", "sklearn"):
                options = {"convention": convention, "ties": ties}
                assert measure(*other, **options) == pytest.approx(measure(*table, **options), abs=1e-12, nan_ok=True)
    for name in ("ranking_loss", "average_precision", "coverage"):
        assert MEASURES[name](*other, convention="sklearn") == pytest.approx(
            MEASURES[name](*table, convention="sklearn"), abs=1e-12
        )


@pytest.mark.filterwarnings("ignore::pmlkit.exceptions.PMLWarning")
@settings(max_examples=60, deadline=None)
@given(tables(unique_rows=True), st.integers(0, 10**6))
def test_without_ties_neither_columns_nor_tie_rule_matter(table, seed):
    other = permuted(table, seed)
    for measure in MEASURES.values():
        for convention in ("zhang", "sklearn"):
            value = measure(*table, convention=convention)
            for ties in (None, *TIES):
                again = measure(*other, convention=convention, ties=ties)
                assert again == pytest.approx(value, abs=1e-12, nan_ok=True)


def test_zhang_breaks_ties_of_coverage_and_average_precision_by_column():
    scores = np.zeros((1, 4))
    first, last = [[1, 0, 0, 0]], [[0, 0, 0, 1]]
    assert (coverage(first, scores), coverage(last, scores)) == (0.75, 0.0)
    assert (average_precision(first, scores), average_precision(last, scores)) == (0.25, 1.0)


@settings(max_examples=40, deadline=None)
@given(tables(min_labels=2, unique_rows=True))
def test_one_true_label_ties_ranking_loss_to_coverage(table):
    truth, scores = table
    truth = np.eye(truth.shape[1], dtype=int)[truth.argmax(axis=1)]
    q = truth.shape[1]
    assert ranking_loss(truth, scores) * (q - 1) == pytest.approx(coverage(truth, scores) * q, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(tables())
def test_only_the_order_of_scores_matters(table):
    truth, scores = table
    squashed = np.arctan(scores)
    for measure in MEASURES.values():
        value = measure(truth, scores, convention="sklearn")
        assert measure(truth, squashed, convention="sklearn") == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("ties", [None, *TIES])
def test_perfect_and_reversed_scores(ties):
    truth = np.array([[1, 1, 0, 0], [0, 0, 0, 1]])
    perfect, reversed_ = (
        evaluate(truth, truth * 1.0 + [4e-3, 3e-3, 2e-3, 1e-3], ties=ties),
        evaluate(truth, -1.0 * truth),
    )
    assert [perfect[name] for name in ("ranking_loss", "one_error", "average_precision")] == [0.0, 0.0, 1.0]
    assert perfect["coverage"] == pytest.approx((1.5 - 1) / 4)
    assert [reversed_[name] for name in ("ranking_loss", "one_error")] == [1.0, 1.0]


@pytest.mark.parametrize("block_cells", [1, 7, 10**9])
def test_the_size_of_the_blocks_does_not_matter(monkeypatch, block_cells):
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, (50, 5)), rng.integers(0, 4, (50, 5)) / 4
    expected = {ties: evaluate(truth, scores, truth, ties=ties) for ties in TIES}
    monkeypatch.setattr(_ranking, "BLOCK_CELLS", block_cells)
    for ties in TIES:
        assert evaluate(truth, scores, truth, ties=ties) == expected[ties]


def test_a_mix_of_rows_with_and_without_ties():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, (20, 5))
    scores = np.vstack([rng.normal(size=(10, 5)), rng.integers(0, 2, (10, 5))])
    for name, measure in MEASURES.items():
        for ties in TIES:
            assert measure(truth, scores, ties=ties) == pytest.approx(reference(name, truth, scores, ties), abs=1e-12)


def test_memory_does_not_grow_with_a_table_per_step():
    rng = np.random.default_rng(0)
    scores = rng.random((100_000, 50))
    truth = scores > 0.9
    tracemalloc.start()
    try:
        evaluate(truth, scores, truth)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One int64 table of this shape alone, such as an unblocked argsort, is as large as the scores.
    assert peak < 1.5 * scores.nbytes


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool])
def test_scores_of_any_real_type(dtype):
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, (30, 4)), rng.integers(0, 2, (30, 4))
    assert evaluate(truth, scores.astype(dtype)) == pytest.approx(evaluate(truth, scores.astype(float)), nan_ok=True)


def test_large_integer_scores_keep_their_order():
    # As float64 the two scores would be equal.
    assert ranking_loss([[1, 0]], np.array([[2**53 + 1, 2**53]])) == 0.0


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_array])
def test_sparse_truth_equals_dense(kind, monkeypatch):
    monkeypatch.setattr(_ranking, "BLOCK_CELLS", 64)
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, (40, 6)), rng.integers(0, 9, (40, 6)) / 9
    for measure in MEASURES.values():
        assert measure(kind(truth), scores) == measure(truth, scores)


@pytest.mark.parametrize("name", ["ranking_loss", "one_error", "average_precision"])
@pytest.mark.parametrize("truth", [[[0, 0], [1, 1]], [[1], [0]]])
def test_no_row_left_is_nan_with_a_reason(name, truth):
    with pytest.warns(PMLWarning, match=f"^{name} is nan: each of the 2 rows has no true label or all of them"):
        assert np.isnan(MEASURES[name](truth, np.zeros(np.shape(truth))))


def test_coverage_without_any_true_label():
    truth, scores = [[0, 0], [0, 0]], [[0.1, 0.2], [0.3, 0.4]]
    with pytest.warns(PMLWarning, match=r"^coverage is nan: none of the 2 rows has a true label"):
        assert np.isnan(coverage(truth, scores))
    assert coverage(truth, scores, empty_rows="keep", normalize=False) == -1.0
    assert coverage(truth, scores, convention="sklearn", normalize=False) == 0.0
    with pytest.warns(PMLWarning, match=r"^coverage is nan"):
        assert np.isnan(coverage(truth, scores, convention="sklearn", empty_rows="drop"))


def test_one_label_under_scikit_learn():
    truth, scores = [[1], [0]], [[0.3], [0.2]]
    values = {name: measure(truth, scores, convention="sklearn") for name, measure in MEASURES.items()}
    assert values == {"ranking_loss": 0.0, "one_error": 0.5, "coverage": -0.5, "average_precision": 1.0}
    assert coverage(truth, scores) == 0.0
