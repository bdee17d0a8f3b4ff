"""Rows in blocks: one way to compute on arrays in memory, on files larger than memory, and on a Dask cluster."""

from pmlkit.blocks.engine import Engine, LocalEngine, State, add, holds_blocks
from pmlkit.blocks.executors import Executor, executor
from pmlkit.blocks.row_blocks import RowBlocks, as_row_blocks

__all__ = [
    "Engine",
    "Executor",
    "LocalEngine",
    "RowBlocks",
    "State",
    "add",
    "as_row_blocks",
    "executor",
    "holds_blocks",
]
