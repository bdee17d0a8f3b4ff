"""All that is known of files: formats, tables whose bytes are kept, and data sets.

`registry` recognises and opens files, one module per format parses and writes them. Upon these stand `datasets`
(`pmlkit.data.read` and `write`: a file as a `PMLDataset`) and `table` (`pmlkit.open_table`: a file as features and
labels that can be written again with only its label cells changed).
"""
