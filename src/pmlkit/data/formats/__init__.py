"""One module per file format; `pmlkit.data.reading` chooses among them."""
