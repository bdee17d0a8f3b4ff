"""read and write: which format, which options, and that files are whole or not there."""

import bz2
import gzip
import os
import stat

import numpy as np
import pytest

from pmlkit.data import read, write
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files import base as registry
from pmlkit.data.files.base import FORMATS
from pmlkit.exceptions import DataError
from refused import refused

DATA = PMLDataset([[1.0, 0.0], [0.5, 2.0]], [[1, 1], [0, 1]], label_names=["red", "blue"])
WRITABLE = [name for name, known in FORMATS.items() if known.writer]


@pytest.mark.parametrize("kind", WRITABLE)
def test_content_counts_for_more_than_the_name(tmp_path, kind, caplog):
    write(DATA, tmp_path / "data", format=kind)
    assert read(tmp_path / "data", format=kind).n_samples == 2
    if kind in ("npz", "parquet", "arff"):
        assert read(tmp_path / "data") == DATA
        (tmp_path / "data").rename(tmp_path / "data.csv")
        assert read(tmp_path / "data.csv") == DATA
        assert f"is called csv, but it is {kind}" in caplog.text


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_compressed_binary_files_are_read(tmp_path, kind):
    write(DATA, tmp_path / f"data.{kind}")
    (tmp_path / f"data.{kind}.gz").write_bytes(gzip.compress((tmp_path / f"data.{kind}").read_bytes()))
    assert read(tmp_path / f"data.{kind}.gz") == DATA


def test_suffixes_in_capitals(tmp_path):
    write(DATA, tmp_path / "DATA.CSV.GZ")
    assert (tmp_path / "DATA.CSV.GZ").read_bytes()[:2] == b"\x1f\x8b"
    assert read(tmp_path / "DATA.CSV.GZ").name == "DATA"


def test_the_same_bytes_every_time(tmp_path):
    for ending in ("csv.gz", "arff.bz2", "libsvm", "npz"):
        write(DATA, tmp_path / f"a.{ending}")
        write(DATA, tmp_path / f"b.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_unknown_options_are_named_and_the_known_listed(tmp_path):
    write(DATA, tmp_path / "a.npz")
    write(DATA, tmp_path / "a.svm")
    with pytest.raises(ValueError, match="npz.*'labels'"):
        read(tmp_path / "a.npz", labels=3)
    with pytest.raises(ValueError, match="libsvm.*'label'.*zero_based, n_features, n_labels"):
        read(tmp_path / "a.svm", label=3)
    with pytest.raises(ValueError, match="writing csv has no option 'sep'"):
        write(DATA, tmp_path / "b.csv", sep=";")
    with pytest.raises(ValueError, match="format must be one of arff, csv"):
        read(tmp_path / "a.npz", format="xls")


@pytest.mark.parametrize("name", ["a.arff", "a.csv", "a.tsv", "a.svm", "a.mat", "a.npz", "a.parquet", "a.txt", "a"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        gzip.compress(b""),
        bz2.compress(b""),
        bytes(range(256)) * 20,
        b"\xff" * 5000,
        b"\n" * 50,
        b"{" * 999,
        b"PK\x03\x04",
    ],
    ids=["empty", "empty.gz", "empty.bz2", "garbage", "ones", "blank", "braces", "zip"],
)
def test_rubbish_of_every_kind_is_refused_in_words(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with refused(path=name) as caught:
        read(path)
    if not content:
        assert "empty" in str(caught.value)


@pytest.mark.parametrize("ending", ["arff.gz", "csv.bz2", "libsvm.gz", "npz", "parquet", "npz.gz"])
def test_truncated_files(tmp_path, ending):
    rng = np.random.default_rng(0)
    data = PMLDataset(rng.normal(size=(200, 5)), rng.integers(0, 2, (200, 3)))
    path = tmp_path / f"data.{ending}"
    if ending == "npz.gz":
        write(data, tmp_path / "data.npz")
        path.write_bytes(gzip.compress((tmp_path / "data.npz").read_bytes()))
    else:
        write(data, path)
    content = path.read_bytes()
    for cut in (1, 2, 3, 11, 100, len(content) // 2, len(content) - 9, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(DataError):
            read(path)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nothing\.csv"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="not a regular file"):
        read(tmp_path / "pipe.csv")
    (tmp_path / "a.xml").write_text("<labels/>")
    with refused(r"give the \.arff file", path="a.xml"):
        read(tmp_path / "a.xml")


def test_refuses_to_overwrite(tmp_path):
    path = tmp_path / "a.npz"
    write(DATA, path)
    other = DATA.subset([0])
    with refused(option="force"):
        write(other, path)
    assert read(path) == DATA
    write(other, path, force=True)
    assert read(path) == other


def test_what_cannot_be_written(tmp_path):
    for name, message in (("a.mat", "only read"), ("a.npz.gz", "compressed inside")):
        with pytest.raises(ValueError, match=message):
            write(DATA, tmp_path / name)
    with refused(option="format"):
        write(DATA, tmp_path / "a.xls")
    with pytest.raises(DataError, match="There is no folder"):
        write(DATA, tmp_path / "no" / "a.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        write(DATA, tmp_path / "folder.csv", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    folder = tmp_path / "locked"
    folder.mkdir()
    if os.geteuid() == 0:  # root may write anywhere: let the system call refuse instead

        def refuse(*_args, **_options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(registry.Path, "open", refuse)
    else:
        folder.chmod(0o500)
    with pytest.raises(DataError, match=r"Nothing can be written in the folder .*Permission denied"):
        write(DATA, folder / "a.csv")


@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_nothing_half_written_stays(tmp_path, monkeypatch, error, ending):
    path = tmp_path / f"a.{ending}"
    write(DATA, path)
    before = path.read_bytes()

    def fail(_dataset, stream):
        stream.write(b"half of it")
        raise error

    monkeypatch.setattr("pmlkit.data.files.delimited.write_csv", fail)
    expected = DataError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        write(DATA, path, force=True)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_files_get_the_usual_permissions(tmp_path):
    (tmp_path / "plain").touch()
    write(DATA, tmp_path / "a.csv")
    mode = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert stat.S_IMODE((tmp_path / "a.csv").stat().st_mode) == mode
