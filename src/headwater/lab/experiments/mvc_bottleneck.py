"""Where the merge process becomes the bottleneck, and how far splitting it helps (section 6.1)."""

from __future__ import annotations

from statistics import mean
from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.many_views import ViewsPlan, busy_star, delays, many_views
from headwater.lab.simulation.network import exponential
from headwater.lab.simulation.simulator import Conditions, Simulation

UPDATES = 1_500
COST = 0.02
"""What one message takes the merge process."""
COMPUTING = 0.1
"""What a manager takes on average: half of its time at the highest rate."""
VIEWS = (2, 8)
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9, 1.1, 1.3)
"""Transactions per unit of time, as fractions of what one merge process can take: 1 / (COST · (1 + views))."""


def run(run: Run) -> Findings:
    rows: list[dict[str, Any]] = []
    for views, load in run.each([(v, x) for v in VIEWS for x in LOADS]):
        rate = load / (COST * (1 + views))
        world = busy_star(views, UPDATES, rate, run.seed)
        names = [spj.name for spj in world.compiled]
        for merges, nodes in (("one merge", 1), ("a merge per table", 4)):
            placed = {name: f"merge{name[1] if nodes > 1 else ''}" for name in names}
            plan = ViewsPlan(exponential(COMPUTING), merges=placed)
            history = Simulation(world, many_views(world, plan, run.seed), Conditions(local=COST), run.seed).run()
            late = delays(history, world)
            half = len(late) // 2
            rows.append(
                {
                    "views per table": views,
                    "load": load,
                    "rate": rate,
                    "merges": merges,
                    "mean delay": mean(late),
                    "mean delay, second half": mean(late[half:]),
                    "mean delay, first half": mean(late[:half]),
                }
            )
    return Findings(rows, _panels(rows), _claims(rows))


def _delay(rows: list[dict[str, Any]], views: int, merges: str) -> dict[float, tuple[float, float]]:
    return {
        r["load"]: (r["mean delay, first half"], r["mean delay, second half"])
        for r in rows
        if r["views per table"] == views and r["merges"] == merges
    }


def _panels(rows: list[dict[str, Any]]) -> list[Panel]:
    return [
        Panel(
            f"{views} views per table",
            "load of one merge process",
            "mean delay, second half of the run",
            {
                merges: [(load, late) for load, (_, late) in _delay(rows, views, merges).items()]
                for merges in ("one merge", "a merge per table")
            },
            log_y=True,
        )
        for views in VIEWS
    ]


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    one = {views: _delay(rows, views, "one merge") for views in VIEWS}
    split = {views: _delay(rows, views, "a merge per table") for views in VIEWS}
    grows = {v: {load: b / a for load, (a, b) in d.items()} for v, d in one.items()}
    return [
        identity(
            "A single merge process may become a bottleneck (section 6.1).",
            "; ".join(
                f"{v} views per table: the second half of the run is {grows[v][LOADS[0]]:.1f} times as late as the "
                f"first at load {LOADS[0]}, {grows[v][LOADS[-1]]:.1f} times at load {LOADS[-1]}"
                for v in VIEWS
            ),
            all(grows[v][LOADS[-1]] > 1.5 > grows[v][LOADS[0]] for v in VIEWS),
            "the load is defined as a share of what the process can take, one message per transaction and one per view "
            "it concerns: 1/(c·(1+views)) transactions per unit of time; above that any queue grows",
        ),
        identity(
            "Views that share no base relations may have merge processes of their own (section 6.1).",
            "; ".join(
                f"{v} views per table at load {LOADS[-1]}: {split[v][LOADS[-1]][1]:.2f} instead of "
                f"{one[v][LOADS[-1]][1]:.2f}"
                for v in VIEWS
            ),
            all(split[v][LOADS[-1]][1] < 0.5 * one[v][LOADS[-1]][1] for v in VIEWS),
            "with four merge processes each has a quarter of a load that is defined as too much for one",
        ),
    ]


EXPERIMENT = Experiment(
    name="mvc-bottleneck",
    paper="MVC",
    shows="sections 6.1 and 7",
    title="Where the merge process becomes the bottleneck",
    did="The paper says that one merge process may become a bottleneck, and that it can be split by groups of views "
    "that share no base relations.",
    found="Open: a study is announced, not printed.",
    here=f"Four tables with {VIEWS[0]} or {VIEWS[1]} views each. Every message takes the merge process {COST} units of "
    f"time; the load goes from {LOADS[0]:g} to {LOADS[-1]:g} times what it can take. The managers are fast enough for "
    "all of it.",
    run=run,
)
