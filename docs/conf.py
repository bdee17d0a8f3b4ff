"""How Sphinx builds the site: ``sphinx-build -W --keep-going -b html docs build/site``."""

import html
import logging
import re
import sys
import warnings
from pathlib import Path
from types import BuiltinFunctionType, GetSetDescriptorType, MethodDescriptorType
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import cli_reference
import reproduction_page
from docutils import nodes
from latex2mathml.converter import convert
from refresh_outputs import WRAP_AT

import pmlkit
from pmlkit.exceptions import PMLWarning

project = "pmlkit"
author = "The pmlkit developers"
copyright = "the pmlkit developers, BSD-3-Clause"
version = release = pmlkit.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "figures", "_build"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
default_role = "py:obj"
add_function_parentheses = False
pygments_style = "default"
smartquotes_action = "De"  # quotation marks stay as they are typed: many of them are code

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "pmlkit"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "start": []}
html_theme_options = {
    "logo": {"text": "pmlkit"},
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "show_toc_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
}

# Examples are run; one that fails, fails the build.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "capture_repr": (),
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "matplotlib_animations": False,
}
warnings.simplefilter("ignore", PMLWarning)
logging.getLogger("matplotlib").setLevel(logging.ERROR)


def _skip_inherited(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what base classes of scikit-learn and of Python bring: their own documentation describes them."""
    if isinstance(member, MethodDescriptorType | GetSetDescriptorType | BuiltinFunctionType):
        return True
    module = getattr(member, "__module__", None)
    return True if callable(member) and module and not module.startswith("pmlkit") else None


_MATHML = "{http://www.w3.org/1998/Math/MathML}"
ElementTree.register_namespace("", _MATHML[1:-1])
_WITHOUT_SPACE = {"|", "\u2016", "/", "\u221e", "min", "max"}  # browsers leave the space of an operator round them


def _formula(translator: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers draw without a script or a network."""
    block = isinstance(node, nodes.math_block)
    tree = ElementTree.fromstring(convert(node.astext(), display="block" if block else "inline"))
    for element in tree.iter():
        if element.attrib.get("mathvariant") == "bold":  # browsers ignore it: use the bold characters of Unicode
            element.text = "".join(map(_bold, element.text or ""))
            del element.attrib["mathvariant"]
        if align := element.attrib.pop("columnalign", None):  # likewise: a style says it
            element.set("style", f"text-align: {align}; padding: 0.2em 0")
        if element.tag == f"{_MATHML}mo" and element.text in _WITHOUT_SPACE:
            element.attrib.update(lspace="0", rspace="0")
            element.attrib.setdefault("stretchy", "false")  # else only one bar of a norm with an exponent grows
        if block and element.tag == f"{_MATHML}msub" and element[0].text == "min":
            element.tag = f"{_MATHML}munder"
    markup = ElementTree.tostring(tree, encoding="unicode")
    translator.body.append(f'<div class="formula">{markup}</div>' if block else markup)
    raise nodes.SkipNode


def _bold(letter: str) -> str:
    """Return the mathematical bold form of a digit or Latin letter."""
    for first, bold in (("0", 0x1D7CE), ("A", 0x1D400), ("a", 0x1D41A)):
        if 0 <= ord(letter) - ord(first) < (10 if first == "0" else 26):
            return chr(bold + ord(letter) - ord(first))
    return letter


def _wrap_sentences(app: Any, doctree: Any) -> None:
    """Let printed sentences wrap on narrow screens; printed tables (two blanks in a row) keep their columns."""
    for node in doctree.findall(nodes.literal_block):
        is_sentence = "  " not in node.astext() or max(map(len, node.astext().splitlines())) > 100
        if node.get("language") in ("text", "none") and is_sentence:
            node["classes"].append("wraps")
            text = _unwrapped(node.astext())
            node.rawsource, node.children = text, [nodes.Text(text)]


def _unwrapped(text: str) -> str:
    """Join lines that were wrapped in the source: those to which the next word was too long to be added."""
    joined, last = "", ""
    for line in text.splitlines():
        was_wrapped = last and line and len(last) <= WRAP_AT < len(last) + 1 + len(line.split(" ", 1)[0])
        joined += (" " if was_wrapped else "\n" if joined else "") + line
        last = line
    return joined


def _break_code(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let long names break after their parts; options never at a hyphen, nor numbers before their unit."""
    body = context.get("body", "")
    context["toc"] = re.sub(
        r'(?<=<span class="pre">)[^<]+', lambda name: name[0].replace("_", "_<wbr>"), context.get("toc", "")
    )
    body = re.sub(r'<span class="pre">(?=--?[a-z])', '<span class="pre keep">', body)
    body = re.sub(r'<img [^>]*"sphx-glr-single-img"/>', r'<div class="wide-figure">\g<0></div>', body)
    body = re.sub(r'(?<=alt=")plot \d\d [^"]*', lambda name: html.escape(context.get("title", name[0])), body)
    parts = re.split(r"(<pre>.*?</pre>)", body, flags=re.DOTALL)
    parts[::2] = [re.sub(r"(?<=\d) (?=%|(?:ms|s|KB|MB|GB)\b)", "\u00a0", part) for part in parts[::2]]
    body = "".join(parts)
    context["toc"] = re.sub(r">[^<]+<", lambda text: re.sub(r"\.(?=[a-z])", ".<wbr>", text[0]), context.get("toc", ""))
    body = re.sub(r"<h1>[^<]*", lambda title: title[0].replace("_", "_<wbr>"), body)
    body = re.sub(
        r'(?<=<span class="pre">)[^<]{12,}(?=</span>)',
        lambda name: re.sub(r"([/_.=,(]+)(?=\w)", r"\1<wbr>", name[0]),
        body,
    )
    context["body"] = re.sub(
        r"<pre>.*?</pre>",
        lambda code: re.sub(r"(?<![\w-])(--[a-z][a-z-]*[a-z])", r'<span class="keep">\1</span>', code[0]),
        body,
        flags=re.DOTALL,
    )


def _make_pages(app: Any) -> None:
    """Write the pages that are made from code and committed results."""
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    reproduction_page.write(folder)
    (folder / "cli-options.md").write_text(cli_reference.reference(), encoding="utf-8")


def setup(app: Any) -> None:
    """Connect the functions above to the events of a build."""
    app.connect("builder-inited", _make_pages, priority=100)
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
    app.connect("autodoc-skip-member", _skip_inherited)
    app.connect("doctree-read", _wrap_sentences)
    app.connect("html-page-context", _break_code)
