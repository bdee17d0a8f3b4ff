"""DRAMA (Wang et al. 2019): confidences on the feature manifold, then gradient boosting on them.

- ``estimator``: the class :class:`DRAMA`, its support vector regressions and its boosted trees;
- ``label_manifold``: the confidences, a quadratic program.
"""

from pmlkit.methods.drama.estimator import DRAMA

__all__ = ["DRAMA"]
