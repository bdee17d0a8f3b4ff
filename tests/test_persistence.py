import contextlib
import io
import itertools
import json
import os
import pickle
import sys
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import pmlkit
from pmlkit import CandidateClassifier, CandidateLogistic, ClearPML, LabelCleaner, MLkNN, persistence
from pmlkit.data import load_digit_strips
from pmlkit.exceptions import DataError
from pmlkit.persistence import dumps, load, loads, save
from refused import refused


@pytest.fixture
def model(oracle):
    return MLkNN().fit(oracle.X, oracle.Y)


def test_round_trip_through_a_file(model, oracle, tmp_path):
    save(model, tmp_path / "model.skops")
    copy = load(tmp_path / "model.skops")
    assert (copy.decision_function(oracle.X_test) == model.decision_function(oracle.X_test)).all()


def test_an_existing_file_is_kept(model, tmp_path):
    target = tmp_path / "model.skops"
    target.write_text("precious")
    with refused(option="force", value="True"):
        save(model, target)
    assert target.read_text() == "precious"
    save(model, target, force=True)
    assert load(target).n_features_in_ == 20


def test_nothing_half_is_left_when_writing_fails(model, tmp_path, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((OSError, DataError)):
        save(model, tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_foreign_types_are_refused(tmp_path):
    # A function by name is how a hostile file would call what it likes.
    skops.io.dump(FunctionTransformer(os.system), tmp_path / "hostile.skops")
    with pytest.raises(DataError, match=r"refused.*posix\.system|refused.*system"):
        load(tmp_path / "hostile.skops")


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04 broken"])
def test_damaged_files_get_one_sentence(tmp_path, content):
    path = tmp_path / "model.skops"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a model file|damaged"):
        load(path)


def test_truncated_file(model, tmp_path):
    path = tmp_path / "model.skops"
    save(model, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="not a model file|damaged"):
        load(path)


def test_absent_file_and_folder(model, tmp_path):
    with pytest.raises(DataError, match="is not a file"):
        load(tmp_path / "absent.skops")
    with pytest.raises(DataError, match="no folder"):
        save(model, tmp_path / "absent" / "model.skops")


def test_a_plain_scikit_learn_model_is_readable_too(tmp_path):
    X = np.arange(10.0)[:, None]
    skops.io.dump(LogisticRegression().fit(X, X[:, 0] > 5), tmp_path / "plain.skops")
    assert load(tmp_path / "plain.skops").n_features_in_ == 1


def hostile_file():
    """Build a file that would run a command if any function that a pmlkit module imports were trusted."""
    numbers = itertools.count(1000)

    def node(kind, module, loader, **rest):
        return {"__class__": kind, "__module__": module, "__loader__": loader, "__id__": next(numbers), **rest}

    def text(value):
        return node("str", "builtins", "JsonNode", content=json.dumps(value), is_json=True)

    def call(module, name, *arguments):
        arguments = node("list", "builtins", "ListNode", content=list(arguments))
        empty = node("list", "builtins", "ListNode", content=[])
        state = node("dict", "builtins", "DictNode", content={}, key_types=empty)
        return node(name, module, "LossNode", __reduce__={"args": arguments}, content=state)

    call_of_ours = call("pmlkit._optional", "optional_import", text("antigravity"))
    root = node("list", "builtins", "ListNode", content=[call_of_ours])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps({**root, "protocol": 2, "_skops_version": "0.16.0"}))
    return buffer.getvalue()


def test_functions_in_our_own_modules_are_no_types():
    with pytest.raises(DataError, match=r"refused.*optional_import"):
        loads(hostile_file())
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("schema", ["[]", '"x"', "null", "{}"])
def test_odd_schemas_get_one_sentence(tmp_path, schema):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", schema)
    with pytest.raises(DataError, match="not a model file"):
        load(path)


def test_a_model_with_callbacks_can_be_saved(oracle, tmp_path):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    model = MLkNN().set_callbacks(callback.ProgressBar())
    model.fit(oracle.X, oracle.Y)
    save(model, tmp_path / "model.skops")
    assert load(tmp_path / "model.skops").n_features_in_ == 20
    assert hasattr(model, "_skl_callbacks")


def test_training_scores_stay_out_of_model_files_and_in_pickles(oracle, tmp_path):
    pipeline = make_pipeline(StandardScaler(), CandidateLogistic()).fit(oracle.X, oracle.Y)
    save(pipeline, tmp_path / "model.skops")
    saved = load(tmp_path / "model.skops")
    assert not hasattr(saved[-1], "out_of_fold_scores_")
    assert (saved.decision_function(oracle.X_test) == pipeline.decision_function(oracle.X_test)).all()
    pickled = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(pickled[-1].out_of_fold_scores_, pipeline[-1].out_of_fold_scores_)


def test_a_label_cleaner_is_saved_without_its_training_rows(tmp_path):
    strips = load_digit_strips(200)
    model = LabelCleaner(CandidateLogistic()).fit(strips.X, strips.Y)
    save(model, tmp_path / "cleaner.skops")
    copy = load(tmp_path / "cleaner.skops")
    assert not hasattr(copy, "result_")
    assert (copy.predict(strips.X) != model.predict(strips.X)).nnz == 0


class OwnMethod(MLkNN):
    """An estimator that pmlkit does not know."""


@pytest.mark.parametrize("trust", [OwnMethod, f"{__name__}.OwnMethod"])
def test_own_types_are_trusted_by_name(oracle, tmp_path, trust):
    save(OwnMethod().fit(oracle.X, oracle.Y), tmp_path / "own.skops")
    with pytest.raises(DataError, match=r"refused: it holds types.*OwnMethod.*trusted="):
        load(tmp_path / "own.skops")
    assert isinstance(load(tmp_path / "own.skops", trusted=[trust]), OwnMethod)


def test_search_trees_are_not_read_from_files(model, oracle):
    model._Y = NearestNeighbors(algorithm="kd_tree").fit(oracle.X)  # A tree in any place of the file.
    with pytest.raises(DataError, match=r"refused: .*KDTree"):
        loads(dumps(model))


@pytest.mark.parametrize("wrong", [10**6, -(10**6)])
def test_a_sparse_matrix_with_indices_outside_is_refused(model, oracle, wrong):
    model._Y = model._Y.copy()
    model._Y.indices[3] = wrong
    with pytest.raises(DataError, match="a sparse matrix in it is not valid"):
        loads(dumps(model))


@pytest.mark.parametrize("kind", [TfidfVectorizer, CountVectorizer, HashingVectorizer])
@pytest.mark.parametrize("reads", ["filename", "file"])
def test_vectorizers_that_open_files_are_refused(oracle, kind, reads):
    hidden = make_pipeline(ColumnTransformer([("text", kind(input=reads), "body")]), MLkNN())
    with pytest.raises(DataError, match=f"{kind.__name__} reads files"):
        loads(dumps(hidden))
    assert loads(dumps(make_pipeline(kind(), MLkNN())))[0].input == "content"


def test_support_vector_machines_are_refused_unless_trusted(oracle):
    data = dumps(CandidateClassifier(SVC()).fit(oracle.X, oracle.Y))
    with pytest.raises(DataError, match="SVC passes its state to compiled code"):
        loads(data)
    assert loads(data, trusted=[SVC]).n_features_in_ == 20


def archive(compression=zipfile.ZIP_DEFLATED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize("is_nested", [False, True], ids=["array", "sparse matrix"])
def test_a_small_model_file_of_much_content_is_refused(tmp_path, is_nested):
    bomb = archive(data=bytes(2**28 + 1))
    (tmp_path / "m.skops").write_bytes(archive(zipfile.ZIP_STORED, part=bomb) if is_nested else bomb)
    with pytest.raises(DataError, match=r"m\.skops is refused: its content takes more than 256 MiB"):
        load(tmp_path / "m.skops")


def test_the_limit_of_a_model_file_can_be_chosen(model):
    data = dumps(model)
    with pytest.raises(DataError, match="larger max_bytes="):
        loads(data, max_bytes=1000)
    assert isinstance(loads(data, max_bytes=10**6), type(model))
    with pytest.raises(ValueError, match="max_bytes must be"):
        loads(data, max_bytes=0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, about odd numbers in a damaged file
def test_damaged_bytes_of_a_model_never_crash(model, oracle):
    """Flipped bytes in a stored (not packed) file: DataError, or a model that still answers or raises ValueError."""
    with zipfile.ZipFile(io.BytesIO(dumps(model))) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    rng = np.random.default_rng(0)
    for _ in range(60):
        changed = dict(members)
        name = sorted(changed)[rng.integers(len(changed))]
        content = bytearray(changed[name])
        for place in rng.integers(len(content), size=3):
            content[place] = rng.integers(256)
        changed[name] = bytes(content)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for member, stored in changed.items():
                archive.writestr(member, stored)
        with contextlib.suppress(DataError, ValueError, AttributeError, IndexError, TypeError):
            loads(buffer.getvalue()).decision_function(oracle.X_test)


@pytest.fixture
def texts(tmp_path):
    rng = np.random.default_rng(0)
    with (tmp_path / "posts.csv").open("w") as stream:
        print("body,tags", file=stream)
        for _ in range(300):
            words, tags = rng.integers(2000, size=30), rng.integers(6, size=2)
            print(" ".join(f"w{k}" for k in words), ";".join(f"t{k}" for k in tags), sep=",", file=stream)
    return pmlkit.open_table(tmp_path / "posts.csv", labels="tags", sep=";", text="body")


def test_a_vocabulary_is_one_record_of_a_model_file(texts):
    model = CandidateLogistic(C=1.0, normalize="unit", n_folds=2).fit(texts)
    data = dumps(model)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert len(archive.namelist()) < 50
        assert all(member.compress_type == zipfile.ZIP_DEFLATED for member in archive.infolist())
    expected = model.decision_function(texts)
    for copy in (loads(data), pickle.loads(pickle.dumps(model))):
        again = pmlkit.open_table(texts.path, labels="tags", sep=";", like=copy)
        assert (copy.decision_function(again) == expected).all()
    assert model.table_reader_.vectorizer.transformers_[0][1].vocabulary_  # writing left the model as it was


def test_large_coefficients_are_written_in_single_precision(monkeypatch, oracle):
    model = ClearPML().fit(oracle.X, oracle.Y)
    monkeypatch.setattr("pmlkit.methods.base._LARGE_MATRIX", 10)
    copy = loads(dumps(model))
    assert copy.dual_coef_.dtype == np.float32
    assert model.dual_coef_.dtype == np.float64
    expected = model.decision_function(oracle.X_test)
    np.testing.assert_allclose(copy.decision_function(oracle.X_test), expected, atol=1e-5)
    assert pickle.loads(pickle.dumps(model)).dual_coef_.dtype == np.float64


def test_a_file_with_an_object_that_has_no_class_is_damaged(monkeypatch):
    class Odd:
        def __getattribute__(self, name):
            raise AttributeError(name)

    monkeypatch.setattr(persistence.skops.io, "load", lambda *_, **__: {"a": Odd()})
    with pytest.raises(DataError, match="damaged"):
        persistence._load(io.BytesIO(archive()), "m.skops", [], None)
