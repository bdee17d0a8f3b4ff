"""What is written is read back: every format carries all that it says it carries, exactly."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from pmlkit.data import read, write
from pmlkit.data.dataset import PMLDataset

FORMATS = ["npz", "parquet", "csv", "tsv", "arff", "libsvm", "csv.gz", "arff.bz2", "libsvm.gz"]

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
# fmt: off
odd_words = st.sampled_from([
    "id", "media", "label:a", "truth:a", "feature:b", "a b", "it's", '"q"', "\\", "TAG_dise\\~no", "a,b", "a;b", "%",
    "{x}", "a\tb", "a\nb", "a\rb", "", " ", "'", "0", "-C 3", "NA", "nan", "é", "n=v", "@data", "[ab]", "*", ";;", "?",
])
# fmt: on
names = st.one_of(words, odd_words)
numbers = st.one_of(
    st.sampled_from([0.0, 1.0, 0.1, -1e-300, 1e300, 5e-324, 1 / 3]), st.floats(allow_nan=False, allow_infinity=False)
)


@st.composite
def datasets(draw):
    n, d, q = draw(st.integers(1, 5)), draw(st.integers(0, 3)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    elements = st.floats(width=32, allow_nan=False, allow_infinity=False) if dtype == np.float32 else numbers
    X = draw(hnp.arrays(dtype, (n, d), elements=elements))
    Y = draw(hnp.arrays(np.uint8, (n, q), elements=st.integers(0, 1)))
    keep = draw(st.one_of(st.none(), hnp.arrays(np.uint8, (n, q), elements=st.integers(0, 1))))
    columns = draw(st.lists(names, min_size=d + q, max_size=d + q, unique=True))
    images = hnp.arrays(np.uint8, (n, 2, 2))
    return PMLDataset(
        sparse.csr_array(X) if draw(st.booleans()) else X,
        Y,
        truth=None if keep is None else Y * keep,
        feature_names=draw(st.sampled_from([None, columns[:d]])),
        label_names=draw(st.sampled_from([None, columns[d:]])),
        media=draw(st.one_of(st.none(), st.lists(words, min_size=n, max_size=n), images)),
        ids=draw(
            st.one_of(
                st.none(),
                st.lists(words.map("x{}".format), min_size=n, max_size=n),
                st.lists(st.integers(0, 10**6), min_size=n, max_size=n),
            )
        ),
        name=draw(names),
        provenance=draw(words),
    )


def carried(data, kind):
    """Return what a format is said to carry of a data set."""
    if kind in ("csv", "tsv", "parquet"):
        return data if isinstance(data.media, tuple) else data.replace(media=None)
    if kind == "arff":
        return data.replace(truth=None, media=None, ids=None)
    if kind == "libsvm":
        return data.replace(truth=None, media=None, ids=None, feature_names=None, label_names=None)
    return data


def is_writable(data, kind):
    return kind != "arff" or not set(data.feature_names) & set(data.label_names)


@pytest.mark.parametrize("ending", FORMATS)
@given(data=datasets())
@example(data=PMLDataset(np.empty((2, 0)), [[0], [0]]))
@example(data=PMLDataset(np.empty((1, 0)), [[1, 0]], label_names=[";;;", "*"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_round_trip(ending, data):
    kind = ending.partition(".")[0]
    if not is_writable(data, kind):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"data.{ending}")
        write(data, path)
        back = read(path)
        assert back == carried(data, kind)
        assert [entry.name for entry in Path(folder).iterdir()] == [path.name]
    if kind in ("npz", "parquet"):
        assert back.X.dtype == data.X.dtype or data.n_features == 0
    if kind == "npz":
        assert (back.name, back.provenance) == (data.name or "data", data.provenance or "read from data.npz (npz)")
        assert sparse.issparse(back.X) == sparse.issparse(data.X)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arff", "libsvm"])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_many_rows_cross_the_blocks(tmp_path, ending, is_sparse):
    rng = np.random.default_rng(0)
    X = sparse.random_array((1600, 700), density=0.02, format="csr", rng=rng)
    Y = sparse.random_array((1600, 30), density=0.05, format="csr", rng=rng) > 0
    data = PMLDataset(X if is_sparse else X.toarray(), Y)
    path = tmp_path / f"data.{ending}"
    write(data, path)
    assert read(path) == data


@pytest.mark.parametrize("ending", ["arff", "libsvm"])
def test_truth_can_be_written_instead(tmp_path, ending):
    data = PMLDataset([[1.0], [2.0]], [[1, 1], [1, 0]], truth=[[0, 1], [1, 0]])
    write(data, tmp_path / f"d.{ending}", labels="truth")
    np.testing.assert_array_equal(read(tmp_path / f"d.{ending}").Y.toarray(), data.truth.toarray())
    with pytest.raises(ValueError, match="truth of this data set is unknown"):
        write(data.replace(truth=None), tmp_path / f"e.{ending}", labels="truth")
    with pytest.raises(ValueError, match="'candidates' or 'truth', got 'all'"):
        write(data, tmp_path / f"e.{ending}", labels="all")
    assert not list(tmp_path.glob("*e.*"))


def test_what_is_left_out_is_said(tmp_path, caplog):
    data = PMLDataset([[1.0]], [[1]], truth=[[1]], ids=[1], media=np.zeros((1, 1, 1), np.uint8), label_names=["red"])
    for ending, lost in itertools.product(["csv", "arff", "libsvm"], ["truth", "images", "ids", "label names"]):
        caplog.clear()
        write(data, tmp_path / f"d.{ending}", force=True)
        carried_by = {"csv": ["truth", "ids", "label names"], "arff": ["label names"], "libsvm": []}[ending]
        assert (lost in caplog.text.partition("leaves out:")[2]) == (lost not in carried_by)
    caplog.clear()
    write(data, tmp_path / "d.npz")
    assert not caplog.text
