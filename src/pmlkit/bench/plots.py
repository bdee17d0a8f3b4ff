"""Charts of the report as SVG, which take their colours from the page (light, dark or printed).

A method has the same colour, marker and dash in every chart. The eight colours are those of Okabe and Ito, which
colour-blind people can distinguish; markers and dashes distinguish the methods without colour.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from pmlkit._typing import FloatArray

_N_COLOURS = 8
_DASHES = ("", "6 3", "2 2.5", "8 3 2 3", "4 2", "1.5 3", "10 3", "6 2 2 2 2 2")
_SHAPES = (
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0Z",  # circle
    "M-.9 -.9h1.8v1.8h-1.8Z",  # square
    "M0 -1.2L1.15 .9H-1.15Z",  # triangle
    "M0 -1.3L1.3 0L0 1.3L-1.3 0Z",  # diamond
    "M0 1.2L1.15 -.9H-1.15Z",  # triangle, point down
    "M-.4 -1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7Z",  # plus
    "M-1 -1L1 1V-1L-1 1Z",  # bow tie
    "M-1.1 -.5h2.2v1h-2.2Z",  # flat bar
)
_FONT = 11
_CHAR = 6.1  # mean width of a character at that size
_ROW = 17  # distance of two lines of text


@dataclass(frozen=True)
class Series:
    """One line of a chart: name, points, and error bars (nan: none)."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None


def critical_difference_diagram(
    names: Sequence[str], ranks: FloatArray, groups: Sequence[Sequence[int]], distance: float, *, title: str
) -> Markup:
    """Draw a critical-difference diagram: mean ranks, best on the left, and a bar over methods without a significant
    difference.

    `ranks` (n_methods,): mean ranks; methods with nan are left out. `groups`: see
    :func:`~pmlkit.bench.statistics.rank_groups`. `distance`: critical distance, drawn as a ruler.
    """
    order = [int(i) for i in np.argsort(ranks, kind="stable") if not math.isnan(ranks[i])]
    if not order:
        return Markup("")
    highest = max(len(order), 2)
    shown = {i: _short(names[i], 22) for i in order}
    margin = max(60.0, max(len(text) for text in shown.values()) * _CHAR + 10)
    width = 2 * margin + 200
    axis_y = 52 if math.isfinite(distance) else 28
    left_half = order[: (len(order) + 1) // 2]
    right_half = order[len(left_half) :][::-1]

    def at(rank: float) -> float:
        return margin + 8 + (rank - 1) / (highest - 1) * (width - 2 * margin - 16)

    bars_y = axis_y + 12
    first_row = bars_y + 7 * len(groups) + 10
    parts = []
    if math.isfinite(distance):
        parts.append(_ruler(at, distance, highest))
    parts.append(_line(at(1), axis_y, at(highest), axis_y, "axis"))
    for rank in _rank_ticks(highest):
        parts.append(_line(at(rank), axis_y - 4, at(rank), axis_y, "axis"))
        parts.append(_text(at(rank), axis_y - 8, f"{rank:g}", "middle"))
    for number, group in enumerate(groups):
        y = bars_y + 7 * number
        ends = [at(float(ranks[i])) for i in (group[0], group[-1])]
        parts.append(_line(min(ends) - 3, y, max(ends) + 3, y, "bar"))
    for half, is_left in ((left_half, True), (right_half, False)):
        for row, i in enumerate(half):
            x, y = at(float(ranks[i])), first_row + _ROW * row
            end = margin if is_left else width - margin
            parts.append(Markup('<path class="leader" d="M{:.1f} {:.1f}V{:.1f}H{:.1f}"/>').format(x, axis_y, y, end))
            parts.append(_text(end - 4 if is_left else end + 4, y + 4, shown[i], "end" if is_left else "start"))
    return _svg(width, first_row + _ROW * len(left_half), title, parts)


def line_chart(
    series: Sequence[Series], styles: Mapping[str, int], *, title: str, x_label: str, y_label: str, log_x: bool = False
) -> Markup:
    """Draw lines with markers and error bars, with a tick at every x.

    `styles`: index of the colour, marker and dash of each name. `log_x`: whether the x axis is logarithmic.
    """
    width, height = 300.0, 210.0
    frame = _Frame(40, 24, width - 12, height - 40)
    xs = sorted({float(x) for one in series for x in one.x})
    lows = [y - e for one in series for y, e in zip(one.y, _errors(one), strict=True) if math.isfinite(y)]
    highs = [y + e for one in series for y, e in zip(one.y, _errors(one), strict=True) if math.isfinite(y)]
    if not xs or not lows:
        return Markup("")
    place = _Scale(xs, frame.left + 10, frame.right - 10, log=log_x)
    ticks = _nice_ticks(min(lows), max(highs))
    rise = _Scale([ticks[0], ticks[-1]], frame.bottom, frame.top)
    parts = [_text(frame.left - 32, 13, y_label, "start", "label"), *_y_axis(frame, ticks, rise)]
    parts += _x_axis(frame, xs, place, x_label, height - 6 - frame.bottom)
    for one in series:
        parts += _curve(one, styles[one.name], place, rise)
    return _svg(width, height, title, parts)


def scatter_chart(
    points: Sequence[tuple[str, float, float]], styles: Mapping[str, int], *, title: str, x_label: str, y_label: str
) -> Markup:
    """Draw named points over a logarithmic x axis."""
    known = [point for point in points if point[1] > 0 and math.isfinite(point[1]) and math.isfinite(point[2])]
    if not known:
        return Markup("")
    width, height = 560.0, 300.0
    frame = _Frame(44, 26, width - 130, height - 42)
    decades = _decades([x for _, x, _ in known])
    place = _Scale(decades, frame.left + 8, frame.right - 8, log=True)
    ticks = _nice_ticks(min(y for *_, y in known), max(y for *_, y in known))
    rise = _Scale([ticks[0], ticks[-1]], frame.bottom, frame.top)
    parts = [_text(frame.left - 36, 13, y_label, "start", "label"), *_y_axis(frame, ticks, rise)]
    parts += _x_axis(frame, decades, place, x_label, height - 6 - frame.bottom)
    taken = [(place(x) - 6, place(x) + 6, rise(y)) for _, x, y in known]
    for name, x, y in sorted(known, key=lambda point: -point[2]):
        px, py = place(x), rise(y)
        text = _short(name, 22)
        label_y = py
        # Move a label down that would cover another one, or a marker.
        while any(
            abs(label_y - other_y) < _FONT + 1 and px + 8 < end and start < px + 8 + len(text) * _CHAR
            for start, end, other_y in taken
        ):
            label_y += 3
        taken.append((px + 8, px + 8 + len(text) * _CHAR, label_y))
        if label_y != py:
            parts.append(_line(px, py, px + 7, label_y, "grid"))
        parts.append(_marker(styles[name], px, py, 4.5))
        parts.append(_text(px + 9, label_y + 4, text, "start"))
    return _svg(width, height, title, parts)


def dot_chart(rows: Sequence[tuple[str, float, float]], styles: Mapping[str, int], *, title: str) -> Markup:
    """Draw values with error bars, one row per name; the axis need not start at zero.

    `rows`: an error may be nan: none is drawn.
    """
    if not rows:
        return Markup("")
    errors = [error if math.isfinite(error) else 0.0 for *_, error in rows]
    ticks = _nice_ticks(
        min(value - e for (_, value, _), e in zip(rows, errors, strict=True)),
        max(value + e for (_, value, _), e in zip(rows, errors, strict=True)),
    )
    left = max(len(_short(name, 18)) for name, *_ in rows) * _CHAR + 12
    width, bottom = left + 200, _ROW * len(rows) + 8
    place = _Scale([ticks[0], ticks[-1]], left + 6, width - 18)
    parts = []
    for tick in ticks:
        parts.append(_line(place(tick), 2, place(tick), bottom, "grid"))
        parts.append(_text(place(tick), bottom + 13, f"{tick:.{_digits(ticks)}f}", "middle"))
    for number, ((name, value, _), error) in enumerate(zip(rows, errors, strict=True)):
        y, colour = _ROW * (number + 0.75), styles[name] % _N_COLOURS
        parts.append(_text(left - 4, y + 4, _short(name, 18), "end"))
        parts.append(_line(place(value - error), y, place(value + error), y, f"error s{colour}"))
        parts.append(_marker(styles[name], place(value), y, 4))
    return _svg(width, bottom + 20, title, parts)


def swatch(style: int) -> Markup:
    """Draw the line and marker of a method for a legend."""
    line = _stroke("M1 7H29", style)
    mark = _marker(style, 15, 7, 3.6)
    return Markup('<svg class="swatch" viewBox="0 0 30 14" aria-hidden="true">{}{}</svg>').format(line, mark)


@dataclass(frozen=True)
class _Frame:
    left: float
    top: float
    right: float
    bottom: float


class _Scale:
    """Map numbers from the range of `values` to pixels."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool = False) -> None:
        self._log = log
        low, high = self._of(min(values)), self._of(max(values))
        self._low, self._start = low, start
        self._slope = (end - start) / (high - low) if high > low else 0.0
        if high == low:
            self._start = (start + end) / 2

    def _of(self, value: float) -> float:
        return math.log10(value) if self._log else float(value)

    def __call__(self, value: float) -> float:
        return self._start + (self._of(value) - self._low) * self._slope


def _svg(width: float, height: float, title: str, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="chart" role="img" viewBox="0 0 {:.0f} {:.0f}" style="max-width:{:.0f}px" font-size="{}">'
        "<title>{}</title>{}</svg>"
    ).format(width, height, width * 1.35, _FONT, title, Markup("").join(parts))


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}" xml:space="preserve">{}</text>').format(
        kind, x, y, anchor, escape(text)
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<path class="{}" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(kind, x1, y1, x2, y2)


def _stroke(path: str, style: int) -> Markup:
    # After eight methods the colours repeat, with the next dash.
    dash = _DASHES[(style + style // _N_COLOURS) % len(_DASHES)]
    return Markup('<path class="curve s{}" stroke-dasharray="{}" d="{}"/>').format(style % _N_COLOURS, dash, path)


def _marker(style: int, x: float, y: float, size: float) -> Markup:
    shape = _SHAPES[(style + style // _N_COLOURS) % len(_SHAPES)]
    place = f"translate({x:.1f} {y:.1f}) scale({size})"
    return Markup('<path class="mark s{}" transform="{}" d="{}"/>').format(style % _N_COLOURS, place, shape)


def _curve(one: Series, style: int, place: _Scale, rise: _Scale) -> list[Markup]:
    points = [
        (place(x), rise(y), rise(y - e), rise(y + e))
        for x, y, e in zip(one.x, one.y, _errors(one), strict=True)
        if math.isfinite(y)
    ]
    if not points:
        return []
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, *_ in points)
    bars = "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, _, low, high in points if abs(low - high) > 1)
    error = [Markup('<path class="error s{}" d="{}"/>').format(style % _N_COLOURS, bars)] if bars else []
    group = Markup("<g><title>{}</title>").format(one.name)
    return [group, *error, _stroke(path, style), *(_marker(style, x, y, 3) for x, y, *_ in points), Markup("</g>")]


def _errors(one: Series) -> list[float]:
    given = one.error if one.error is not None else [0.0] * len(one.y)
    return [e if math.isfinite(e) else 0.0 for e in given]


def _ruler(at: Callable[[float], float], distance: float, highest: int) -> Markup:
    start, end = at(1), at(1 + min(distance, highest - 1))
    is_cut = distance > highest - 1
    path = f"M{start:.1f} 13v6M{start:.1f} 16H{end:.1f}" + ("" if is_cut else f"M{end:.1f} 13v6")
    words = f"critical distance {distance:.2f}"
    return Markup('<path class="axis" d="{}"/>').format(path) + _text(start, 9, words, "start", "label")


def _rank_ticks(highest: int) -> list[int]:
    step = max(1, math.ceil((highest - 1) / 8))
    return [*range(1, highest, step), highest] if (highest - 1) % step == 0 else list(range(1, highest + 1, step))


def _x_axis(frame: _Frame, ticks: Sequence[float], place: _Scale, label: str, below: float) -> list[Markup]:
    """Draw the axis below a frame; the number of a tick is left out where it would touch the one before."""
    parts, last_end = [], -math.inf
    for x in ticks:
        text = f"{x:g}"
        parts.append(_line(place(x), frame.bottom, place(x), frame.bottom + 4, "axis"))
        half = len(text) * _CHAR / 2
        if place(x) - half > last_end + 3:
            parts.append(_text(place(x), frame.bottom + 16, text, "middle"))
            last_end = place(x) + half
    parts.append(_line(frame.left, frame.bottom, frame.right, frame.bottom, "axis"))
    middle = (frame.left + frame.right) / 2
    return [*parts, _text(middle, frame.bottom + below, label, "middle", "label")]


def _y_axis(frame: _Frame, ticks: Sequence[float], rise: _Scale) -> list[Markup]:
    digits = _digits(ticks)
    parts = []
    for y in ticks:
        parts.append(_line(frame.left, rise(y), frame.right, rise(y), "grid"))
        parts.append(_text(frame.left - 5, rise(y) + 4, f"{y:.{digits}f}", "end"))
    return parts


def _digits(ticks: Sequence[float]) -> int:
    """Return the number of decimals that distinguishes ticks."""
    return max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))


def _nice_ticks(low: float, high: float) -> list[float]:
    """Return four to seven round numbers that enclose a range."""
    if high - low < 1e-6:
        low, high = low - 0.005, high + 0.005
    raw = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw * 0.999)
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(start, end + 1)]


def _decades(values: Sequence[float]) -> list[float]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _short(name: str, limit: int) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"
