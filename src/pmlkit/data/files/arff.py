"""Weka's ARFF, dense and sparse, with the labels marked the MULAN way (XML) or the MEKA way (``-C``).

The parser is our own: liac-arff refuses the comment after the relation name of published MEKA
files, and in its sparse form does not say which omitted values are not zero.
"""

import io
import logging
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from scipy import sparse

from pmlkit._typing import CSR, Features, FloatArray
from pmlkit._words import counted
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.arff_parser import (
    Attribute,
    Header,
    dense_fields,
    find_label_xml,
    quote,
    read_header,
    read_label_xml,
    read_rows,
    sparse_cells,
    sparse_fields,
    unquote,
)
from pmlkit.data.files.base import Edits, Missing, Source, TableFile, as_names, select
from pmlkit.data.files.datasets import check_labels, fill_missing, losses, number_texts, row_blocks, written_labels
from pmlkit.exceptions import DataError, PMLWarning

logger = logging.getLogger(__name__)

LabelChoice = str | Path | int | Collection[str] | None

_MEKA_COUNT = re.compile(r"(?:^|[\s'\":])-[cC]\s+(-?\d+)\b", re.ASCII)
_MAX_DIGITS = 18  # Python refuses to read numbers of some thousand digits
_MAX_LINE = 2**26  # characters, as in the other formats
_MOVED = re.compile(r"attribute\.(?:Remove|Reorder|Add|Copy|AttributeSelection)")


class ArffFile(TableFile):
    """A dense or sparse ARFF file that is written again byte by byte, except for changed cells."""

    def __init__(self, stream: BinaryIO) -> None:
        raw = stream.read()
        try:
            text, self._encoding = raw.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, self._encoding = raw.decode("latin-1"), "latin-1"
        self._lines = list(io.StringIO(text, newline="\n"))
        long = next((k for k, line in enumerate(self._lines, start=1) if len(line) > _MAX_LINE), None)
        if long is not None:
            raise DataError(
                f"line {long} is longer than {_MAX_LINE // 2**20} million characters: this is not a table of one row "
                "per line.",
                line=long,
            )
        counted_lines = ((number, line.lstrip("\ufeff").strip()) for number, line in enumerate(self._lines, start=1))
        self.header: Header = read_header(counted_lines)
        self._rows = [(number, line) for number, line in counted_lines if line and not line.startswith("%")]
        self.columns = [attribute.name for attribute in self.header.attributes]
        self.n_rows = len(self._rows)
        self._positions = {name: j for j, name in enumerate(self.columns)}
        # What a sparse row leaves out: zero, or the first value of a nominal attribute.
        self._default = [next(iter(a.codes)) if a.codes else "0" for a in self.header.attributes]

    def matrix(self, ignored: Collection[int]) -> Features:
        """Return all rows as numbers: NaN where a value is missing, 0 in ignored columns."""
        return read_rows(iter(self._rows), self.header.attributes, ignored)

    def _parse_cells(self, names: list[str]) -> dict[str, Sequence[Any]]:
        wanted = [(name, self._positions[name]) for name in names]
        found: dict[str, list[str | None]] = {name: [] for name in names}
        for number, line in self._rows:
            values = self._values(number, line)
            for name, j in wanted:
                value = values.get(j, self._default[j]).strip()
                found[name].append(None if value == "?" else unquote(value))
        return dict(found)

    def _values(self, number: int, line: str) -> dict[int, str]:
        """Return the raw values that stand in a row, by attribute."""
        if not line.startswith("{"):
            return dict(enumerate(dense_fields(number, line, len(self.columns))))
        values = dict(sparse_cells(number, line))
        beyond = next((j for j in values if j >= len(self.columns)), None)
        if beyond is not None:
            message = f"line {number} has the index {beyond}, but there are only {len(self.columns)} attributes."
            raise DataError(message, line=number)
        return values

    def write(self, stream: BinaryIO, edits: Edits) -> None:
        """Write the file with some cells changed."""
        lines = list(self._lines)
        by_row: dict[int, dict[int, str]] = {}
        for name, cells in edits.items():
            for row, text in cells.items():
                by_row.setdefault(row, {})[self._positions[name]] = str(text)
        for row, changes in by_row.items():
            number, body = self._rows[row]
            lines[number - 1] = lines[number - 1].replace(body, self._edited(number, body, changes), 1)
        for start in range(0, len(lines), 20_000):
            stream.write("".join(lines[start : start + 20_000]).encode(self._encoding))

    def _edited(self, number: int, body: str, changes: dict[int, str]) -> str:
        if not body.startswith("{"):
            has_commas = "," in body or len(self.columns) == 1
            if not has_commas and not set("'\"") & set(body):  # white space separates, too
                parts = re.split(r"(\s+)", body)
                parts[::2] = [changes.get(j, part) for j, part in enumerate(parts[::2])]
                return "".join(parts)
            fields = dense_fields(number, body, len(self.columns))
            for j, text in changes.items():
                blank = fields[j][: len(fields[j]) - len(fields[j].lstrip())]
                fields[j] = blank + text
            return ",".join(fields)
        kept = []
        for entry in sparse_fields(body):
            j = int(entry.split(None, 1)[0])
            if j not in changes:
                kept.append(entry)
            elif changes[j] != self._default[j]:
                kept.append(f"{j} {changes[j]}")
        return "{" + ",".join(kept).strip() + "}"


def read_arff(
    source: Source,
    *,
    labels: LabelChoice = None,
    nominal: Literal["ordinal", "onehot"] = "ordinal",
    missing: Missing = "mean",
    ignore: str | Collection[str] = (),
) -> PMLDataset:
    r"""Read an ARFF file.

    Parameters
    ----------
    source : Source
        The open file.
    labels : path of a MULAN XML, list of names, glob pattern or int, optional
        Which attributes are labels. A whole number is counted as MEKA does: the first `n`, or,
        negative, the last `n`. By default the XML file of the same name beside the ARFF file
        (``delicious.xml`` also serves ``delicious-test.arff``); without one, the ``-C n`` in the
        relation name.
    nominal : {"ordinal", "onehot"}, default="ordinal"
        What becomes of a nominal feature. ``ordinal``: one column; numeric-looking values become
        that number, NO/YES and FALSE/TRUE 0/1, other words their position in the declaration,
        from 0. ``onehot``: a feature of more than two values becomes one 0/1 column per value,
        named ``feature=value``.
    missing : {"mean", "zero", "error"}, default="mean"
        What becomes of ``?``. ``mean`` gives a nominal feature its most frequent value. A missing
        label is always an error.
    ignore : list of names or glob pattern, optional
        Attributes to leave out, such as identifiers.

    Returns
    -------
    dataset : PMLDataset
        The labels are the candidates, in the order of the attributes; the truth is unknown.
    """
    if nominal not in ("ordinal", "onehot"):
        raise ValueError(f"nominal must be 'ordinal' or 'onehot', got {nominal!r}.")
    file = ArffFile(source.stream)
    header, names = file.header, file.columns
    ignored = set(select(names, ignore, "attribute"))
    label_columns = sorted(set(label_positions(header, labels, source.path, source.stem)) - ignored)
    feature_columns = sorted(set(range(len(names))) - ignored - set(label_columns))
    for j in sorted({*label_columns, *feature_columns}):
        _refuse_type(header.attributes[j])
    table = file.matrix(ignored)
    label_names = [names[j] for j in label_columns]
    features = [header.attributes[j] for j in feature_columns]
    X = fill_missing(
        table[:, feature_columns],
        missing,
        [attribute.name for attribute in features],
        nominal=[k for k, attribute in enumerate(features) if attribute.codes is not None],
    )
    feature_names = [attribute.name for attribute in features]
    if nominal == "onehot":
        X, feature_names = _one_hot(X, features)
    return PMLDataset(
        X, check_labels(table[:, label_columns], label_names), feature_names=feature_names, label_names=label_names
    )


def _refuse_type(attribute: Attribute) -> None:
    if attribute.kind not in ("numeric", "nominal"):
        raise DataError(
            f"attribute {attribute.name!r} is of type {attribute.kind}, neither a number nor one of a list of values.",
            option="ignore",
            value=repr(attribute.name),
            remedy=" to leave it out",
            column=attribute.name,
        )


def label_positions(header: Header, labels: LabelChoice, path: Path, stem: str) -> Sequence[int]:
    """Return which attributes are labels, and log who said so.

    `labels`: see `read_arff`. `path`: of the ARFF file, beside which an XML may lie. `stem`: its name without endings.
    """
    n_attributes = len(header.attributes)
    if isinstance(labels, int | np.integer):
        return _counted(int(labels), n_attributes, "labels")
    if isinstance(labels, Path) or (isinstance(labels, str) and labels.lower().endswith(".xml")):
        xml: Path | None = Path(labels)
    elif labels is not None:
        return select([attribute.name for attribute in header.attributes], as_names(labels), "attribute")
    else:
        xml = find_label_xml(path.parent, stem)
    if xml is not None:
        logger.info("%s: labels taken from %s", path.name, xml.name)
        return _named_in(xml, header.attributes)
    match = _MEKA_COUNT.search(header.relation)
    if match is not None and len(match[1]) > _MAX_DIGITS:
        raise DataError(f"-C in the relation name asks for a number of labels that has {len(match[1]):,} digits.")
    if match is None:
        raise DataError(
            f"nothing says which attributes are labels: there is no {stem}.xml beside the file and no -C in its "
            "relation name.",
            option="labels",
            remedy=" the path of the XML, names or a number (negative: the last ones)",
        )
    if _MOVED.search(header.relation, match.end()):
        warnings.warn(
            PMLWarning(
                f"the relation name says -C {match[1]}, but also that attributes were removed or moved since, so these "
                "may not be the labels.",
                option="labels",
                remedy=" to be sure",
                path=path.name,
            ),
            stacklevel=4,
        )
    logger.info("%s: labels taken from -C %s in the relation name", path.name, match[1])
    return _counted(int(match[1]), n_attributes, "-C")


def _counted(count: int, n_attributes: int, what: str) -> range:
    if not 0 < abs(count) <= n_attributes:
        raise DataError(f"{what} asks for {count} labels, but there are {n_attributes} attributes.")
    return range(count) if count > 0 else range(n_attributes + count, n_attributes)


def _named_in(xml: Path, attributes: Sequence[Attribute]) -> list[int]:
    names = read_label_xml(xml)
    # The XML may spell a quoted name with or without its escapes.
    known = {a.raw: j for j, a in enumerate(attributes)} | {a.name: j for j, a in enumerate(attributes)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(
            f"{xml.name} names {counted(len(unknown), 'label')} for which the ARFF file has no attribute, the first is "
            f"{unknown[0]!r}.",
            option="labels",
            remedy=" the right XML, names or a number",
            column=unknown[0],
        )
    return [known[name] for name in names]


def _one_hot(X: Features, features: Sequence[Attribute]) -> tuple[Features, list[str]]:
    """Give every nominal feature of more than two values a 0/1 column per value."""
    blocks: list[Features] = []
    names: list[str] = []
    for j, attribute in enumerate(features):
        column = X[:, [j]]
        if attribute.codes is None or len(attribute.codes) <= 2:
            blocks.append(column)
            names.append(attribute.name)
            continue
        cells = column.toarray() if sparse.issparse(column) else column
        blocks.append((cells == np.array(list(attribute.codes.values()))).astype(np.float64))
        names += [f"{attribute.name}={value}" for value in attribute.codes]
    if not blocks:
        return X, names
    return (sparse.hstack(blocks, format="csr") if sparse.issparse(X) else np.hstack(blocks)), names


def write_arff(dataset: PMLDataset, stream: BinaryIO, *, labels: Literal["candidates", "truth"] = "candidates") -> None:
    """Write a MEKA file: labels first, their number as ``-C`` in the relation name; sparse rows for CSR features.

    `labels` ({"candidates", "truth"}): which labels.
    """
    Y = written_labels(dataset, labels)
    if lost := losses(dataset, carries=("feature names", "label names")):
        logger.warning("ARFF holds one label block (here: the %s) and leaves out: %s", labels, ", ".join(lost))
    both = set(dataset.feature_names) & set(dataset.label_names)
    if both:
        raise DataError(f"ARFF needs distinct attribute names, but {min(both)!r} names a feature and a label.")
    # A count in the name itself would be read first.
    relation = quote(f"{_MEKA_COUNT.sub(' ', dataset.name)}: -C {dataset.n_labels}")
    header = [f"@relation {relation}\n\n"]
    header += [f"@attribute {quote(name)} {{0,1}}\n" for name in dataset.label_names]
    header += [f"@attribute {quote(name)} numeric\n" for name in dataset.feature_names]
    stream.write(("".join(header) + "\n@data\n").encode())
    for Y_rows, X_rows in row_blocks(Y, dataset.X):
        lines = _sparse_lines(Y_rows, X_rows) if sparse.issparse(X_rows) else _dense_lines(Y_rows, X_rows)
        stream.write("".join(lines).encode())


def _dense_lines(Y: CSR, X: FloatArray) -> Iterator[str]:
    for row in np.hstack([Y.toarray(), X]):
        yield ",".join(number_texts(row)) + "\n"


def _sparse_lines(Y: CSR, X: CSR) -> Iterator[str]:
    table = sparse.hstack([Y, X], format="csr")
    cells = [f"{j} {text}" for j, text in zip(table.indices.tolist(), number_texts(table.data), strict=True)]
    for start, stop in pairwise(table.indptr.tolist()):
        yield "{" + ",".join(cells[start:stop]) + "}\n"
