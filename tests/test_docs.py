"""The pages that a newcomer follows word by word, the tutorial's method, and what the pages say of the package."""

import ast
import collections
import doctest
import html
import importlib
import importlib.util
import inspect
import re
import shutil
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics
from rich.text import Text
from sklearn.utils.estimator_checks import check_estimator

import pmlkit
from lfc_reference import multiplicative_step
from pmlkit.testing import check_pml_estimator

DOCS = Path(__file__).parent.parent / "docs"


def from_docs(name):
    """Return a program of the docs as a module."""
    spec = importlib.util.spec_from_file_location(Path(name).name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages, cli_reference = from_docs("refresh_outputs"), from_docs("cli_reference")
terminal = from_docs("figures/terminal")
_OTHER_PROGRAMS = {"--unit-rows", "--part", "--alpha"}  # of benchmarks
_GIT = {"--error-unmatch", "--always", "--dirty", "--abbrev", "--exclude"}
OTHERS = ["compare-methods.md", "coming-from.md"]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", ["start.md", "clean-your-tags.md", "bring-your-own-model.md", *OTHERS])
def test_a_newcomer_gets_what_the_page_shows(page, tmp_path):
    if page == "coming-from.md":
        pytest.importorskip("cleanlab")
        pytest.importorskip("skmultilearn")
    checker = doctest.OutputChecker()
    n_shown = 0
    for block, expected, got in pages.run_page(page, tmp_path):
        n_shown += 1
        example = doctest.Example(block, expected)
        if not checker.check_output(expected, got, FLAGS):
            pytest.fail(f"{page}:\n{block}\n{checker.output_difference(example, got, FLAGS)}")
    assert n_shown >= 3


def test_the_readme_shows_the_end_of_the_demo(tmp_path):
    """After a change of results: ``python docs/refresh_outputs.py README``."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    printed = pages.run_shell("pmlkit demo", tmp_path)
    assert pages.end_of_demo(printed) == shown
    auc = dict(re.findall(r"^(\w+) +(0\.\d{3}) ", printed[printed.index("Finding the") :], re.MULTILINE))
    assert f"AUC {auc['CandidateLogistic']} against {auc['ClearPML']}" in readme


def test_the_recording_shows_what_the_commands_print():
    """After a change of results: ``python docs/figures/terminal.py``."""
    picture = (DOCS / "images" / "terminal.svg").read_text(encoding="utf-8")
    shown = html.unescape(" ".join(re.findall(r"<text class=\"t [^>]*>([^<]*)</text>", picture)))
    printed = " ".join(
        Text.from_ansi(line).plain for command, lines in terminal.outputs() for line in ("$", command, *lines)
    )
    # The last digits of scores differ between processors.
    words, expected = (
        re.sub(r"\d\.\d{9,}", lambda score: f"{float(score[0]):.6f}", text).split() for text in (shown, printed)
    )
    for text in (words, expected):
        del text[text.index("seconds") + 1]  # how long the fit took
    assert words == expected


@pytest.mark.filterwarnings("ignore:A column-vector y was passed", "ignore:Skipping check")
def test_the_tutorials_method_keeps_the_contract_and_runs_in_the_bench(tmp_path, monkeypatch):
    ((_, code),) = [(language, block) for language, block in pages.blocks("extending.md") if "class " in block]
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "mine", None)  # restored after the test, whatever becomes of it
    monkeypatch.delitem(sys.modules, "mine")
    monkeypatch.chdir(tmp_path)
    shutil.copy(DOCS / "data" / "posts.csv", tmp_path)
    method = pmlkit.methods.find_method("mine:NeighbourVote")
    check_pml_estimator(method())
    failed = [check["check_name"] for check in check_estimator(method(), on_fail=None) if check["status"] == "failed"]
    assert failed == []
    plan = pmlkit.bench.Plan(["digit-strips:100"], ["mine:NeighbourVote", "MLkNN"], noise=[0.5], repeats=1)
    summary = pmlkit.bench.run(plan, "results.sqlite")
    cells = pmlkit.bench.load_cells("results.sqlite")
    assert summary.n_run == 2
    assert cells.loc[cells["status"] == "failed", "reason"].tolist() == []
    for language, block in pages.blocks("extending.md"):
        if language == "sh" and "pmlkit bench" in block:
            pages.run_shell(block, tmp_path)
    pages.run_shell("pmlkit fit posts.csv --labels tags --text body -m mine:NeighbourVote -o mine.skops", tmp_path)


def test_the_few_lines_of_clear_pml_leave_one_row_out():
    ((_, code),) = [(language, block) for language, block in pages.blocks("how-clear-pml-works.md") if "def " in block]
    names = {}
    exec(compile(code, "page", "exec"), names)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(25, 3)), (rng.random(25) < 0.4).astype(float)
    K = X @ X.T
    score, chance = names["chance_that_it_is_true"](K, y, 2.0, 0.1)
    others = np.arange(25) != 7
    coefficients = np.linalg.solve(K[np.ix_(others, others)] + 2.0 * np.eye(24), y[others] - y.mean())
    np.testing.assert_allclose(score[7], y.mean() + K[7, others] @ coefficients)
    assert ((chance >= 0) & (chance <= 1)).all()


def test_the_confidence_step_of_the_page_is_that_of_the_method():
    ((_, code),) = [(language, block) for language, block in pages.blocks("how-pml-lfc-works.md") if "def " in block]
    names = {}
    exec(compile(code, "page", "exec"), names)
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(30, 5)), rng.normal(size=(5, 4))
    P = rng.random((30, 4)) * (rng.random((30, 4)) < 0.5)
    A = rng.random((30, 30))
    A = (A + A.T) * (1 - np.eye(30))
    expected = multiplicative_step(X, A, W, P, 0.3, 2.0)
    np.testing.assert_allclose(names["confidence_step"](P, X @ W, A, 0.3, 2.0), expected)


def test_every_public_object_is_in_the_reference():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = {}
    for module, names in re.findall(r"currentmodule:: ([\w.]+)\n\n.*?\n\n(.*?)```", text, re.DOTALL):
        listed.setdefault(module, set()).update(names.split())
    everywhere = set().union(*listed.values())
    modules = ["pmlkit", *(f"pmlkit.{m}" for m in ("bench", "cleaning", "data", "methods", "metrics", "testing"))]
    modules += ["pmlkit.cleaning.audit", "pmlkit.cleaning.review", "pmlkit.persistence", "pmlkit.exceptions"]
    for page in PAGES:  # what the pages import is public, too
        text = page.read_text(encoding="utf-8")
        for module, names in re.findall(r"^from (pmlkit[\w.]*) import (.+)$", text, re.MULTILINE):
            unlisted = {name.strip() for name in names.split(",")} - everywhere - {"bench"}
            assert unlisted == set(), f"{page.name}: {module} {unlisted} not in docs/api.md"
    for module in modules:
        public = set(importlib.import_module(module).__all__) - {"__version__", "METHODS"}
        assert public <= everywhere, f"{module}: {public - everywhere} not in docs/api.md"
    for module, names in listed.items():
        for name in names:
            assert getattr(importlib.import_module(module), name).__doc__, f"{module}.{name}"


def test_the_first_change_of_the_contributing_guide_works():
    text = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    test, function = [textwrap.dedent(block) for block in re.findall(r" {3}```python\n(.*?) {3}```", text, re.DOTALL)]
    names = {**vars(pmlkit.metrics._evaluate), "np": np, "sklearn": sklearn, "pytest": pytest}
    exec(compile(function + test, "CONTRIBUTING", "exec"), names)
    names["test_subset_accuracy_equals_scikit_learn"]()
    assert names["subset_accuracy"]([[1, 0], [0, 1]], [[1, 1], [0, 1]]) == 0.5


def public_objects():
    """Return what docs/api.md lists, as (module, name, object)."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    for module, names in re.findall(r"currentmodule:: ([\w.]+)\n\n.*?\n\n(.*?)```", text, re.DOTALL):
        for name in names.split():
            yield module, name, getattr(importlib.import_module(module), name)


def test_every_public_object_has_an_example():
    """Doctests run the examples; a record may name the function that makes it and shows it."""
    without = []
    for module, name, thing in public_objects():
        text = inspect.getdoc(thing) or ""
        made_by = re.search(r"made by `(\w+)`, whose example", text)
        if made_by:
            text = inspect.getdoc(getattr(importlib.import_module(module), made_by[1])) or ""
        if callable(thing) and ">>> " not in text:
            without.append(f"{module}.{name}")
    assert without == []


def options_of_commands():
    shared = {"--help", "--version", "--install-completion"}
    return shared.union(*(param.opts for command in cli_reference.commands().values() for param in command.params))


def test_the_reference_has_every_command_and_option():
    text = cli_reference.reference()
    for name, command in cli_reference.commands().items():
        assert f"\n## {name}\n" in text
        for param in command.params:
            if param.param_type_name == "option":
                assert f"`{param.opts[0]}`" in text, f"{name} {param.opts[0]}"


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name not in ("generated", "gallery")]


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *PAGES], ids=lambda path: path.stem)
def test_options_and_commands_that_the_pages_name_exist(page):
    known, commands = options_of_commands(), cli_reference.commands()
    for line in page.read_text(encoding="utf-8").splitlines():
        for command, words in re.findall(r"(?<![\w/-])pmlkit ([a-z-]+)([^`|]*)", line if "pmlkit " in line else ""):
            if command in commands:
                own = {word for param in commands[command].params for word in param.opts} | {"--help"}
                used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", words.partition("  #")[0]))
                assert used <= own, f"{page.name}: {command} has no {sorted(used - own)}"
        if "python " not in line and "pip " not in line and "npm " not in line:
            named = set(re.findall(r"`(--[a-z][a-z-]*)", line))
            assert named <= known | _OTHER_PROGRAMS, f"{page.name}: {sorted(named - known)}"


def texts_of_the_package():
    """Return every string of the package's code (messages, help, docstrings), as (file and line, text)."""
    for path in sorted((DOCS.parent / "src" / "pmlkit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
                yield f"{path.name}:{node.lineno}", "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.name}:{node.lineno}", node.value


def test_messages_name_options_commands_and_pages_that_exist():
    known, commands = options_of_commands(), cli_reference.commands()
    there = {"option": known | _GIT, "command": set(commands), "page": {str(page.relative_to(DOCS)) for page in PAGES}}
    wrong, n_named = [], collections.Counter()
    for place, text in texts_of_the_package():
        named = {
            "option": set(re.findall(r"(?<![\w-])--[a-z][a-z-]+[a-z](?![\w-])", text)),
            "command": set(re.findall(r"(?:^|['`\"(:] ?)pmlkit ([a-z][a-z-]+) [A-Z{<-]", text)),
            "page": set(re.findall(r"docs/([\w/-]+\.md)", text)),
        }
        for kind, names in named.items():
            n_named[kind] += len(names)
            wrong += [f"{place}: no {kind} {name}" for name in sorted(names - there[kind])]
    assert wrong == []
    assert min(n_named[kind] for kind in there) >= 5, n_named


def test_extras_that_messages_and_pages_name_exist():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    assert {extra for extra, *_ in pmlkit._optional._EXTRAS.values()} <= extras
    for page in [DOCS.parent / "README.md", *PAGES]:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"pip install '(?:pmlkit|\.)\[(\w+)\]'", text)) <= extras, page.name


def test_modules_that_the_architecture_names_exist():
    root = DOCS.parent / "src" / "pmlkit"
    there = {str(path.relative_to(root).with_suffix("")) for path in root.rglob("*.py")}
    there |= {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}
    text = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Adding a method")[0]
    named = {name for name in re.findall(r"`([a-z_/]+(?:\.py)?)`", text) if "/" in name or name.endswith(".py")}
    missing = {
        name
        for name in named
        if not any(f"/{path}".endswith(f"/{name.removesuffix('.py').rstrip('/')}") for path in there)
    }
    assert len(named) > 20
    assert missing == set()


def test_modules_beside_the_steps_of_clear_pml_exist():
    steps = (DOCS / "methods" / "clear-pml.md").read_text(encoding="utf-8").split("| step |")[1].split("Cost:")[0]
    named = [
        name for line in steps.splitlines() for name in re.findall(r"`(\w+)`", line.rstrip("| ").rpartition("|")[2])
    ]
    assert len(named) > 10
    folder = Path(pmlkit.__file__).parent / "methods" / "clear_pml"
    assert [name for name in named if not (folder / f"{name}.py").is_file()] == []


def test_every_page_is_in_a_contents_list():
    listed = set()
    for page in DOCS.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            lines = [line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {(page.parent / line.split("<")[-1].rstrip(">")).resolve() for line in lines}
    there = {page.with_suffix("").resolve() for page in DOCS.rglob("*.md")}
    made = {path for path in there if "generated" in path.parts or "gallery" in path.parts}
    assert there - made - listed - {(DOCS / "index").resolve()} == set()


@pytest.mark.parametrize("example", sorted((DOCS / "examples").glob("plot_*.py")), ids=lambda path: path.stem)
def test_examples_have_60_to_100_lines(example):
    lines = example.read_text(encoding="utf-8").splitlines()
    assert 60 <= len(lines) <= 100
    compile("\n".join(lines), str(example), "exec")


def test_pages_quote_the_mean_ranks_of_the_stored_comparison(monkeypatch):
    """Every "`Method` rank" in a paragraph about mean ranks, and the table of the methods' page."""
    monkeypatch.syspath_prepend(DOCS.parent / "benchmarks")
    means, ranks, _ = importlib.import_module("_rivals_real").comparison(DOCS / "figures" / "rivals_cells.csv")
    for page, at_least in (("../README.md", 4), ("choosing.md", 7), ("bring-your-own-model.md", 3)):
        paragraphs = re.split(r"\n\s*\n|\n(?=[-|])", (DOCS / page).read_text(encoding="utf-8"))
        told = [part for part in paragraphs if "mean rank" in part.lower() and "eleven" in part]
        quoted = [pair for part in told for pair in re.findall(r"`(\w+)` (\d+\.\d)", part)]
        assert len(quoted) >= at_least, page
        assert {f"{name} {rank}" for name, rank in quoted} <= {f"{name} {ranks[name]:.1f}" for name in ranks}, page
    text = (DOCS / "methods" / "README.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(\w+)` \| (\d+\.\d \|(?: (?:\.\d+|–) \|){11})$", text, re.MULTILINE))
    for name, rank in ranks.items():
        cells = ["–" if np.isnan(value) else f"{value:.3f}".lstrip("0") for value in means[name]]
        assert shown[name] == f"{rank:.1f} | {' | '.join(cells)} |", name


def test_the_readme_adds_up_what_the_page_about_cleaning_reports():
    """Tuned sets and sets for checking together: labels removed unseen, by noise."""
    rows = re.findall(
        r"^\| removed unseen, noise (.*)$", (DOCS / "cleaning.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    little, much = [[int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", row)] for row in rows]
    _, map_alone, map_alone_right, map_alone_checked, map_alone_checked_right = little
    _, _, removed, cases, of, _, _, _, _, checked, cases_checked, of_checked, *_ = much
    quoted = (
        f"{map_alone + map_alone_checked:,} labels, {map_alone_right + map_alone_checked_right:,} of them right",
        f"{removed + checked:,} labels in {cases + cases_checked} of {of + of_checked} cases",
    )
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert all(text in readme for text in quoted), quoted


def test_no_page_or_module_holds_a_conflict_of_a_merge():
    root, ends = DOCS.parent, {".md", ".py", ".toml", ".rst", ".js", ".css", ".j2", ".html", ".csv", ".yml", ".cff"}
    folders = ("src", "tests", "docs", "benchmarks", "tools", ".github")
    texts = [path for folder in folders for path in (root / folder).rglob("*") if path.suffix in ends]
    marked = [
        str(path.relative_to(root))
        for path in [*texts, *root.glob("*.md")]
        if re.search(r"^(<{7}|>{7}) ", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(texts) > 300
    assert marked == []
