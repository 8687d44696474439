"""How much later views show an update because they wait for each other: the study MVC's conclusion announces."""

from __future__ import annotations

from statistics import mean
from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.many_views import PAINTING, SIMPLE, ViewsPlan, busy_star, delays, many_views, torn
from headwater.lab.simulation.network import exponential
from headwater.lab.simulation.simulator import Conditions, Simulation

UPDATES = 1_000
RATE = 2.0
PER_TABLE = (1, 2, 4, 8, 16)
KINDS = ("no merge, complete managers", "Simple Painting", "no merge, strong managers", "Painting")


def run(run: Run) -> Findings:
    rows: list[dict[str, Any]] = []
    for views in run.each(PER_TABLE):
        world = busy_star(views, UPDATES, RATE, run.seed)
        names = [spj.name for spj in world.compiled]
        for kind in KINDS:
            merges = {} if kind.startswith("no merge") else dict.fromkeys(names, "merge")
            strong = kind in ("Painting", "no merge, strong managers")
            plan = ViewsPlan(exponential(1.0), strong, merges, PAINTING if strong else SIMPLE)
            history = Simulation(world, many_views(world, plan, run.seed), Conditions(), run.seed).run()
            late = delays(history, world)
            rows.append(
                {
                    "views per table": views,
                    "kind": kind,
                    "mean delay": mean(late),
                    "longest delay": max(late),
                    "states": len(history.states),
                    "torn states": torn(history, world),
                }
            )
    return Findings(rows, _panels(rows), _claims(rows))


def _of(rows: list[dict[str, Any]], kind: str, field: str) -> dict[int, float]:
    return {r["views per table"]: r[field] for r in rows if r["kind"] == kind}


def _panels(rows: list[dict[str, Any]]) -> list[Panel]:
    def lines(field: str) -> dict[str, list[tuple[int, float]]]:
        return {kind: list(_of(rows, kind, field).items()) for kind in KINDS}

    return [
        Panel("Time until a view shows an update", "views per table", "mean delay", lines("mean delay")),
        Panel("States in which views disagree", "views per table", "fraction of states", lines("torn states")),
    ]


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    torn_without = _of(rows, KINDS[0], "torn states")
    torn_with = [max(_of(rows, kind, "torn states").values()) for kind in ("Simple Painting", "Painting")]
    alone, merged = _of(rows, KINDS[0], "mean delay"), _of(rows, "Simple Painting", "mean delay")
    alone_s, merged_s = _of(rows, KINDS[2], "mean delay"), _of(rows, "Painting", "mean delay")
    few, last = PER_TABLE[1], PER_TABLE[-1]
    return [
        Claim(
            "The merge process makes all views change together (theorems 4.1 and 5.1).",
            f"torn states with Simple Painting {torn_with[0]:.0%} and Painting {torn_with[1]:.0%}; without a merge "
            f"{torn_without[few]:.0%} with {few} views per table, {torn_without[last]:.0%} with {last}",
            max(torn_with) == 0 and min(v for k, v in torn_without.items() if k > 1) > 0,
        ),
        identity(
            "Holding action lists until related ones arrive delays the views; the paper leaves the amount open.",
            f"Simple Painting: {merged[last] / alone[last]:.2f} times the delay with {last} views per table, "
            f"{merged[few] / alone[few]:.2f} times with {few}",
            merged[last] > alone[last],
            "the managers take the same time with and without a merge, which can only hold back: the wait is for the "
            "slowest of the views that share a transaction, and for all transactions before it. How much is measured",
        ),
        Claim(
            "Strong managers that batch are often more desirable in practice (section 2.2).",
            f"with {last} views per table: Painting {merged_s[last]:.1f}, Simple Painting {merged[last]:.1f}; without "
            f"a merge {alone_s[last]:.1f} and {alone[last]:.1f}",
            merged_s[last] < merged[last],
            "Painting may hold back a batch because batches of several managers overlap: with many managers that never "
            "rest together it releases late. The engine's managers meet at common points for that reason.",
        ),
    ]


EXPERIMENT = Experiment(
    name="mvc-freshness",
    paper="MVC",
    shows="section 7",
    title="What waiting for each other costs in freshness",
    did="The paper announces a performance study of the merge algorithms, and does not print one.",
    found="Nothing yet. To be expected: the merge process delays a view until the managers of the views that it must "
    "agree with are done.",
    here=f"Four tables, {PER_TABLE[0]} to {PER_TABLE[-1]} views on each, {RATE:g} transactions per unit of time. "
    "Computing a view's change takes an exponentially distributed time, 1 on average. Managers that take one "
    "transaction at a time (complete) with Simple Painting, managers that take all that waits (strong) with Painting, "
    "and both without any merge.",
    run=run,
)
