"""The files of the literature, read as published: shapes, cardinalities and every cell."""

import os
import random
import re
import shutil
import warnings

import numpy as np
import pytest

from pmlkit.data import read, write
from pmlkit.data.files.datasets import data_home
from pmlkit.exceptions import DataError

HOME = data_home()
ORIGINAL = HOME / "original"
pytestmark = pytest.mark.skipif(
    "PMLKIT_DATA" not in os.environ or not ORIGINAL.is_dir(),
    reason="needs the benchmark files in the folder that the environment variable PMLKIT_DATA names",
)

# rows, features, labels, label cardinality, and the npz with the same content (None: no twin)
FILES = {
    "Corel5k-sparse.arff": (5000, 499, 374, 3.522, "corel5k"),
    "SLASHDOT-F.arff": (3782, 1079, 22, 1.181, "slashdot"),
    "delicious-test.arff": (3185, 500, 983, 18.910, None),
    "emotions.arff": (593, 72, 6, 1.868, "emotions"),
    "enron.arff": (1702, 1001, 53, 3.378, "enron"),
    "flags.arff": (194, 19, 7, 3.392, "flags"),
    "foodtruck.arff": (407, 21, 12, 2.290, "foodtruck"),
    "medical.arff": (978, 1449, 45, 1.245, "medical"),
    "meka-Enron.arff.bz2": (1702, 1001, 53, 3.378, "enron"),
    "meka-Music.arff": (592, 71, 6, 1.870, None),
    "YeastMF.mat": (6139, 6139, 39, 1.043, "YeastMF"),
    "PARTICLE-sample-data.mat": (593, 72, 6, 3.000, None),
    "yeast_test.libsvm.txt": (917, 103, 14, 4.252, None),
}


def table_of_the_readme():
    """Return {name: (n, d, q, true cardinality, candidate cardinality or None)} from the README beside the files."""
    sets = {}
    for line in (HOME / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 10 and re.fullmatch(r"\d+", cells[1]):
            n, d, q = (int(cell) if cell != "-" else 0 for cell in cells[1:4])
            candidates = None if cells[7] == "-" else float(cells[7].split("/")[0])
            sets[cells[0]] = (n, d, q, float(cells[4]), candidates)
    return sets


def test_no_file_is_forgotten():
    assert {path.name for path in ORIGINAL.iterdir() if path.suffix != ".xml"} == set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_shape_and_content(file):
    n, d, q, cardinality, twin = FILES[file]
    data = read(ORIGINAL / file)
    assert (data.n_samples, data.n_features, data.n_labels) == (n, d, q)
    assert data.describe()["candidate_cardinality"] == pytest.approx(cardinality, abs=5e-4)
    if twin is None:
        return
    expected = read(HOME / f"{twin}.npz")
    if file.startswith("meka"):  # labels first there, and the same attributes in the same order otherwise
        assert set(data.label_names) == set(expected.label_names)
        order = [data.label_names.index(name) for name in expected.label_names]
        data = data.replace(Y=data.Y[:, order], label_names=expected.label_names)
    if data.truth is None:
        data = data.replace(truth=data.Y)
    assert data.label_names == expected.label_names
    assert data.feature_names == expected.feature_names
    assert data == expected


def test_delicious_test_is_the_end_of_delicious():
    whole = read(HOME / "delicious.npz")
    part = read(ORIGINAL / "delicious-test.arff")
    assert part.replace(truth=part.Y) == whole.subset(slice(-3185, None))
    assert "TAG_dise\\~no" in part.label_names


def test_particle_sample_is_scaled_emotions():
    sample, emotions = read(ORIGINAL / "PARTICLE-sample-data.mat"), read(HOME / "emotions.npz")
    np.testing.assert_array_equal(sample.truth.toarray(), emotions.truth.toarray())
    low, high = emotions.X.min(axis=0), emotions.X.max(axis=0)
    np.testing.assert_allclose(sample.X, (emotions.X - low) / (high - low), atol=1e-6)
    assert sample.describe()["false_candidates"] == 671


def test_yeast_libsvm_rows_are_rows_of_yeast():
    part, whole = read(ORIGINAL / "yeast_test.libsvm.txt"), read(HOME / "yeast.npz")
    known = {(row.round(6).tobytes(), labels.tobytes()) for row, labels in zip(whole.X, whole.Y.toarray(), strict=True)}
    rows = zip(part.X, part.Y.toarray(), strict=True)
    assert sum((row.round(6).tobytes(), labels.tobytes()) in known for row, labels in rows) == 917


def test_without_its_xml_the_relation_name_of_medical_is_not_trusted(tmp_path):
    shutil.copy(ORIGINAL / "medical.arff", tmp_path)
    with pytest.warns(match="Pass labels= to be sure"):
        read(tmp_path / "medical.arff")
    assert read(tmp_path / "medical.arff", labels=-45) == read(ORIGINAL / "medical.arff")


def test_labels_of_slashdot_without_xml(tmp_path):
    shutil.copy(ORIGINAL / "SLASHDOT-F.arff", tmp_path)
    assert read(tmp_path / "SLASHDOT-F.arff") == read(ORIGINAL / "SLASHDOT-F.arff")


def test_every_npz_reads_as_the_readme_says():
    sets = table_of_the_readme()
    assert len(sets) == 21
    # 1108 labels on 593 rows are 1.8685 a row; the README has the 1.869 of the literature.
    assert sets["emotions"][3] == 1.869
    sets["emotions"] = (*sets["emotions"][:3], 1.868, None)
    for name, (n, d, q, cardinality, candidates) in sets.items():
        data = read(HOME / f"{name}.npz")
        facts = data.describe()
        assert (data.name, data.n_samples, data.n_features, data.n_labels) == (name, n, d, q)
        assert facts["true_cardinality"] == pytest.approx(cardinality, abs=5.1e-4), name
        assert facts["candidate_cardinality"] == pytest.approx(candidates or cardinality, abs=5.1e-4), name


def test_quirks_that_the_readme_counts():
    genbase = read(HOME / "genbase.npz").describe()
    assert (genbase["constant_features"], genbase["duplicate_rows"]) == (1073, 456)
    assert read(HOME / "slashdot.npz").describe()["labels_without_positives"] == 2
    assert read(HOME / "delicious.npz").describe()["duplicate_rows"] == 3724
    assert read(HOME / "YeastBP.npz").describe()["rows_without_candidates"] == 1749


def test_a_large_set_survives_every_text_format(tmp_path):
    whole = read(HOME / "tmc2007_500.npz").subset(slice(0, 8000))
    for ending in ("arff", "libsvm.gz", "parquet"):
        write(whole, tmp_path / f"set.{ending}")
        back = read(tmp_path / f"set.{ending}")
        assert (back.X != whole.X).sum() == 0
        assert (back.Y != whole.Y).sum() == 0


@pytest.mark.parametrize(
    "file", [name for name in FILES if name not in ("YeastMF.mat", "delicious-test.arff", "enron.arff")]
)
def test_damaged_files_read_or_raise_data_error(file, tmp_path):
    rng = random.Random(file)
    sentences = []
    content = (ORIGINAL / file).read_bytes()
    for xml in ORIGINAL.glob("*.xml"):
        shutil.copy(xml, tmp_path)
    for trial in range(20):
        damaged = bytearray(content)
        if trial % 2:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            for _ in range(rng.choice([1, 1, 5, 40])):
                damaged[rng.randrange(rng.choice([400, len(damaged)]))] = rng.randrange(256)
        (tmp_path / file).write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read(tmp_path / file)
            except DataError as error:
                sentences.append(str(error))
    assert sentences
    assert all(sentence.startswith(file) for sentence in sentences)
