"""What of a fitted estimator is written to its model file."""

from collections.abc import Collection
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy import sparse

writing_model_file: ContextVar[bool] = ContextVar("writing_model_file", default=False)
"""True while `pmlkit.persistence` writes a model: state that only training needs is then left out."""

ONLY_FOR_TRAINING = ("out_of_fold_scores_", "_index", "_skl_callbacks")

_SINGLE_PRECISION = {"coef_", "coef_factors_", "dual_coef_"}
_LARGE_MATRIX = 250_000
"""Cells beyond which coefficients are written to model files in single precision."""


def model_file_state(state: dict[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    """Return the state of an estimator, for a model file without the attributes that only training needs."""
    return {name: value for name, value in state.items() if name not in left_out} if writing_model_file.get() else state


def estimator_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a method, for a model file as small as it can be."""
    in_memory = sparse.issparse(state.get("label_confidence_"))
    state = model_file_state(state, ONLY_FOR_TRAINING if in_memory else (*ONLY_FOR_TRAINING, "label_confidence_"))
    if writing_model_file.get():
        for name in _SINGLE_PRECISION & state.keys():
            state[name] = _shortened(state[name])
    return state


def _shortened(value: Any) -> Any:
    """Return large matrices of numbers in single precision."""
    if isinstance(value, tuple):
        return tuple(_shortened(part) for part in value)
    large = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size > _LARGE_MATRIX
    return value.astype(np.float32) if large else value
