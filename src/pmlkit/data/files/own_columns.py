"""How the tables that pmlkit writes call their columns; reading such a table needs no option."""

import logging
from collections.abc import Sequence
from typing import Any

from pmlkit._typing import Features
from pmlkit.data.dataset import PMLDataset
from pmlkit.data.files.common import losses

__all__ = ["FEATURE_PREFIX", "ID_COLUMN", "LABEL_PREFIX", "MEDIA_COLUMN", "TRUTH_PREFIX", "label_key", "own_columns"]

logger = logging.getLogger(__name__)

# A feature that could be mistaken for another kind of column gets a prefix of its own.
LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX = "label:", "truth:", "feature:"
ID_COLUMN, MEDIA_COLUMN = "id", "media"


def own_columns(dataset: PMLDataset) -> tuple[list[str], list[Sequence[Any]], list[Features]]:
    """Return the names of all columns, the columns of words (ids, texts) and the matrices of numbers, in this order."""
    if lost := losses(dataset, carries=("truth", "feature names", "label names", "ids", "texts")):
        logger.warning("a table leaves out: %s", ", ".join(lost))
    names: list[str] = []
    words: list[Sequence[Any]] = []
    if dataset.ids is not None:
        names.append(ID_COLUMN)
        words.append(dataset.ids)
    if isinstance(dataset.media, tuple):
        names.append(MEDIA_COLUMN)
        words.append(dataset.media)
    names += [_feature_column(name) for name in dataset.feature_names]
    names += [LABEL_PREFIX + name for name in dataset.label_names]
    matrices = [dataset.X, dataset.Y]
    if dataset.truth is not None:
        names += [TRUTH_PREFIX + name for name in dataset.label_names]
        matrices.append(dataset.truth)
    return names, words, matrices


def _feature_column(name: str) -> str:
    is_special = name in (ID_COLUMN, MEDIA_COLUMN) or name.startswith((LABEL_PREFIX, TRUTH_PREFIX, FEATURE_PREFIX))
    return FEATURE_PREFIX + name if is_special else name


def label_key(wanted: object, name: str) -> str:
    """Return what a label is called apart from the prefix, or the rest of the pattern, that marks its column.

    Examples
    --------
    >>> from pmlkit.data.files.own_columns import label_key
    >>> label_key("true_*", "true_red"), label_key(["label:red"], "label:red")
    ('red', 'red')
    """
    patterns = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, list | tuple) else []
    if len(patterns) == 1 and str(patterns[0]).count("*") == 1:
        before, _, after = str(patterns[0]).partition("*")
        return name.removeprefix(before).removesuffix(after)
    prefix = TRUTH_PREFIX if name.startswith(TRUTH_PREFIX) else LABEL_PREFIX
    return name.removeprefix(prefix)
