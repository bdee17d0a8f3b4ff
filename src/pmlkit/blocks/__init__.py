"""Rows in blocks: one way to compute on arrays in memory, on files larger than memory, and on a Dask cluster."""

from pmlkit.blocks.engine import Engine, LocalEngine, State, add
from pmlkit.blocks.row_blocks import RowBlocks, as_row_blocks, holds_blocks

__all__ = ["Engine", "LocalEngine", "RowBlocks", "State", "add", "as_row_blocks", "holds_blocks"]
