"""Compare methods: plans, a runner that can be killed and resumed, and its store of results."""

from pmlkit.bench.plan import Plan
from pmlkit.bench.plan_file import parse_plan, plan_text, read_plan
from pmlkit.bench.plan_words import PlanError
from pmlkit.bench.run import RunSummary, run_plan
from pmlkit.bench.store import RunFacts, load_cells, load_plan_facts

__all__ = [
    "Plan",
    "PlanError",
    "RunFacts",
    "RunSummary",
    "load_cells",
    "load_plan_facts",
    "parse_plan",
    "plan_text",
    "read_plan",
    "run_plan",
]
