"""Numerical building blocks that several methods share: pure functions on arrays, independent of estimators."""
