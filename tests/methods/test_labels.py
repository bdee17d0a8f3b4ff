import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from pmlkit import MLkNN

polars = pytest.importorskip("polars")


def test_polars_in_polars_out(oracle):
    names = [f"tag {k}" for k in range(6)]
    X = polars.DataFrame(oracle.X, schema=[f"f{j}" for j in range(20)])
    Y = polars.DataFrame(oracle.Y.astype(np.int8), schema=names)
    model = MLkNN().fit(X, Y)
    answer = model.predict(polars.DataFrame(oracle.X_test, schema=[f"f{j}" for j in range(20)]))
    assert isinstance(answer, polars.DataFrame)
    assert answer.columns == names
    assert answer.schema["tag 0"] == polars.Int8
    assert_array_equal(answer.to_numpy(), MLkNN().fit(oracle.X, oracle.Y).predict(oracle.X_test))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float64])
def test_the_cells_keep_their_type(oracle, dtype):
    assert MLkNN().fit(oracle.X, oracle.Y.astype(dtype)).predict(oracle.X_test).dtype == dtype
    frame = pd.DataFrame(oracle.Y.astype(dtype))
    assert set(MLkNN().fit(oracle.X, frame).predict(oracle.X_test).dtypes) == {np.dtype(dtype)}


def test_a_column_is_one_label_and_says_so(oracle):
    with pytest.warns(DataConversionWarning, match="read as a single label"):
        model = MLkNN().fit(oracle.X, oracle.Y[:, :1])
    assert model.predict(oracle.X_test).shape == (24, 1)


def test_two_classes_of_words(oracle):
    y = np.where(oracle.Y[:, 0] == 1, "spam", "ham")
    model = MLkNN().fit(oracle.X, y)
    assert list(model.classes_) == ["ham", "spam"]
    assert set(model.predict(oracle.X_test)) <= {"ham", "spam"}
    assert_array_equal(model.decision_function(oracle.X_test) > 0, model.predict(oracle.X_test) == "spam")


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.array([[0, 2], [1, 0], [1, 1]]), r"0/1, got values \{2\}.*MultiLabelBinarizer"),
        (np.array([["a", "b"], ["c", "d"], ["a", "d"]]), "0/1.*MultiLabelBinarizer"),
        (np.array([[0, np.nan], [1, 0], [1, 1]]), "NaN"),
        (np.zeros((3, 0)), "no label column|0 feature|minimum"),
        (np.array([0, 1, 2]), "Only binary classification is supported"),
        (np.array([1, 1, 1]), "only one class"),
        (sparse.csr_array(np.array([[0, 3], [1, 0], [1, 1]])), r"got values \{3\}"),
    ],
)
def test_bad_candidates_get_one_clear_sentence(y, words):
    with pytest.raises(ValueError, match=words):
        MLkNN().fit(np.eye(3), y)
