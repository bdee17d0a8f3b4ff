"""Adapter to scikit-learn's callback API (scikit-learn 1.9 and newer).

Methods report each finished task through a :class:`Progress`; callbacks set on the estimator
(``estimator.set_callbacks(ProgressBar())``) are told of it and may request to stop. With older versions
of scikit-learn everything here is a no-op.
"""

from typing import Any, Protocol

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn 1.8

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Placeholder for scikit-learn versions without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


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


class Counter(Protocol):
    """Counts the steps of a fit: a progress bar, for instance."""

    def expect(self, total: int | None) -> Any:
        """Take in how many steps there are, None if that is unknown."""

    def advance(self) -> Any:
        """Take in that one more is done."""


class FitProgress:
    """Report the iterations of a fit to a counter; a callback in the sense of scikit-learn 1.9."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def setup(self, estimator: Any, context: Any) -> None:
        """Start; a fit of one step has no bar, only a clock."""
        self._counter.expect(context.max_subtasks if context.max_subtasks and context.max_subtasks > 1 else None)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing is to be taken down: the counter belongs to the caller."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to do: what counts is what is finished."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Count an iteration."""
        if context.parent is not None:
            self._counter.advance()
