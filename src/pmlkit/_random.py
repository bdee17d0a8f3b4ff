"""Random number generators from `random_state`."""

import numpy as np

from pmlkit._typing import RandomState


def generator(random_state: RandomState) -> np.random.Generator:
    """Return a numpy Generator for any of scikit-learn's kinds of `random_state`.

    `random_state`: an int gives the same numbers every time; a Generator is used as it is; a RandomState is asked once
    for a seed; None gives fresh numbers.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(random_state)
