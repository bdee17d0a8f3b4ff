r"""ClearPML: estimate how likely each candidate is true, then learn a predictor from the estimates.

The model of the data: every row has a set of true labels (perhaps none); all of them become candidates, and each other
label becomes a candidate with probability :math:`\rho`, whatever the features say. The modules in the order of a fit:

1. `feature_weighting` : two ways of weighting the features compete by leave-one-out error.
2. `landmarks`, `loo_ridge`, `dual_ridge`: kernel ridge regression of the candidates on a sample of rows, or on all of
   them, with exact leave-one-out scores; `primal_ridge` and `word_ridge` on columns of texts.
   `ridge_choice` decides which of them, and with which weighting and penalty.
3. `score_calibration` : one logistic curve per label makes the scores probabilities.
4. `posterior` : the noise rate, the weight of having a true label at all, and the probability that each candidate is
   true given its row's other candidates, corrected by a reviewer's answers.
5. `label_correlations` : the log odds of a row's labels correct each other.
6. `empty_rows` : rows without candidates are negative, or join with the predictor's own answers.

`confidence_rounds` repeats steps 2 to 4 with confidences in place of candidates.

`estimator` puts them together; docs/methods/clear-pml.md has the formulas and what each step is worth.
"""

from pmlkit.methods.clear_pml.estimator import ClearPML

__all__ = ["ClearPML"]
