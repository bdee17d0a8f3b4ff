"""Benchmarks: plans, a runner that can be interrupted and resumed, a store of results, and reports."""

from pmlkit.bench.plan import Plan, parse_plan, plan_text, read_plan
from pmlkit.bench.plan_entries import PlanError
from pmlkit.bench.reporting import Report, report
from pmlkit.bench.runner import ProgressCallback, RunSummary, run
from pmlkit.bench.store_reader import RunFacts, load_cells, load_plan_facts

__all__ = [
    "Plan",
    "PlanError",
    "ProgressCallback",
    "Report",
    "RunFacts",
    "RunSummary",
    "load_cells",
    "load_plan_facts",
    "parse_plan",
    "plan_text",
    "read_plan",
    "report",
    "run",
]
