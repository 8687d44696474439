"""The state of tables at a round: the tables now, less the changes that the rounds up to it do not have.

    R(P) = R(S) − changes that S shows and no round up to P has

All of it is read in one `START TRANSACTION WITH CONSISTENT SNAPSHOT`: tables, changes, ranges, and the notes that say
whether they can be relied on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.model.errors import CaptureMissing, SchemaChanged
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Identities, Identity
from headwater.model.source import COUNT, SourceSpec
from headwater.sources.mariadb import catalog
from headwater.sources.mariadb.answering import Answering
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.changes import answered, concatenated
from headwater.sources.mariadb.connection import Connection, ConnectionPool, quoted, rows, stream
from headwater.sources.mariadb.triggers import notes as notes_of
from headwater.sources.mariadb.triggers.facts import Facts, facts, touch
from headwater.sources.mariadb.triggers.layout import ID, SIGN, changes_of
from headwater.sources.mariadb.triggers.notes import SETUP, CapturedTable, Notes
from headwater.sources.mariadb.triggers.rounds import NONE, Ids, Ranges, RoundPosition, ranges_up_to
from headwater.sources.mariadb.types import MariaColumn, may_be_unfit, selected

_ROWS = 20_000
_TRIES = 2
"""Somebody may have captured a table anew after the snapshot was taken; in the next one all agrees again."""


@dataclass(frozen=True)
class Seen:
    """A table in a snapshot: as it is, and as it is captured."""

    table: MariaTable
    captured: CapturedTable


class Watch:
    """Tables as they were last seen, and the columns that are expected of them."""

    def __init__(self, source: SourceName) -> None:
        self._source = source
        self._known: dict[TableName, tuple[Facts, MariaTable]] = {}
        self.expected: Mapping[TableName, Identities] = {}

    def look(self, connection: Connection, notes: Notes, name: TableName, columns: Sequence[str]) -> Seen:
        """Within a snapshot: the table, if nothing of it was missed and these columns are the expected ones."""
        captured = notes.captured(name)
        touch(connection, name.table)
        now = facts(connection, name.table)
        table = self._table(connection, name, now)
        missing = [c for c in columns if c not in table.columns]
        if missing:
            raise SchemaChanged(f"{name} has no column {missing[0]!r}", "change the views that use it")
        if why := captured.broken(now):
            raise CaptureMissing(f"{name} is no longer captured without a gap: {why}", SETUP)
        found, expected = self.identities(notes, Seen(table, captured), columns), self.expected.get(name, {})
        for column in columns:
            if column in expected and (why := expected[column].became(found[column])):
                raise SchemaChanged(f"{name}.{column} {why}", "'headwater apply' loads the views that use it again")
        return Seen(table, captured)

    def identities(self, notes: Notes, seen: Seen, columns: Sequence[str]) -> Identities:
        """A column is that of the table as it was captured: after any alteration it is captured anew."""
        found = {}
        for name in columns:
            column = seen.table.columns[name]
            if column.type is None:
                raise SchemaChanged(
                    f"{seen.table.name}.{name} is of type {column.declared}, which Headwater cannot hold",
                    "leave it out",
                )
            whole = f"{notes.generation}/{seen.captured.number}/{seen.table.name.table}/{name}/{column.kind}"
            found[name] = Identity(whole, labels=tuple(f"{n}={label}" for n, label in enumerate(column.labels, 1)))
        return found

    def _table(self, connection: Connection, name: TableName, now: Facts) -> MariaTable:
        known = self._known.get(name)
        if known is None or known[0] != now:
            table = catalog.tables(connection, self._source, name.table).get(name)
            if table is None:
                raise SchemaChanged(f"{name} does not exist", "create it again, or change the views")
            known = self._known[name] = now, table
        return known[1]


class Reader:
    def __init__(self, spec: SourceSpec, pool: ConnectionPool, watch: Watch) -> None:
        self._spec, self._pool, self._watch = spec, pool, watch

    @contextlib.contextmanager
    def answering(self, at: RoundPosition, tables: Mapping[TableName, Sequence[str]]) -> Iterator[Answering]:
        """A snapshot of now, for questions as of a round about these columns."""
        with self.snapshot(at, tables) as (connection, _, seen):
            for one in seen.values():
                notes_of.old_enough(one.captured, at.round)
            past = Past(connection, seen, ranges_up_to(connection, at.round))
            yield Answering(connection, {name: one.table for name, one in seen.items()}, past.changed)

    @contextlib.contextmanager
    def snapshot(
        self, at: RoundPosition, tables: Mapping[TableName, Sequence[str]]
    ) -> Iterator[tuple[Connection, Notes, Mapping[TableName, Seen]]]:
        with self._pool.borrow() as connection:
            notes, seen = self._begun(connection, at, tables)
            yield connection, notes, seen

    def _begun(
        self, connection: Connection, at: RoundPosition, tables: Mapping[TableName, Sequence[str]]
    ) -> tuple[Notes, Mapping[TableName, Seen]]:
        for left in reversed(range(_TRIES)):
            rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            notes = notes_of.held(connection, self._spec, at)
            try:
                return notes, {n: self._watch.look(connection, notes, n, columns) for n, columns in tables.items()}
            except CaptureMissing:
                if not left:
                    raise
                connection.rollback()
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class Past:
    connection: Connection
    seen: Mapping[TableName, Seen]
    contained: Mapping[int, Ranges]
    """What the position contains, per number of a table."""

    def changed(self, table: MariaTable, columns: Sequence[MariaColumn], where: Sequence[str]) -> Iterator[pa.Table]:
        """What came after it, taken back."""
        contained = self.contained.get(self.seen[table.name].captured.number, NONE)
        for found, ids in changes(self.connection, table, columns, [contained.outside(), *where]):
            after = ~contained.hold(ids)
            if after.any():
                counts = pa.array(-found.column(COUNT).to_numpy()[after])
                kept = found.filter(pa.array(after)) if not after.all() else found
                yield kept.set_column(kept.schema.get_field_index(COUNT), COUNT, counts)


def changes(
    connection: Connection, table: MariaTable, columns: Sequence[MariaColumn], where: Sequence[str]
) -> Iterator[tuple[pa.Table, Ids]]:
    """Changes of a table with their ids: the columns, COUNT, and UNFIT where something does not fit."""
    key = [table.columns[c] for c in table.key] if any(map(may_be_unfit, columns)) else []
    every = [*columns, *(c for c in key if c.type is not None and c not in columns)]
    read = ", ".join([*(selected(quoted(c.name), c) for c in every), SIGN, ID])
    said = " AND ".join(w for w in where if w) or "TRUE"
    statement = f"SELECT {read} FROM {quoted(changes_of(table.name.table))} WHERE {said}"
    for values in stream(connection, statement, len(every) + 2, _ROWS):
        found = answered(values[: len(every)], every, len(columns), table.key)
        counts, ids = np.array(values[len(every) :], np.bytes_).astype(np.int64)
        yield found.append_column(COUNT, pa.array(counts)), ids


def all_changes(
    connection: Connection, table: MariaTable, columns: Sequence[MariaColumn], where: Sequence[str]
) -> tuple[pa.Table, Ids] | None:
    read = list(changes(connection, table, columns, where))
    if not read:
        return None
    return concatenated([found for found, _ in read]), np.concatenate([ids for _, ids in read])
