"""What answers buy: the bars of the audit, by simulated reviewers who know the truth.

`python benchmarks/certainty.py audit --part ...` picks one of
- null: false certificates of tests on the edge of being false (the set just under the promise, no test ever given
  up), one attempt after another as long as the budget lasts;
- whole: false certificates in whole audits of 200 answers; one counts if it was ever given, though a larger and true
  one may have followed. "forced": a share just under the promise is wrong, the noise model is replaced by one that
  takes all for wrong, no test is given up; or each after 50 draws, so that several follow. "learned": the same share
  of the most suspicious candidates of a real table, whose answers the noise model learns from, no test given up. "as
  it is": real tables with their own truth. `--csv` appends, so that many runs can be added up;
- estimates: error and coverage of the expected precision at 5 % with 0, 20, 50 and 200 answers;
- order: wrong labels found in 100 questions by the learning order, and by the static one;
- certificate: wrong labels removed with 300 answers;
- speed: the next question and a refit with a million candidates.
"""

import argparse
import os
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from _certainty_cases import one_case
from pmlkit import ClearPML
from pmlkit._arrays import row_of_cells
from pmlkit.cleaning import CleaningResult, clean
from pmlkit.cleaning.audit import Audit
from pmlkit.cleaning.audit import certificate as tests
from pmlkit.cleaning.audit.answers import RIGHT, WRONG
from pmlkit.cleaning.audit.certificate import SPENT, Attempt, Ledger, null_count, removable, settle
from pmlkit.cleaning.audit.noise_model import LearningOrder, curve_design
from pmlkit.cleaning.estimates import log_odds

Case = tuple[str, str, float | None]
N_ANSWERS = (0, 20, 50, 200)
REAL_TEXTS = ("so_emotions", "open_relations_crowd1", "movies_two_catalogues")
CASES: list[Case] = [
    *((name, kind, 0.1) for name in ("slashdot", "medical", "enron", "scene") for kind in ("uniform", "confusable")),
    ("yeast", "uniform", 0.1), ("emotions", "uniform", 0.1), ("yeast", "correlated", 0.1),
    ("tmc2007_500", "correlated", 0.1), ("scene", "uniform", 0.5), ("yeast", "confusable", 0.5),
    *((name, "real", None) for name in ("YeastCC", "YeastMF", "YeastBP", "lost_pll", *REAL_TEXTS)),
]  # fmt: skip
CERTIFIED: list[Case] = [("slashdot", "uniform", 0.5), ("lost_pll", "real", None), ("scene", "uniform", 0.5),
                         ("slashdot", "uniform", 0.25), ("open_relations_crowd1", "real", None)]  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Of whole audits: the share of wrong candidates that is made, or None for the true ones of the case."""

    name: str
    share: float | None = None
    case: Case | None = None
    answer_error: float = 0.0
    n_candidates: int = 8000
    most_draws: float = np.inf

    @property
    def is_forced(self) -> bool:
        """Whether everything is put to the test."""
        return self.case is None


SETTINGS = [
    *(Setting("forced", share) for share in (0.85, 0.88, 0.89, 0.895, 0.898, 0.899)),
    *(Setting(f"forced, {n} candidates", share, n_candidates=n) for n in (200, 400, 1000) for share in (0.895, 0.899)),
    *(Setting("forced, given up after 50 draws", share, most_draws=50.0) for share in (0.895, 0.899)),
    *(Setting("forced, 5 % of the answers mistaken", share, answer_error=0.05) for share in (0.88, 0.895)),
    *(
        Setting(f"learned, {case[0]}", share, case)
        for case in (("yeast", "uniform", 0.5), ("lost_pll", "real", None), ("so_emotions", "real", None))
        for share in (0.88, 0.895)
    ),
    *(Setting(f"as it is, {' '.join(map(str, filter(None, case)))}", None, case) for case in CERTIFIED),
]


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
    _answer_until(audit, wrong, n)
    return audit


def _answer_until(audit: Audit, wrong: np.ndarray, n: int) -> None:
    """Answer as the truth says until there are `n` answers, or nothing is left to ask."""
    while audit.n_answers < n and (question := audit.next()) is not None:
        audit.answer(question, "wrong" if wrong[question.cell] else "right")


def null(n_runs: int) -> None:
    """Print the share of audits with a false certificate, the sets being bad by one candidate."""
    for size, known, share in ((100, 0, 0.9), (400, 0, 0.9), (400, 100, 0.9), (400, 0, 0.88), (400, 0, 0.85)):
        rng = np.random.default_rng(size + known)
        n_false = 0
        truth = np.arange(size) < null_count(size, share)
        for _ in range(n_runs):
            wrong = rng.permutation(truth)
            verdict = np.zeros(size, dtype=np.int8)
            first = rng.permutation(size)[:known]
            verdict[first] = np.where(wrong[first], WRONG, RIGHT)
            attempts: list[Attempt] = []
            is_false = False
            for _ in range(3):
                seen, draws = np.flatnonzero(verdict == WRONG), rng.permutation(np.flatnonzero(verdict == 0))
                if not len(draws):
                    break
                left = settle(attempts, verdict, precision=0.9, budget=0.05).budget
                attempts.append(Attempt(seen, draws, left * SPENT, 0.95))
                for asked in np.array_split(draws[: int(rng.integers(20, max(21, len(draws) // 2 + 21)))], 12):
                    verdict[asked] = np.where(wrong[asked], WRONG, RIGHT)
                    is_false |= _any_false(
                        attempts, settle(attempts, verdict, precision=0.9, budget=0.05), verdict, wrong
                    )
            n_false += is_false
        print(
            f"sets of {size}, {known} known, {share:.0%} wrong: {n_false} of {n_runs} audits false "
            f"({n_false / n_runs:.1%}; bar 5 %)",
            flush=True,
        )


def _any_false(attempts: list[Attempt], ledger: Ledger, verdict: np.ndarray, wrong: np.ndarray) -> bool:
    """Return whether any statement that is made now is false."""
    gone = [
        removable(attempt.cells, verdict)
        for attempt, progress in zip(attempts, ledger.progress, strict=True)
        if progress.has_passed
    ]
    return any(wrong[cells].sum() < 0.9 * len(cells) for cells in gone)


def whole(n_runs: int, first_seed: int, csv: str | None) -> None:
    """Run whole audits whose candidates are just too seldom wrong, and others, and print the false certificates."""
    natural, given_up = LearningOrder.fit, (tests._FEW_DRAWS, tests._TOO_MANY)
    tables = []
    for setting in SETTINGS:
        lines: list[dict[str, Any]] = []
        result, given = _made_table(setting.n_candidates) if setting.case is None else prepared(setting.case, 0, 500)
        LearningOrder.fit = _sure if setting.is_forced else natural
        if setting.share is None:
            tests._FEW_DRAWS, tests._TOO_MANY = given_up
        else:
            tests._FEW_DRAWS, tests._TOO_MANY = setting.most_draws, 0.0
        for seed in range(first_seed, first_seed + n_runs):
            rng = np.random.default_rng([seed, 7])
            wrong = given if setting.share is None else _near_the_edge(result, setting, rng)
            said = wrong ^ (rng.random(len(wrong)) < setting.answer_error)
            audit = Audit(result, random_state=seed, repeats=0.0, answer_error=setting.answer_error)
            is_false, n_passed = False, 0
            while audit.n_answers < 200 and audit.next() is not None:
                _answer_until(audit, said, audit.n_answers + 1)
                passed = sum(progress.has_passed for progress in audit._tests.ledger.progress)
                # More that is seen to be right makes a statement only truer.
                if passed > n_passed:
                    is_false |= _any_false(audit._tests.begun, audit._tests.ledger, audit.verdict, wrong)
                n_passed = passed
            cells = audit._tests.certified(audit.verdict)
            lines.append(
                {"setting": setting.name, "share": setting.share, "answer_error": setting.answer_error, "seed": seed,
                 "candidates": len(wrong), "tests": len(audit._tests.begun), "certified": len(cells),
                 "seen": int((audit.verdict[cells] != 0).sum()),
                 "false": is_false}
            )  # fmt: skip
        tables.append(pd.DataFrame(lines))
        if csv is not None:
            tables[-1].to_csv(csv, mode="a", index=False, header=not os.path.exists(csv))
    LearningOrder.fit = natural
    tests._FEW_DRAWS, tests._TOO_MANY = given_up
    table = pd.concat(tables) if csv is None else pd.read_csv(csv)
    print(of_whole_audits(table).to_string(index=False))
    print(f"{len(table):,} whole audits, {table['false'].sum()} false ({table['false'].mean():.2%}; bar 5 %)")


def of_whole_audits(table: pd.DataFrame) -> pd.DataFrame:
    """Return a line per setting: audits, tests, certificates, their median size, and how many were false."""
    grouped = table.groupby(["setting", "share", "answer_error"], dropna=False, sort=False)
    return pd.DataFrame(
        {"audits": grouped.size(), "tests": grouped["tests"].mean().round(1),
         "certificates": grouped["certified"].agg(lambda sizes: int((sizes > 0).sum())),
         "median_size": grouped["certified"].median(), "median_seen": grouped["seen"].median(),
         "false": grouped["false"].sum(), "false_share": grouped["false"].mean().round(4)}
    ).reset_index()  # fmt: skip


def _made_table(n_candidates: int) -> tuple[Any, np.ndarray]:
    """Return a stand-in for a result, of about `n_candidates` candidates of which nothing is known."""
    rng = np.random.default_rng(0)
    n_labels = 8
    n_rows = round(n_candidates / (0.4 * n_labels))
    Y = sparse.csr_array((rng.random((n_rows, n_labels)) < 0.4).astype(float))
    result: Any = SimpleNamespace(
        X=None, Y=Y, rows=row_of_cells(Y), doubt=rng.uniform(0.85, 0.99, Y.nnz), scores=rng.random((n_rows, n_labels)),
        label_names=tuple(map(str, range(n_labels))), row_names=None, row_name=str, before_answers=None,
    )  # fmt: skip
    result.order = np.argsort(-result.doubt, kind="stable")
    return result, np.zeros(Y.nnz, dtype=bool)


def _near_the_edge(result: Any, setting: "Setting", rng: np.random.Generator) -> np.ndarray:
    """Return a made truth: in every stretch of the most suspicious candidates the same share is wrong.

    Of the most suspicious 60 % where questions are chosen by the noise model, the others being wrong one time in ten;
    of all where everything is put to the test.
    """
    n = len(result.order)
    n_top = n if setting.is_forced else int(0.6 * n)
    # Ranks in random order within stretches of 50, so that every prefix has the share but for a few candidates.
    place = np.lexsort((rng.random(n_top), np.arange(n_top) // 50))
    level = np.floor(np.arange(1, n_top + 1) * setting.share)
    by_rank = np.zeros(n, dtype=bool)
    by_rank[place] = np.diff(level, prepend=0.0) > 0
    by_rank[n_top:] = rng.random(n - n_top) < 0.1
    wrong = np.zeros(len(result.doubt), dtype=bool)
    wrong[result.order] = by_rank
    return wrong


def _sure(self: LearningOrder, verdict: np.ndarray, rng: np.random.Generator, answer_error: float = 0.0) -> None:
    """Stand in for a noise model that takes every candidate for wrong."""
    self.probability = np.where(verdict == WRONG, 1.0, np.where(verdict == RIGHT, 0.0, 0.99))


def estimates(cases: list[Case], n_seeds: int, max_rows: int, csv: str | None) -> None:
    """Print error and coverage of the expected precision at 5 %, without answers and with up to 200."""
    lines: list[dict[str, Any]] = []
    for case in cases:
        result, wrong = prepared(case, 0, max_rows)
        n_top = max(1, round(0.05 * len(result.order)))
        truth, rate = wrong[result.order[:n_top]].mean(), wrong[result.order].mean()
        group = "real" if case[2] is None else f"{case[2]:.0%}"
        for seed in range(n_seeds):
            audit = Audit(result, random_state=seed)
            said: Any = result
            for n_answers in N_ANSWERS:
                if n_answers:
                    _answer_until(audit, wrong, n_answers)
                    said = audit
                top = said.expected_precision(0.05)
                overall = audit.noise_rate_ if n_answers else result.noise_rate_.overall
                lines.append(
                    {"set": case[0], "noise": case[1], "group": group, "seed": seed, "answers": n_answers,
                     "true": truth, "said": float(top), "low": top.low, "high": top.high, "rate_true": rate,
                     "rate": float(overall), "rate_low": overall.low, "rate_high": overall.high}
                )  # fmt: skip
        print(of_estimates(pd.DataFrame(lines[-n_seeds * len(N_ANSWERS) :]), ["set", "noise"]).to_string(header=False))
    table = pd.DataFrame(lines)
    if csv is not None:
        table.round(4).to_csv(csv, index=False)
    print(of_estimates(table, ["group"]).to_string())


def of_estimates(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the mean error of the expected precision, and how often its interval and that of the rate hold."""
    slack = 1e-9
    found = table.assign(
        error=(table["said"] - table["true"]).abs(),
        holds=(table["low"] - slack <= table["true"]) & (table["true"] <= table["high"] + slack),
        rate_holds=(table["rate_low"] - slack <= table["rate_true"])
        & (table["rate_true"] <= table["rate_high"] + slack),
        rate_error=(table["rate"] - table["rate_true"]).abs(),
    )
    return found.groupby([*by, "answers"], sort=False)[["error", "holds", "rate_error", "rate_holds"]].mean().round(3)


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


def certificate(cases: list[Case], n_seeds: int, max_rows: int, csv: str | None) -> None:
    """Print wrong labels removed with 300 answers, and keep how they grow."""
    lines: list[dict[str, Any]] = []
    for case in cases:
        result, wrong = prepared(case, 0, max_rows)
        violated = 0
        for seed in range(n_seeds):
            audit = Audit(result, random_state=seed)
            cells = np.empty(0, dtype=int)
            for n_answers in range(0, 301, 20):
                _answer_until(audit, wrong, n_answers)
                cells = audit.certificate.cells if audit.certificate is not None else cells[:0]
                lines.append(
                    {"set": case[0], "noise": case[1], "level": case[2], "seed": seed, "answers": n_answers,
                     "certified": len(cells), "certified_wrong": wrong[cells].sum(),
                     "removed_wrong": wrong[audit.removed].sum(), "all_wrong": wrong.sum()}
                )  # fmt: skip
            violated += len(cells) > 0 and wrong[cells].mean() < 0.9
        last = pd.DataFrame([line for line in lines[-n_seeds * 16 :] if line["answers"] == 300])
        certified, removed = last["certified_wrong"], last["removed_wrong"]
        print(
            f"{case[0]:24s}{case[1]:12s}{case[2]!s:6s} {wrong.sum()} wrong of {len(wrong)}: certified "
            f"{certified.mean():.0f} ({certified.min()}-{certified.max()}), removed {removed.mean():.0f} "
            f"({removed.min()}-{removed.max()}); promise broken in {violated} of {n_seeds}",
            flush=True,
        )
    if csv is not None:
        pd.DataFrame(lines).to_csv(csv, index=False)


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
        row_name=str, before_answers=None,
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
    parser.add_argument("--part", default="null,whole,estimates,order,certificate,speed")
    parser.add_argument("--runs", type=int, default=2000, help="simulated audits of each kind")
    parser.add_argument("--first-seed", type=int, default=0, help="of whole audits")
    parser.add_argument("--csv", help="one part at a time: a line per audit (whole: appends) and number of answers")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--max-rows", type=int, default=1500)
    parser.add_argument("--sets", help="only cases of these sets")


def run(options: argparse.Namespace) -> None:
    """Run the parts that were asked for."""
    wanted = None if options.sets is None else options.sets.split(",")
    chosen, certified = ([c for c in some if wanted is None or c[0] in wanted] for some in (CASES, CERTIFIED))
    jobs = {
        "null": lambda: null(options.runs),
        "whole": lambda: whole(options.runs // 10, options.first_seed, options.csv),
        "estimates": lambda: estimates(chosen, options.seeds, options.max_rows, options.csv),
        "order": lambda: order(chosen, options.max_rows),
        "certificate": lambda: certificate(certified, options.seeds, max(options.max_rows, 4000), options.csv),
        "speed": speed,
    }
    for part in options.part.split(","):
        print(f"\n== {part}")
        jobs[part]()
