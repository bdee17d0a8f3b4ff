"""Methods that behave, and methods that do not, for the tests of the bench."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

SLEEP = f"import time; time.sleep(3600)  # for process {os.getpid()}"


class Fast(BaseEstimator):
    """Scores by random projections; sleeps for a while, so that a test can come in between."""

    def __init__(self, nap=0.0, scale=1.0, random_state=None):
        self.nap = nap
        self.scale = scale
        self.random_state = random_state

    def fit(self, X, Y):
        time.sleep(self.nap)
        rng = np.random.default_rng(self.random_state)
        self.coef_ = self.scale * rng.normal(size=(X.shape[1], Y.shape[1])) + (X.T @ Y) / len(X)
        self.label_confidence_ = Y * rng.random(Y.shape)
        return self

    def decision_function(self, X):
        return X @ self.coef_

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


class TakesSparse(Fast):
    """Declares that Y and X may be sparse, and checks it."""

    accepts_sparse_y = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X, Y):
        if not sparse.issparse(X) or not sparse.issparse(Y):
            raise TypeError(f"expected sparse, got {type(X).__name__} and {type(Y).__name__}")
        return super().fit(X.toarray(), Y.toarray())


class FailsInLibrary(Fast):
    """Calls a library with something that it refuses."""

    def fit(self, X, Y):
        np.linalg.cholesky(-np.eye(3))  # this line


class NoConfidence(Fast):
    """Has no confidences of the candidates."""

    def fit(self, X, Y):
        super().fit(X, Y)
        del self.label_confidence_
        return self


class GlobalSeed(Fast):
    """Takes its random numbers from where it should not."""

    def fit(self, X, Y):
        super().fit(X, Y)
        self.coef_ = np.random.normal(size=self.coef_.shape)  # noqa: NPY002
        return self


class Mutates(Fast):
    """Spoils the rows that it was given."""

    def fit(self, X, Y):
        super().fit(X, Y)
        X[:] = 0
        Y[:] = 0
        return self


class Raises(Fast):
    """Fails with a message over two lines."""

    def fit(self, X, Y):
        raise ArithmeticError("no\nluck")


class Hangs(Fast):
    """Never comes back, and neither does what it started."""

    def fit(self, X, Y):
        subprocess.run([sys.executable, "-c", SLEEP], check=True)


class EatsMemory(Fast):
    """Takes ever more memory."""

    def fit(self, X, Y):
        self.eaten_ = []
        while True:
            self.eaten_.append(np.ones(2**22))


class Takes(Fast):
    """Takes some memory, and gives it back."""

    def __init__(self, megabytes=0, nap=0.0, scale=1.0, random_state=None):
        super().__init__(nap, scale, random_state)
        self.megabytes = megabytes

    def fit(self, X, Y):
        np.ones(self.megabytes * 2**20, dtype=np.uint8)
        return super().fit(X, Y)


class Dies(Fast):
    """Ends its process in a way that no handler sees."""

    def fit(self, X, Y):
        os.kill(os.getpid(), signal.SIGKILL)


class KillsParent(Fast):
    """Ends the process that started it."""

    def fit(self, X, Y):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
