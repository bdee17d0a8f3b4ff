"""LabelCleaner as an estimator: scikit-learn's checks, our contract, and labels in every format."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from pmlkit import CandidateLogistic, LabelCleaner, clean
from pmlkit.data import load_digit_strips
from pmlkit.testing import name_of, pml_checks

NOTHING_TO_JUDGE_BY = "cleaning refuses data in which no label can be judged"
EXPECTED_FAILURES = {
    "check_permuting_labels": "the labels injected to measure certainty are drawn by position; changes below 0.01",
    "check_awkward_candidates[duplicate rows]": NOTHING_TO_JUDGE_BY,
    "check_awkward_candidates[all rows alike]": NOTHING_TO_JUDGE_BY,
    "check_awkward_candidates[all labels on all rows]": NOTHING_TO_JUDGE_BY,
    "check_awkward_candidates[labels regardless of the features]": NOTHING_TO_JUDGE_BY,
    "check_fewer_rows_than_features": NOTHING_TO_JUDGE_BY,
}


# scikit-learn's checks have a single label, which is learned as it is: they test the estimator around cleaning.
@parametrize_with_checks([LabelCleaner(CandidateLogistic())])
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("check", pml_checks(), ids=name_of)
def test_pml_check(check, request):
    if name_of(check) in EXPECTED_FAILURES:
        request.applymarker(pytest.mark.xfail(strict=True, reason=EXPECTED_FAILURES[name_of(check)]))
    check(LabelCleaner(CandidateLogistic()))


def test_names_per_row_whatever_the_estimator():
    strips = load_digit_strips(300)
    names = np.asarray(strips.label_names)
    tags = [set(names[row > 0]) for row in strips.Y.toarray()]
    forest = RandomForestClassifier(20, random_state=0)
    for estimator in (CandidateLogistic(), forest):
        model = LabelCleaner(estimator).fit(strips.X, tags)
        reference = LabelCleaner(estimator).fit(strips.X, strips.Y.toarray())
        assert model.predict(strips.X) == [set(names[row > 0]) for row in reference.predict(strips.X)]
    assert model.result_.cleaned() == [set(names[row > 0]) for row in reference.result_.cleaned()]


def test_a_single_label_is_learned_as_it_is():
    strips = load_digit_strips(100)
    y = strips.truth[:, [3]].toarray()[:, 0]
    model = LabelCleaner(CandidateLogistic()).fit(strips.X, y)
    assert model.result_ is None
    np.testing.assert_array_equal(model.predict(strips.X), CandidateLogistic().fit(strips.X, y).predict(strips.X))


def test_a_result_in_a_notebook_is_escaped():
    strips = load_digit_strips(200)
    names = ["<script>", *strips.label_names[1:]]
    result = clean(strips.X, strips.Y, label_names=names, row_names=["<img>"] * 200)
    page = result._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;img&gt;") == 5
    assert f"{result.Y.nnz:,}" in page
