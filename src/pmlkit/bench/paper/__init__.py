"""The paper of PML-LFC: its figures, its grid, and what our runs say about them.

T. Yu, G. Yu, J. Wang and M. Guo, "Partial Multi-label Learning with Label and Feature Collaboration", DASFAA 2020.
"""
