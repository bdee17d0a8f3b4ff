"""The suspicious labels of the demo as a page: each image with the label that is probably wrong."""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pmlkit.bench.reporting import render
from pmlkit.cleaning.report import png
from pmlkit.data import PMLDataset
from pmlkit.demo import Suspect

__all__ = ["contact_sheet"]

_MARGIN = 1  # blank pixels around an image


def contact_sheet(data: PMLDataset, suspects: Sequence[Suspect], *, title: str) -> str:
    """Return a self-contained HTML page with the image of every suspect.

    `data`: with images as media, and the truth. `suspects`: labels to show, in this order.

    Examples
    --------
    >>> from pmlkit.cli.contact_sheet import contact_sheet
    >>> from pmlkit.demo import run_demo
    >>> demo = run_demo(100, n_suspects=2)
    >>> contact_sheet(demo.data, demo.suspects, title="Two labels").count("<img")
    2
    """
    margins = ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN))
    images = np.pad(np.asarray(data.media), margins, constant_values=255)
    cards = [
        {
            "row": suspect.row,
            "label": data.label_names[suspect.label],
            "labels": [data.label_names[k] for k in data.Y[[suspect.row]].indices],
            "confidence": suspect.confidence,
            "is_wrong": suspect.is_wrong,
            "image": _data_uri(images[suspect.row]),
        }
        for suspect in suspects
    ]
    return render("contact_sheet.html", title=title, cards=cards)


def _data_uri(image: NDArray[np.uint8]) -> str:
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")
