"""DRAMA (Wang et al. 2019): confidences on the feature manifold, then gradient boosting on them."""

from pmlkit.methods.drama.estimator import DRAMA

__all__ = ["DRAMA"]
