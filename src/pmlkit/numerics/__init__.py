"""Pure functions on arrays: they know nothing of estimators."""
