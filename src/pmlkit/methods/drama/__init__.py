"""DRAMA (Wang et al. 2019): confidences on the feature manifold, then gradient boosting on them.

- ``estimator``: the class :class:`DRAMA`, with its boosted trees;
- ``label_manifold``: the confidences, a quadratic program;
- ``kernel_regression``: support vector regression of the confidences on the features.
"""

from pmlkit.methods.drama.estimator import DRAMA

__all__ = ["DRAMA"]
