"""Methods that take the true labels for low-rank and the noise for sparse: fPML, PML-LRS and PML-NI.

Each module holds one method.
"""

from pmlkit.methods.low_rank.fpml import FPML
from pmlkit.methods.low_rank.pml_lrs import PMLLRS
from pmlkit.methods.low_rank.pml_ni import PMLNI

__all__ = ["FPML", "PMLLRS", "PMLNI"]
