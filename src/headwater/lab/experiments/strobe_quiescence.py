"""PVM, sections 1.1 and 8, table 4: Strobe waits until no query is under way, which may be for ever."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.table4 import EVEN, Table4Algorithm, named
from headwater.lab.simulation.simulator import simulate
from headwater.lab.worlds.keyed import keyed_chain, keyed_updates
from headwater.lab.worlds.workload import Mix, every, in_turn

ALGORITHMS = named("Strobe", "C-Strobe", "SWEEP", "POSSE", "PVM CC", "our wave")
M = 3
QUERY = M - 1.0
"""Seconds that the questions about one insert take, if nothing else is going on."""
INTERVALS = (0.75, 1.0, 1.25, 1.5, 1.75, 2.25, 2.5, 3.0, 4.0)
NUMBERS = (10, 20, 40, 80, 160)
N, BUSY = 40, 1.5
"""Updates where the interval is varied; the interval where their number is: a query is always under way then."""


def run(run: Run) -> Findings:
    rows = []
    for interval in run.each(INTERVALS):
        rows += [_row(algorithm, N, interval, run.seed) | {"varied": "interval"} for algorithm in ALGORITHMS]
    for n in NUMBERS:
        rows += [_row(algorithm, n, BUSY, run.seed) | {"varied": "number"} for algorithm in ALGORITHMS]
    shown = f"mean delay until the warehouse shows an update (seconds), {M} sources"
    panels = [
        Panel(
            f"{N} updates, ever closer", "interval between updates (seconds)", shown, _lines(rows, "interval", "delay"),
            log_y=True,
        ),
        Panel(
            f"An update every {BUSY:g} s, ever longer", "number of updates", shown, _lines(rows, "number", "delay"),
            log_x=True, log_y=True,
        ),
        Panel(
            f"An update every {BUSY:g} s: states before the last update", "number of updates", "states",
            _lines(rows, "number", "states before the end"),
        ),
    ]  # fmt: skip
    fast = {row["algorithm"]: row["delay"] for row in rows if row["interval"] == INTERVALS[0]}
    ours = [row["delay"] for row in rows if row["varied"] == "number" and row["algorithm"] == "our wave"]
    notes = [
        f"Strobe's delay ends with the updates, since all its queries run at the same time: with {N} updates every "
        f"{INTERVALS[0]:g} s it is {fast['Strobe']:.1f} s on average; SWEEP, one by one, has {fast['SWEEP']:.1f} s. "
        f"But no state appears before the end.",
        f"Our wave takes a poll and up to {2 * (M - 1)} questions per batch, and an update may just have missed one. "
        f"That costs time, but it does not add up: a delay of {ours[0]:.1f} s with {NUMBERS[0]} updates every {BUSY:g} "
        f"s, and of {ours[-1]:.1f} s with {NUMBERS[-1]}.",
    ]
    return Findings(rows, panels, _claims(rows), notes)


def _row(algorithm: Table4Algorithm, n: int, interval: float, seed: int) -> dict[str, Any]:
    """Inserts only: a delete needs no query, so that Strobe would pause by chance."""
    world = keyed_chain(M, rows=8, domain=8, seed=seed)
    world = keyed_updates(world, n, in_turn(world.sources), every(interval), seed, Mix(deletes=0.0, domain=8))
    history = simulate(world, algorithm.make(world), EVEN, seed)
    delays = history.staleness()
    return {
        "algorithm": algorithm.name,
        "updates": n,
        "interval": interval,
        "delay": fmean(delays),
        "longest": max(delays),
        "states before the end": history.states_before_last_commit,
    }


def _lines(rows: list[dict[str, Any]], varied: str, y: str) -> dict[str, list[tuple[float, float]]]:
    x = "interval" if varied == "interval" else "updates"
    return {
        a.name: [(row[x], row[y]) for row in rows if row["varied"] == varied and row["algorithm"] == a.name]
        for a in ALGORITHMS
    }


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    def at(name: str, n: int, interval: float) -> dict[str, Any]:
        return next(r for r in rows if (r["algorithm"], r["updates"], r["interval"]) == (name, n, interval))

    few, many = NUMBERS[0], NUMBERS[-1]
    growth = {a.name: at(a.name, many, BUSY)["delay"] / at(a.name, few, BUSY)["delay"] for a in ALGORITHMS}
    states = {a.name: at(a.name, many, BUSY)["states before the end"] for a in ALGORITHMS}
    paused = min(i for i in INTERVALS if i > QUERY)
    others = ("C-Strobe", "SWEEP", "POSSE", "PVM CC")
    return [
        Claim(
            "Strobe is subject to the potential threat of infinite waiting: the data warehouse may never get updated",
            f"an update every {BUSY:g} s, {many} of them: {states['Strobe']:g} states before the last; the mean delay "
            f"grows {growth['Strobe']:.1f}-fold from {few} to {many} updates",
            states["Strobe"] == 0 and growth["Strobe"] > 0.5 * many / few,
        ),
        Claim(
            "SWEEP, C-Strobe, POSSE and PVM require no quiescent state before the data warehouse is updated",
            "states before the last update: " + ", ".join(f"{name} {states[name]:.0f}" for name in others),
            all(states[name] > 0 for name in others),
            f"That they commit does not mean that they keep up: one by one, {QUERY:g} s each, C-Strobe and SWEEP fall "
            f"behind an update every {BUSY:g} s (delay {growth['C-Strobe']:.1f}- and {growth['SWEEP']:.1f}-fold). "
            f"POSSE ({growth['POSSE']:.1f}) and PVM CC ({growth['PVM CC']:.1f}) are fast enough.",
        ),
        identity(
            "Strobe commits when the unanswered query set is empty",
            f"at an interval of {paused:g} s, more than the {QUERY:g} s of a query, its mean delay is "
            f"{at('Strobe', N, paused)['delay']:.2f} s, SWEEP's {at('SWEEP', N, paused)['delay']:.2f} s",
            at("Strobe", N, paused)["delay"] <= at("SWEEP", N, paused)["delay"],
            "every update is alone then: both ask the same questions, and there is nothing to wait for",
        ),
        Claim(
            "PVM shortens the time in which the data warehouse lags behind (section 1.1)",
            f"at an interval of {BUSY:g} s and {many} updates: PVM CC {at('PVM CC', many, BUSY)['delay']:.1f} s, SWEEP "
            f"{at('SWEEP', many, BUSY)['delay']:.1f} s, Strobe {at('Strobe', many, BUSY)['delay']:.1f} s",
            at("PVM CC", many, BUSY)["delay"] < at("SWEEP", many, BUSY)["delay"],
        ),
    ]


EXPERIMENT = Experiment(
    name="strobe-quiescence",
    paper="PVM",
    shows="section 1.1 and 8, table 4",
    title="Waiting for a quiet moment",
    did="The paper says of Strobe that it commits only when no query is unanswered, so that the warehouse may wait for "
    "ever; table 4 lists who requires such a moment. It did not measure it.",
    found="Strobe requires quiescence. C-Strobe, SWEEP, POSSE and PVM do not.",
    here=f"{M} sources, a question takes one second, so an insert needs {QUERY:g} s. Inserts come at equal intervals: "
    "if these are shorter, some query is always under way. The delay is the time from an update's commit at its source "
    "until a state of the warehouse shows it.",
    run=run,
)
