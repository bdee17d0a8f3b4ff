"""Every registered method against scikit-learn's checks and ours."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pmlkit.methods import all_methods
from pmlkit.testing import check_pml_estimator, name_of, pml_checks

METHODS = [method() for method in all_methods().values()]


@parametrize_with_checks(METHODS)
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:A column-vector y was passed", "ignore:May not flag all label issues")
@pytest.mark.parametrize("check", pml_checks(), ids=name_of)
@pytest.mark.parametrize("estimator", METHODS, ids=lambda estimator: type(estimator).__name__)
def test_pml_check(estimator, check):
    check(estimator)


class _Broken(all_methods()["MLkNN"]):
    """Puts a confidence outside [0, 1]-ordered candidates: all equal."""

    def _fit(self, X, Y, progress):
        learned = super()._fit(X, Y, progress)
        return type(learned)(confidence=np.ones(Y.nnz), scores=learned.scores)


def test_a_broken_method_is_found():
    with pytest.raises(AssertionError, match=r"check_confidences_on_candidates.*all confidences are equal"):
        check_pml_estimator(_Broken())
