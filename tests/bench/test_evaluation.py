import contextlib
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import bench_methods
from pmlkit.bench import Plan
from pmlkit.bench.cells import METRICS, derive_seed, expand
from pmlkit.bench.evaluation import _inputs, close_sandbox, make_problem, run_cell
from pmlkit.bench.sandbox import Budget
from pmlkit.data import add_noise, load_digit_strips, read, train_test_rows, write
from pmlkit.methods import PMLLFC
from pmlkit.metrics import evaluate, evaluate_cleaning

PLENTY = Budget(60, 2000)


def one(plan, number=0, budget=PLENTY):
    return run_cell(expand(plan)[number], budget)


@pytest.mark.parametrize("kind", ["uniform", "confusable"])
def test_a_cell_is_what_a_person_would_do_by_hand(small_file, kind):
    plan = Plan([small_file], ["PMLLFC"], noise=[0.7], kinds=[kind], repeats=2, seed=5)
    cell = expand(plan)[1]
    data = read(small_file)
    train, test = train_test_rows(data.n_samples, test_size=0.2, random_state=derive_seed(cell.seed, "split"))
    X, truth = data.X[train], data.truth[train]
    Y = add_noise(truth, 0.7, kind, random_state=derive_seed(cell.seed, "noise", kind, 0.7), X=X)
    model = PMLLFC(random_state=cell.seed).fit(X, Y)
    expected = evaluate(data.truth[test], model.decision_function(data.X[test]), model.predict(data.X[test]))
    expected |= evaluate_cleaning(truth, Y, model.label_confidence_)
    found = run_cell(cell, PLENTY)
    assert found.reason is None
    assert {name: found.answer[name] for name in METRICS} == {name: expected[name] for name in METRICS}
    assert found.answer["fit_seconds"] > 0
    assert found.answer["predict_seconds"] > 0


def test_own_candidates_stay_as_they_are(noisy_file):
    cell = expand(Plan([noisy_file], ["MLkNN"], noise=["own"], repeats=1))[0]
    problem = make_problem(cell.source, noise="own", ratio=None, seed=cell.seed)
    data = read(noisy_file)
    train, test = train_test_rows(data.n_samples, test_size=0.2, random_state=derive_seed(cell.seed, "split"))
    assert (data.Y[train] != problem.Y).nnz == 0
    assert (problem.truth_test != data.truth[test]).nnz == 0


def test_digit_strips_share_no_scan_between_the_two_sides():
    cell = expand(Plan(["digit-strips:100"], ["MLkNN"], noise=[1.0], repeats=1))[0]
    problem = make_problem(cell.source, noise="uniform", ratio=1.0, seed=cell.seed)
    data = load_digit_strips(100, random_state=derive_seed(cell.seed, "split"))
    np.testing.assert_array_equal(problem.X, data.X[:80])
    np.testing.assert_array_equal(problem.X_test, data.X[80:])
    assert (problem.truth != data.truth[:80]).nnz == 0


def test_methods_share_split_and_noise_and_repeats_do_not(fast_plan):
    cells = expand(fast_plan("Fast", "NoConfidence", noise=[0.5, 1.0]))
    by_repeat = {cell.repeat: cell.seed for cell in cells}
    assert all(cell.seed == by_repeat[cell.repeat] for cell in cells)
    assert by_repeat[0] != by_repeat[1]
    problems = {
        (cell.repeat, cell.ratio): make_problem(cell.source, noise="uniform", ratio=cell.ratio, seed=cell.seed)
        for cell in cells
    }
    np.testing.assert_array_equal(problems[0, 0.5].X_test, problems[0, 1.0].X_test)
    assert (problems[0, 0.5].X_test != problems[1, 0.5].X_test).any()
    assert problems[0, 0.5].Y.nnz < problems[0, 1.0].Y.nnz


def test_a_method_without_confidences_has_no_cleaning_metrics(fast_plan):
    answer = one(fast_plan("NoConfidence")).answer
    assert np.isnan([answer["cleaning_auc"], answer["cleaning_average_precision"]]).all()
    assert 0 < answer["average_precision"] <= 1


def test_methods_cannot_spoil_each_others_rows_or_luck(fast_plan):
    plan = fast_plan("Mutates", "GlobalSeed", "Fast", repeats=1)
    together = [one(plan, number).answer for number in range(3)]
    for number in (2, 1, 0):
        close_sandbox()
        alone = one(plan, number).answer
        assert {name: alone[name] for name in METRICS} == {name: together[number][name] for name in METRICS}


@pytest.mark.parametrize(
    ("method", "budget", "reason"),
    [
        ("Raises", PLENTY, "ArithmeticError: no luck (bench_methods.py, line "),
        ("Hangs", Budget(0.3, 2000), "took longer than 0.3 s"),
        ("EatsMemory", Budget(60, 200), "ran out of memory: needs more than 200 MB"),
        ("Dies", PLENTY, "the process was ended by SIGKILL, perhaps for lack of memory"),
    ],
)
def test_a_cell_that_fails_says_why_and_the_next_one_runs(fast_plan, method, budget, reason):
    plan = fast_plan(method, "Fast", repeats=1)
    failed = one(plan, 0, budget)
    assert failed.answer is None
    assert failed.reason.startswith(reason)
    assert one(plan, 1).reason is None


def test_the_reason_names_the_line_of_the_users_file(fast_plan):
    source = Path(bench_methods.__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(source, start=1) if "# this line" in text)
    reason = one(fast_plan("FailsInLibrary", repeats=1)).reason
    assert reason.startswith("LinAlgError: ")
    assert reason.endswith(f"(bench_methods.py, line {line})")


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_class_of_ones_own_gets_dense_arrays_unless_it_takes_sparse_ones(small_file, tmp_path, is_sparse):
    path = tmp_path / "data.npz"
    data = read(small_file)
    write(data.replace(X=sparse.csr_array(data.X)) if is_sparse else data, path)
    plan = Plan([path], ["bench_methods:Fast", "bench_methods:TakesSparse"], noise=[0.5], repeats=1)
    dense, declared = one(plan, 0), one(plan, 1)
    assert dense.reason is None
    if is_sparse:
        assert {name: declared.answer[name] for name in METRICS} == {name: dense.answer[name] for name in METRICS}
    else:
        assert "expected sparse, got ndarray and csr_array" in declared.reason


def test_the_dense_y_holds_integers_0_and_1(fast_plan):
    cell = expand(fast_plan("Fast", repeats=1))[0]
    problem = make_problem(cell.source, noise="uniform", ratio=0.5, seed=cell.seed)
    X, Y, X_test = _inputs(bench_methods.Fast(), problem)
    assert Y.dtype == int
    np.testing.assert_array_equal(Y, problem.Y.toarray())
    X[:], Y[:], X_test[:] = 0, 0, 0
    assert problem.X.any()
    assert problem.Y.nnz
    assert problem.X_test.any()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_what_a_hanging_method_started_ends_with_it(fast_plan):
    one(fast_plan("Hangs", repeats=1), 0, Budget(0.5, 2000))
    running = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            running.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    assert not [words for words in running if bench_methods.SLEEP in words]


def test_rows_that_cannot_be_had_are_a_failure_too(tmp_path, small_file):
    path = tmp_path / "gone.npz"
    write(read(small_file), path)
    cells = expand(Plan([path], ["MLkNN"], noise=[0.5], repeats=1))
    data = read(small_file)
    write(data.replace(X=2 * data.X), path, force=True)
    assert "changed while the run was going" in run_cell(cells[0], PLENTY).reason
    path.unlink()
    assert "There is no file" in run_cell(cells[0], PLENTY).reason


def test_peak_memory_is_what_the_method_added(fast_plan):
    plan = fast_plan(
        {"name": "Takes", "grid": {"megabytes": [300, 1, 200]}},
        repeats=1,
    )
    peaks = [one(plan, number).peak_mb for number in range(3)]
    assert 295 < peaks[0] < 340
    assert peaks[1] < 40
    assert 195 < peaks[2] < 240


def test_the_bad_methods_are_good_estimators():
    assert clone(bench_methods.Takes(megabytes=3)).megabytes == 3
