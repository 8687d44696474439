"""What happened after a position: transactions of the log, whole, in its order, about `limit` changes.

Rows are decoded as they are read, and only those of tables that are asked for. A poll ends before a statement that
alters a column it was asked for; if there is nothing before it, it says so. What was written before a column became
what is expected of it belongs to no view, and is left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.model.names import Position, TableName
from headwater.model.source import ORDINAL, TRANSACTIONS, Poll
from headwater.sources.mariadb import known
from headwater.sources.mariadb.books import PARTS, Books
from headwater.sources.mariadb.changes import Changes
from headwater.sources.mariadb.connection import another_life
from headwater.sources.mariadb.dump import Dump
from headwater.sources.mariadb.events import INSERTS, Rows
from headwater.sources.mariadb.images import Wanted
from headwater.sources.mariadb.many_images import decoded
from headwater.sources.mariadb.places import Head, LogPosition, Place
from headwater.sources.mariadb.runs import Ints, Run
from headwater.sources.mariadb.transactions import Log, Transaction
from headwater.sources.mariadb.types import MariaColumn
from headwater.sources.mariadb.window import LogWindow, alterations

_TAG = Wanted(
    (
        MariaColumn("global_id", "varchar", "varchar(500)", pa.string(), charset="utf8mb4"),
        MariaColumn("parts", "int", "int(11)", pa.int32()),
    ),
    {"utf8mb4": lambda raw: raw.decode()},
)


@dataclass(frozen=True)
class Polled:
    """A table of a poll: its columns, how they are read, and the places after which its rows are told."""

    columns: tuple[str, ...]
    wanted: Wanted
    key: tuple[str, ...]
    since: int
    expected: Mapping[str, int]
    """Per column, the place of the alteration that made it what is expected of it."""


@dataclass
class _Told:
    """The transactions of a poll: those that were told last, and before them what is in Arrow already."""

    labels: list[str] = field(default_factory=list)
    moments: list[dt.datetime] = field(default_factory=list)
    tags: list[tuple[str, int] | None] = field(default_factory=list)
    before: dict[str, Place] = field(default_factory=dict)
    done: list[pa.Table] = field(default_factory=list)
    count: int = 0
    """How many there are in all."""

    def add(self, transaction: Transaction, tag: tuple[str, int] | None) -> None:
        self.labels.append(transaction.name)
        self.moments.append(dt.datetime.fromtimestamp(transaction.when, dt.UTC))
        self.tags.append(tag)
        self.count += 1

    def add_all(self, names: pa.Array, when: Ints) -> None:
        """None of them has a tag."""
        self._flush()
        moments = pa.array(when * 1_000_000).cast(pa.timestamp("us", "UTC"))
        nothing = (pa.nulls(len(names), pa.string()), pa.nulls(len(names), pa.int32()))
        self.done.append(pa.table([names, moments, *nothing], schema=TRANSACTIONS))
        self.count += len(names)

    def table(self) -> pa.Table:
        self._flush()
        return pa.concat_tables(self.done)

    def _flush(self) -> None:
        columns = [
            pa.array(self.labels, pa.string()),
            pa.array(self.moments, pa.timestamp("us", "UTC")),
            pa.array([tag and tag[0] for tag in self.tags], pa.string()),
            pa.array([tag and tag[1] for tag in self.tags], pa.int32()),
        ]
        self.done.append(pa.table(columns, schema=TRANSACTIONS))
        self.labels, self.moments, self.tags = [], [], []


@dataclass(frozen=True)
class Counted:
    """A poll, how many changes it tells, and where it ends."""

    poll: Poll
    changes: int
    end: Place


def poll(
    log: Log, after: LogPosition, tables: Mapping[TableName, Polled], limit: int, told: tuple[Books, LogWindow]
) -> Counted:
    books, window = told
    found = {name.table: Changes(t.wanted, len(t.columns), t.key) for name, t in tables.items()}
    names = {name.table: name for name in tables}
    said, end, taken, more = _Told(), after.place, 0, False
    with log.dump(after.place) as dump:
        for transaction in log.transactions(dump):
            _verify(dump, after, log)
            if isinstance(transaction, Run):
                if taken < max(limit, 1):
                    new, end = _take_run(transaction, (found, names, tables), said, max(limit, 1) - taken)
                    taken += new
                more = end != transaction.place
                if more:
                    break
                continue
            altered = _altering(transaction, tables, log, window)
            if taken >= max(limit, 1) or (altered is not None and end > after.place):
                more = True
                break
            if altered is not None:
                name, column, why = altered
                raise known.altered(name, column, window, why)
            taken += _take(transaction, (found, names, tables), said, end)
            end = transaction.place
        else:
            _verify(dump, after, log)
            end = dump.place
        heads = {after.place.number: after.head, **dump.heads}
    with window.lock:
        window.read_to(after.place, end)
    return Counted(_finished(said, found, tables, _Ends(heads, books.life, end, more)), taken, end)


def _verify(dump: Dump, after: LogPosition, log: Log) -> None:
    head = dump.heads.get(after.place.number)
    if head is not None and head != after.head:
        raise another_life(log.source, "its log was begun anew")


def _altering(
    transaction: Transaction, tables: Mapping[TableName, Polled], log: Log, window: LogWindow
) -> tuple[TableName, str, str] | None:
    """The first column of the poll that a transaction makes another than is expected."""
    if not transaction.statements and all(r.whole and r.layout.columns for r in transaction.rows):
        return None
    with window.lock:
        window.meet(transaction)
    for one in alterations(transaction, log.database):
        for name, table in tables.items():
            for column in table.columns:
                if table.expected.get(column, 0) < int(transaction.place) and one.concerns(name.table, [column]):
                    return name, column, one.why
    return None


_Into = tuple[Mapping[str, Changes], Mapping[str, TableName], Mapping[TableName, Polled]]


def _take(transaction: Transaction, into: _Into, said: _Told, before: Place) -> int:
    """Tell a transaction, if it is of interest; how many changes it has."""
    found, names, tables = into
    ordinal, taken = said.count, 0
    tag: tuple[str, int] | None = None
    for rows in transaction.rows:
        table = rows.layout.table
        if table in found and int(transaction.place) > tables[names[table]].since:
            taken += found[table].add(ordinal, rows)
        elif table == PARTS and rows.kind in INSERTS and tag is None:
            tag = _tag(rows)
    if taken or tag is not None:
        said.add(transaction, tag)
        if tag is not None:
            said.before[transaction.name] = before
    return taken


def _take_run(run: Run, into: _Into, said: _Told, limit: int) -> tuple[int, Place]:
    """Tell transactions until their changes are so many; how many changes they have, and where the last one ends."""
    found, names, tables = into
    counted = np.zeros(len(run.places), np.int64)
    taken = []
    for part in run.rows:
        table = part.layout.table
        if table not in found:
            continue
        wanted = part.where(part.places > tables[names[table]].since)
        if len(wanted.of):
            rows = decoded(wanted, found[table].wanted)
            of = wanted.of[rows.of]
            counted += np.bincount(of, minlength=len(counted))
            taken.append((table, rows, of))
    before = np.cumsum(counted) - counted
    end = int(np.searchsorted(before, limit))  # the first that there is no more room for
    told = (counted > 0) & (np.arange(len(counted)) < end)
    ordinals = said.count + np.cumsum(told) - 1
    for table, rows, of in taken:
        kept = of < end
        if kept.any():
            found[table].add_all(ordinals[of[kept]], rows if kept.all() else rows.where(kept))
    said.add_all(run.names.filter(pa.array(told)), run.when[told])
    return int(counted[:end].sum()), Place.of(int(run.places[end - 1]))


def _tag(rows: Rows) -> tuple[str, int] | None:
    if not rows.whole or not rows.layout.columns:
        return None
    changes = Changes(_TAG, 2, ())
    changes.add(0, rows)
    global_id, parts = (values[0] for values in changes.values)
    return str(global_id), int(parts)


@dataclass(frozen=True)
class _Ends:
    heads: Mapping[int, Head]
    life: str
    end: Place
    more: bool

    def position(self, place: Place) -> Position:
        return LogPosition(place, self.heads[place.number], self.life).text()


def _finished(said: _Told, found: Mapping[str, Changes], tables: Mapping[TableName, Polled], ends: _Ends) -> Poll:
    changes = {name: found[name.table].table(ORDINAL) for name in tables if found[name.table].any()}
    before = {label: ends.position(place) for label, place in said.before.items()}
    return Poll(ends.position(ends.end), said.table(), changes, ends.more, before)
