"""What answers buy: the bars of the audit, by simulated reviewers who know the truth.

`python benchmarks/certainty.py audit --part ...` picks one of
- null: false certificates of tests on the edge of being false (the set just under the promise, no test ever given
  up), one attempt after another as long as the budget lasts;
- edge: false certificates in whole audits whose candidates are just too seldom wrong, forced to test them all the same,
  and without force;
- estimates: error and coverage of the expected precision at 5 % with 50 answers;
- order: wrong labels found in 100 questions by the learning order, and by the static one;
- certificate: wrong labels removed with 300 answers;
- speed: the next question and a refit with a million candidates.
"""

import argparse
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from _certainty_cases import one_case
from pmlkit import ClearPML
from pmlkit._arrays import row_of_cells
from pmlkit.cleaning import CleaningResult, clean
from pmlkit.cleaning.audit import Audit
from pmlkit.cleaning.audit import certificate as tests
from pmlkit.cleaning.audit.answers import RIGHT, WRONG
from pmlkit.cleaning.audit.certificate import Attempt, null_count, settle
from pmlkit.cleaning.audit.features import curve_design
from pmlkit.cleaning.audit.learning import LearningOrder, log_odds

Case = tuple[str, str, float | None]
REAL_TEXTS = ("so_emotions", "open_relations_crowd1", "movies_two_catalogues")
CASES: list[Case] = [
    *((name, kind, 0.1) for name in ("slashdot", "medical", "enron", "scene") for kind in ("uniform", "confusable")),
    ("yeast", "uniform", 0.1), ("emotions", "uniform", 0.1), ("yeast", "correlated", 0.1),
    ("tmc2007_500", "correlated", 0.1), ("scene", "uniform", 0.5), ("yeast", "confusable", 0.5),
    *((name, "real", None) for name in ("YeastCC", "YeastMF", "YeastBP", "lost_pll", *REAL_TEXTS)),
]  # fmt: skip
CERTIFIED: list[Case] = [("slashdot", "uniform", 0.5), ("lost_pll", "real", None), ("scene", "uniform", 0.5),
                         ("slashdot", "uniform", 0.25), ("open_relations_crowd1", "real", None)]  # fmt: skip


def prepared(case: Case, seed: int, max_rows: int) -> tuple[CleaningResult, np.ndarray]:
    """Return a cleaning result, and which candidates are wrong."""
    name, kind, level = case
    made = one_case(name, kind, level or 0.0, seed, max_rows)
    rows = np.flatnonzero(np.diff(made.Y.indptr))
    result = clean(made.X[rows], made.Y[rows])
    return result, made.truth[rows].toarray()[result.rows, result.Y.indices] == 0


def answered(result: CleaningResult, wrong: np.ndarray, n: int, **settings: Any) -> Audit:
    """Return an audit with `n` answers of a reviewer who is always right."""
    audit = Audit(result, **settings)
    for _ in range(n):
        question = audit.next()
        if question is None:
            break
        audit.answer(question, "wrong" if wrong[question.cell] else "right")
    return audit


def null(n_runs: int) -> None:
    """Print the share of audits with a false certificate, the sets being bad by one candidate."""
    for size, known, n_sets in ((100, 0, 1), (400, 0, 1), (400, 0, 4), (400, 100, 1)):
        rng = np.random.default_rng(size + known + n_sets)
        n_false = 0
        truth = np.arange(size) < null_count(size, 0.9)
        for _ in range(n_runs):
            wrong = rng.permutation(truth)
            verdict = np.zeros(size, dtype=np.int8)
            first = rng.permutation(size)[:known]
            verdict[first] = np.where(wrong[first], WRONG, RIGHT)
            attempts: list[Attempt] = []
            for _ in range(3):
                cells = np.arange(size)
                is_known = verdict != 0
                draws = rng.permutation(cells[~is_known])
                if not len(draws):
                    break
                left = settle(attempts, verdict, precision=0.9, budget=0.05).budget
                level = rng.integers(0, n_sets, size=size)
                attempts.append(
                    Attempt(cells[is_known], draws, level[is_known], level[draws], left / 2, np.full(n_sets, 0.95))
                )
                asked = draws[: int(rng.integers(20, max(21, len(draws) // 2 + 21)))]
                verdict[asked] = np.where(wrong[asked], WRONG, RIGHT)
            certified = settle(attempts, verdict, precision=0.9, budget=0.05).certified
            if certified is not None:
                cells = attempts[certified[0]].cells(certified[1])
                n_false += wrong[cells].sum() < 0.9 * len(cells)
        print(
            f"sets of {size}, {known} known, {n_sets} nested: {n_false} of {n_runs} audits false "
            f"({n_false / n_runs:.1%}; bar 5 %)",
            flush=True,
        )


def edge(n_runs: int) -> None:
    """Print the share of whole audits with a false certificate, where nearly 90 % of all candidates are wrong."""
    rng = np.random.default_rng(0)
    n_rows, n_labels = 500, 8
    Y = sparse.csr_array((rng.random((n_rows, n_labels)) < 0.4).astype(float))
    n = Y.nnz
    result: Any = SimpleNamespace(
        X=None, Y=Y, rows=row_of_cells(Y), doubt=rng.uniform(0.85, 0.99, n), scores=rng.random((n_rows, n_labels)),
        label_names=tuple(map(str, range(n_labels))), row_names=None, before_answers=None,
    )  # fmt: skip
    result.order = np.argsort(-result.doubt, kind="stable")
    natural, hopeless = LearningOrder.fit, tests._TOO_MANY

    def sure(self: LearningOrder, verdict: np.ndarray, rng: np.random.Generator, answer_error: float = 0.0) -> None:
        self.probability = np.where(verdict == WRONG, 1.0, np.where(verdict == RIGHT, 0.0, 0.99))

    for title, fit, limit in (("forced to test, none given up", sure, np.inf), ("as it is", natural, hopeless)):
        LearningOrder.fit, tests._TOO_MANY = fit, limit
        n_false = n_tests = n_certified = 0
        for seed in range(n_runs):
            wrong = rng.permutation(np.arange(n) < null_count(n, 0.9))
            audit = answered(result, wrong, 150, random_state=seed, repeats=0.0)
            n_tests += len(audit._tests.begun)
            if audit._tests.ledger.certified is not None:
                attempt, level = audit._tests.ledger.certified
                cells = audit._tests.begun[attempt].cells(level)
                n_certified += 1
                n_false += wrong[cells].sum() < 0.9 * len(cells)
        print(
            f"{n} candidates, {title}: {n_tests} tests, {n_certified} certificates, {n_false} of {n_runs} audits false "
            f"({n_false / n_runs:.1%}; bar 5 %)",
            flush=True,
        )
    LearningOrder.fit, tests._TOO_MANY = natural, hopeless


def estimates(cases: list[Case], n_seeds: int, max_rows: int) -> None:
    """Print error and coverage of the expected precision at 5 % with 50 answers."""
    groups: dict[str, list[tuple[float, bool, bool]]] = {}
    for case in cases:
        result, wrong = prepared(case, 0, max_rows)
        n_top = max(1, round(0.05 * len(result.order)))
        truth, rate = wrong[result.order[:n_top]].mean(), wrong[result.order].mean()
        found = []
        for seed in range(n_seeds):
            audit = answered(result, wrong, 50, random_state=seed)
            top, overall = audit.expected_precision(0.05), audit.noise_rate_
            found.append(
                (abs(top - truth), top.low - 1e-9 <= truth <= top.high + 1e-9, overall.low <= rate <= overall.high)
            )
        mean = np.mean(found, axis=0)
        group = "real" if case[2] is None else f"{case[2]:.0%}"
        groups.setdefault(group, []).extend(found)
        said = float(result.expected_precision(0.05))
        print(
            f"{case[0]:24s}{case[1]:12s}{group:6s} true {truth:.3f}, without answers {said:.3f}, error {mean[0]:.3f}, "
            f"covered {mean[1]:.0%}; rate {rate:.3f} covered {mean[2]:.0%}",
            flush=True,
        )
    for group, found in groups.items():
        mean = np.mean(found, axis=0)
        print(f"{group}: error {mean[0]:.3f}, intervals hold {mean[1]:.1%} (precision), {mean[2]:.1%} (rate)")


def order(cases: list[Case], max_rows: int) -> None:
    """Print wrong labels found in 100 questions."""
    table = []
    for case in cases:
        result, wrong = prepared(case, 0, max_rows)
        by_rank = wrong[result.order]
        learner = LearningOrder(
            result, curve_design(log_odds(result.doubt[result.order]), result.Y.indices[result.order])
        )
        verdict = np.zeros(len(by_rank), dtype=np.int8)
        for _ in range(10):
            asked = learner.queue[verdict[learner.queue] == 0][:10]
            verdict[asked] = np.where(by_rank[asked], WRONG, RIGHT)
            learner.fit(verdict, np.random.default_rng(0))
        confidence = ClearPML().fit(result.X, result.Y).label_confidence_.data
        by_method = wrong[np.argsort(confidence, kind="stable")[:100]].sum()
        table.append(((verdict == WRONG).sum(), by_rank[:100].sum(), by_method))
        found = "learning {}, static order of clean {}, of ClearPML {}".format(*table[-1])
        print(f"{case[0]:24s}{case[1]:12s}{case[2]!s:6s} {found}", flush=True)
    mean = np.mean(table, axis=0)
    print(
        f"learning {mean[0]:.1f}, static order of clean {mean[1]:.1f} ({mean[0] / mean[1] - 1:+.1%}), of ClearPML "
        f"{mean[2]:.1f} ({mean[0] / mean[2] - 1:+.1%}; bar +5 %)"
    )


def certificate(cases: list[Case], n_seeds: int, max_rows: int) -> None:
    """Print wrong labels removed with 300 answers."""
    for case in cases:
        result, wrong = prepared(case, 0, max_rows)
        certified, removed, violated = [], [], 0
        for seed in range(n_seeds):
            audit = answered(result, wrong, 300, random_state=seed)
            cells = audit.certificate.cells if audit.certificate is not None else np.empty(0, dtype=int)
            certified.append(wrong[cells].sum())
            removed.append(wrong[audit.removed].sum())
            violated += len(cells) > 0 and wrong[cells].mean() < 0.9
        print(
            f"{case[0]:24s}{case[1]:12s}{case[2]!s:6s} {wrong.sum()} wrong of {len(wrong)}: certified "
            f"{np.mean(certified):.0f} ({min(certified)}-{max(certified)}), removed {np.mean(removed):.0f}; promise "
            f"broken in {violated} of {n_seeds}",
            flush=True,
        )


def speed(n_rows: int = 330_000, n_labels: int = 50) -> None:
    """Print seconds with a million candidates: elapsed and of the processor."""
    rng = np.random.default_rng(0)
    Y = sparse.random_array((n_rows, n_labels), density=3.03 / n_labels, format="csr", rng=rng)
    Y.data[:] = 1.0
    Y.sort_indices()
    X = sparse.random_array((n_rows, 2000), density=0.01, format="csr", rng=rng, dtype=np.float32)
    doubt = rng.beta(1, 4, size=Y.nnz)
    wrong = rng.random(Y.nnz) < doubt
    result: Any = SimpleNamespace(
        X=X, Y=Y, rows=row_of_cells(Y), doubt=doubt, scores=rng.random((n_rows, n_labels), dtype=np.float32),
        order=np.argsort(-doubt, kind="stable"), label_names=tuple(map(str, range(n_labels))), row_names=None,
        before_answers=None,
    )  # fmt: skip
    started = time.process_time()
    audit = Audit(result)
    print(f"{Y.nnz:,} candidates; start {time.process_time() - started:.2f} s of the processor")
    questions, answers = [], []
    for _ in range(200):
        start = time.perf_counter(), time.process_time()
        question = audit.next()
        questions.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        start = time.perf_counter(), time.process_time()
        audit.answer(question, "wrong" if wrong[question.cell] else "right")
        answers.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    for title, seconds in (("next question", questions), ("answer, refits included", answers)):
        median, slowest = 1e3 * np.median(seconds, axis=0), np.max(seconds, axis=0)
        print(
            f"{title}: median {median[0]:.1f} ms; slowest {slowest[0]:.2f} s elapsed, {slowest[1]:.2f} s of the "
            "processor"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument("--part", default="null,edge,estimates,order,certificate,speed")
    parser.add_argument("--runs", type=int, default=2000, help="simulated audits of each kind")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--max-rows", type=int, default=1500)
    parser.add_argument("--sets", help="only cases of these sets")


def run(options: argparse.Namespace) -> None:
    """Run the parts that were asked for."""
    wanted = None if options.sets is None else options.sets.split(",")
    chosen, certified = ([c for c in some if wanted is None or c[0] in wanted] for some in (CASES, CERTIFIED))
    jobs = {
        "null": lambda: null(options.runs),
        "edge": lambda: edge(options.runs // 2),
        "estimates": lambda: estimates(chosen, options.seeds, options.max_rows),
        "order": lambda: order(chosen, options.max_rows),
        "certificate": lambda: certificate(certified, options.seeds, max(options.max_rows, 4000)),
        "speed": speed,
    }
    for part in options.part.split(","):
        print(f"\n== {part}")
        jobs[part]()
