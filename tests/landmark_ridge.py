"""ClearPML's regression on landmarks, fitted to arrays."""

import numpy as np
from scipy import sparse

from pmlkit.blocks import LocalEngine
from pmlkit.methods.clear_pml.block_ridge import block_ridge, sample_scores
from pmlkit.methods.clear_pml.cells import cells_of_block
from pmlkit.methods.clear_pml.feature_weighting import fit_weighting


class LandmarkRidge:
    """The regression of dense targets on rows of unit length, in some blocks; `regularization=None` searches for it."""

    def __init__(self, kernel, X, target, regularization, *, dtype=np.float64, n_blocks=1, rows=None, start=3.0):
        rows = np.arange(len(X)) if rows is None else rows
        blocks = np.array_split(np.arange(len(X)), n_blocks)
        self.engine = LocalEngine(n_blocks)
        # The search is for the penalty of the candidates; otherwise every cell may have a target.
        pattern = target if regularization is None else np.ones(target.shape)
        self.cells = self.engine.of([cells_of_block(sparse.csr_array(pattern[b])) for b in blocks])
        self.values = self.engine.of([target[b][pattern[b] > 0] for b in blocks])
        self.first = self.engine.of([int(b[0]) for b in blocks])
        self.ridge, self.regularization = block_ridge(
            self.engine, self.engine.of([X[b] for b in blocks]), self.cells, fit_weighting(X, "unit"), kernel,
            n_rows=len(X), n_labels=target.shape[1], dtype=dtype, penalty=regularization,
            trial=(kernel(X[rows]), target[rows]), start=start,
        )  # fmt: skip
        self.model = self.ridge.fit(self.values)

    def loo_scores(self):
        """Return the score of each row by the model of all other rows."""
        weights = self.ridge.weights(self.model)
        states = self.ridge.source, self.ridge.leverage, self.cells, self.values, self.first
        return np.vstack(list(self.engine.map(sample_scores, *states, rows=self.ridge.rows, weights=weights, step=1)))

    def scores(self, kernel, X):
        """Return the scores of new rows."""
        intercept, dual = self.ridge.on_kernel(self.model)
        return kernel.times(X, dual) + intercept


def unit_rows(rng, n_rows, n_columns):
    """Return random rows of unit length."""
    X = rng.normal(size=(n_rows, n_columns))
    return X / np.linalg.norm(X, axis=1, keepdims=True)
