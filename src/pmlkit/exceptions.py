"""What pmlkit raises and warns with, beyond Python's own."""

__all__ = ["DataError", "PMLWarning"]


class DataError(ValueError):
    """A file or table that cannot be used; the message is one sentence for a person."""


class PMLWarning(UserWarning):
    """Something a user should know, though the result stands."""
