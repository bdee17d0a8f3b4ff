"""Names for the arrays that travel through pmlkit."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
CSR: TypeAlias = sparse.csr_array
"""A scipy CSR array (``csr_array``, not the old ``csr_matrix``)."""
Features: TypeAlias = Any
"""Dense rows (a float array) or a CSR array of them; scipy has no types to say so."""
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
