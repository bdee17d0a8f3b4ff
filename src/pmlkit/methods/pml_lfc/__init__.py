"""PML-LFC (Yu et al. 2020): label confidences and a low-rank linear predictor, learned together.

- ``estimator``: the class :class:`PMLLFC`, its parameters and attributes;
- ``solver``: Algorithm 1, which alternates the two steps below;
- ``predictor_step``: the predictor for given confidences, least squares with a nuclear norm, on a ``basis``;
- ``confidence_step``: the confidences for a given predictor;
- ``similarity``: products with the similarity of rows, which the confidence step needs;
- ``block_steps``, ``block_similarity``: the same for rows in blocks.
"""

from pmlkit.methods.pml_lfc.estimator import PMLLFC

__all__ = ["PMLLFC"]
