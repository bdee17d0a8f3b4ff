"""Linear rankings of labels by a pairwise hinge loss: Rank-SVM, PML-lc and PML-fp.

All three score labels by ``f_k(x) = <w_k, x> + b_k`` and charge every pair of a positive label k and another label l
of a row by how far it falls short of ``f_k >= f_l + 1``. They differ in what is positive:

- `rank_svm`: every candidate. One convex problem.
- `pml_lc`, `pml_fp`: every candidate, as much as its *confidence* says. Model and confidences are learned in turn
  (`alternation`); PML-lc favours confidences of labels that occur together, PML-fp of labels whose other rows are near.

Below them, pure functions on arrays: `hinge` (the loss and its proximal operator), `solver` (the convex problem, to a
certified duality gap), and the confidences of a row in `printed` (the paper's problem) and `convex` (a variant).
"""

from pmlkit.methods.ranking.pml_fp import PMLFP
from pmlkit.methods.ranking.pml_lc import PMLLC
from pmlkit.methods.ranking.rank_svm import RankSVM

__all__ = ["PMLFP", "PMLLC", "RankSVM"]
