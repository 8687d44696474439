"""What a batch costs each view, counted from its program: `python -m tpch.plans` (in tests/) prints a table.

steps       all of them
asked       questions to sources; `whole` are those by no key, which read whole tables
evaluated   what Spark evaluates: each ends a phase of the batch
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.maintenance.operators.program import Asked, Evaluated, Local, Program, reads


@dataclass(frozen=True)
class Plan:
    steps: int
    asked: int
    whole: tuple[str, ...]
    evaluated: int
    depth: int

    def __str__(self) -> str:
        whole = f"{len(self.whole)} ({', '.join(sorted(set(self.whole)))})" if self.whole else "0"
        return f"{self.steps} | {self.asked} | {whole} | {self.evaluated} | {self.depth}"


def plan_of(program: Program) -> Plan:
    asked = [step for step in program.steps if isinstance(step, Asked)]
    evaluated = sum(isinstance(step, Evaluated) for step in program.steps)
    nulls = {step.name for step in program.steps if isinstance(step, Local) and "IS NOT DISTINCT FROM NULL" in step.sql}
    whole = tuple(step.table.table.table for step in asked if not step.columns and step.keys not in nulls)
    return Plan(len(program.steps), len(asked), whole, evaluated, _depth(program))


def _depth(program: Program) -> int:
    """How many Evaluated steps stand in one line, each reading what the one before made."""
    found: dict[str, int] = {}
    for step in program.steps:
        before = max((found[name] for name in reads(step)), default=0)
        found[step.name] = before + isinstance(step, Evaluated)
    return max(found.values())


def table(plans: Iterable[tuple[str, Plan]]) -> str:
    head = "| view | steps | asked | of whole tables | evaluated | in a line |\n| --- | --- | --- | --- | --- | --- |"
    return "\n".join([head, *(f"| {name} | {plan} |" for name, plan in plans)])


if __name__ == "__main__":
    from .data import QUERIES, SCHEMA
    from .maintained import View
    from .standard import read_views

    views = {name: View(view, SCHEMA) for name, view in read_views(QUERIES).items()}
    core = "core" in sys.argv
    plans = [(name, plan_of(view.core if core else view.program)) for name, view in views.items()]
    sys.stdout.write(table(plans) + "\n")
