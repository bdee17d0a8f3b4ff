"""Checks that every estimator for candidate labels must pass."""

from pmlkit.testing.checks import check_pml_estimator, pml_checks

__all__ = ["check_pml_estimator", "pml_checks"]
