"""How large the content of a compressed file may become: sizes are checked before memory is taken for them."""

import io
from typing import Any

from pmlkit.exceptions import DataError

__all__ = ["FREE_BYTES", "LimitedReader", "allowed_bytes", "check_size"]

FREE_BYTES = 2**28
"""What any file may unpack to; a larger one up to `RATIO` times its own size."""
RATIO = 200
_LINE_BYTES = 64  # what a line of text takes in memory beside its letters


def allowed_bytes(packed: int, max_bytes: float | None = None) -> int:
    """Return how many bytes the content of a file may take: `max_bytes`, or by default what its size makes plausible.

    Examples
    --------
    >>> from pmlkit.data.files.limits import allowed_bytes
    >>> allowed_bytes(5_000), allowed_bytes(10_000_000), allowed_bytes(5_000, 1e6)
    (268435456, 2000000000, 1000000)
    """
    if max_bytes is None:
        return max(FREE_BYTES, RATIO * packed)
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int | float) or not 1 <= max_bytes < 2**63:
        raise ValueError(f"max_bytes must be a number of bytes from 1, got {max_bytes!r}.")
    return int(max_bytes)


def check_size(n_bytes: int, limit: int, what: str) -> None:
    """Raise if something is larger than the limit."""
    if n_bytes > limit:
        raise DataError(
            f"{what} takes {_size(n_bytes)} of memory, more than the {_size(limit)} that a file of this size may take "
            "unasked.",
            option="max_bytes",
            value=str(n_bytes),
            remedy=" or more if you trust the file",
        )


class LimitedReader(io.RawIOBase):
    """A decompressed stream that raises once more bytes than allowed have come out of it."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self._n_seen = self._n_lines = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position."""
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._stream.tell())

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer."""
        n_read = int(self._stream.readinto(buffer))
        if self._stream.tell() > self._n_seen:
            self._n_seen = self._stream.tell()
            self._n_lines += bytes(buffer[:n_read]).count(b"\n")
        if self._n_seen + _LINE_BYTES * self._n_lines > self._limit:
            raise DataError(
                f"the compressed file takes more than the {_size(self._limit)} of memory that a file of its size may "
                "take unasked.",
                option="max_bytes",
                value=str(10 * self._limit),
                remedy=" or the like if you trust the file",
            )
        return n_read

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:,.0f} MiB"
