"""Pull-Push's figures 8 and 9 with the engine's own agents beside the lab's: messages, the more nodes are off.

    python bench/pull_push.py [--runs 5] [--duration 240] [--mean 20] [--asleep 0.5,0.8] [--off sources,warehouse]

Both are given the same: V4 over four sources (table 1), the same updates, and for each run and probability the same
times at which nodes go off and come back. The agents' side is what runs in production: `chain.Member` with its pins on
disk beside a captured SQLite file, `chain.ChainWarehouse`, and the hub's relay, which keeps letters for whoever is
away. Only the clock is virtual, so that hours of outages take minutes, and letters take 30 ms as in the lab instead of
a network. A node that is off does nothing; its database goes on, as a laptop's does without a network.

The agents wait longer before they say a thing again (`chain.letters.PATIENCE`, twice as long after each try; the paper
waits 0.2 s), so the lab plays both, without the doubling. Requests and acknowledgements are counted apart (decision
26). In the end everybody is there, and the view must be the join.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
from rich.console import Console
from rich.table import Table

from headwater.algebra.bag import Bag
from headwater.chain.letter import Letter
from headwater.chain.letters import LONGEST_PATIENCE, PATIENCE
from headwater.chain.member import Member
from headwater.chain.pins import PinBook
from headwater.chain.source import LOST
from headwater.chain.warehouse import ChainWarehouse, Reached
from headwater.chain.windows import MemberWindows
from headwater.hub.relay import Relay
from headwater.lab.intervals import Interval, interval
from headwater.lab.settings.mobile import (
    ACK_AFTER,
    COSTS,
    INTERFERENCE,
    RELATIONS,
    MobileLoad,
    Sleep,
    conditions,
    mobile_world,
)
from headwater.lab.settings.outages import INTERVAL, F, N
from headwater.lab.simulation.simulator import Conditions
from headwater.lab.simulation.tries import TryCounts, tallied
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.maintenance.strategies.contract import WAREHOUSE, Factory
from headwater.maintenance.strategies.pull_push import pull_push
from headwater.maintenance.strategies.pure_push import pure_push
from headwater.model.chain import Chain, ChainEpoch, ChainMember
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.source import Source, SourceSpec
from headwater.sources import connect

HOWS = ("pure-push", "pull-push")
CARRY = ("forward", "backward", "batch")
"""Kinds of letters that carry changes: the 2n and n² of the paper."""
MEMBERS = tuple(RELATIONS.items())[:N]
NODES = tuple(name.partition(".")[0] for name, _ in MEMBERS)


class Machine:
    """A source: its database and what of its agent outlasts an epoch."""

    def __init__(self, folder: Path, table: TableName, columns: Sequence[str], rows: Bag) -> None:
        folder.mkdir()
        self.name, self.columns, self.commits = table.table, columns, 0
        # the engine's own SQLite library: two copies of it in one process would lose each other's locks
        self._db = adbc.connect(str(folder / "own.db"), autocommit=True)
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = OFF")
        named = ", ".join(f"{column} INT" for column in columns)
        self.execute(f"CREATE TABLE {self.name} (id INTEGER PRIMARY KEY, {named})")
        for column in columns[:2]:
            self.execute(f"CREATE INDEX by_{column} ON {self.name} ({column})")
        self.source: Source = connect(SourceSpec(table.source, f"sqlite:///{folder}/own.db"))
        self.source.install([table])
        self.write(rows)
        self.book, self.commits = PinBook(folder), 0
        self.pinned: dict[int, int] = {}
        """How many commits the windows hold that are pinned here."""

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._db.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def write(self, change: Bag) -> None:
        """One transaction."""
        same = " AND ".join(f"{column} = ?" for column in self.columns)
        self.execute("BEGIN")
        for row, copies in change:
            for _ in range(abs(copies)):
                if copies > 0:
                    values = ", ".join("?" for _ in row)
                    self.execute(f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({values})", row)
                else:
                    one = f"SELECT id FROM {self.name} WHERE {same} LIMIT 1"
                    self.execute(f"DELETE FROM {self.name} WHERE id = ({one})", row)
        self.execute("COMMIT")
        self.commits += 1

    def close(self) -> None:
        self.source.close()
        self._db.close()


class Agents:
    """The chain at work, from one event to the next."""

    def __init__(self, folder: Path, how: str, world: World, how_off: Conditions) -> None:
        self.network, self.until, self.now = how_off.network, how_off.until, 0.0
        self._agenda: list[tuple[float, int, str, PlannedUpdate | None]] = []
        self._order = count()
        self._woken: dict[str, float] = {}
        self.sent: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.windows = self.epochs = self.arrived = 0
        tables = [TableName(SourceName(name.partition(".")[0]), name.partition(".")[2]) for name, _ in MEMBERS]
        self.machines = [
            Machine(folder / node, table, columns, world.initial[table])
            for node, table, (_, columns) in zip(NODES, tables, MEMBERS, strict=True)
        ]
        described = {t: m.source.describe()[t] for t, m in zip(tables, self.machines, strict=True)}
        shown = tuple(
            (f"{t.table}_{column}", place, column)
            for place, (t, (_, columns)) in enumerate(zip(tables, MEMBERS, strict=True))
            for column in columns[:2]
        )
        self.chain = Chain(
            ViewName("V"), how, INTERVAL,
            tuple(ChainMember(t, tuple(columns[:2])) for t, (_, columns) in zip(tables, MEMBERS, strict=True)),
            tuple((place, MEMBERS[place][1][1], place + 1, MEMBERS[place + 1][1][0]) for place in range(N - 1)),
            shown,
        ).typed(described)  # fmt: skip
        for place in range(N):
            self._windows(place).begin(1)
        self.window, self.view, self.relay = 1, self._joined(), Relay()
        self.members: dict[str, Member] = {}
        self._begin()
        for planned in world.transactions:
            self._at(planned.at, planned.source, planned)
        for node, spans in self.network.off.items():
            for _, back in spans:
                self._at(back, node)

    def run(self) -> None:
        while self._agenda and self._agenda[0][0] <= self.until:
            self._step()

    def settle(self) -> None:
        """Everybody is back and nothing is written: the view comes to be the join of the tables."""
        last, end = max(self._windows(place).newest for place in range(N)) + 2, self.now + 3600
        self.network = type(self.network)(self.network.link)
        for node in (*NODES, WAREHOUSE):
            self._at(self.now, node)
        while self.window < last and self.now < end:
            self._step(writes=False)
        assert self.view == self._joined(), "the view is not the join of its tables"

    def close(self) -> None:
        for machine in self.machines:
            machine.close()

    # ── one thing after another ──────────────────────────────────────────────────────────────────────────────────

    def _at(self, time: float, node: str, planned: PlannedUpdate | None = None) -> None:
        heapq.heappush(self._agenda, (time, next(self._order), node, planned))

    def _wake(self, node: str, time: float) -> None:
        """Once, however often it is said."""
        if not self.now < self._woken.get(node, 0.0) <= time:
            self._woken[node] = time
            self._at(time, node)

    def _step(self, writes: bool = True) -> None:
        self.now, _, node, planned = heapq.heappop(self._agenda)
        if planned is not None:
            if writes:
                for bag in planned.changes.values():
                    self.machines[NODES.index(node)].write(bag)
        elif self.network.reachable(node, self.now):
            if node == WAREHOUSE:
                self._warehouse()
            else:
                self._member(node)

    def _member(self, node: str) -> None:
        member, place = self.members.get(node), NODES.index(node)
        while True:
            letter = _at_once(self.relay.for_agent(node, 0))
            if letter is None:
                break
            self.read[letter.kind] += 1
            if member is None:
                member = self.members[node] = self._take_part(node, place)
            member.receive(letter)
        if member is None:
            return
        due, windows = member.wake(), self._windows(place)
        self.machines[place].pinned[windows.newest] = self.machines[place].commits
        if due is not None:
            self._wake(node, self.now + due)

    def _take_part(self, node: str, place: int) -> Member:
        windows = self._windows(place)
        return Member(self.epoch, place, windows, lambda letter: self._post(node, letter), lambda: self.now)

    def _warehouse(self) -> None:
        reached = self.side.wake()
        while reached is None:
            letter = _at_once(self.relay.for_warehouse(self.chain.source, self.epoch.number, 0))
            if letter is None:
                break
            self.read[letter.kind] += 1
            reached = self.side.receive(letter)
        if reached is not None:
            self._take_in(reached)
        if self.side.late > LOST and all(self.network.reachable(node, self.now) for node in NODES):
            self._begin()
        self._wake(WAREHOUSE, self.now + (0.0 if reached is not None else max(self.side.seconds(), 0.001)))

    def _take_in(self, reached: Reached) -> None:
        self.view, self.window, self.windows = self.view + reached.change, reached.window, self.windows + 1
        self.arrived = sum(_upto(machine.pinned, reached.window) for machine in self.machines)
        for place in range(N):
            self._windows(place).truncate(reached.window)

    def _post(self, sender: str, letter: Letter) -> None:
        self.sent[letter.kind] += 1
        if sender == WAREHOUSE:
            self.relay.from_warehouse(letter)
        else:
            self.relay.from_agent(sender, letter)
        self._at(self.now + COSTS.latency, letter.to)

    def _begin(self) -> None:
        """An epoch, as `ChainSource` begins one."""
        self.epochs += 1
        first = max(self.window, *(self._windows(place).newest for place in range(N))) + 1
        self.epoch = ChainEpoch(self.epochs, self.window, first, self.chain, NODES, ((),) * N)
        self.members.clear()
        self.relay.open(self.chain.source, self.epoch.number, dict(zip(NODES, NODES, strict=True)), b"")
        self.side = ChainWarehouse(self.epoch, lambda letter: self._post(WAREHOUSE, letter), lambda: self.now)
        self._at(self.now, WAREHOUSE)

    def _windows(self, place: int) -> MemberWindows:
        return MemberWindows(self.machines[place].book, self.chain, place, self.machines[place].source)

    def _joined(self) -> Bag:
        """The join of the tables as they are, by hand."""
        rows: list[tuple[Any, ...]] = [()]
        for machine in self.machines:
            held: dict[Any, list[tuple[Any, ...]]] = {}
            a, b = machine.columns[:2]
            for row in machine.execute(f"SELECT {a}, {b} FROM {machine.name}"):
                held.setdefault(row[0], []).append(row)
            everything = [row for found in held.values() for row in found]
            rows = [(*left, *row) for left in rows for row in (held.get(left[-1], ()) if left else everything)]
        return Bag.summed((row, 1) for row in rows)


def _at_once(waiting: Coroutine[Any, Any, Letter | None]) -> Letter | None:
    """What the relay has without waiting."""
    try:
        waiting.send(None)
    except StopIteration as done:
        found: Letter | None = done.value
        return found
    raise AssertionError("a relay that is asked for 0 seconds waits for nothing")


def _upto(pinned: dict[int, int], window: int) -> int:
    return max((commits for pin, commits in pinned.items() if pin <= window), default=0)


# ── counts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def with_agents(how: str, world: World, outages: Conditions) -> dict[str, float]:
    """Letters that were written, and those that were read: one that its receiver has not fetched yet does not come into
    its box a second time."""
    shm = Path("/dev/shm")  # the pins' fsync is no part of what is counted
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        agents = Agents(Path(folder), how, world, outages)
        agents.run()
        sent, read, batches = Counter(agents.sent), Counter(agents.read), len(world.transactions)
        windows, arrived = agents.windows, agents.arrived
        agents.settle()
        agents.close()
    return {
        "sent": sum(sent[kind] for kind in CARRY) / batches,
        "read": sum(read[kind] for kind in CARRY) / batches,
        "requests": sent["request"] / batches,
        "acks": sent["acknowledgement"] / batches,
        "per window": sum(read[kind] for kind in CARRY) / max(windows, 1),
        "arrived": arrived / batches,
    }


def in_lab(factory: Factory, world: World, outages: Conditions, seed: int) -> dict[str, float]:
    """Tries, without acknowledgements, broadcasts and requests; the latter apart."""
    simulation, batches = tallied(world, factory, outages, seed), len(world.transactions)
    history = simulation.run()
    tally = history.messages
    assert isinstance(tally, TryCounts)
    return {
        "tries": sum(tally.made[kind] for kind in CARRY) / batches,
        "left": sum(tally.left[kind] for kind in CARRY) / batches,
        "requests": tally.left["request"] / batches,
        "acks": tally.left["acknowledgement"] / batches,
        "arrived": sum(len(state.covers) for state in history.states) / batches,
    }


def lab_factory(how: str, again: float) -> Factory:
    return pure_push(INTERVAL, INTERVAL, again) if how == "pure-push" else pull_push(INTERVAL, again)


def points(given: argparse.Namespace) -> Iterator[tuple[str, float]]:
    yield "nobody", 0.0
    for who in given.off.split(","):
        for asleep in map(float, given.asleep.split(",")):
            if asleep:
                yield who, asleep


LATE = f"{PATIENCE:g} s"
COLUMNS = (
    ("lab, Δt 0.2 s", "every try"), ("", "of nodes on"), (f"lab, Δt {LATE}", "every try"), ("", "of nodes on"),
    (f"agents, Δt {LATE} to {LONGEST_PATIENCE:g} s", "sent"), ("", "read"), ("", "per window"), ("", "requests"),
    ("", "acks"),
    ("arrived", "lab 0.2 s"), ("", f"lab {LATE}"), ("", "agents"),
)  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--duration", type=float, default=240.0, help="seconds of a run")
    arguments.add_argument("--mean", type=float, default=20.0, help="seconds after which a node changes, 1/ω")
    arguments.add_argument("--asleep", default="0.5,0.8", help="shares of the time that nodes are off")
    arguments.add_argument("--off", default="sources,warehouse")
    given = arguments.parse_args()
    title = f"letters and messages per update batch: {given.runs} runs of {given.duration:,.0f} s, nodes that change"
    table = Table(title=f"{title} after {given.mean:g} s on average, 95 % intervals")
    for heading in ("off", "algorithm"):
        table.add_column(heading)
    for group, name in COLUMNS:
        table.add_column(f"{group}\n{name}", justify="right")
    for who, asleep in points(given):
        for how in HOWS:
            runs = [_run(how, who, asleep, seed, given) for seed in range(given.runs)]
            quick, slow, real = ([run[k] for run in runs] for k in range(3))
            cells = [_cell(quick, "tries"), _cell(quick, "left"), _cell(slow, "tries"), _cell(slow, "left")]
            cells += [_cell(real, name) for name in ("sent", "read", "per window", "requests", "acks")]
            cells += [f"{_of(side, 'arrived').mean:.0%}" for side in (quick, slow, real)]
            table.add_row(f"{who} {asleep:.0%}", how, *cells)
            print(f"{who} {asleep} {how}: {' | '.join(cells)}", flush=True)
    Console(width=220).print(table)


def _run(how: str, who: str, asleep: float, seed: int, given: argparse.Namespace) -> tuple[dict[str, float], ...]:
    world = MobileLoad.at_rate(F, N, given.duration, INTERFERENCE).over(mobile_world(N, seed), seed)
    sleep = Sleep(**({} if who == "nobody" else {who: asleep}), mean=given.mean)
    outages = conditions(world, given.duration, seed, sleep)
    lab = (in_lab(lab_factory(how, again), world, outages, seed) for again in (ACK_AFTER, PATIENCE))
    return (*lab, with_agents(how, world, outages))


def _of(runs: Sequence[dict[str, float]], name: str) -> Interval:
    return interval([run[name] for run in runs])


def _cell(runs: Sequence[dict[str, float]], name: str) -> str:
    return f"{_of(runs, name):.1f}"


if __name__ == "__main__":
    main()
