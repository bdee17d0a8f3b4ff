"""The page, the LaTeX and the pictures: complete, escaped, without a network, usable by keyboard."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from bench_cells import METHODS, fail, make_cells
from pmlkit._words import counted
from pmlkit.bench.formatting import (
    friedman_words,
    latex_tables,
    latex_text,
    listed,
    number,
    p_value,
    parameters,
    sentences,
    sign,
    signed,
    verdict,
    whole,
)
from pmlkit.bench.plots import Series, critical_difference_diagram, dot_chart, line_chart, scatter_chart, swatch
from pmlkit.bench.reporting import render_report
from pmlkit.bench.statistics import friedman
from pmlkit.bench.summary import summarize

EVIL = '<script>alert("x")</script> & <b>'


def evil_cells():
    """Return cells in which everything that can be named is named to do harm."""
    cells = make_cells({"good": 0.8, EVIL: 0.6}, cases=((EVIL, "uniform", 0.5), (EVIL, "uniform", 1.0)))
    cells = fail(cells, (cells["method"] == EVIL) & (cells["repeat"] == 1), reason=EVIL)
    return cells.assign(git_revision=EVIL, params=np.where(cells["method"] == EVIL, '{"a": "<i>"}', "{}"))


class Page(HTMLParser):
    """Counts tags and keeps what a browser would load or run, and whether every tag is closed."""

    VOID = frozenset({"meta", "br", "path"})

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.links, self.handlers = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)


def test_the_page_is_whole_and_alone():
    page = Page(render_report(summarize(make_cells())))
    assert page.open == []
    assert page.links == []
    assert page.handlers == []
    assert page.tags.count("script") == page.tags.count("style") == 1


def test_the_page_has_all_sections():
    cells = make_cells()
    html = render_report(summarize(fail(cells, [3])), title="A title", commands=["pmlkit bench plan.toml"])
    for section in ("ranks", "results", "comparisons", "curves", "time", "data", "failures", "again"):
        assert f'id="{section}"' in html
    assert "<h1>A title</h1>" in html
    assert "pmlkit bench plan.toml" in html
    assert "took longer than 1 s" in html
    assert html.index("ranks best over") < html.index('id="ranks"')  # the summary comes first


def test_no_failures_no_section():
    html = render_report(summarize(make_cells()))
    assert 'id="failures"' not in html
    assert "No cell failed." in html


def test_everything_is_escaped():
    html = render_report(summarize(evil_cells(), reference=EVIL), title=EVIL, commands=[EVIL])
    page = Page(html)
    assert page.open == []
    assert page.tags.count("script") == 1
    assert "<script>alert" not in html
    assert '"a": "<i>"' not in html
    assert html.count("&lt;script&gt;alert") > 10


def test_best_in_bold_and_marks():
    summary = summarize(make_cells())
    html = render_report(summary)
    best = re.findall(r'<td class="best">([0-9.]+)<small>', html)
    assert best[:4] == [f"{value:.3f}" for value in summary.metrics[0].mean[:, 0]]
    n_marks = sum(int((one.outcome > 0).sum()) for one in summary.metrics)
    assert html.count('title="significantly worse"') == n_marks + 1  # and the one that explains it
    assert n_marks > 0


@pytest.mark.parametrize(
    "cells",
    [
        make_cells({"good": 0.8}),
        make_cells({"good": 0.8, "fair": 0.7}, n_repeats=1),
        make_cells(cases=(("yeast", "own", np.nan),)),
        fail(make_cells(), make_cells()["method"].ne("good")),
        make_cells({f"method {i}": 0.5 + i / 60 for i in range(20)}),
        make_cells().assign(average_precision=np.nan),
        make_cells().drop(columns=["fit_seconds", "predict_seconds", "peak_mb", "versions"]),
    ],
    ids=["one method", "one repeat", "one case", "only one finished", "twenty methods", "no precision", "no times"],
)
def test_odd_stores_still_have_a_page(cells):
    summary = summarize(cells)
    assert Page(render_report(summary)).open == []
    assert "tabular" in latex_tables(summary)


def test_sentences_say_who_is_best_and_whether_it_is_sure():
    text = " ".join(sentences(summarize(make_cells())))
    assert "<b>good</b> ranks best over 4 cases: mean rank 1.00 of 3 methods" in text
    assert "Not significantly behind (Nemenyi, critical distance 1.66): <b>fair</b>" in text
    same = make_cells({"one": 0.7, "two": 0.7})
    for key in ("one_error", "average_precision"):
        same[key] = 0.5
    assert "do not differ significantly" in " ".join(sentences(summarize(same)))


# --- formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (number(0.12345), "0.123"),
        (number(float("nan")), "–"),
        (number(1234.5, 0), "1,234"),
        (signed(0.5), "+0.500"),
        (signed(-0.25, 2), "−0.25"),
        (signed(0.0001), "0.000"),
        (whole(12345), "12,345"),
        (whole(None), "–"),
        (counted(1, "cell"), "1 cell"),
        (counted(2300, "cell"), "2,300 cells"),
        (counted(2, "loss"), "2 losses"),
        (p_value(0.0312), "0.031"),
        (p_value(1e-9), "< 0.001"),
        (listed(["a", "b", "<c>"]), "<b>a</b>, <b>b</b> and <b>&lt;c&gt;</b>"),
        (parameters('{"alpha": 1.0, "scale": "unit"}'), "alpha=1.0, scale=unit"),
        (parameters("{}"), "defaults"),
        (friedman_words(friedman([[1, 2, 3], [1, 2, 3], [1, 3, 2]])), "Friedman p = 0.097, 3 cases"),
        (friedman_words(friedman([[1.0]])), "too few results to compare"),
    ],
)
def test_formats(text, expected):
    assert text == expected


def test_marks_have_a_title():
    assert 'title="significantly worse"' in sign(1)
    assert 'title="significantly better"' in sign(-1)
    assert 'title="better"' in verdict("better")


# --- charts


def drawing(svg):
    """Return an SVG's root and the classes of its paths."""
    root = ElementTree.fromstring(svg)
    return root, [path.get("class") for path in root.iter("path")]


def test_diagram_places_methods_by_rank():
    ranks = np.array([2.5, 1.0, 4.0, np.nan, 2.5])
    svg = critical_difference_diagram(list("abcde"), ranks, [(1, 0, 4)], 1.6, title="ranks")
    root, classes = drawing(svg)
    assert classes.count("leader") == 4  # the one without a rank is not drawn
    assert classes.count("bar") == 1
    names = [text.text for text in root.iter("text")]
    assert [name for name in names if name in "abcde"] == ["b", "a", "c", "e"]  # left half down, right half down
    leaders = [float(path.get("d")[1:].split()[0]) for path in root.iter("path") if path.get("class") == "leader"]
    assert leaders[0] < leaders[1] == leaders[3] < leaders[2]
    assert root.find("title").text == "ranks"


def test_lines_skip_gaps_and_have_one_style_a_method():
    series = [Series("a", [0.1, 0.5, 1], [0.2, float("nan"), 0.4], [0.1, 0.1, float("nan")]), Series("b", [0.1], [0.3])]
    root, classes = drawing(line_chart(series, {"a": 0, "b": 9}, title="t", x_label="x", y_label="y"))
    assert classes.count("mark s0") == 2
    assert classes.count("mark s1") == 1
    assert classes.count("error s0") == 1
    curves = [path for path in root.iter("path") if path.get("class", "").startswith("curve")]
    assert len({curve.get("stroke-dasharray") for curve in curves}) == 2


def test_styles_are_told_apart_without_colour():
    looks = []
    for style in range(16):
        root, _ = drawing(swatch(style))
        curve, mark = root.iter("path")
        looks.append((curve.get("class"), curve.get("stroke-dasharray"), mark.get("d")))
    assert len(set(looks)) == 16
    assert len({look[1:] for look in looks[:8]}) == 8


def test_dots_lie_in_the_order_of_their_values():
    root, _ = drawing(dot_chart([("a", 0.3, 0.1), ("b", 0.1, float("nan"))], {"a": 0, "b": 1}, title="t"))
    marks = [path.get("transform") for path in root.iter("path") if path.get("class").startswith("mark")]
    first, second = (float(re.match(r"translate\(([0-9.]+)", mark)[1]) for mark in marks)
    assert first > second


def test_empty_pictures_are_empty():
    assert dot_chart([], {}, title="t") == ""
    assert line_chart([], {}, title="t", x_label="x", y_label="y") == ""
    assert scatter_chart([("a", float("nan"), 0.5)], {"a": 0}, title="t", x_label="x", y_label="y") == ""
    assert critical_difference_diagram(["a"], np.array([np.nan]), [], float("nan"), title="t") == ""


def test_values_that_do_not_differ_can_be_drawn():
    svg = line_chart([Series("a", [1, 2], [0.5, 0.5])], {"a": 0}, title="t", x_label="x", y_label="y")
    assert "nan" not in svg
    assert scatter_chart([("a", 1.0, 0.5)], {"a": 0}, title="t", x_label="x", y_label="y").count("mark s0") == 1


# --- LaTeX


def test_latex_tables_are_regular():
    summary = summarize(make_cells())
    text = latex_tables(summary)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == len(summary.metrics) + 2
    for table in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        columns, body = table
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {row.count("&") for row in rows} == {len(columns) - 1}
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0
    assert r"\mathbf{" in text
    assert r"\bullet$" in text
    assert len(METHODS) == 3


def test_latex_escapes():
    assert latex_text("a_b & 50% {x} #1 $ ~ ^ \\") == (
        r"a\_b \& 50\% \{x\} \#1 \$ \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    text = latex_tables(summarize(evil_cells()))
    assert "<script>" not in text.split("\n\n", 1)[1]


# --- in a browser


def test_in_a_browser(browser, tmp_path):
    names = {f"a method with the long name {i}": 0.5 + i / 30 for i in range(8)}
    path = tmp_path / "report.html"
    path.write_text(render_report(summarize(fail(make_cells(names), [0], reason="x" * 300))), encoding="utf-8")
    page = browser.new_page(viewport={"width": 400, "height": 800})
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 400

    column = "() => Array.from(document.querySelectorAll('#ranks tbody tr'), row => row.cells[1].textContent)"
    head = page.locator("#ranks thead th").nth(1)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    numbers = [float(text) for text in page.evaluate(column)]
    assert numbers == sorted(numbers)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(text) for text in page.evaluate(column)] == sorted(numbers, reverse=True)
    page.locator("#ranks thead th").nth(0).locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert problems == []
    page.close()
