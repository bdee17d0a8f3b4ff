"""What pmlkit raises and warns with, beyond Python's own."""

__all__ = ["DataError", "MethodError", "PMLWarning"]


class DataError(ValueError):
    """A file or table that cannot be used; the message is one sentence for a person."""


class MethodError(ValueError):
    """A method, or a parameter of one, that does not exist or has a wrong value.

    Parameters
    ----------
    message : str
        One sentence with the remedy.
    word : str
        The name of the method or parameter that is wrong.
    """

    def __init__(self, message: str, word: str = "") -> None:
        super().__init__(message)
        self.word = word


class PMLWarning(UserWarning):
    """Something a user should know, though the result stands."""
