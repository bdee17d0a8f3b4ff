"""The packages import each other in one direction, as docs/architecture.md shows."""

import ast

import pytest

from import_graph import PAGE, SOURCE, drawing, imports, levels, modules, package_graph, page_with, private_imports


def test_the_page_shows_the_import_graph_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert text == page_with(drawing(package_graph()), text), "run: python tests/import_graph.py"


def test_packages_do_not_import_private_modules_of_others():
    assert private_imports() == []


def test_nothing_imports_the_command_line():
    graph = package_graph()
    assert [name for name, needs in graph.items() if "cli" in needs] == []


def test_a_cycle_is_found():
    with pytest.raises(ValueError, match="cycle among a, b"):
        levels({"a": {"b"}, "b": {"a"}, "c": set()})


def test_imports_in_functions_count_and_those_for_types_do_not(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pmlkit.bench\n"
        "def f():\n    from pmlkit import data\n    from pmlkit.metrics import evaluate\n"
    )
    assert imports(path, modules()) == {"pmlkit.data", "pmlkit.metrics"}


def test_no_unsafe_loading():
    """No module unpickles, evaluates text as code, or lets numpy do so, but for two that read only what they wrote."""
    # Messages to a child process of one's own; the round trip of a model in memory.
    own_data = {"bench/sandbox.py", "testing.py"}
    unsafe = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "yaml"}
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).as_posix() in own_data:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
            if (isinstance(node, ast.Import) and unsafe & {alias.name.partition(".")[0] for alias in node.names}) or (
                isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in unsafe
            ):
                found.append(name)
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
                    found.append(name)
                found += [
                    name
                    for keyword in node.keywords
                    if keyword.arg == "allow_pickle" and getattr(keyword.value, "value", None) is not False
                ]
    assert found == []
