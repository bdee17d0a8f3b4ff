"""Check that a release can be made: ``make release-check``.

Versions agree, the distributions build and have complete metadata, and the wheel works in a clean environment: the
demo runs and all doctests pass there. Nothing outside a temporary folder is changed, and nothing is uploaded.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_MAX_FILE = 1_000_000  # bytes: larger files do not belong into a distribution


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version that each file names; an empty text where it names none."""
    patterns = {
        "src/pmlkit/__init__.py": r'^__version__ = "([^"]+)"',
        "CHANGELOG.md": r"^## (\S+)",
        "CITATION.cff": r"^version: (\S+)",
    }
    found = {name: re.search(pattern, (root / name).read_text(), re.MULTILINE) for name, pattern in patterns.items()}
    return {name: match[1] if match else "" for name, match in found.items()}


def check_versions() -> str:
    """Check that code, change log and citation name one version."""
    found = versions()
    if len(set(found.values())) != 1:
        raise SystemExit(f"versions differ: {found}")
    return next(iter(found.values()))


def build(folder: Path) -> tuple[Path, Path]:
    """Build both distributions and return their paths."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def check_content(sdist: Path, wheel: Path) -> None:
    """Check what the distributions hold: what is needed, and nothing large or foreign."""
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {item.filename: item.file_size for item in archive.infolist()}
    with tarfile.open(sdist) as archive:
        in_sdist = {name.name.partition("/")[2]: name.size for name in archive.getmembers() if name.isfile()}
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/pmlkit").rglob("*") if path.is_file()}
    sources = {name for name in sources if "__pycache__" not in name}
    packed = {name for name in in_wheel if not name.partition("/")[0].endswith(".dist-info")}
    needed = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile", "requirements-dev.lock"}
    problems = [f"not in the wheel: {name}" for name in sorted(sources - packed)]
    problems += [f"only in the wheel: {name}" for name in sorted(packed - sources)]
    problems += [f"not in the source distribution: {name}" for name in sorted(needed - in_sdist.keys())]
    problems += [f"large: {name}" for name, size in (in_wheel | in_sdist).items() if size > _MAX_FILE]
    if problems:
        raise SystemExit("\n".join(problems))


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel in a new environment; run the demo with it alone, then the doctests with all extras."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    empty = folder / "empty"
    empty.mkdir()
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    run(python, "-m", "pip", "check")
    run(python, "-m", "pmlkit", "demo", "--output", empty / "demo", cwd=empty)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[all]", "pytest", "polars")
    shutil.copy(ROOT / "pyproject.toml", empty)  # pytest's settings
    package = subprocess.check_output(
        [python, "-c", "import pathlib, pmlkit; print(pathlib.Path(pmlkit.__file__).parent)"], cwd=empty, text=True
    ).strip()
    options = ["--rootdir", empty, "-c", empty / "pyproject.toml"]
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "--doctest-modules", package, cwd=empty)


def run(*words: object, cwd: Path | None = None) -> None:
    """Run a program; end with its output where it fails."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def step(name: str, work: Callable[[], object]) -> object:
    """Do one step and say so."""
    print(f"{name} ...", end=" ", flush=True)
    result = work()
    print("ok" if result is None or not isinstance(result, str) else result, flush=True)
    return result


def main() -> None:
    """Do all steps; the first that fails ends it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step("versions agree", check_versions)
        sdist, wheel = step("build", lambda: build(folder / "dist"))  # type: ignore[misc]
        step("metadata", lambda: run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel))
        step("content", lambda: check_content(sdist, wheel))
        step("wheel in a clean environment: demo and doctests", lambda: try_wheel(wheel, folder))
    print("ready")


if __name__ == "__main__":
    main()
