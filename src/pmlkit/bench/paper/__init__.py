"""The paper of PML-LFC: its figures, its experiments, and how our results compare; and in `pml_lc` that of PML-lc.

T. Yu, G. Yu, J. Wang and M. Guo, "Partial Multi-label Learning with Label and Feature Collaboration", DASFAA 2020.
"""

from pmlkit.bench.paper.experiments import Experiments, embedded_experiments, paper_experiments
from pmlkit.bench.paper.pml_lc import reproduce_pml_lc
from pmlkit.bench.paper.reproduction import Reproduction, reproduce

__all__ = ["Experiments", "Reproduction", "embedded_experiments", "paper_experiments", "reproduce", "reproduce_pml_lc"]
