"""The multi-label form of libsvm's text: ``label,label index:value index:value``.

With or without the first line ``n d q`` of the extreme classification repository.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._typing import CSR
from pmlkit._words import counted, excerpt
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.base import LIBSVM_HEADER, LIBSVM_ROW, Source, batches, check_size
from pmlkit.data.files.datasets import losses, number_texts, pack, row_blocks, written_labels
from pmlkit.exceptions import DataError

logger = logging.getLogger(__name__)

_BATCH = 4096


def read_libsvm(
    source: Source,
    *,
    zero_based: bool | Literal["auto"] = "auto",
    n_features: int | None = None,
    n_labels: int | None = None,
) -> PMLDataset:
    r"""Read a libsvm file.

    Parameters
    ----------
    source : Source
        The open file.
    zero_based : bool or "auto", default="auto"
        Whether feature indices start at 0. By default they do if an index 0 occurs, or if a first line
        ``n d q`` is there and no index is `d`. Labels always start at 0.
    n_features, n_labels : int, optional
        Their number, where neither a first line nor the largest index tells it, as in a test file.

    Returns
    -------
    dataset : PMLDataset
        The labels are the candidates; the truth is unknown.
    """
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
    lines = enumerate(source.stream, start=1)
    claimed: tuple[int, ...] | None = None
    parts = []
    for batch in batches(lines, _BATCH):
        if batch[0][0] == 1:
            match = LIBSVM_HEADER.fullmatch(batch[0][1])
            claimed = tuple(int(text) for text in match.groups()) if match else None
            batch = batch[1:] if match else batch
        # An empty line is a row of nothing, but only a first line that counts the rows can tell it from a blank.
        parts.append(_parse([(number, line) for number, line in batch if claimed or line.strip()]))
    labels, label_counts, indices, values, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    if claimed and len(counts) > claimed[0] and not (label_counts[claimed[0] :] + counts[claimed[0] :]).any():
        label_counts, counts = label_counts[: claimed[0]], counts[: claimed[0]]
    n_rows, largest = len(counts), int(indices.max(initial=-1))
    if n_rows == 0:
        raise DataError("the file has no rows.")
    if claimed and claimed[0] != n_rows:
        raise DataError(f"the first line claims {claimed[0]} rows, but {n_rows} follow. Is the file complete?")
    if zero_based == "auto":
        zero_based = bool((indices == 0).any() or (claimed is not None and largest < claimed[1]) or largest < 0)
        logger.info("%s: feature indices taken to start at %d", source.path.name, 0 if zero_based else 1)
    if not zero_based:
        if (indices == 0).any():
            raise DataError("a feature has the index 0, but zero_based=False says that they start at 1.")
        indices, largest = indices - 1, max(largest - 1, -1)
    width = _width(largest, n_features, claimed[1] if claimed else None, "feature")
    height = _width(int(labels.max(initial=-1)), n_labels, claimed[2] if claimed else None, "label")
    X = _assemble(values, indices, counts, width, "feature")
    Y = _assemble(np.ones(len(labels), dtype=np.uint8), labels, label_counts, height, "label")
    # Some steps take a number per column, however few of them are filled.
    check_size(8 * (width + height), source.max_bytes, f"a table of {width:,} features and {height:,} labels")
    return PMLDataset(pack(X), Y)


def _parse(batch: Sequence[tuple[int, bytes]]) -> tuple[NDArray[Any], ...]:
    """Return labels, labels per row, feature indices, values and features per row of some lines."""
    label_texts, feature_texts = [], []
    for number, line in batch:
        match = LIBSVM_ROW.fullmatch(line.partition(b"#")[0])
        if match is None:
            shown = excerpt(line.decode("latin-1").strip())
            raise DataError(
                f"line {number} is not of the form 'label,label index:value index:value': {shown}.", line=number
            )
        label_texts.append(match[1] or b"")
        feature_texts.append(match[2])
    labels = [int(text) for text in b",".join(filter(None, label_texts)).split(b",") if text]
    texts = b" ".join(feature_texts).replace(b":", b" ").split()
    try:
        values = [float(text) for text in texts[1::2]]
    except ValueError:
        _raise_culprit(batch, feature_texts)
        raise
    return (
        np.array(labels, dtype=np.int64),
        np.array([text.count(b",") + 1 if text else 0 for text in label_texts], dtype=np.int64),
        np.array([int(text) for text in texts[::2]], dtype=np.int64),
        np.array(values),
        np.array([text.count(b":") for text in feature_texts], dtype=np.int64),
    )


def _raise_culprit(batch: Sequence[tuple[int, bytes]], feature_texts: Sequence[bytes]) -> None:
    for (number, _), text in zip(batch, feature_texts, strict=True):
        for cell in text.split():
            try:
                float(cell.partition(b":")[2])
            except ValueError as error:
                shown = excerpt(cell.decode("latin-1"))
                raise DataError(
                    f"line {number} has a feature whose value is not a number: {shown}.", line=number
                ) from error


def _width(largest: int, asked: int | None, claimed: int | None, what: str) -> int:
    known = asked if asked is not None else claimed
    if known is None:
        return largest + 1
    if largest >= known:
        who = f"n_{what}s={known} was passed" if asked is not None else f"the first line claims {known} {what}s"
        raise DataError(f"{who}, but a {what} number {largest} (from 0) occurs.")
    return known


def _assemble(values: NDArray[Any], columns: NDArray[Any], counts: NDArray[Any], width: int, what: str) -> CSR:
    if width > 2**31 - 1:
        raise DataError(f"the file claims {width} {what}s, more than the {2**31 - 1} that can be indexed.")
    indptr = np.concatenate([[0], np.cumsum(counts)])
    table = sparse.csr_array((values, columns.astype(np.int32), indptr), shape=(len(counts), width))
    n_cells = table.nnz
    table.sum_duplicates()
    if table.nnz < n_cells:
        raise DataError(f"{counted(n_cells - table.nnz, what)} given twice in the same row.")
    return table


def write_libsvm(
    dataset: PMLDataset, stream: BinaryIO, *, labels: Literal["candidates", "truth"] = "candidates"
) -> None:
    """Write a first line ``n d q`` and rows with features and labels numbered from 0.

    `labels` ({"candidates", "truth"}): which labels.
    """
    Y = written_labels(dataset, labels)
    if lost := losses(dataset):
        logger.warning("libsvm holds one label block (here: the %s) and leaves out: %s", labels, ", ".join(lost))
    stream.write(f"{dataset.n_samples} {dataset.n_features} {dataset.n_labels}\n".encode())
    for Y_rows, X_rows in row_blocks(Y, dataset.X):
        stream.write("".join(_lines(Y_rows, sparse.csr_array(X_rows))).encode())


def _lines(Y: CSR, X: CSR) -> Iterator[str]:
    names = [str(k) for k in Y.indices.tolist()]
    cells = [f"{j}:{text}" for j, text in zip(X.indices.tolist(), number_texts(X.data), strict=True)]
    label_spans, cell_spans = pairwise(Y.indptr.tolist()), pairwise(X.indptr.tolist())
    for (start, stop), (first, last) in zip(label_spans, cell_spans, strict=True):
        yield f"{','.join(names[start:stop])} {' '.join(cells[first:last])}".rstrip() + "\n"
