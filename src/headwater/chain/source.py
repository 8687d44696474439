"""A chain as a source: its only table is the join of its members' tables, its transactions are windows.

    position   a window's number                       poll    the windows that are over since then
    scan       the join as of a window, for a load: the first table chunk by chunk, the others by key, each as of
               the position that the window is pinned to there

Invariant: a window is a state of every member's table at one moment of its own, and windows come in order. So what is
told is a real state of the sources each time, and states in between are skipped: strong.

What is under way is lost with this object, and nothing else is: whoever polls next begins a new epoch with the last
window that was taken in (`model/chain.ChainEpoch`).
"""

from __future__ import annotations

import datetime as dt
import logging
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial
from headwater.chain.line import ChainLine, EpochOver
from headwater.chain.spec import read_spec
from headwater.chain.warehouse import ChainWarehouse, Reached
from headwater.maintenance.strategies.asked import AskedTable
from headwater.maintenance.strategies.contract import StrategySetting
from headwater.maintenance.strategies.pinned_source import chain_setting
from headwater.maintenance.strategies.values import EXACT
from headwater.model.chain import PURE_PUSH, ROWS, ChainEpoch
from headwater.model.changelog import consolidate
from headwater.model.conditions import Condition, meets
from headwater.model.errors import HeadwaterError, SourceUnavailable
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, Identity, TableSchema
from headwater.model.source import (
    COUNT,
    ORDINAL,
    TRANSACTIONS,
    Capture,
    Chunk,
    CommitTimes,
    JoinQuestion,
    Poll,
    Question,
    SourceSpec,
)
from headwater.sources.agent.adapter import AgentSource

log = logging.getLogger(__name__)

WAIT = 0.5
"""So long a poll waits for letters."""
LATE = 20.0
"""A window that takes so much longer than usual waits for somebody."""
LOST = 90.0
"""A window that takes so long though everybody is here is begun anew: something got lost."""


class ChainSource:
    def __init__(self, spec: SourceSpec) -> None:
        self.name: SourceName = spec.name
        self._chain, self._specs = read_spec(spec)
        self._agents = [AgentSource(member) for member in self._specs]
        self._line = ChainLine(self._chain.source, self._specs[0])
        self._side: ChainWarehouse | None = None
        self._asked_for: int | None = None
        """The newest window that members were asked for from here."""

    @cached_property
    def _setting(self) -> StrategySetting:
        return chain_setting(self._chain)

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        found: dict[TableName, TableSchema] = {}
        for agent in self._agents:
            found |= agent.describe()
        return {self._chain.table: self._chain.described(found)}

    def resolve(self, schema: str, table: str) -> TableName | None:
        return self._chain.table if not schema and table == ROWS else None

    def capture(self) -> Capture | None:
        """That of all members; what is wrong with one is wrong with the chain."""
        found = [agent.capture() for agent in self._agents]
        captures = [capture for capture in found if capture is not None]
        if len(captures) < len(found):
            return None
        members = list(zip(self._chain.members, captures, strict=True))
        broken = [f"{m.table} {c.broken[m.table]}" for m, c in members if m.table in c.broken]
        whole = all(m.table in c.tables for m, c in members)
        generation = " ".join(capture.generation for capture in captures)
        tables = frozenset([self._chain.table] if whole and not broken else [])
        return Capture(generation, tables, {self._chain.table: "; ".join(broken)} if broken else {})

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return []

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        """Capture is the members' own."""
        return []

    def install(self, tables: Sequence[TableName]) -> list[str]:
        return []

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return []

    def remove(self) -> list[str]:
        return []

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        """Of each column; whatever joins or is compared belongs to every column of the same table."""
        own: list[Identities] = []
        for member, agent in zip(self._chain.members, self._agents, strict=True):
            named = dict.fromkeys([*member.columns, *(c.column for c in member.conditions)])
            own.append(agent.identities({member.table: list(named)})[member.table])
        of = {name: (place, column) for name, place, column in self._chain.columns}
        return {
            table: {name: _joined_identity(own[of[name][0]], of[name][1]) for name in names}
            for table, names in tables.items()
        }

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        """Members know which columns the view was loaded from (`pins`)."""

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        for member, agent, pin in zip(self._chain.members, self._agents, self._pins(_window(at)), strict=True):
            agent.check(pin, [member.table])

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        return [None for _ in transactions]

    # ── windows ──────────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        """A first window, from which the view is loaded."""
        window = max(self._ask_each("newest", 0)) + 1
        self._ask_each("begin", window)
        return Position(str(window))

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        since = _window(after)
        nothing = Poll(after, TRANSACTIONS.empty_table(), {})
        try:
            side = self._epoch(since)
            reached = self._exchange(side)
        except EpochOver as error:
            log.info("%s: a new epoch begins: %s", self.name, error.what)
            self._over()
            return Poll(after, nothing.transactions, {}, more=True)
        except _Waits:
            raise
        except HeadwaterError:
            self._over()
            raise
        if reached is None:
            return Poll(after, nothing.transactions, {}, more=side.asked_at is not None)
        with suppress(HeadwaterError):  # what it took is for people to know: nothing depends on it
            self._line.done(side.epoch.number, reached.window, len(self._agents))
        end = Position(str(reached.window))
        if not reached.change:
            return Poll(end, nothing.transactions, {})
        rows = self._rows(reached.change).select([*tables.get(self._chain.table, ()), COUNT])
        rows = consolidate(rows)
        now = [[f"window {reached.window}"], [dt.datetime.now(dt.UTC)], [None], [None]]
        ordinals = pa.array([0] * rows.num_rows, pa.int64())
        changes = {self._chain.table: rows.append_column(ORDINAL, ordinals)}
        return Poll(end, pa.table(now, schema=TRANSACTIONS), changes)

    def _epoch(self, since: int) -> ChainWarehouse:
        """The epoch under way, or a new one from where the view is."""
        if self._side is None:
            agents = tuple(spec.url.removeprefix("agent://").rstrip("/") for spec in self._specs)
            options = tuple(agent.options for agent in self._agents)
            first = max(since, self._newest()) + 1
            epoch = ChainEpoch(secrets.randbits(52), since, first, self._chain, agents, options)
            self._line.begin(epoch)
            self._side = ChainWarehouse(epoch, self._line.send)
        return self._side

    def _over(self) -> None:
        if self._side is not None:
            self._asked_for = self._side.asked_for
        self._side = None

    def _newest(self) -> int:
        """No member has pinned a later window. Those that are asked for windows know of none but those."""
        if self._asked_for is None or self._chain.how == PURE_PUSH:
            return int(max(self._ask_each("newest", 0)))
        return self._asked_for

    def _exchange(self, side: ChainWarehouse) -> Reached | None:
        until = time.monotonic() + WAIT
        while True:
            reached = side.wake()
            if reached is not None:
                return reached
            left = until - time.monotonic()
            if left <= 0:
                return None
            fetched = self._line.fetch(side.epoch.number, min(left, side.seconds()))
            if fetched.letter is not None:
                reached = side.receive(fetched.letter)
                if reached is not None:
                    return reached
                continue
            self._late(side, fetched.away)

    def _late(self, side: ChainWarehouse, away: Sequence[str]) -> None:
        """What keeps a window from being over."""
        if side.late > LATE and away:
            raise _Waits(f"a window waits for agent {' and '.join(away)}", "it goes on when everybody was there")
        if side.late > LOST:
            raise EpochOver(f"a window took more than {LOST:g} s", "")

    def trim(self, below: Position) -> int:
        """Members forget what nobody will ask about; one that is away is told another time."""
        for place in range(len(self._agents)):
            with suppress(SourceUnavailable):
                self._ask(place, "applied", _window(below))
        return 0

    def waiting(self, after: Position) -> int:
        """What gathers at members is known there."""
        return 0

    # ── as of a window ───────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError("a view over a chain reads nothing else, so nobody asks for its rows by key")

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError("a chain is one table")

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        first = self._agents[0].chunks(self._chain.members[0].table, target_rows)
        return [Chunk(self._chain.table, chunk.number, chunk.bounds, chunk.rows) for chunk in first]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        pins, member = self._pins(_window(at)), self._chain.members[0]
        part = Chunk(member.table, chunk.number, chunk.bounds, chunk.rows)
        for batch in self._agents[0].scan(part, member.columns, pins[0], member.conditions):
            rows = EXACT.rows(pa.Table.from_batches([batch]), member.columns)
            joined = self._joined(Partial((0,), Bag.summed(rows)), pins)
            if joined:
                yield from meets(self._rows(joined), conditions).select([*columns, COUNT]).to_batches()

    def _joined(self, partial: Partial, pins: Sequence[Position]) -> Bag:
        view = self._setting.view
        for j in range(1, view.n):
            if not partial.bag:
                return Bag()
            partial = self._extended(partial, j, pins[j])
        return view.finish(partial)

    def _extended(self, partial: Partial, j: int, at: Position) -> Partial:
        view, member = self._setting.view, self._chain.members[j]
        asked = AskedTable(member.table, member.schema, member.conditions)

        def ask(question: Question) -> Iterable[pa.Table]:
            return (pa.Table.from_batches([batch]) for batch in self._agents[j].ask(question, at))

        far = view.raw_positions(j, view.join(partial.over, j).far)
        return view.extend(partial, j, asked.find(ask, far, lambda: view.keys(partial, j)))

    def _rows(self, bag: Bag) -> pa.Table:
        kinds = [(name, self._chain.members[place].schema.field(column).type)
                 for name, place, column in self._chain.columns]  # fmt: skip
        values = list(zip(*bag.counts, strict=True)) or [()] * len(kinds)
        arrays = [EXACT.decoded(column, kind) for column, (_, kind) in zip(values, kinds, strict=True)]
        counts = pa.array(bag.counts.values(), pa.int64())
        return pa.table([*arrays, counts], names=[*(name for name, _ in kinds), COUNT])

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _pins(self, window: int) -> list[Position]:
        return [Position(position) for position in self._ask_each("pinned", window)]

    def _ask_each(self, what: str, window: int) -> list[Any]:
        """All at once: a line that was cut holds up one of them."""
        places = range(len(self._agents))
        with ThreadPoolExecutor(len(self._agents), thread_name_prefix=f"ask {self.name}") as pool:
            return list(pool.map(lambda place: self._ask(place, what, window), places))

    def _ask(self, place: int, what: str, window: int) -> Any:
        return self._agents[place].chain(what, self._chain, place, window)

    def close(self) -> None:
        self._line.close()
        for agent in self._agents:
            agent.close()


class _Waits(SourceUnavailable):
    """Somebody is away; what is under way stays."""


def _window(at: Position) -> int:
    return int(at)


def _joined_identity(of: Identities, column: str) -> Identity:
    """A column's identity, with what belongs to the row beside it."""
    own = of[column]
    beside = " ".join(of[name].place for name in sorted(of))
    return Identity(f"{own.place} {beside}", own.definition, own.storage, own.labels)
