import pytest

from pmlkit._files import check_target, replacing, together
from pmlkit.exceptions import DataError
from refused import refused


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")

    def write_half(error):
        with replacing(target) as stream:
            stream.write(b"half")
            raise error

    for error in (KeyError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            write_half(error)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="could not be written: No space left"), replacing(tmp_path / "file"):
        raise OSError(28, "No space left on device")


def test_a_link_keeps_pointing_to_its_file(tmp_path):
    target, link = tmp_path / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with replacing(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_targets_that_cannot_be(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    with refused(option="force", value="True"):
        check_target(taken)
    assert check_target(taken, force=True) == taken
    with pytest.raises(DataError, match="is a folder"):
        check_target(tmp_path, force=True)
    with pytest.raises(DataError, match="is a file"):
        check_target(taken / "below")
    with pytest.raises(DataError, match="There is no folder"):
        check_target(tmp_path / "no" / "file")
    with pytest.raises(DataError, match="not a regular file"):
        check_target("/dev/null", force=True)


def test_a_folder_that_vanished_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="Nothing can be written"), replacing(tmp_path / "gone" / "file"):
        pass


def test_files_written_together_appear_together_or_not_at_all(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")

    def write_both(error=None):
        with together():
            for target in (first, second):
                with replacing(target) as stream:
                    stream.write(b"new")
            assert first.read_text() == "old"
            if error is not None:
                raise error

    for error in (KeyboardInterrupt(), DataError("no")):
        with pytest.raises(type(error)):
            write_both(error)
        assert first.read_text() == "old"
        assert list(tmp_path.iterdir()) == [first]
    write_both()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"first": "new", "second": "new"}
    with replacing(first) as stream:
        stream.write(b"alone")
    assert first.read_text() == "alone"


def test_a_place_that_vanishes_before_the_end_is_one_sentence(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def put_a_folder_there():
        with together():
            with replacing(folder / "file") as stream:
                stream.write(b"new")
            (folder / "file").mkdir()

    with pytest.raises(DataError, match="could not be written"):
        put_a_folder_there()
    assert [path.name for path in folder.iterdir()] == ["file"]
