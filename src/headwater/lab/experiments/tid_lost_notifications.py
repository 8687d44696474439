"""TID, sections 2 and 5: notifications that are lost, or arrive in another order."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import Delay, Link, Network, constant, exponential
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import Mix, chain, poisson, updates, weighted
from headwater.lab.worlds.world import World, after
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Effects,
    Factory,
    Node,
    Process,
    Send,
    Strategy,
    StrategySetting,
    Update,
)
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.tid_rules import tid_rules
from headwater.maintenance.strategies.waves import wave

ALGORITHMS: tuple[tuple[str, Factory], ...] = (
    ("SWEEP", sweep),
    ("PVM CC", pvm_cc(4)),
    ("TID rules", tid_rules(10.0)),
    ("our wave", wave(every=10.0)),
)
RATES = (0.0, 0.01, 0.05)
RUNS = 16
UPDATES = 25
SOURCES, ROWS, DOMAIN = 3, 12, 6
RATE = 0.5
"""Transactions per unit of time."""
DELAY, LATE = 0.5, 4.0
"""Of every message, and of a notification that is overtaken."""
AFTER = 100.0

POST: Node = "post"


def by_post(factory: Factory) -> Factory:
    """The same strategy, notified by another channel than the one that answers come by."""

    def posted(setting: StrategySetting) -> Strategy:
        strategy = factory(setting)
        processes: Mapping[Node, Process] = {**strategy.processes, POST: _Post()}
        return Strategy(processes, lambda source: (POST,) if strategy.notified(source) else ())

    return posted


class _Post:
    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Update, now: float) -> Effects:
        return [Send(WAREHOUSE, body)]


def conditions(world: World, loss: float, misordered: float) -> Conditions:
    """Questions and answers always arrive, in order. So do notifications, but for these shares of them."""

    def late(random: Random) -> float:
        return DELAY + (LATE if random.random() < misordered else 0.0)

    delay: Delay = late if misordered else constant(DELAY)
    post = Link(delay, fifo=not misordered, loss=loss)
    links = {(source, POST): post for source in world.sources} | {(POST, WAREHOUSE): Link()}
    return Conditions(
        Network(Link(constant(DELAY)), links),
        Capacity(1, exponential(1.0)),
        until=world.transactions[-1].at + AFTER,
    )


def busy(seed: int) -> World:
    random = Random(seed)
    world = chain(SOURCES, ROWS, DOMAIN, seed)
    origins = weighted(world.sources, [1.0] * SOURCES, random)
    return updates(world, UPDATES, origins, poisson(RATE, random), seed, Mix(0.5, 1, DOMAIN))


def wrong_rows(world: World, history: History) -> int:
    """Rows too many or too few in the view, at the end; counts below zero too, though no reader sees them."""
    right = world.compiled[0].evaluate(after(world.initial, history.transactions))
    return sum(abs(count) for _, count in history.final()["V"] - right)


def run(run: Run) -> Findings:
    rows: list[dict[str, Any]] = []
    kinds = [("lost", rate) for rate in RATES] + [("misordered", rate) for rate in RATES[1:]]
    for kind, rate in run.each(kinds):
        for name, factory in ALGORITHMS:
            levels, wrong = [], []
            for r in range(RUNS):
                seed = run.seed * 1000 + r
                world = busy(seed)
                shares = (rate, 0.0) if kind == "lost" else (0.0, rate)
                history = simulate(world, by_post(factory), conditions(world, *shares), seed)
                levels.append(check(history).level)
                wrong.append(wrong_rows(world, history))
            rows.append(
                {
                    "kind": kind,
                    "rate": rate,
                    "algorithm": name,
                    "runs that are right at the end": sum(1 for w in wrong if not w),
                    "wrong rows per run": sum(wrong) / RUNS,
                    "lowest level": min(levels, key=lambda level: level.rank).value,
                    **{level.value: levels.count(level) for level in Consistency},
                }
            )
    return Findings(rows, _panels(rows), _claims(rows))


def _of(rows: list[dict[str, Any]], kind: str, name: str) -> list[dict[str, Any]]:
    """Rate by rate; rate 0 is the same for both kinds."""
    return [r for r in rows if r["algorithm"] == name and (r["kind"] == kind or r["rate"] == 0.0)]


def _panels(rows: list[dict[str, Any]]) -> list[Panel]:
    names = [name for name, _ in ALGORITHMS]
    return [
        Panel(
            f"Notifications {kind}: runs that end right",
            f"notifications {kind}",
            f"of {RUNS} runs",
            {
                name: [(f"{r['rate']:.0%}", r["runs that are right at the end"]) for r in _of(rows, kind, name)]
                for name in names
            },
            kind="bars",
        )
        for kind in ("lost", "misordered")
    ] + [
        Panel(
            f"Notifications {kind}: wrong rows at the end",
            f"notifications {kind}",
            "rows per run",
            {name: [(100 * r["rate"], r["wrong rows per run"]) for r in _of(rows, kind, name)] for name in names},
        )
        for kind in ("lost", "misordered")
    ]


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    def right(kind: str, name: str, rate: float) -> int:
        return next(int(r["runs that are right at the end"]) for r in _of(rows, kind, name) if r["rate"] == rate)

    def strong(name: str) -> int:
        found = [r for r in rows if r["algorithm"] == name]
        return sum(int(r[level.value]) for r in found for level in (Consistency.STRONG, Consistency.COMPLETE))

    def lowest(name: str, kind: str, rate: float) -> str:
        return next(str(r["lowest level"]) for r in _of(rows, kind, name) if r["rate"] == rate)

    compensating = ("SWEEP", "PVM CC")
    total = RUNS * (2 * len(RATES) - 1)
    some, most = RATES[1:]

    def listed(kind: str) -> str:
        return "; ".join(f"{n} {'/'.join(str(right(kind, n, rate)) for rate in RATES)}" for n in compensating)

    return [
        Claim(
            "compensating algorithms need reliable channels that keep their order, to work correctly",
            f"runs of {RUNS} that end right, at {' / '.join(f'{100 * rate:g}' for rate in RATES)} % lost: "
            f"{listed('lost')}; misordered: {listed('misordered')}",
            all(
                right("lost", n, 0.0) == RUNS and right("lost", n, most) < RUNS and right("misordered", n, most) < RUNS
                for n in compensating
            ),
        ),
        Claim(
            "1 percent of all messages are delivered in another order in a heavily loaded local area network, which "
            "is enough to matter",
            f"level that all runs reach with {100 * some:g} % misordered: "
            + ", ".join(f"{n}: {lowest(n, 'misordered', some)}" for n, _ in ALGORITHMS),
            all(lowest(n, "misordered", some) != Consistency.COMPLETE.value for n in compensating),
        ),
        identity(
            "the TID rules work without notifications: their loss or misordering does not matter",
            f"strong or better in {strong('TID rules')} of {total} runs; wrong rows: "
            f"{sum(r['wrong rows per run'] for r in rows if r['algorithm'] == 'TID rules'):g}",
            strong("TID rules") == total,
            "they are not sent any, so nothing of theirs is lost; that they are strong is their part of "
            "tid-several-tables",
        ),
        Claim(
            "(ours) the wave polls, a notification only says that it is worthwhile",
            f"strong or better in {strong('our wave')} of {total} runs",
            strong("our wave") == total,
        ),
    ]


EXPERIMENT = Experiment(
    name="tid-lost-notifications",
    paper="TID",
    shows="sections 2 and 5",
    title="Lost and overtaken notifications",
    did="The paper cites a study in which 1 percent of all messages of a heavily loaded local network were delivered "
    "in another order, and argues that compensating algorithms then fail, while its own does not use notifications.",
    found="The TID rules need neither reliable nor ordered notifications, and are strongly consistent.",
    here=f"{RUNS} runs of {UPDATES} updates at {SOURCES} sources for each rate of loss, and of misordering. Only "
    "notifications are lost or overtaken; questions and answers arrive, as they do over TCP. Wrong rows are counted at "
    "the end, with counts below zero, which no reader sees; the level is the checker's, of what readers see.",
    run=run,
)
