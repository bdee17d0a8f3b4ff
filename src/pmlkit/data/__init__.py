"""Data sets: reading and writing files, artificial noise, splits, and data that needs no file."""

from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.datasets import data_home, read, write
from pmlkit.data.files.table import Table, open_table
from pmlkit.data.files.table_files import TableFiles
from pmlkit.data.noise import add_noise, noise_report
from pmlkit.data.splits import StratifiedLabelKFold, train_test_rows
from pmlkit.data.synthetic import load_digit_strips, make_pml

__all__ = [
    "PMLDataset",
    "StratifiedLabelKFold",
    "Table",
    "TableFiles",
    "add_noise",
    "data_home",
    "load_digit_strips",
    "make_pml",
    "noise_report",
    "open_table",
    "read",
    "train_test_rows",
    "write",
]
