import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsRegressor

from pmlkit.data.noise import noise_report
from pmlkit.data.synthetic import load_digit_strips


def precision(model, data, fit_on):
    n_train = int(0.8 * data.n_samples)
    model.fit(data.X[:n_train], fit_on[:n_train].toarray())
    answer = model.decision_function if hasattr(model, "decision_function") else model.predict
    return label_ranking_average_precision_score(data.truth[n_train:].toarray(), answer(data.X[n_train:]))


@pytest.fixture(scope="module")
def strips():
    return load_digit_strips(1500)


def scans_in(image, known):
    """Numbers of the scans that stand in a strip, found pixel by pixel."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (8, 8)).reshape(-1, 64)
    return {known[window.tobytes()] for window in windows if window.tobytes() in known}


def test_truth_is_what_the_picture_shows_and_test_rows_show_other_scans(strips):
    scans, digits = load_digits(return_X_y=True)
    pixels = np.round(255 * (1 - scans / 16)).astype(np.uint8)
    known = {scan.tobytes(): number for number, scan in enumerate(pixels)}
    shown = [scans_in(image, known) for image in strips.media]
    for row, found in enumerate(shown):
        assert set(strips.truth[[row]].indices.tolist()) == {int(digits[number]) for number in found}
    # A digit shown twice may be the same scan twice.
    assert {len(found) for found in shown} <= {1, 2, 3, 4}
    assert not set.union(*shown[:1200]) & set.union(*shown[1200:])


def test_pictures_are_dark_on_white(strips):
    assert strips.media.dtype == np.uint8
    assert strips.media.shape == (1500, 10, 42)
    assert (strips.media[:, :, [0, -1]] == 255).all()
    # Digits stand at different heights: some reach the top, some the bottom.
    assert strips.media[:, 0].min() < 255
    assert strips.media[:, -1].min() < 255
    assert strips.media.min() == 0
    assert np.median(strips.media) == 255


def test_features_do_not_depend_on_the_labels(strips):
    other = load_digit_strips(1500, "uniform", ratio=2.0)
    np.testing.assert_array_equal(other.X, strips.X)
    np.testing.assert_array_equal(other.media, strips.media)
    np.testing.assert_array_equal(other.truth.toarray(), strips.truth.toarray())
    assert (other.Y.toarray() != strips.Y.toarray()).any()
    assert strips.X.min() >= 0
    assert strips.X.max() <= 1


def test_same_seed_same_data():
    assert load_digit_strips(60, random_state=3) == load_digit_strips(60, random_state=3)
    assert load_digit_strips(60, random_state=3) != load_digit_strips(60, random_state=4)


def test_models_learn_from_the_truth_and_suffer_from_the_noise(strips):
    noisy = load_digit_strips(1500, ratio=2.0)
    for model, enough, loss in [
        (OneVsRestClassifier(LogisticRegression(max_iter=1000)), 0.95, 0.05),
        (KNeighborsRegressor(15), 0.88, 0.1),
    ]:
        clean = precision(model, strips, strips.truth)
        assert clean > enough
        assert precision(model, noisy, noisy.Y) < clean - loss


def test_confusable_noise_adds_digits_that_look_alike(strips):
    truth = strips.truth.toarray()
    confused = strips.Y.toarray() - truth
    even = load_digit_strips(1500, "uniform").Y.toarray() - truth
    for digit, alike, unlike in [(3, 9, 4), (9, 3, 6), (1, 8, 0), (7, 8, 6)]:
        shown = (truth[:, digit] == 1) & (truth[:, alike] == 0) & (truth[:, unlike] == 0)
        assert confused[shown, alike].mean() > 1.5 * confused[shown, unlike].mean()
        assert even[shown, alike].mean() < 1.3 * even[shown, unlike].mean()


@pytest.mark.parametrize("kind", ["uniform", "correlated", "confusable"])
def test_noise_ratio(kind):
    data = load_digit_strips(500, kind, ratio=0.5)
    assert noise_report(data.truth, data.Y)["ratio"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 4}, "n must be a whole number of at least 5 strips, got 4"),
        ({"n": 10.0}, "n must be a whole number of at least 5 strips, got 10.0"),
        ({"noise": "blur"}, "noise must be one of uniform, correlated, confusable, got 'blur'"),
        ({"ratio": -1.0}, "ratio must be a finite number"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_digit_strips(**({"n": 10} | arguments))


def test_a_number_is_the_ratio_of_confusable_noise():
    by_number, by_name = load_digit_strips(60, 0.5), load_digit_strips(60, "confusable", ratio=0.5)
    assert by_number == by_name
    assert by_number != load_digit_strips(60)


def test_rounding_of_the_machine_does_not_show(strips):
    # Sums in another order differ in the last bits; hashes of rows must not.
    np.testing.assert_array_equal(strips.X, np.round(strips.X, 6))
