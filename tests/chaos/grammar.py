"""What may happen: a seed gives a list of events, always the same.

An event is one statement on one connection, one whole transaction at a SQLite file, or something that is done to a
server, a file or a process. Scripts (transactions of several statements) are dealt to connections and their statements
shuffled into each other; that is where most interleavings come from.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .ddl import HARMLESS, PARTITIONS, REWRITING, VALUES
from .postgres_grammar import close_period, transaction
from .sqlite_grammar import crm_transaction, stock_transaction

CONNECTIONS = ("c0", "c1", "c2")
CLOSER, CLERK, WRITER = "c3", "c4", "c5"


@dataclass(frozen=True)
class Event:
    """`who` is a connection, a file or a process; `text` the statements, one per line."""

    kind: str
    who: str = ""
    text: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.who, self.text.replace("\n", " ; ")) if part)


Maker = Callable[[random.Random], list[Event]]


@dataclass(frozen=True)
class World:
    """A kind of world: how many events, and what happens beside reading and writing, with its weight."""

    name: str
    events: int
    special: tuple[tuple[int, Maker], ...] = ()
    checks: int = 3


def _storm(rng: random.Random) -> list[Event]:
    return [Event("storm", text=str(rng.randint(1, 999)))]


def _alter(names: tuple[str, ...]) -> Maker:
    return lambda rng: [Event("alter", text=rng.choice(names))]


def _kill(rng: random.Random) -> list[Event]:
    victim = rng.choice(("run", "run", "worker", "daemon", "jvm", "pause", "interrupt"))
    if victim == "interrupt":
        return [Event("interrupt"), Event("sleep", text="0.2"), Event("start")]
    if victim == "pause":
        return [Event("pause"), Event("sleep", text="1")]  # the next check lets it go on
    return [Event("kill", victim), Event("sleep", text="0.5")]


def _file(rng: random.Random) -> list[Event]:
    name = rng.choice(("crm", "stock"))
    deed = rng.choice(("back-up", "restore", "restore", "copy-file", "move-file"))
    if deed == "restore":
        more = [Event("sqlite", name, crm_transaction(rng) if name == "crm" else stock_transaction(rng)) for _ in "abc"]
        return [
            Event("back-up", name), *more, Event("sleep", text="0.6"),
            Event("restore-file", name, rng.choice(("past", "short"))),
        ]  # fmt: skip
    return [Event(deed, name, "0.7" if deed == "move-file" else "")]


def _server(rng: random.Random) -> list[Event]:
    """A crash; or a copy, and back to it, with commits that the copy lacks and others that take their place."""
    if rng.random() < 0.5:
        return [Event("crash", text=rng.choice(("0", "0.4", "1")))]
    seen = Event("sleep", text=rng.choice(("0", "0.6", "1.5")))
    return [Event("copy-server"), *_writes(rng), seen, Event("restore-server"), *_writes(rng)]


def _writes(rng: random.Random) -> list[Event]:
    scripts = [transaction(rng, f"w{rng.randint(1, 9999)}", lambda: rng.randint(2000, 4000)) for _ in range(3)]
    return [Event("pg", WRITER, text) for script in scripts for text in script]


def _warehouse(rng: random.Random) -> list[Event]:
    return [Event("remove-warehouse", text=rng.choice(("0", "1.5")))]


def _neighbour(rng: random.Random) -> list[Event]:
    return [Event("neighbour", text=rng.choice(("setup", "teardown")))]


WORLDS = {
    world.name: world
    for world in (
        World(
            "short",
            60,
            ((3, _alter(REWRITING)), (2, _alter(HARMLESS)), (2, _alter(VALUES)), (2, _file), (1, _storm)),
            1,
        ),
        World("dml", 160, ((2, _storm),)),
        World("ddl", 130, ((7, _alter(REWRITING)), (4, _alter(HARMLESS)), (1, _storm)), checks=5),
        World("partitions", 100, ((12, _alter(PARTITIONS)),), checks=5),
        World("values", 100, ((10, _alter(VALUES)),), checks=5),
        World("kills", 120, ((4, _kill), (1, _storm))),
        World("files", 120, ((5, _file), (1, _neighbour)), checks=5),
        World("servers", 120, ((5, _server), (1, _neighbour)), checks=4),
        World("warehouse", 90, ((2, _warehouse), (2, _kill))),
    )
}


class Dealer:
    """Deals scripts to connections and shuffles their statements into each other."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self._queues: dict[str, deque[str]] = {c: deque() for c in CONNECTIONS}
        self._next = 100
        self._prepared = 0

    def step(self) -> list[Event]:
        connection = self._random.choice(CONNECTIONS)
        queue = self._queues[connection]
        if not queue:
            self._prepared += 1
            queue.extend(transaction(self._random, f"p{self._prepared}", self._number))
            if self._random.random() < 0.4:  # at once, so that a poll finds several transactions
                return self.finish(connection)
        return [Event("pg", connection, queue.popleft())]

    def finish(self, connection: str) -> list[Event]:
        queue = self._queues[connection]
        events = [Event("pg", connection, text) for text in queue]
        queue.clear()
        return events

    def finish_all(self) -> list[Event]:
        return [event for connection in CONNECTIONS for event in self.finish(connection)]

    def close_period(self) -> list[Event]:
        """Read-write dependencies: a clerk reads the period that a closer is about to end, and commits first."""
        return [
            Event("pg", CLOSER if who == "closer" else CLERK, text)
            for who, text in close_period(self._random, self._number)
        ]

    def _number(self) -> int:
        self._next += 1
        return self._next


def generate(world: World, seed: int) -> list[Event]:
    rng = random.Random(f"{world.name}-{seed}")
    dealer = Dealer(rng)
    events: list[Event] = []
    steps: list[tuple[int, Callable[[], list[Event]]]] = [
        (40, dealer.step),
        (9, dealer.close_period),
        (12, lambda: [Event("sqlite", "crm", crm_transaction(rng))]),
        (6, lambda: [Event("sqlite", "stock", stock_transaction(rng))]),
        (5, lambda: [Event("sleep", text=f"{rng.choice((0.05, 0.2, 0.6))}")]),
        *((weight, lambda make=make: make(rng)) for weight, make in world.special),  # type: ignore[misc] # bound now
    ]
    weights, makers = [weight for weight, _ in steps], [make for _, make in steps]
    special = slice(len(steps) - len(world.special), None)
    between = world.events // (world.checks + 1)
    while len(events) < world.events:
        before = len(events)
        events += rng.choices(makers, weights)[0]()
        if before // between != len(events) // between:  # no check without something special before it
            events += [*rng.choices(makers[special], weights[special])[0](), Event("check")]
    return [*events, *dealer.finish_all(), Event("end")]
