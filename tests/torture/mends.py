"""Take each mend of a known defect out and see its tests fail: ``python tests/torture/mends.py [slice]``.

A slice such as ``12:``, ``:20`` or ``12:20`` names entries of the list by their place, counted from zero, so that a run
that was stopped can go on.

Every entry undoes one mend in a copy of the package and runs the tests that guard it: they must pass on the copy as it
is, and fail without the mend. Prints a table in Markdown; exit code 1 if a defect could come back unseen.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = "src/pmlkit/data/files"
UNCHECKED = "(lambda *_: None)("
_HALF_MADE = """\
        connection.execute("BEGIN")  # one state of the file: another process may be making it
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        mark = connection.execute("PRAGMA application_id").fetchone()[0]
        is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        connection.execute("COMMIT")
"""

# Per defect: its number, what went wrong, the file, what the mend says, what stood there instead, and the tests.
MENDS = [
    (1, "fits that overlap in threads leave one BLAS thread", "src/pmlkit/methods/threads.py",
     "if clear is not None:", "if False:", "tests/methods/test_threads.py"),
    (3, "PARTICLE without end on unscaled features", "src/pmlkit/methods/particle/pairwise.py",
     "    if trained is None:\n", "    if trained is None:\n        raise RuntimeError\n    if False:\n",
     "tests/methods/particle"),
    (4, "search trees in model files", "src/pmlkit/persistence.py",
     'sparse.csr_array, "numpy.dtype"]',
     'sparse.csr_array, "numpy.dtype", "sklearn.neighbors._kd_tree.KDTree", "sklearn.neighbors._kd_tree.newObj"]',
     "tests/test_persistence.py -k search_trees"),
    (4, "vectorizers that open files", "src/pmlkit/persistence.py",
     'HashingVectorizer) and part.input != "content"', "HashingVectorizer) and False",
     "tests/test_persistence.py -k open_files"),
    (4, "indices of sparse matrices unchecked", "src/pmlkit/persistence.py",
     "    if sparse.issparse(part):", "    if False:", "tests/test_persistence.py -k indices_outside"),
    (4, "support vector machines unchecked", "src/pmlkit/persistence.py",
     "isinstance(part, BaseLibSVM) and", "False and", "tests/test_persistence.py -k support_vector"),
    (5, "Ctrl-C while modules are imported", "src/pmlkit/cli/__init__.py",
     "except KeyboardInterrupt:", "except ZeroDivisionError:", "tests/trust/test_stopping.py -k while_modules"),
    (6, "report on a store without its table or with broken text", "src/pmlkit/bench/store_reader.py",
     "raise _damaged(path, str(error)) from error", "raise", "tests/bench/test_store.py -k damaged_store"),
    (6, "npz with 0-d ids", f"{FILES}/npz.py", "        if array.ndim != 1:", "        if False:",
     "tests/trust/test_sentences.py -k odd_content"),
    (6, "npz with 0-d media", "src/pmlkit/_arrays.py",
     'not isinstance(media, str) and getattr(media, "ndim", 1) == 1', "not isinstance(media, str)",
     "tests/trust/test_sentences.py -k odd_content"),
    (6, "npz whose media_ends are empty", f"{FILES}/npz.py",
     "len(blob) != (ends[-1] if len(ends) else 0)", "(len(ends) and ends[-1] != len(blob))",
     "tests/trust/test_sentences.py"),
    (6, "deeply nested TOML", "src/pmlkit/bench/plan.py", "except RecursionError", "except ZeroDivisionError",
     "tests/bench/test_plan.py"),
    (6, "numbers of 5,000 digits in TOML", "src/pmlkit/bench/plan.py",
     "except ValueError as error:  # Python", "except ZeroDivisionError as error:  # Python",
     "tests/bench/test_plan.py"),
    (6, 'plan key "a.b"', "src/pmlkit/bench/plan.py",
     '''_NAME = r"""(?:[\\w-]+|"[^"]*"|'[^']*')"""''', '''_NAME = r"""(?:[\\w-]+)"""''', "tests/bench/test_plan.py"),
    (6, "numbers of 5,000 digits after -C", f"{FILES}/arff.py", "len(match[1]) > _MAX_DIGITS", "False",
     "tests/trust/test_sentences.py -k odd_content"),
    (6, "zero_based=false without features", f"{FILES}/libsvm.py", "max(largest - 1, -1)", "largest - 1",
     "tests/trust/test_sentences.py -k counted_from_one"),
    (6, "zero_based=false with index 0", f"{FILES}/libsvm.py", "        if (indices == 0).any():", "        if False:",
     "tests/trust/test_sentences.py -k counted_from_one"),
    (6, "an output that is a loop of links", "src/pmlkit/_files.py",
     "except (OSError, RuntimeError) as error:", "except ZeroDivisionError as error:",
     "tests/trust/test_sentences.py -k loop_of_links"),
    (6, "1e300 in X", "src/pmlkit/_arrays.py", "> _LARGEST:", "> np.inf:", "tests/trust/test_numbers.py -k huge"),
    (6, "a denormal in X", "src/pmlkit/_arrays.py",
     "tiny = (np.abs(values) < _SMALLEST)", "tiny = (np.abs(values) < 0)", "tests/trust/test_numbers.py -k denormal"),
    (7, "SIGTERM leaves half-written files", "src/pmlkit/cli/__init__.py",
     "    signal.signal(signal.SIGTERM, stop)", "    pass", "tests/trust/test_stopping.py -k half_written"),
    (7, "forked children catch SIGTERM", "src/pmlkit/cli/__init__.py",
     "if os.getpid() != owner:", "if False:", "tests/trust/test_stopping.py -k forked"),
    (7, ".part files of dead processes stay", "src/pmlkit/_files.py",
     "    _remove_abandoned(target.parent)", "    pass", "tests/trust/test_stopping.py -k killed_process"),
    (8, "gzip and bzip2 without limit", f"{FILES}/base.py",
     "if self._n_seen + _LINE_BYTES * self._n_lines > self._limit:", "if False:",
     "tests/trust/test_limits.py -k 'bomb or chosen or rewound'"),
    (8, "MATLAB files without limit", f"{FILES}/mat.py", "self.max_bytes", "2**60",
     "tests/trust/test_limits.py -k 'bomb or chosen'"),
    (8, "npz without limit", f"{FILES}/npz.py",
     "check_size(member", f"{UNCHECKED}member",
     "tests/trust/test_limits.py -k 'bomb or chosen'"),
    (8, "CSR in npz that claims columns", f"{FILES}/npz.py",
     "check_size(8 * int(shape[1])", f"{UNCHECKED}8 * int(shape[1])",
     "tests/trust/test_limits.py -k bomb"),
    (8, "libsvm that claims columns", f"{FILES}/libsvm.py",
     "check_size(8 * (width", f"{UNCHECKED}8 * (width",
     "tests/trust/test_limits.py -k 'bomb or chosen'"),
    (8, "objects of one key each in JSON", f"{FILES}/json_rows.py", "        check_size(", f"        {UNCHECKED}",
     "tests/trust/test_limits.py -k bomb"),
    (8, "Parquet without limit", f"{FILES}/parquet.py", "    check_size(", f"    {UNCHECKED}",
     "tests/trust/test_limits.py -k chosen"),
    (8, "pictures without limit", f"{FILES}/side_features.py", "check_size(n_bytes", f"{UNCHECKED}n_bytes",
     "tests/trust/test_limits.py -k pictures"),
    (9, "formulas in CSV outputs", "src/pmlkit/_words.py", """return f"'{cell}\"""", "return cell",
     "tests/trust/test_injection.py -k 'formula or answers'"),
    (9, "formulas in predict", "src/pmlkit/predictions.py", "cell(guarded(value))", "cell(value)",
     "tests/trust/test_injection.py -k hold_no_formula"),
    (9, "formulas in the header of predict", "src/pmlkit/predictions.py", "cell(guarded(name))", "cell(name)",
     "tests/trust/test_injection.py -k hold_no_formula"),
    (9, "formulas in --log and --suspects", "src/pmlkit/cleaning/result.py", "*map(guarded, words)", "*words",
     "tests/trust/test_injection.py -k hold_no_formula"),
    (9, "formulas in answers", "src/pmlkit/cleaning/audit/answers.py", "self.frame.map(guarded)", "self.frame",
     "tests/trust/test_injection.py -k answers"),
    (9, "formulas in the files of a review", "src/pmlkit/cleaning/review/outputs.py", "guarded(value) for", "value for",
     "tests/trust/test_injection.py -k of_a_review"),
    (9, "formulas in report --csv", "src/pmlkit/bench/summary.py", "*map(guarded, words)", "*words",
     "tests/trust/test_injection.py -k of_a_review"),
    (9, "escape sequences in a traceback", "src/pmlkit/cli/output.py",
     "printable_lines(traceback.format_exc())", "traceback.format_exc()", "tests/trust/test_injection.py -k debug"),
    (9, "escape sequences in a report on a terminal", "src/pmlkit/cli/bench_commands.py",
     "printable_lines(made.text) if sys.stdout.isatty() else made.text", "made.text",
     "tests/trust/test_injection.py -k terminal"),
    (9, "escape sequences in sentences", "src/pmlkit/_words.py", 'char if char.isprintable() else ""', "char",
     "tests/trust/test_injection.py -k steer"),
    (9, "--images out of the folder", f"{FILES}/side_features.py",
     "if not path.is_relative_to(folder.resolve()):", "if False:", "tests/trust/test_injection.py -k TestImages"),
    (9, "--images of pipes and folders", f"{FILES}/side_features.py", "if not path.is_file():", "if path.is_dir():",
     "tests/trust/test_injection.py -k TestImages"),
    (9, "convert --force over a label file", "src/pmlkit/cli/options.py",
     "for source in (*inputs, *filter(None, side_files)):", "for source in inputs:",
     "tests/trust/test_injection.py -k beside_the_data"),
    (10, "warning floods", "src/pmlkit/methods/base.py", "    @one_of_each_warning()\n", "",
     "tests/trust/test_numbers.py -k 'one_warning or first_warning'"),
    (7, "an interrupt between two outputs leaves one of them", "src/pmlkit/_files.py",
     "with interrupts_held():", "with contextlib.nullcontext():", "tests/trust/test_stopping.py -k between_two_files"),
    (7, "an interrupt inside compiled code is lost", "src/pmlkit/cli/__init__.py",
     "    sys.unraisablehook = repeat\n", "", "tests/trust/test_stopping.py -k cannot_be_raised"),
    (4, "model files with an object that has no class", "src/pmlkit/persistence.py",
     "except AttributeError as error:  # an object", "except ZeroDivisionError as error:  # an object",
     "tests/test_persistence.py -k has_no_class"),
    (7, "a fit killed while its checkpoint begins cannot be repeated", "src/pmlkit/blocks/engine.py",
     "            with replacing(title) as stream:", "            with title.open('wb') as stream:",
     "tests/blocks/test_engine.py -k checkpoint_began"),
    (6, "damaged checkpoints", "src/pmlkit/blocks/engine.py",
     "        except (OSError, EOFError, ValueError,", "        except (ZeroDivisionError,",
     "tests/blocks/test_engine.py -k damaged_checkpoint"),
    (7, "workers in place of dead ones outlive the run", "src/pmlkit/bench/runner.py",
     'yield joblib.Parallel(n_jobs=jobs, backend="loky", pre_dispatch="1.5*n_jobs", **options)',
     'with joblib.Parallel(n_jobs=jobs, backend="loky", **options) as p:\n                yield p',
     "tests/bench/test_runner.py -k in_place_of_dead"),
    (7, "answers of the review page wait 40 ms", "src/pmlkit/cleaning/review/server.py",
     "socket.SOCK_STREAM, socket.IPPROTO_TCP)", "socket.SOCK_STREAM)", "tests/review/test_security.py -k do_not_wait"),
    (7, "a certificate older than the last answer is applied", "src/pmlkit/cleaning/review/outputs.py",
     "    if is_old:", "    if False:",
     "tests/review/test_session.py -k older_than_the_last"),
    (6, "too little memory for a library", "src/pmlkit/cli/__init__.py",
     '"failed to map segment"', '"nothing"', "tests/trust/test_surroundings.py -k for_a_library"),
    (8, "small files of ten megapixels", f"{FILES}/side_features.py", "80 * 2**20", "2**28",
     "tests/trust/test_limits.py -k pictures"),
    (6, "a store that another process is making is busy", "src/pmlkit/cleaning/review/store.py",
     'if error.sqlite_errorname != "SQLITE_BUSY" or', "if True or",
     "tests/trust/test_surroundings.py -k waited_for"),
    (6, "a store that is half made by another process is refused", "src/pmlkit/cleaning/review/store.py",
     _HALF_MADE, _HALF_MADE.replace('"BEGIN"', '"SELECT 1"').replace('"COMMIT"', '"SELECT 1"'),
     "tests/trust/test_surroundings.py -k at_once"),
    (7, "a traceback for a signal after the work", "src/pmlkit/cli/__init__.py",
     "        finally:\n            end_on_signals()", "        finally:\n            pass",
     "tests/trust/test_stopping.py -k after_the_work"),
    (4, "model files that unpack to gigabytes", "src/pmlkit/persistence.py",
     "if _unpacked_size(stream, limit) > limit:", "if False:", "tests/test_persistence.py -k much_content"),
    (6, "stores of a review with views and triggers", "src/pmlkit/cleaning/review/store.py",
     "if not is_empty and {sql", "if False and {sql", "tests/trust/test_hostile_reviews.py -k trigger"),
    (6, "stores of bench with views and triggers", "src/pmlkit/bench/store_reader.py",
     "type IN ('view', 'trigger')", "type IN ('nothing')", "tests/bench/test_store.py -k would_change_results"),
    (6, "plans that call any function", "src/pmlkit/methods/__init__.py",
     "if not isinstance(own, type) or", "if False and", "tests/methods/test_registry.py -k does_not_exist"),
    (9, "another site uses up the requests of the review page", "src/pmlkit/cleaning/review/server.py",
     "else self._others_bucket", "else self._bucket", "tests/review/test_security.py -k from_another_site"),
    (10, "tables of a million columns", f"{FILES}/features.py",
     "StandardScaler())]), places))", "StandardScaler())]), list(reader.numbers)))",
     "tests/data/files/test_open_table.py -k by_place"),
]  # fmt: skip


class CannotRun(Exception):
    """Pytest could not run the tests of an entry."""


def run_tests(tests, root, seconds=600):
    """Return whether the tests pass in time with the package of a folder."""
    command = f"exec {sys.executable} -m pytest -q -x -n 0 -p no:cacheprovider {tests}"
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    try:
        done = subprocess.run(
            command, shell=True, cwd=root, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode in (2, 3, 4, 5):  # interrupted, broken, misused, no tests; anything else is a failure or a crash
        raise CannotRun(f"pytest {tests} ended with {done.returncode}:\n{done.stdout[-800:]}")
    return done.returncode == 0


def check(entry, root, passing):
    """Return what to print of an entry; bold if the defect could come back unseen."""
    _, _, name, mend, before, tests = entry
    path = root / name
    text = path.read_text(encoding="utf-8")
    if mend not in text:
        return "**the mend is not found**"
    try:
        if tests not in passing:
            start = time.monotonic()
            passing[tests] = run_tests(tests, root), time.monotonic() - start
        is_passing, seconds = passing[tests]
        if not is_passing:
            return "**the tests fail as it is**"
        path.write_text(text.replace(mend, before), encoding="utf-8")
        # Some tests do not end without the mend.
        return "**no test**" if run_tests(tests, root, 30 + 3 * seconds) else f"`{tests}`"
    except CannotRun as error:
        print(error, file=sys.stderr)
        return "**the tests cannot run**"
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    """Check all mends, or a slice of them."""
    bounds = [int(word) if word else None for word in (sys.argv[1] if len(sys.argv) > 1 else ":").split(":")]
    n_seen = n_unseen = 0
    print("| place | defect | without its mend | fails |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", root)
        passing = {}
        for place in range(len(MENDS))[slice(*bounds)]:
            number, what, *_ = MENDS[place]
            verdict = check(MENDS[place], root, passing)
            n_unseen += "**" in verdict
            n_seen += "**" not in verdict
            print(f"| {place} | {number} | {what} | {verdict} |", flush=True)
    print(f"{n_seen} of {n_seen + n_unseen} fail without their mend")
    return 1 if n_unseen else 0


if __name__ == "__main__":
    sys.exit(main())
