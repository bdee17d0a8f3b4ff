"""The import graph between the packages of pmlkit, read from the source code.

``python tests/import_graph.py`` writes it into docs/architecture.md; ``python tests/import_graph.py walk`` lists the
modules whose functions ``pmlkit clean posts.csv`` calls.
"""

import ast
import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pmlkit"
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- import graph: python tests/import_graph.py -->\n", "<!-- end of import graph -->"


def modules() -> dict[str, Path]:
    """Return every module of the library by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("pmlkit", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules of the library that a file imports, in functions too, but not for type checking only."""
    found: set[str] = set()
    for node in _run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return {name for name in found if name in known}


def _run_time(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _run_time(child)


def package(module: str) -> str:
    """Return the part of the library that a module belongs to; top-level modules that all share are ``core``."""
    name = [*module.split("."), ""][1]
    return "core" if not name or name.startswith("_") or name == "exceptions" else name


def package_graph() -> dict[str, set[str]]:
    """Return for every package the packages that it imports, without ``core``."""
    known = modules()
    graph: dict[str, set[str]] = {package(name): set() for name in known if package(name) != "core"}
    for name, path in known.items():
        if package(name) in graph:
            graph[package(name)] |= {package(other) for other in imports(path, known)} & graph.keys() - {package(name)}
    return graph


def private_imports() -> list[str]:
    """Return the imports of private modules across packages."""
    known = modules()
    wrong = []
    for name, path in known.items():
        for other in imports(path, known):
            is_private = any(part.startswith("_") for part in other.split(".")[2:])
            if is_private and package(name) != package(other):
                wrong.append(f"{name} imports {other}")
    return sorted(wrong)


def levels(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the packages from those that import nothing upwards; raise ValueError where imports form a cycle."""
    left, below, found = dict(graph), set[str](), []
    while left:
        level = sorted(name for name, needs in left.items() if needs <= below)
        if not level:
            raise ValueError(f"imports form a cycle among {', '.join(sorted(left))}")
        found.append(level)
        below |= set(level)
        left = {name: needs for name, needs in left.items() if name not in below}
    return found


def drawing(graph: dict[str, set[str]]) -> str:
    """Return the graph as a table, the packages that nothing imports first."""
    lines = ["| level | package | imports |", "|---|---|---|"]
    for number, level in reversed(list(enumerate(levels(graph)))):
        lines += [f"| {number} | `{name}` | {', '.join(sorted(graph[name])) or '–'} |" for name in level]
    return "\n".join(lines) + "\n"


def page_with(drawn: str, text: str) -> str:
    """Return the page with the graph in its place."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return before + START + "\n" + drawn + "\n" + END + after


def walk() -> list[str]:
    """Return the modules outside methods and numerics whose functions ``pmlkit clean posts.csv`` calls, by tracing."""
    import pmlkit.cleaning
    import pmlkit.cli.app
    import pmlkit.data

    called: set[str] = set()

    def trace(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and code.co_name != "<module>":
            called.add(Path(code.co_filename).relative_to(SOURCE).with_suffix("").as_posix())

    posts = ROOT / "docs" / "data" / "posts.csv"
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        target = str(Path(folder, "cleaned.csv"))
        sys.argv = ["pmlkit", "clean", str(posts), "--labels", "tags", "--text", "body", "-o", target]
        threading.setprofile(trace)
        sys.setprofile(trace)
        try:
            pmlkit.cli.main()
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return sorted(name for name in called if not name.startswith(("methods", "numerics")))


if __name__ == "__main__":
    if sys.argv[1:] == ["walk"]:
        found = walk()
        sys.stderr.write("\n".join([*found, f"{len(found)} modules"]) + "\n")
        sys.exit()
    PAGE.write_text(page_with(drawing(package_graph()), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
