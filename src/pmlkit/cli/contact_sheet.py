"""The suspicious labels as a picture: each strip with the label that should not be there."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pmlkit.cli.output import printable
from pmlkit.data import PMLDataset
from pmlkit.demo import Suspect

__all__ = ["draw_contact_sheet"]

_COLUMNS = 2
_WIDTH, _MARGIN, _GAP, _HEAD, _CAPTION = 9.0, 0.4, 0.5, 0.95, 0.62  # inches
_PAD = 1  # blank pixels around an image
_CAPTION_TEXT = "Confidence is how likely the label is right, by the method. Wrong or right is what the truth says."
_INK, _MUTED, _WRONG, _RIGHT = "#1b1f24", "#57606a", "#b42318", "#1a7f37"


def draw_contact_sheet(data: PMLDataset, suspects: Sequence[Suspect], *, title: str) -> bytes:
    """Draw one picture of all suspects and return it as PNG.

    Parameters
    ----------
    data : PMLDataset
        With images and the truth.
    suspects : sequence of Suspect
        What to show, in this order.
    title : str
        Above all.

    Returns
    -------
    png : bytes

    Examples
    --------
    >>> from pmlkit.cli.contact_sheet import draw_contact_sheet
    >>> from pmlkit.demo import run_demo
    >>> demo = run_demo(100, n_suspects=2)
    >>> draw_contact_sheet(demo.data, demo.suspects, title="Two labels")[1:4]
    b'PNG'
    """
    images = np.pad(np.asarray(data.media), ((0, 0), (_PAD, _PAD), (_PAD, _PAD)), constant_values=255)
    wide = (_WIDTH - 2 * _MARGIN - (_COLUMNS - 1) * _GAP) / _COLUMNS
    high = wide * images.shape[1] / images.shape[2]
    n_lines = -(-len(suspects) // _COLUMNS)
    height = _HEAD + n_lines * (_CAPTION + high) + _MARGIN
    figure = Figure(figsize=(_WIDTH, height), dpi=130, facecolor="white")
    FigureCanvasAgg(figure)
    left = _MARGIN / _WIDTH
    figure.text(left, 1 - 0.42 / height, printable(title), fontsize=14, weight="bold", color=_INK, va="center")
    figure.text(left, 1 - 0.72 / height, _CAPTION_TEXT, fontsize=9, color=_MUTED, va="center")
    for number, suspect in enumerate(suspects):
        line, column = divmod(number, _COLUMNS)
        x = _MARGIN + column * (wide + _GAP)
        y = height - _HEAD - line * (_CAPTION + high) - _CAPTION - high
        axis = figure.add_axes((x / _WIDTH, y / height, wide / _WIDTH, high / height))
        _draw(axis, images[suspect.row], data, suspect)
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def _draw(axis: Any, image: NDArray[np.uint8], data: PMLDataset, suspect: Suspect) -> None:
    colour, verdict = (_WRONG, "✗ wrong") if suspect.is_wrong else (_RIGHT, "✓ right")
    names = [_short(data.label_names[k], 12) for k in data.Y[[suspect.row]].indices]
    axis.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="bicubic", aspect="auto")
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_color(colour)
        side.set_linewidth(1.5)
    place = {"transform": axis.transAxes, "va": "bottom"}
    labelled = _short(" ".join(names), 40)
    axis.text(0, 1.26, f"row {suspect.row}, labelled {labelled}", fontsize=9, color=_MUTED, **place)
    axis.text(0, 1.05, f"{_short(data.label_names[suspect.label], 24)} ?", fontsize=13, weight="bold", **place)
    axis.text(1, 1.26, f"confidence {suspect.confidence:.3f}", fontsize=9, color=_MUTED, ha="right", **place)
    axis.text(1, 1.05, verdict, fontsize=11, weight="bold", color=colour, ha="right", **place)


def _short(text: str, width: int) -> str:
    text = printable(text)
    # A dollar sign would start a formula.
    return (text if len(text) <= width else text[: width - 1] + "…").replace("$", r"\$")
