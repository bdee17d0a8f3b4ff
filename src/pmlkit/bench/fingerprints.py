"""Digests of values and of code, and the seeds derived from them: the same input gives the same number anywhere."""

import ast
import functools
import hashlib
import importlib.util
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical_json(value: Any) -> str:
    """Return a value as JSON with sorted keys.

    Examples
    --------
    >>> from pmlkit.bench.fingerprints import canonical_json
    >>> canonical_json({"beta": 10.0, "alpha": 1})
    '{"alpha": 1, "beta": 10.0}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def digest(*parts: Any) -> str:
    """Return a digest of the parts, 24 hexadecimal digits.

    Examples
    --------
    >>> from pmlkit.bench.fingerprints import digest
    >>> len(digest("scene", 0.5)), digest("scene", 0.5) == digest("scene", 0.5), digest("a", "b") == digest("ab")
    (24, True, False)
    """
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:24]


def derive_seed(*parts: Any) -> int:
    """Return a 31-bit seed derived from the parts; every kind of `random_state` accepts it."""
    return int(digest(*parts), 16) % 2**31


def code_fingerprint(modules: Iterable[str]) -> str:
    """Return a digest of the code of modules and of all modules of this package that they import.

    `modules`: dotted names. Comments, docstrings and layout do not change the digest.
    """
    parts = "\n".join(f"{name} {_source(name)[0]}" for name in sorted(_with_imports(modules)))
    return hashlib.sha256(parts.encode()).hexdigest()[:24]


def _with_imports(modules: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _source(name)[1]
    return seen


@functools.cache
def _source(module: str) -> tuple[str, tuple[str, ...]]:
    """Return a digest of a module's code and the modules of this package that it imports."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return "", ()
    tree = ast.parse(Path(spec.origin).read_bytes())
    imports: list[str] = []
    for node in _statements(tree):
        imports += _imports(node)
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest(), tuple(imports)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a module and all its statements; `ast.walk` would visit every expression, too."""
    yield node
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield from _statements(inner)


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _is_ours(alias.name))
    elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
        for alias in node.names:
            # `from package import module` does not depend on the rest of the package.
            inner = f"{node.module}.{alias.name}"
            yield inner if _is_module(inner) else node.module


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


@functools.cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is a module, not a package
        return False


@functools.cache
def git_revision() -> str:
    """Return the git revision of this package, with ``-dirty`` for changed files; empty without git."""
    folder = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=20
        )
        return done.stdout.strip()

    try:
        # An installed copy may lie inside another repository: the package must be a file of the repository.
        git("ls-files", "--error-unmatch", str(folder.parent / "__init__.py"))
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return ""
