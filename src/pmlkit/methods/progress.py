"""Adapter to scikit-learn's callback API (scikit-learn 1.9 and newer).

Methods report each finished task through a :class:`Progress`; callbacks set on the estimator
(``estimator.set_callbacks(ProgressBar())``) are told of it and may request to stop. With older versions
of scikit-learn everything here is a no-op.
"""

from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn 1.8

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Placeholder for scikit-learn versions without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


__all__ = ["CallbackSupportMixin", "Progress", "with_callbacks"]


class Progress:
    """Tell an estimator's callbacks that its fit begins, advances and ends.

    `n_tasks`: largest number of calls of :meth:`step`. `X`, `y`: the training data, passed on to callbacks that ask for
    it.
    """

    def __init__(self, estimator: Any, n_tasks: int, X: Any, y: Any) -> None:
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=n_tasks)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def step(self, name: str = "iteration") -> bool:
        """Report one finished task; return True when a callback asks to stop."""
        if self._context is None:
            return False
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return bool(task.call_on_fit_task_end(estimator=self._estimator, **self._data))

    def close(self) -> None:
        """Report that the fit is done."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator, **self._data)
