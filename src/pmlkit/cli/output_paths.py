"""Checks of output paths before the work begins: an input is never overwritten."""

from collections.abc import Sequence
from pathlib import Path

from pmlkit._files import check_target
from pmlkit.cli.errors import Misuse

__all__ = ["check_output"]


def check_output(target: Path, *inputs: Path, force: bool) -> None:
    """Refuse an output that cannot be written, or that is an input, before the work begins.

    `target`: where a result is to be written. `*inputs`: the files that are read; they are safe from ``--force``, too.
    `force`: whether another file that is there may be replaced.
    """
    side_files = _label_files(inputs) if target.suffix.lower() == ".xml" else []
    for source in (*inputs, *side_files):
        if target.exists() and source.exists() and target.samefile(source):
            raise Misuse(f"{str(target)!r} is the input: it is never overwritten, so choose another output.")
    check_target(target, force=force)


def _label_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the label files that are read because they lie beside an ARFF file."""
    from pmlkit.data.files.mulan import find_label_xml
    from pmlkit.data.files.registry import stem

    found = (find_label_xml(source.parent, stem(source)) for source in inputs)
    return [xml for xml in found if xml is not None]
