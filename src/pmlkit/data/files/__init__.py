"""Files: formats, tables that are written again byte by byte, and data sets.

`registry` recognises and opens files; one module per format parses and writes them. `datasets` reads a file as a
`PMLDataset` (`pmlkit.data.read` and `write`); `table` opens it as features and labels that can be written again with
only its label cells changed (`pmlkit.open_table`).
"""
