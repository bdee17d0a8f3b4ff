"""What `clean` says of blocks that it cannot judge."""

import numpy as np
import pytest

from pmlkit import clean
from pmlkit.blocks import RowBlocks
from pmlkit.cleaning import evidence
from pmlkit.data import load_digit_strips

STRIPS = load_digit_strips(60)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "MLkNN"}, "MLkNN cannot judge labels in blocks: use ClearPML"),
        ({"pred_probs": np.zeros((60, 10))}, "pred_probs are for data in memory"),
    ],
)
def test_other_judges_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        clean(RowBlocks(STRIPS.X, STRIPS.Y), **options)


def test_candidates_are_needed_and_too_many_cells_are_told(monkeypatch):
    with pytest.raises(ValueError, match="Y must be given"):
        clean(RowBlocks(STRIPS.X))
    monkeypatch.setattr(evidence, "MOST_CELLS", 100)
    with pytest.raises(ValueError, match="up to 100 cells, got 60 rows x 10 labels"):
        clean(RowBlocks(STRIPS.X, STRIPS.Y))
