"""Answers of people about candidates: read from tables, matched with the data, settled where they contradict."""

import csv
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from scipy.stats import beta

from pmlkit._arrays import as_csr, row_hash
from pmlkit._files import replacing
from pmlkit._typing import CSR, Features, IntArray
from pmlkit._words import counted, did_you_mean, guarded, unguarded
from pmlkit.cleaning.estimates import Estimate
from pmlkit.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd


UNKNOWN, WRONG, RIGHT, UNSURE = 0, 1, 2, 3
"""What is known of a candidate."""

WORDS = ("", "wrong", "right", "unsure")
"""How the codes are called."""

Settle = Literal["latest", "majority"]
_COLUMNS = ("row", "id", "label", "answer", "who", "when", "table")


def code(answer: str) -> int:
    """Return the code of an answer.

    Examples
    --------
    >>> from pmlkit.cleaning.audit.answers import code
    >>> code("wrong")
    1
    """
    word = str(answer).strip().lower()
    if word not in WORDS[1:]:
        raise DataError(
            f"An answer must be 'wrong', 'right' or 'unsure', got {answer!r}.{did_you_mean(word, WORDS[1:])}"
        )
    return WORDS.index(word)


def fingerprint(X: Features | None, Y: CSR, label_names: Sequence[str]) -> str:
    """Return a short text that tells whether answers are about the same rows and candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from pmlkit.cleaning.audit.answers import fingerprint
    >>> len(fingerprint(np.eye(2), sparse.csr_array(np.eye(2)), ["a", "b"]))
    16
    """
    parts = hashlib.sha256(repr((Y.shape, None if X is None else X.shape)).encode())
    parts.update(np.asarray(Y.indptr, dtype="<i8").tobytes())
    parts.update(np.asarray(Y.indices, dtype="<i8").tobytes())
    parts.update("\0".join(label_names).encode())
    # Features at single precision: the same table read twice may differ in the last digits.
    if X is not None:
        parts.update(row_hash(X, precision=np.float32).astype("<u8").tobytes())
    return parts.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers about candidates, in the order in which they were given.

    Attributes
    ----------
    frame : DataFrame
        ``row`` (position from 0) or ``id`` or both, ``label``, ``answer`` ("wrong", "right" or "unsure") and, where
        known, ``who``, ``when`` and ``table`` (the `fingerprint` of the data).

    Examples
    --------
    >>> import pandas as pd
    >>> from pmlkit.cleaning.audit import Answers
    >>> table = pd.DataFrame({"row": [0, 3], "label": ["cat", "dog"], "answer": ["wrong", "right"]})
    >>> len(Answers.from_frame(table))
    2
    """

    frame: "pd.DataFrame"

    def __len__(self) -> int:
        return len(self.frame)

    @classmethod
    def from_frame(cls, table: Any, *, source: str = "The answers") -> "Answers":
        """Check the columns and values of a table of answers.

        Parameters
        ----------
        table : DataFrame
        source : str
            How errors call it.
        """
        frame = table.rename(columns=lambda name: str(name).strip().lower())
        absent = [name for name in ("label", "answer") if name not in frame]
        absent = absent if "row" in frame or "id" in frame else ["id", *absent]
        if absent:
            needed = ", ".join("'row' or 'id'" if name == "id" else repr(name) for name in absent)
            raise DataError(
                f"{source}: there must be columns {needed}, but they are {_listed(table.columns)}."
                + "".join(_hint(frame, name) for name in absent),
                column=absent[0],
            )
        frame = frame[[name for name in _COLUMNS if name in frame]].reset_index(drop=True)
        # A line without an answer is a question without an answer yet.
        given = frame["answer"].notna() & (frame["answer"].astype(str).str.strip() != "")
        frame = frame[given].reset_index(drop=True)
        words = frame["answer"].astype(str).str.strip().str.lower()
        for i in np.flatnonzero(~words.isin(WORDS[1:]).to_numpy())[:1]:
            raise DataError(
                f"{source}: answer {i + 1} is {frame['answer'][i]!r}; it must be 'wrong', 'right' or 'unsure'."
                + did_you_mean(words[i], WORDS[1:]),
                column="answer",
            )
        return cls(frame.assign(answer=words, label=frame["label"].astype(str)))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Answers":
        """Read answers from a CSV file with a header line.

        Parameters
        ----------
        path : path
        """
        import pandas as pd

        name = Path(path).name
        try:
            with open(path, encoding="utf-8-sig", newline="") as stream:
                dialect = csv.Sniffer().sniff(stream.readline() or ",", delimiters=",;\t")
            frame = pd.read_csv(path, sep=dialect.delimiter, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        except FileNotFoundError:
            raise DataError(f"There is no file {str(path)!r}.") from None
        except (OSError, ValueError, csv.Error) as error:
            raise DataError(f"{name} cannot be read as a CSV file of answers: {error}.") from error
        # What `write` and the review page put before a text that begins like a formula.
        return cls.from_frame(frame.map(unguarded), source=name)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file that `read` reads; whole or not at all."""
        with replacing(path) as stream:
            stream.write(self.frame.map(guarded).to_csv(index=False, lineterminator="\n").encode("utf-8", "replace"))

    def cells(
        self,
        Y: CSR,
        label_names: Sequence[str],
        row_names: Sequence[Any] | None = None,
        *,
        table: str | None = None,
    ) -> tuple[IntArray, IntArray]:
        """Return which candidates the answers are about, by position in ``Y.data``, and their codes.

        Parameters
        ----------
        Y : CSR array of shape (n_samples, n_labels)
        label_names : sequence of str
        row_names : sequence, optional
            The identifiers that ``id`` refers to.
        table : str, optional
            The fingerprint of the data, compared with the column ``table`` where there is one.
        """
        if table is not None and "table" in self.frame:
            others = set(self.frame["table"].dropna().astype(str)) - {table, ""}
            if others:
                raise DataError(
                    f"The answers are about another table (fingerprint {sorted(others)[0]}, this one is {table}): use "
                    "the table that they were given for, or drop their column 'table' if rows and labels are the same.",
                    column="table",
                )
        rows = self._rows(Y.shape[0], row_names)
        known = {str(name): k for k, name in enumerate(label_names)}
        for name in self.frame["label"]:
            if name not in known:
                raise DataError(
                    f"An answer is about the label {name!r}, which is not there.{did_you_mean(name, known)}",
                    column="label",
                )
        labels = np.array([known[name] for name in self.frame["label"]], dtype=np.int64)
        cells = find_cells(Y, rows, labels)
        missing = np.flatnonzero(cells < 0)
        if len(missing):
            i = int(missing[0])
            name = rows[i] if row_names is None else row_names[int(rows[i])]
            raise DataError(
                f"{counted(len(missing), 'answer is about a label', 'answers are about labels')} that the row does not "
                f"have, such as {self.frame['label'][i]!r} in row {name}: remove such answers, or use the table that "
                "they were given for.",
                column="label",
                row=int(rows[i]),
            )
        return cells, np.array([WORDS.index(word) for word in self.frame["answer"]], dtype=np.int8)

    def matrix(self, Y: Any, label_names: Sequence[str], row_names: Sequence[Any] | None = None) -> CSR:
        """Return the answers as ``ClearPML.fit(X, y, verified=...)`` takes them: +1 right, -1 wrong, else nothing.

        Parameters
        ----------
        Y : array or sparse matrix of shape (n_samples, n_labels)
            The candidates.
        label_names, row_names
            See `cells`. The latest answer about a candidate counts.

        Examples
        --------
        >>> import pandas as pd
        >>> from pmlkit.cleaning.audit import Answers
        >>> table = pd.DataFrame({"row": [0, 1], "label": ["cat", "dog"], "answer": ["wrong", "right"]})
        >>> Answers.from_frame(table).matrix([[1, 1], [0, 1]], ["cat", "dog"]).toarray().tolist()
        [[-1, 0], [0, 1]]
        """
        Y = as_csr(Y)
        cells, codes = self.cells(Y, label_names, row_names)
        value = np.zeros(Y.nnz, dtype=np.int8)
        value[cells] = np.array([0, -1, 1, 0], dtype=np.int8)[codes]
        known = sparse.csr_array((value, Y.indices.copy(), Y.indptr.copy()), shape=Y.shape)
        known.eliminate_zeros()
        return known

    def column(self, name: str) -> list[str | None]:
        """Return an optional column as text, None where nothing is known."""
        if name not in self.frame:
            return [None] * len(self)
        values = self.frame[name]
        return [
            None if absent or value == "" else str(value) for value, absent in zip(values, values.isna(), strict=True)
        ]

    def _rows(self, n_samples: int, row_names: Sequence[Any] | None) -> IntArray:
        frame = self.frame
        by_id = "id" in frame and row_names is not None and (frame["id"].astype(str) != "").all()
        if "row" in frame:
            try:
                rows = np.array([int(str(value)) for value in frame["row"]], dtype=np.int64)
            except ValueError:
                wrong = next(value for value in frame["row"] if not str(value).lstrip("-").isdigit())
                raise DataError(
                    f"The column 'row' of the answers holds {wrong!r}: rows are numbers from 0; identifiers belong "
                    "into a column 'id'.",
                    column="row",
                ) from None
            outside = rows[(rows < 0) | (rows >= n_samples)]
            if len(outside):
                raise DataError(
                    f"An answer is about row {outside[0]}, but the rows are 0 to {n_samples - 1}.",
                    column="row",
                    row=int(outside[0]),
                )
            if by_id and row_names is not None:
                for row, name in zip(rows.tolist(), frame["id"].astype(str), strict=True):
                    if str(row_names[row]) != name:
                        raise DataError(
                            f"An answer calls row {row} {name!r}, but it is {str(row_names[row])!r} here: the answers "
                            "are of another table, or of another version of it.",
                            column="id",
                            row=row,
                        )
            return rows
        if row_names is None:
            raise DataError(
                "The answers name rows by 'id', but the rows have no identifiers: use 'row', from 0.", column="id"
            )
        place: dict[str, int] = {}
        repeated = set()
        for i, name in enumerate(row_names):
            repeated.update([str(name)] if str(name) in place else [])
            place[str(name)] = i
        for name in frame["id"].astype(str):
            if name not in place:
                raise DataError(
                    f"An answer is about the row {name!r}, which is not there.{did_you_mean(name, place)}", column="id"
                )
            if name in repeated:
                raise DataError(
                    f"An answer is about {name!r}, but several rows are called so: name them by 'row'.", column="id"
                )
        return np.array([place[name] for name in frame["id"].astype(str)], dtype=np.int64)


def error_rate(n_different: int, n_pairs: int) -> Estimate:
    """Return the share of mistaken answers from how many pairs of answers differ, with a 90 % interval.

    Two answers with independent mistakes of rate e differ with probability 2 e (1 - e).

    Examples
    --------
    >>> from pmlkit.cleaning.audit.answers import error_rate
    >>> round(error_rate(18, 100), 3)
    0.1
    """

    def mistaken(share: float) -> float:
        return float((1.0 - np.sqrt(max(1.0 - 2.0 * share, 0.0))) / 2.0)

    if not n_pairs:
        return Estimate(float("nan"), 0.0, 0.5)
    low = float(beta.ppf(0.05, n_different, n_pairs - n_different + 1)) if n_different else 0.0
    high = float(beta.ppf(0.95, n_different + 1, n_pairs - n_different)) if n_different < n_pairs else 1.0
    return Estimate(mistaken(n_different / n_pairs), mistaken(low), mistaken(high))


def as_answers(given: Any) -> Answers:
    """Return `Answers` from answers, a DataFrame, the path of a CSV file or an audit."""
    if isinstance(given, Answers):
        return given
    if isinstance(given, str | os.PathLike):
        return Answers.read(given)
    if hasattr(given, "answers"):
        return as_answers(given.answers)
    if hasattr(given, "columns"):
        return Answers.from_frame(given)
    raise ValueError(
        f"Answers must be a DataFrame, the path of a CSV file, Answers or an audit, got {type(given).__name__}."
    )


def find_cells(Y: CSR, rows: IntArray, labels: IntArray) -> IntArray:
    """Return the positions of cells in ``Y.data``, -1 for those that are not stored."""
    cells = np.full(len(rows), -1, dtype=np.int64)
    for i, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True)):
        if not 0 <= row < Y.shape[0]:
            continue
        start, stop = int(Y.indptr[row]), int(Y.indptr[row + 1])
        place = start + int(np.searchsorted(Y.indices[start:stop], label))
        if place < stop and Y.indices[place] == label:
            cells[i] = place
    return cells


def settled(codes: Sequence[int], how: Settle) -> int:
    """Combine several answers about one candidate into one.

    `codes`: the latest last. A tie of the majority leaves it unsure.

    Examples
    --------
    >>> from pmlkit.cleaning.audit.answers import RIGHT, WRONG, settled
    >>> settled([WRONG, RIGHT], "latest") == RIGHT, settled([WRONG, RIGHT, WRONG], "majority") == WRONG
    (True, True)
    """
    if not codes:
        return UNKNOWN
    if how == "latest":
        return codes[-1]
    n_wrong, n_right = codes.count(WRONG), codes.count(RIGHT)
    return UNSURE if n_wrong == n_right else WRONG if n_wrong > n_right else RIGHT


def _listed(names: Any) -> str:
    return ", ".join(repr(str(name)) for name in list(names)[:8]) or "none"


def _hint(frame: Any, wanted: str) -> str:
    usual = {
        "id": r".*[ _-]id|rowid|index|key|name|identifier|rows",
        "label": r"tag|labels|class|category|tags",
        "answer": r"verdict|decision|correct|result|status|answers|response",
    }[wanted]
    for name in frame.columns:
        if re.fullmatch(usual, name):
            return f" Is {name!r} the {wanted}? Rename it to {wanted!r}."
    return f" Rename the one that holds the {wanted} to {wanted!r}."
