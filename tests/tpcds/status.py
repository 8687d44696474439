"""How far TPC-DS goes: `python -m tpcds.status` (in tests/) tries every query and prints what became of it.

A query is *maintained* if its tree, as built and as optimized, is the query as written, and if its program arrives at
every state of a short history. The lines are those of the table in docs/tpcds.md.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from sqlglot import exp

from headwater.algebra.relations import tables
from headwater.algebra.statements import ParsedView
from tpch.maintained import View, check_rendered, check_states
from tpch.plans import Plan, plan_of
from tpch.world import World

from .data import SCHEMA, VIEWS, Transactions, tiny

_CONSTRUCTS: dict[str, tuple[type[exp.Expr], ...]] = {
    "WITH": (exp.With,),
    "UNION": (exp.Union,),
    "INTERSECT": (exp.Intersect,),
    "EXCEPT": (exp.Except,),
    "ROLLUP": (exp.Rollup,),
    "window": (exp.Window,),
    "EXISTS": (exp.Exists,),
    "subquery": (exp.Subquery,),
    "DISTINCT": (exp.Distinct,),
}


@dataclass(frozen=True)
class Outcome:
    """`rows` is how many different rows were seen."""

    what: str
    rows: int = 0
    plan: Plan | None = None
    seconds: float = 0


def tried(name: str, seed: int, batches: tuple[int, ...] = (4, 3)) -> Outcome:
    started = time.monotonic()
    view = View(VIEWS[name], SCHEMA)
    try:
        read = {table.table for table in tables(view.built.relation)}
    except Exception as error:
        return Outcome(f"refused: {error}")
    world = World({t: SCHEMA[t] for t in read}, {t: rows for t, rows in tiny(seed).items() if t in read})
    check_rendered(view, world)
    seen = check_states(view, world, Transactions(world, seed, read).next, batches)
    return Outcome("maintained", len(seen), plan_of(view.program), time.monotonic() - started)


def uses(view: ParsedView) -> str:
    """The constructs of a query beyond joins and one grouping."""
    found = {word: view.select.find(*kinds) for word, kinds in _CONSTRUCTS.items()}
    found["outer join"] = next((j for j in view.select.find_all(exp.Join) if j.side), None)
    found["IN (query)"] = next((i for i in view.select.find_all(exp.In) if i.args.get("query")), None)
    found["LIMIT"] = view.select.args.get("limit")
    return ", ".join(word for word, node in found.items() if node is not None)


def line(name: str, found: Outcome) -> str:
    """A line of docs/tpcds.md."""
    return f"| {name} | {uses(VIEWS[name])} | {found.what} | {found.rows} | {found.plan or ' | | | | '} |"


if __name__ == "__main__":
    for name in sys.argv[1:] or VIEWS:
        try:
            found = tried(name, seed=1)
        except AssertionError as error:
            found = Outcome(f"wrong: {error}")
        except Exception as error:
            found = Outcome(f"{type(error).__name__}: {str(error)[:300]}")
        sys.stdout.write(line(name, found) + "\n")
        sys.stdout.flush()
