"""Tables of people: texts, categories and tags in, the same table with better tags out.

A table keeps its file as it is (`base`, one module per format), label cells are read and rewritten by `label_cells`,
and `vectorize` makes numbers of the other columns.
"""
