"""TID, sections 3 and 5: several tables at one source, and transactions over several of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import exponential
from headwater.lab.simulation.simulator import Capacity, Conditions, Simulation
from headwater.lab.worlds.workload import Mix, every, poisson, updates, weighted
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Ask,
    Effects,
    Factory,
    Node,
    Process,
    Strategy,
    StrategySetting,
    Update,
)
from headwater.maintenance.strategies.sweep import Sweep, sweep
from headwater.maintenance.strategies.tid_rules import tid_rules
from headwater.maintenance.strategies.waves import wave

SOURCES = 3
TABLES = (1, 2, 3)
"""Tables per source."""
DOMAIN, ROWS = 6, 9
QUIET, BUSY = 60.0, 0.25
"""Time between transactions when each is alone; transactions per unit of time when they meet."""
UPDATES = 12
RUNS = 10


def split(setting: StrategySetting) -> Strategy:
    """SWEEP as the paper describes it: every table is a fictitious source of its own, so a transaction over several
    tables is several updates."""
    return Strategy({WAREHOUSE: _Split(Sweep(setting))})


class _Split:
    """SWEEP, given each transaction in parts of one table."""

    def __init__(self, inner: Sweep) -> None:
        self._inner = inner

    def start(self) -> Effects:
        return self._inner.start()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if not isinstance(body, Update):
            return self._inner.receive(sender, body, now)
        parts = [body._replace(changes={table: change}) for table, change in body.changes.items()]
        return [effect for part in parts for effect in self._inner.receive(sender, part, now)]


ALGORITHMS: tuple[tuple[str, Factory], ...] = (
    ("SWEEP", sweep),
    ("SWEEP, fictitious sources", split),
    ("TID rules", tid_rules(0.0)),
    ("our wave", wave()),
)


def several(tables: int, seed: int) -> World:
    """A chain over all tables, those of a source in a row."""
    random = Random(seed)
    names = [f"S{1 + i // tables}.R{i}" for i in range(SOURCES * tables)]
    joins = names[0] + "".join(f" JOIN {t} ON R{i - 1}.A = R{i}.B" for i, t in enumerate(names) if i)
    select = f"SELECT R0.B AS first, R{len(names) - 1}.A AS last FROM {joins}"
    rows = {t: [(random.randrange(DOMAIN), random.randrange(DOMAIN)) for _ in range(ROWS)] for t in names}
    return World.of(dict.fromkeys(names, ("A", "B")), {"V": select}, rows)


class CountedRun(NamedTuple):
    """A run, and how many questions of each kind were asked in it."""

    history: History
    questions: Counter[str]
    """By the name of their class."""


class _Counting:
    """A process, and what it asks."""

    def __init__(self, inner: Process, asked: Counter[str]) -> None:
        self._inner = inner
        self._asked = asked

    def start(self) -> Effects:
        return self._noted(self._inner.start())

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        return self._noted(self._inner.receive(sender, body, now))

    def _noted(self, effects: Effects) -> Effects:
        wanted = list(effects)
        self._asked.update(type(e.question).__name__ for e in wanted if isinstance(e, Ask))
        return wanted


def measured(tables: int, factory: Factory, busy: bool, seed: int) -> CountedRun:
    """Transactions of one row alone, or of two rows that meet."""
    random = Random(seed)
    world = several(tables, seed)
    times: Iterator[float] = poisson(BUSY, random) if busy else every(QUIET, 10.0)
    origins = weighted(world.sources, [1.0] * SOURCES, random)
    world = updates(world, UPDATES, origins, times, seed, Mix(0.5, 2 if busy else 1, DOMAIN))
    conditions = Conditions(capacity=Capacity(1, exponential(1.0)), until=world.transactions[-1].at + 3 * QUIET)
    asked: Counter[str] = Counter()
    strategy = factory(world.setting())
    processes: dict[Node, Process] = {n: _Counting(p, asked) for n, p in strategy.processes.items()}
    history = Simulation(world, Strategy(processes, strategy.notified), conditions, seed).run()
    return CountedRun(history, asked)


def run(run: Run) -> Findings:
    rows: list[dict[str, float | str]] = []
    for tables, (name, factory) in run.each([(t, a) for t in TABLES for a in ALGORITHMS]):
        alone = measured(tables, factory, False, run.seed).questions
        meeting = [measured(tables, factory, True, run.seed * 1000 + r) for r in range(RUNS)]
        levels = [check(m.history).level for m in meeting]
        rows.append(
            {
                "tables": SOURCES * tables,
                "sources": SOURCES,
                "algorithm": name,
                "maintenance questions": sum(n for kind, n in alone.items() if kind in MAINTENANCE) / UPDATES,
                "level": min(levels, key=lambda level: level.rank).value,
                **{level.value: levels.count(level) for level in Consistency},
            }
        )
    names = [name for name, _ in ALGORITHMS]
    panels = [
        Panel(
            "Questions for the maintenance of one transaction",
            f"tables of the view (at {SOURCES} sources)",
            "questions",
            {
                name: [(int(r["tables"]), float(r["maintenance questions"])) for r in rows if r["algorithm"] == name]
                for name in names
            },
        ),
        Panel(
            f"Transactions over several tables: the level of {RUNS} runs each",
            kind="grid",
            cells=[
                ["tables", "algorithm", *(level.name.lower() for level in Consistency)],
                *(
                    [str(r["tables"]), str(r["algorithm"]), *(str(r[level.value]) for level in Consistency)]
                    for r in rows
                ),
            ],
        ),
    ]
    return Findings(rows, panels, _claims(rows), NOTES)


MAINTENANCE = ("Probe", "Own", "Join", "AsOf")
"""Questions that compute something; the others ask what has happened, or say what has been handled."""

NOTES = (
    "Counted are questions that compute: SWEEP's probes; what the TID rules ask in step 2; what the wave asks after "
    "polling. The TID rules also ask every source for its TIDs, again and again, and tell a source which to forget.",
    "SWEEP given a transaction over two tables at once computes ΔR1 ⋈ R2 and R1 ⋈ ΔR2 both with the other table as it "
    "is after the transaction: ΔR1 ⋈ ΔR2 counts twice, and the view is wrong for good. Given two updates of two "
    "fictitious sources it is right in the end, but shows a state between them, which the source never had.",
)


def _claims(rows: list[dict[str, float | str]]) -> list[Claim]:
    def of(name: str, column: str) -> dict[int, float]:
        return {int(r["tables"]): float(r[column]) for r in rows if r["algorithm"] == name}

    swept, ruled = of("SWEEP, fictitious sources", "maintenance questions"), of("TID rules", "maintenance questions")

    def runs(name: str, *levels: Consistency) -> int:
        found = [r for r in rows if r["algorithm"] == name and int(r["tables"]) > SOURCES]
        return sum(int(r[level.value]) for r in found for level in levels)

    total = RUNS * (len(TABLES) - 1)
    strong = runs("TID rules", Consistency.STRONG, Consistency.COMPLETE)
    torn = total - runs("SWEEP, fictitious sources", Consistency.STRONG, Consistency.COMPLETE)
    wrong = runs("SWEEP", Consistency.NONE, Consistency.WEAK, Consistency.CONSISTENCY)
    return [
        identity(
            "a view over n+1 tables at m sources needs n subqueries if every table is a source of its own",
            ", ".join(f"{q:.1f} (n = {t - 1})" for t, q in swept.items()),
            all(t - 1 - 1 < q <= t - 1 for t, q in swept.items()),
            "a loop over every table but the one that changed",
        ),
        identity(
            "a better strategy generates only m subqueries",
            ", ".join(f"{q:.1f} ({t} tables, m = {SOURCES})" for t, q in ruled.items()),
            all(q <= SOURCES for q in ruled.values()),
            "a loop over the sources; fewer where an empty intermediate result ends it early (SWEEP asks on). With one "
            "table per source m is one more than SWEEP needs: the changed source is asked for its own change",
        ),
        Claim(
            "strong consistency, without limit on the number of base relations per source, duplicates allowed",
            f"transactions over two rows of a source's tables: strong or better in {strong} of {total} runs",
            strong == total,
        ),
        Claim(
            "local compensation is not applicable when two tables of a view belong to the same source",
            f"SWEEP: wrong in the end in {wrong} of {total} runs; with fictitious sources less than strong in {torn} "
            f"of {total}",
            wrong > 0 and torn > 0,
            "It takes a transaction over two tables whose changes reach the view; not every run has one.",
        ),
    ]


EXPERIMENT = Experiment(
    name="tid-several-tables",
    paper="TID",
    shows="sections 3 and 5.4",
    title="Several tables at one source",
    did="The paper argues that compensating algorithms must treat the tables of one source as fictitious sources: a "
    "view over n+1 tables at m sources then takes n questions for each update, where m are enough.",
    found="The TID rules join the tables of a source where they are, and are strongly consistent for transactions over "
    "several of them.",
    here=f"Chains of {SOURCES}, {2 * SOURCES} and {3 * SOURCES} tables at {SOURCES} sources. Questions are counted for "
    "transactions that come one at a time; levels by the checker, for transactions over two rows of a source's tables "
    "that come faster than they are handled.",
    run=run,
)
