"""The review page: a person settles doubtful labels in a browser, and gets a promise for it."""

from pmlkit.review.store import AnswerStore

__all__ = ["AnswerStore"]
