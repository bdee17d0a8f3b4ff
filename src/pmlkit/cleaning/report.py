"""The report: what it says, as plain data, and the page, rendered by a template that escapes everything."""

import base64
import os
import struct
import zlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from numpy.typing import NDArray
from scipy import sparse

from pmlkit._files import check_target, replacing
from pmlkit._typing import BoolArray
from pmlkit._words import between, fact_table, grid, harmless, shortened
from pmlkit.cleaning.audit.answers import WRONG
from pmlkit.cleaning.estimates import Estimate
from pmlkit.cleaning.reasons import TWINS_LIMIT, Reason, Twins
from pmlkit.cleaning.result import CleaningResult

if TYPE_CHECKING:
    from pmlkit.cleaning.audit import Audit


_N_LABELS, _N_PAIRS, _N_SUSPECTS, _N_REMOVED, _N_BY_HAND, _N_TWINS, _N_MISSING = 20, 10, 24, 30, 12, 10, 12
_TEXT_LENGTH = 280
_N_IN_NOTEBOOK = 5
_BACK = 0.33  # of the rows one way, from which a confusion goes both ways
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def render_report(summary: dict[str, Any]) -> str:
    """Return the page.

    `summary`: from `summarise`.

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.cleaning.report import render_report, summarise
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200)
    >>> page = render_report(summarise(clean(strips.X, strips.Y), title="<Strips>"))
    >>> "&lt;Strips&gt;" in page, "<Strips>" in page, "http" in page
    (True, False, False)
    """
    environment = Environment(
        autoescape=True, finalize=harmless, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": _percent, "count": _count}
    environment.globals["between"] = _between
    source = resources.files("pmlkit.cleaning").joinpath("templates", "report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(summary)


def write_report(result: CleaningResult, path: str | os.PathLike[str], *, force: bool, **shown: Any) -> None:
    """Write the report of a result, whole or not at all; `**shown`: see `summarise`."""
    target = check_target(path, force=force)
    page = render_report(summarise(result, **shown))
    with replacing(target) as stream:
        # A lone surrogate in a text must not make the whole page fail.
        stream.write(page.encode("utf-8", errors="replace"))


def summarise(
    result: CleaningResult,
    *,
    title: str,
    precision: float = 0.9,
    keep_at_least_one: bool = True,
    audit: "Audit | None" = None,
    table: str = "",
) -> dict[str, Any]:
    """Return everything that the report shows, as plain numbers, texts, lists and dicts.

    `precision`, `keep_at_least_one`: what is removed, see `CleaningResult.removable`. `audit`: answers about these
    labels. `table`: the table's file, see `CleaningResult.advice`.

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.cleaning.report import summarise
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(200)
    >>> summary = summarise(clean(strips.X, strips.Y), title="Strips")
    >>> summary["n_rows"], len(summary["labels"]), summary["n_rare"]
    (200, 10, 0)
    """
    removed = result.removable(precision=precision, keep_at_least_one=keep_at_least_one)
    noise = result.noise_rate_
    sizes = np.diff(result.Y.indptr)
    cells = result.order[:_N_SUSPECTS]
    gone = result.order[removed[result.order]][:_N_REMOVED]
    unsure = _by_hand(result, removed)
    judged = int(result.judged.sum())
    return {
        "title": title,
        "method": result.method,
        "n_rows": int(result.Y.shape[0]),
        "n_labels": int(result.Y.shape[1]),
        "n_candidates": int(result.Y.nnz),
        "n_unlabelled": int((sizes == 0).sum()),
        "per_row": float(sizes.mean()),
        "calibrated": result.calibrated,
        "noise": _bounds(noise.overall),
        "random": _bounds(result.random_mistakes_),
        "n_random": round(result.random_mistakes_ * judged),
        "audit": None if audit is None else _audit(audit),
        "advice": result.advice(precision=precision, keep_at_least_one=keep_at_least_one, table=table),
        "precision": precision,
        "n_removed": int(removed.sum()),
        "n_rows_changed": len(np.unique(result.rows[removed])),
        "curve": [
            {"share": s, "n": max(1, round(s * judged)), **_bounds((audit or result).expected_precision(s))}
            for s in _SHARES
        ],
        "labels": _labels(result),
        "cannot_tell": _cannot_tell(result),
        "n_rare": len(result.rare_labels),
        "rare": [result.label_names[k] for k in result.rare_labels[:30]],
        "pairs": confused_pairs(result),
        "suspects": _cards(result, cells, removed),
        "removed": _lines(result, gone, removed),
        "by_hand": _cards(result, unsure, removed),
        "missing": _missing(result),
        "twins": _twins(result),
        "n_twins": len(result.twins),
        "more_twins": len(result.twins) >= TWINS_LIMIT,
    }


def notebook_view(result: CleaningResult) -> str:
    """Return a small table of facts and the most suspicious candidates, as notebooks show a result."""
    rate = result.noise_rate_.overall
    facts = [
        ("rows", f"{result.Y.shape[0]:,}"),
        ("labels", f"{result.Y.shape[1]:,}"),
        ("candidates", f"{result.Y.nnz:,}"),
        ("probably wrong", f"{rate:.0%} ({between(rate.low, rate.high)})"),
        ("judged by", result.method),
        ("advice", result.advice()),
    ]
    cells = result.order[:_N_IN_NOTEBOOK]
    lines = [
        (str(result.row_ids[row]), result.label_names[k], f"{1.0 - doubt:.0%}")
        for row, k, doubt in zip(result.rows[cells], result.Y.indices[cells], result.doubt[cells], strict=True)
    ]
    header = ("row", "label", "confidence")
    return fact_table("CleaningResult", facts) + grid("most suspicious candidates", header, lines)


def _audit(audit: "Audit") -> dict[str, Any]:
    certificate = audit.certificate
    return {
        "n_answers": audit.n_answers,
        "n_found": int((audit.verdict == WRONG).sum()),
        "noise": _bounds(audit.noise_rate_),
        "left": _bounds(audit.left_),
        "promise": "" if certificate is None else str(certificate),
        "n_certified": 0 if certificate is None else len(certificate.cells),
    }


def _bounds(estimate: Estimate) -> dict[str, float]:
    return {"rate": float(estimate), "low": estimate.low, "high": estimate.high}


def _cannot_tell(result: CleaningResult) -> list[dict[str, Any]]:
    """Return why some labels were not judged, and which, most frequent first."""
    table = result.noise_rate_.per_label
    table = table[(table["cannot_tell"] != "") & (table["candidates"] > 0)]
    return [
        {"why": str(why), "labels": part.sort_values("candidates", ascending=False, kind="stable")["label"].tolist()}
        for why, part in table.groupby("cannot_tell", sort=True)
    ]


def _missing(result: CleaningResult) -> list[dict[str, Any]]:
    """Return the labels most likely to be missing, as cards."""
    rows, labels = result.missing_cells(_N_MISSING)
    return [
        {
            "name": result.row_name(row),
            "label": result.label_names[label],
            "score": float(result.scores[row, label]),
            "others": result.labels_of(row),
            **_sides(reason),
            **_media(result, row),
        }
        for row, label, reason in zip(rows.tolist(), labels.tolist(), result.reasons_for(rows, labels), strict=True)
    ]


def _labels(result: CleaningResult) -> list[dict[str, Any]]:
    """Return the labels with the most wrong candidates in expectation."""
    table = result.noise_rate_.per_label.copy()
    table = table[table["noise_rate"].notna()]
    table["wrong"] = table["noise_rate"] * table["candidates"]
    table = table.sort_values("wrong", ascending=False, kind="stable").head(_N_LABELS)
    return [
        {
            "label": str(line.label), "candidates": int(line.candidates), "rate": float(line.noise_rate),
            "wrong": float(line.wrong),
        }
        for line in table.itertuples()
    ]  # fmt: skip


def confused_pairs(result: CleaningResult, limit: int = _N_PAIRS) -> list[dict[str, Any]]:
    """Return pairs of labels of which one is doubted where the other is trusted.

    Expected numbers of rows, from the confidences; only pairs that occur at least one and a half times as often as
    they would if the wrong label were put anywhere. Where it goes both ways, as with synonyms, neither is given by
    mistake: such a pair comes once, marked ``both_ways``.

    Examples
    --------
    >>> from pmlkit.cleaning import clean
    >>> from pmlkit.cleaning.report import confused_pairs
    >>> from pmlkit.data import load_digit_strips
    >>> strips = load_digit_strips(300)
    >>> pairs = confused_pairs(clean(strips.X, strips.Y), limit=3)
    >>> len(pairs) <= 3 and all(pair["lift"] >= 1.5 for pair in pairs)
    True
    """
    shape = result.Y.shape
    parts = result.Y.indices, result.Y.indptr
    false = sparse.csr_array((np.where(result.judged, result.doubt, 0.0), *parts), shape=shape)
    true = sparse.csr_array((np.where(result.judged, 1.0 - result.doubt, 0.0), *parts), shape=shape)
    together = sparse.coo_array(false.T @ true)
    expected_false = np.asarray(false.sum(axis=0)).ravel()
    share_true = np.asarray(true.sum(axis=0)).ravel() / max(shape[0], 1)
    chance = expected_false[together.row] * share_true[together.col]
    lift = together.data / np.maximum(chance, 1e-9)
    useful = np.flatnonzero((together.row != together.col) & (together.data >= 2.0) & (lift >= 1.5))
    ranked = useful[np.argsort(-together.data[useful] * np.log(lift[useful]), kind="stable")]
    rows_of = {(int(together.row[i]), int(together.col[i])): float(together.data[i]) for i in ranked.tolist()}
    best, seen = [], set()
    for i in ranked.tolist():
        given, right = int(together.row[i]), int(together.col[i])
        if (right, given) not in seen:
            seen.add((given, right))
            best.append(i)
    best = best[:limit]
    back = {i: rows_of.get((int(together.col[i]), int(together.row[i])), 0.0) for i in best}
    return [
        {
            "given": result.label_names[int(together.row[i])],
            "right": result.label_names[int(together.col[i])],
            "rows": float(together.data[i]),
            "lift": float(lift[i]),
            "both_ways": back[i] >= _BACK * float(together.data[i]),
        }
        for i in best
    ]


def _by_hand(result: CleaningResult, removed: BoolArray) -> Any:
    """Return candidates between right and wrong that stay: where a person's look decides most."""
    open_cells = result.order[~removed[result.order]]
    nearest = np.argsort(np.abs(result.doubt[open_cells] - 0.5), kind="stable")[:_N_BY_HAND]
    return open_cells[nearest]


def _cards(result: CleaningResult, cells: Any, removed: BoolArray) -> list[dict[str, Any]]:
    return [
        {
            **line,
            **_sides(reason),
            **_media(result, line["row"]),
        }
        for line, reason in zip(_lines(result, cells, removed), result.reasons(cells), strict=True)
    ]


def _lines(result: CleaningResult, cells: Any, removed: BoolArray) -> list[dict[str, Any]]:
    lines = []
    for cell in cells.tolist():
        row, label = int(result.rows[cell]), result.label_names[int(result.Y.indices[cell])]
        lines.append(
            {
                "row": row,
                "name": result.row_name(row),
                "label": label,
                "others": [name for name in result.labels_of(row) if name != label],
                "confidence": float(1.0 - result.doubt[cell]),
                "is_removed": bool(removed[cell]),
            }
        )
    return lines


def _sides(reason: Reason) -> dict[str, list[str]]:
    return {
        "against": [part.text for part in reason.against],
        "in_favour": [part.text for part in reason.in_favour],
    }


def _media(result: CleaningResult, row: int) -> dict[str, str]:
    if result.media is None:
        return {}
    if isinstance(result.media, np.ndarray):
        return {"image": "data:image/png;base64," + base64.b64encode(png(result.media[row])).decode("ascii")}
    text = " ".join(result.media[row].split())
    return {"text": shortened(text, _TEXT_LENGTH)}


def _twins(result: CleaningResult) -> list[dict[str, Any]]:
    def names(labels: Sequence[int]) -> list[str]:
        return [result.label_names[k] for k in labels]

    return [
        {
            "first": result.row_name(twin.first),
            "second": result.row_name(twin.second),
            "similarity": twin.similarity,
            "only_first": names(twin.only_first),
            "only_second": names(twin.only_second),
            "contents": [_media(result, twin.first), _media(result, twin.second)],
            "same": _same_content(result, twin),
        }
        for twin in result.twins[:_N_TWINS]
    ]


def _same_content(result: CleaningResult, twin: Twins) -> str:
    """Say how alike two rows are: features may be equal where texts are not."""
    if twin.similarity < 1.0:
        return f"{100 * twin.similarity:.1f} % alike"
    media = result.media
    if media is None:
        return "same features"
    same = np.array_equal(media[twin.first], media[twin.second])
    return "identical" if same else "same features, other content"


def png(image: NDArray[np.uint8]) -> bytes:
    """Return a grey (h, w) or colour (h, w, 3) image as PNG.

    Examples
    --------
    >>> import numpy as np
    >>> from pmlkit.cleaning.report import png
    >>> png(np.zeros((2, 3), dtype=np.uint8))[1:4]
    b'PNG'
    """
    height, width = image.shape[:2]
    colour = 2 if image.ndim == 3 else 0
    flat = np.ascontiguousarray(image).reshape(height, -1)
    rows = np.hstack([np.zeros((height, 1), dtype=np.uint8), flat]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return "<\u20091\u00a0%" if 0 < share < 0.005 else f"{100 * share:.0f}\u00a0%"


def _between(low: float, high: float) -> str:
    return between(low, high).replace(" %", "\u00a0%")


def _count(number: int, noun: str = "") -> str:
    shown = f"{number:,}"
    return f"{shown} {noun}{'' if number == 1 else 's'}" if noun else shown
