"""ClearPML on rows in blocks: the same answers as in memory, whatever the layout."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from pmlkit import ClearPML
from pmlkit.blocks import RowBlocks
from pmlkit.data import load_digit_strips, make_pml
from pmlkit.exceptions import DataError
from pmlkit.methods.clear_pml import confidence_rounds, ridge_choice
from pmlkit.methods.clear_pml.confidence_rounds import rescaling_shift
from pmlkit.methods.clear_pml.posterior import rescale_to_sum

STRIPS = load_digit_strips(500, random_state=3)
EMPTY = STRIPS.Y.toarray().copy()
EMPTY[::3] = 0
ANSWERS = np.where(STRIPS.Y.toarray() > 0, np.where(STRIPS.truth.toarray() > 0, 1, -1), 0)
ANSWERS = ANSWERS * (np.random.default_rng(1).uniform(size=ANSWERS.shape) < 0.1)


def texts(n_rows, n_words, n_labels=8):
    rng = np.random.default_rng(0)
    topic = rng.integers(0, n_labels, n_rows)
    words = rng.zipf(1.5, size=(n_rows, 12)) % n_words
    words[:, :4] = (topic[:, None] * 7 + rng.integers(0, 7, (n_rows, 4))) % n_words
    X = sparse.csr_array((np.ones(12 * n_rows), (np.repeat(np.arange(n_rows), 12), words.ravel())), (n_rows, n_words))
    Y = np.eye(n_labels, dtype=bool)[topic] | (rng.uniform(size=(n_rows, n_labels)) < 0.08)
    return X, Y.astype(int)


def blocks(X, Y, sizes=(70, 1, 200), **options):
    edges = [0, *np.cumsum(sizes), X.shape[0]]
    cuts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    return RowBlocks([X[cut] for cut in cuts], [sparse.csr_array(Y)[cut] for cut in cuts], **options)


def answers(model, X):
    confidence, held_out = (
        part if hasattr(part, "shape") else part.compute()
        for part in (model.label_confidence_, model.out_of_fold_scores_)
    )
    return {
        "confidence": confidence.toarray(),
        "held out": np.nan_to_num(held_out, nan=-1.0),
        "scores": model.decision_function(X),
        "probabilities": model.predict_proba(X),
        "noise": model.noise_rate_,
        "numbers": [model.noise_floor_, model.single_weight_, model.share_without_truth_, model.threshold_offset_],
    }


def assert_same(one, other, X):
    expected, found = answers(one, X), answers(other, X)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("budget", [None, "1MB"])
@pytest.mark.parametrize(
    ("Y", "params", "options"),
    [
        (STRIPS.Y, {}, {}),
        (STRIPS.Y, {"mode": "single", "threshold": "f1"}, {}),
        (EMPTY, {"empty_rows": "negative"}, {}),
        (EMPTY, {"empty_rows": "unlabelled"}, {}),
        (EMPTY, {}, {}),
        (STRIPS.Y, {"every_row_has_a_label": False}, {"verified": ANSWERS}),
        (EMPTY, {}, {"verified": sparse.csr_array(ANSWERS)}),
    ],
)
def test_blocks_give_the_answers_of_memory(Y, params, options, budget):
    """With a megabyte the design is computed again in each pass, and what is known of the rows is on disk."""
    whole = ClearPML(**params).fit(STRIPS.X, Y, **options)
    cut = ClearPML(**params).fit(blocks(STRIPS.X, Y, memory_budget=budget), **options)
    assert_same(whole, cut, STRIPS.X)


@pytest.mark.parametrize("empty_rows", ["unlabelled", "negative"])
def test_a_block_without_candidates(empty_rows):
    Y = STRIPS.Y.toarray().copy()
    Y[70:110] = 0
    whole = ClearPML(empty_rows=empty_rows).fit(STRIPS.X, Y)
    assert_same(whole, ClearPML(empty_rows=empty_rows).fit(blocks(STRIPS.X, Y, sizes=(70, 40))), STRIPS.X)


@pytest.mark.parametrize("n_words", [300, 2500])
def test_texts_with_landmarks_and_with_all_rows_as_landmarks(n_words):
    X, Y = texts(600, n_words)
    params = {"n_landmarks": 100} if n_words < 2000 else {}
    whole = ClearPML(**params).fit(X, Y)
    assert whole.dual_coef_.shape[0] == (100 if n_words < 2000 else 600)
    assert_same(whole, ClearPML(**params).fit(blocks(X, Y)), X)


@pytest.mark.parametrize("budget", [None, "1MB"])
def test_many_rows_are_sampled_in_the_same_way_by_any_layout(budget, monkeypatch):
    monkeypatch.setattr(confidence_rounds, "_SAMPLE_ROWS", 150)
    data = make_pml(700, n_features=20, n_labels=5, random_state=0)
    whole = ClearPML(n_landmarks=100).fit(data.X, data.Y)
    cut = ClearPML(n_landmarks=100).fit(blocks(data.X, data.Y, memory_budget=budget))
    assert_same(whole, cut, data.X)
    monkeypatch.undo()
    full = ClearPML(n_landmarks=100).fit(data.X, data.Y)
    agreement = np.corrcoef(full.label_confidence_.data, whole.label_confidence_.data)[0, 1]
    assert 0.99 < agreement < 1.0


def test_single_precision_designs_of_blocks(monkeypatch):
    monkeypatch.setattr("pmlkit.methods.clear_pml.ridge_choice._CELLS_IN_DOUBLE", 1)
    whole, cut = ClearPML().fit(STRIPS.X, STRIPS.Y), ClearPML().fit(blocks(STRIPS.X, STRIPS.Y))
    np.testing.assert_allclose(cut.label_confidence_.compute().data, whole.label_confidence_.data, atol=1e-3)


def test_predictions_of_blocks_are_lazy_and_the_same():
    model = ClearPML().fit(STRIPS.X, STRIPS.Y)
    rows = RowBlocks([STRIPS.X[:100], STRIPS.X[100:]])
    np.testing.assert_allclose(model.decision_function(rows).compute(), model.decision_function(STRIPS.X))
    np.testing.assert_allclose(model.predict_proba(rows).compute(), model.predict_proba(STRIPS.X))
    assert np.array_equal(model.predict(rows).compute(), np.asarray(model.predict(STRIPS.X).toarray()))
    labels, scores = model.predict_top_k(rows, 3)
    names, expected = model.predict_top_k(STRIPS.X, 3)
    assert np.array_equal(model.label_names_[labels.compute()], names)
    np.testing.assert_allclose(scores.compute(), expected)
    with pytest.raises(ValueError, match="X has 5 features, but ClearPML expects"):
        model.predict(RowBlocks([STRIPS.X[:10, :5]]))


def test_a_memory_map_is_fitted_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr("pmlkit.blocks.row_blocks._BLOCK_BYTES", 1_000_000)
    np.save(tmp_path / "x.npy", STRIPS.X)
    model = ClearPML().fit(RowBlocks(np.load(tmp_path / "x.npy", mmap_mode="r"), STRIPS.Y))
    assert len(model.label_confidence_) > 1
    assert_same(ClearPML().fit(STRIPS.X, STRIPS.Y), model, STRIPS.X)


def test_a_model_of_blocks_is_saved_without_its_rows(tmp_path):
    from pmlkit.persistence import load, save

    model = ClearPML().fit(blocks(STRIPS.X, STRIPS.Y))
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    assert np.array_equal(again.decision_function(STRIPS.X), model.decision_function(STRIPS.X))
    assert not hasattr(again, "label_confidence_")


def test_an_interrupted_fit_resumes(tmp_path):
    class Stopped(Exception):
        pass

    folder = tmp_path / "checkpoint"
    whole = ClearPML().fit(STRIPS.X, STRIPS.Y)
    data = blocks(STRIPS.X, STRIPS.Y, checkpoint=folder)
    reduce, calls = data.engine._reduce, []

    def stops(*arguments):
        calls.append(arguments[0].function)
        if len(calls) > 12:
            raise Stopped
        return reduce(*arguments)

    data.engine._reduce = stops
    with pytest.raises(Stopped):
        ClearPML().fit(data)
    stored = len(list(folder.glob("pass-*.npz")))
    assert stored > 8
    with pytest.raises(DataError, match="belongs to another fit"):
        ClearPML(mode="single").fit(blocks(STRIPS.X, STRIPS.Y, checkpoint=folder))
    again = blocks(STRIPS.X, STRIPS.Y, checkpoint=folder)
    assert_same(whole, ClearPML().fit(again), STRIPS.X)
    assert not folder.exists()


def test_candidates_and_labels_are_needed():
    with pytest.raises(ValueError, match="y must be given"):
        ClearPML().fit(RowBlocks(STRIPS.X))
    with pytest.raises(ValueError, match="leave y out"):
        ClearPML().fit(blocks(STRIPS.X, STRIPS.Y), STRIPS.Y)
    with pytest.raises(ValueError, match="no candidate label in any row"):
        ClearPML().fit(blocks(STRIPS.X, np.zeros(STRIPS.Y.shape)))


@pytest.mark.parametrize("wanted", [3.0, 60.0, 250.0])
def test_the_shift_is_that_of_all_values_at_once(wanted):
    from pmlkit.blocks import LocalEngine
    from pmlkit.methods.clear_pml.cell_passes import shifted

    values = np.random.default_rng(0).beta(0.3, 0.3, size=300) * (np.arange(300) % 5 > 0)
    engine = LocalEngine(3)
    state = engine.of([values[:10], values[10:200], values[200:]])
    found = shifted(values, shift=rescaling_shift(engine, state, wanted))
    np.testing.assert_allclose(found, rescale_to_sum(values, wanted), atol=1e-7)


def test_a_block_without_any_candidate_holds_unlabelled_rows():
    Y = STRIPS.Y.toarray().copy()
    Y[:100] = 0
    cuts = [slice(0, 100), slice(100, None)]
    params = {"empty_rows": "unlabelled"}
    model = ClearPML(**params).fit(RowBlocks([STRIPS.X[cut] for cut in cuts], [Y[cut] for cut in cuts]))
    assert_same(ClearPML(**params).fit(STRIPS.X, Y), model, STRIPS.X)


def test_rows_that_are_all_landmarks_give_the_answers_of_memory(monkeypatch):
    monkeypatch.setattr(ridge_choice, "LANDMARKS", 300)
    whole, cut = ClearPML().fit(STRIPS.X, STRIPS.Y), ClearPML().fit(blocks(STRIPS.X, STRIPS.Y))
    assert len(whole.dual_coef_) == len(cut.dual_coef_) == 500
    assert_same(whole, cut, STRIPS.X)
