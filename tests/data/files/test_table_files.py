"""Many files as one table: the answers of the joined file, labels of late files, and files that do not fit."""

import numpy as np
import pandas as pd
import pytest

from pmlkit import ClearPML, clean, open_table
from pmlkit.blocks import Executor
from pmlkit.data import TableFiles
from pmlkit.data.files.features import TableReader
from pmlkit.exceptions import DataError
from pmlkit.predictions import write_predictions
from post_tables import make_posts, write_posts
from refused import refused

POSTS = make_posts(120)
CUTS = (0, 50, 70, 120)


@pytest.fixture
def folder(tmp_path):
    write_posts(POSTS, tmp_path / "all.csv")
    for k in range(3):
        write_posts(POSTS[CUTS[k] : CUTS[k + 1]], tmp_path / f"part-{k}.csv")
    return tmp_path


def parts_of(folder, **options):
    return open_table(folder / "part-*.csv", labels="tags", text="body", **options)


def test_a_fit_is_that_of_the_joined_file(folder):
    whole, parts = open_table(folder / "all.csv", labels="tags", text="body"), parts_of(folder)
    assert isinstance(parts, TableFiles)
    expected, model = ClearPML().fit(whole), ClearPML().fit(parts)
    assert parts.n_rows == 120
    assert parts.row_names == whole.row_names
    assert model.label_names_.tolist() == list(whole.label_names)
    assert model.table_reader_.describe() == expected.table_reader_.describe()
    np.testing.assert_allclose(model.decision_function(whole.X), expected.decision_function(whole.X), atol=1e-6)
    write_predictions(model, parts_of_like(folder, model), folder / "parts.out")
    write_predictions(model, open_table(folder / "all.csv", like=model), folder / "all.out")
    assert (folder / "parts.out").read_text() == (folder / "all.out").read_text()


def parts_of_like(folder, model):
    return open_table([folder / f"part-{k}.csv" for k in range(3)], like=model)


def test_workers_read_the_files(folder, dask_client):
    here, there = parts_of(folder), parts_of(folder)
    rows = there.to_blocks(Executor(dask_client))
    assert rows.sizes == (50, 20, 50)
    assert all(not isinstance(part, np.ndarray) for part in rows.X.parts)
    np.testing.assert_allclose(rows.X.compute().toarray(), here.to_blocks().X.compute().toarray())
    assert there.row_names == here.row_names
    model = ClearPML().fit(rows)
    np.testing.assert_allclose(model.dual_coef_, ClearPML().fit(here).dual_coef_, atol=1e-6)


def test_files_that_workers_cannot_see_are_named(folder, dask_client):
    parts = parts_of(folder)
    (folder / "part-1.csv").unlink()
    with pytest.raises(DataError, match=r"no file '.*part-1\.csv'.*workers need the files under the same paths"):
        parts.to_blocks(Executor(dask_client))


def test_clean_finds_the_suspects_of_the_joined_file_and_writes_each_file(folder):
    whole, parts = open_table(folder / "all.csv", labels="tags", text="body"), parts_of(folder)
    found, expected = clean(parts), clean(whole)
    assert found.suspects[["row", "label"]].equals(expected.suspects[["row", "label"]])
    assert found.row_names == expected.row_names
    removed = found.order[:9]
    kept = found.Y.copy()
    kept.data[removed] = 0
    kept.eliminate_zeros()
    parts.write(folder / "cleaned", kept)
    lines = "".join((folder / "cleaned" / f"part-{k}.csv").read_text() for k in range(3)).splitlines()
    whole.write(folder / "cleaned.csv", kept)
    joined = (folder / "cleaned.csv").read_text().splitlines()
    assert [line for line in lines if line != joined[0]] == joined[1:]
    with pytest.raises(DataError, match="never overwritten"):
        parts.write(folder, kept, force=True)


def test_labels_of_late_files_are_labels_of_all(tmp_path):
    (tmp_path / "a.csv").write_text("body,tag_x,tag_y\na red sky over hills,1,0\na blue sky over sea,0,1\n")
    (tmp_path / "b.csv").write_text("body,tag_x,tag_late\na red car on road,0,1\na blue car on hill,1,1\n")
    found = open_table([tmp_path / "a.csv", tmp_path / "b.csv"], labels="tag_*", text="body")
    assert found.label_names == ("tag_x", "tag_y", "tag_late")
    assert found.to_blocks().Y.compute().toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]]


def test_sets_of_labels_are_sorted_as_in_one_file(folder):
    table = pd.read_csv(folder / "part-2.csv")
    table.loc[3, "tags"] = "aaa;zzz"
    table.to_csv(folder / "part-2.csv", index=False)
    parts = parts_of(folder)
    assert parts.label_names == ("aaa", "cook", "music", "sport", "travel", "zzz")
    Y = parts.to_blocks().Y.compute().toarray()
    assert Y[73].tolist() == [1, 0, 0, 0, 0, 1]
    assert Y[:, [0, 5]].sum() == 2


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (
            lambda table: table.rename(columns={"body": "text"}),
            {"column": "body"},
        ),
        (lambda table: table.rename(columns={"tags": "labels"}), {"column": "tags"}),
        (lambda table: table[:0], {"says": "no rows"}),
    ],
)
def test_a_file_that_does_not_fit_is_named(folder, change, parts):
    change(pd.read_csv(folder / "part-2.csv")).to_csv(folder / "part-2.csv", index=False)
    with refused(path="part-2.csv", **parts):
        parts_of(folder).to_blocks()


def test_words_of_a_column_of_numbers_name_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("size,tags\n1.5,x;y\n2.5,y\n3.5,x\n")
    (tmp_path / "b.csv").write_text("size,tags\n1.0,x\nlarge,y\n")
    with refused(path="b.csv", column="size", row=1):
        open_table(tmp_path / "?.csv", labels="tags").to_blocks()


def test_words_come_from_rows_of_all_files(folder, monkeypatch):
    monkeypatch.setattr("pmlkit.data.files.table_files._SAMPLE_ROWS", 40)
    frames, fit = [], TableReader.fit_frame

    def keep(reader, frame, *rest):
        frames.append(frame)
        fit(reader, frame, *rest)

    monkeypatch.setattr(TableReader, "fit_frame", keep)
    assert parts_of(folder).to_blocks().n_rows == 120
    assert frames[0]["body"].tolist() == [post[1] for post in POSTS[::3]]


def test_wrong_patterns_and_options(folder):
    with pytest.raises(FileNotFoundError, match="No file matches"):
        open_table(folder / "none-*.csv", labels="tags")
    with pytest.raises(ValueError, match="the list of files is empty"):
        open_table([], labels="tags")
    with pytest.raises(ValueError, match="merge_labels is for a table of one file"):
        parts_of(folder, merge_labels=True)
    strange = folder / "part-[x].csv"
    strange.write_bytes((folder / "all.csv").read_bytes())
    assert open_table(strange, labels="tags", text="body").n_rows == 120  # a file of that very name
