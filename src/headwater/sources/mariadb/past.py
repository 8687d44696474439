"""The state of tables at a position: the tables now, less what the log tells since.

    R(P) = R(S) − changes in (P, S]          S is a snapshot that says where in the log it is
    R(P) = R(S) + changes in (S, P]          where the log is a moment ahead of what snapshots show

Where S is in the log, and what is done where only its neighbourhood is known: `moments.py`. Each table is touched once
before the log is read to its end: from then on nobody alters it, and an alteration between snapshot and touch is in
what is read. Then all is read anew. What the log tells is taken while the window is held, before any row is read.

Equality is exact: an index finds what is equal by the column's own rules (case, accents, trailing spaces), which is
never less than what is asked for; what is equal by code points is kept.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.conditions import Condition, meets
from headwater.model.errors import CaptureMissing, PositionTrimmed, SchemaChanged, SourceUnavailable, ValueUnfit
from headwater.model.names import TableName
from headwater.model.source import COUNT, ORDINAL, UNFIT, Chunk, Question, SourceSpec
from headwater.sources.mariadb import books as bookkeeping
from headwater.sources.mariadb import catalog
from headwater.sources.mariadb.books import Books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.changes import answered
from headwater.sources.mariadb.connection import Connection, ConnectionPool, another_life, quoted, rows, stream
from headwater.sources.mariadb.images import Wanted
from headwater.sources.mariadb.known import KnownTables, old_enough
from headwater.sources.mariadb.moments import Doubts, Opened, open_snapshot, readable_key, still
from headwater.sources.mariadb.moments import doubts as decided
from headwater.sources.mariadb.places import LogPosition, Place
from headwater.sources.mariadb.transactions import Log
from headwater.sources.mariadb.types import MariaColumn, compared, fitted, from_texts, literal, may_be_unfit, selected
from headwater.sources.mariadb.window import PLACE, LogWindow, window_of

_KEYS = 1000
"""Per statement."""
_ROWS = 20_000
"""Per batch."""
_TRIES = 9
_UNDISTURBED, _HELD_UP = 4, 5
"""From then on tables that need it are locked for a moment; and from then on so that writers wait behind the lock."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Seen:
    """A table in a snapshot, as far as the log tells: what leads from the rows there to those at the position."""

    table: MariaTable
    changed: tuple[pa.Table, ...] = ()
    doubts: Doubts | None = None
    """None if no change of it is doubtful."""


@dataclass(frozen=True)
class Snapshot:
    """A transaction that reads, and the tables as it sees them."""

    connection: Connection
    tables: Mapping[TableName, Seen]

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question) -> Iterator[pa.RecordBatch]:
        seen = self.tables[question.table]
        table = seen.table
        columns = [table.columns[name] for name in _read(question)]
        keys = [fitted(values, table.columns[c]) for c, values in zip(question.key, question.keys.columns, strict=True)]
        told = [ORDINAL, *question.columns, COUNT]
        for found in seen.changed:
            yield from self._told(_numbered(found, question, keys), question.conditions, told, table)
        for where in _sought(table, question.key, keys):
            for found in self._selected(seen, columns, [where, *_pushed(table, question.conditions)]):
                yield from self._told(_numbered(found, question, keys), question.conditions, told, table)

    def scan(self, chunk: Chunk, names: Sequence[str], conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        seen = self.tables[chunk.table]
        table = seen.table
        by = chunk.bounds[:1]
        every = dict.fromkeys([*names, *(c.column for c in conditions), *by])
        columns = [table.columns[name] for name in every]
        for found in seen.changed:
            yield from self._told(_within(found, chunk), conditions, [*names, COUNT], table)
        for found in self._selected(seen, columns, [_bounded(chunk), *_pushed(table, conditions)]):
            yield from self._told(found, conditions, [*names, COUNT], table)

    # ── the rows that are there ──────────────────────────────────────────────────────────────────────────────────

    def _selected(self, seen: Seen, columns: Sequence[MariaColumn], where: Sequence[str]) -> Iterator[pa.Table]:
        table, doubts = seen.table, seen.doubts
        named = doubts is not None or any(map(may_be_unfit, columns))
        key = [table.columns[c] for c in table.key] if named else []
        every = [*columns, *(c for c in key if c.type is not None and c not in columns)]
        read = ", ".join(selected(quoted(c.name), c) for c in every) or "1"
        said = " AND ".join(w for w in where if w) or "TRUE"
        statement = f"SELECT {read} FROM {table.sql} WHERE {said}"
        for values in stream(self.connection, statement, len(every) or 1, _ROWS):
            found = answered(values[: len(every)], every, len(columns), table.key)
            found = found.append_column(COUNT, pa.array(np.ones(len(values[0]), np.int64)))
            if doubts is not None:
                keys = [from_texts(values[every.index(table.columns[c])], table.columns[c])[0] for c in doubts.key]
                found = found.filter(doubts.untouched(keys))
            yield found

    def _told(
        self, found: pa.Table, conditions: Sequence[Condition], names: Sequence[str], table: MariaTable
    ) -> Iterator[pa.RecordBatch]:
        found = meets(found, conditions)
        if UNFIT in found.column_names and found.num_rows:
            wrong = found.column(UNFIT).drop_null()
            if len(wrong):
                raise ValueUnfit(
                    f"{table.name} holds a value that its type here cannot: {wrong[0].as_py()}",
                    "correct it at the source (dates are of the years 1 to 9999, decimals have 38 digits at most), or"
                    " leave the column out of the view",
                )
        if found.num_rows:
            yield from found.select(names).combine_chunks().to_batches()


@dataclass(frozen=True)
class _Told:
    """The log around a snapshot, which holds all up to `low`, nothing beyond `high`, and perhaps what is between."""

    window: LogWindow
    at: Place
    low: Place
    high: Place


class Reader:
    def __init__(self, spec: SourceSpec, pool: ConnectionPool, known: KnownTables) -> None:
        self._spec, self._pool, self._known = spec, pool, known

    @contextlib.contextmanager
    def snapshot(self, at: LogPosition, tables: Mapping[TableName, Sequence[str]]) -> Iterator[Snapshot]:
        """Of now, for questions as of a position about these columns."""
        with self._pool.borrow() as connection:
            yield self._begun(connection, at, tables)

    def _begun(self, connection: Connection, at: LogPosition, tables: Mapping[TableName, Sequence[str]]) -> Snapshot:
        doubtful: frozenset[TableName] = frozenset()
        for n in range(_TRIES):
            quiet = doubtful if n >= _UNDISTURBED else frozenset[TableName]()
            with still(self._pool, quiet, "READ" if n < _HELD_UP else "WRITE") as locking:
                opened = open_snapshot(connection, locking)
            found = self._tried(connection, (opened, quiet), at, tables)
            if isinstance(found, Snapshot):
                return found
            rows(connection, "ROLLBACK")
            doubtful |= found
            time.sleep(0.001 * 2**n)
        source = self._spec.name
        if doubtful:
            raise SourceUnavailable(
                f"{', '.join(map(str, sorted(doubtful)))} has no primary key and is written without a pause, so nobody"
                " can say which state a snapshot of it shows",
                "it is tried again; give the table a primary key, or"
                f" GRANT LOCK TABLES ON {quoted(self._pool.database)}.* TO {self._pool.user}",
            )
        raise SourceUnavailable(f"source {source}: tables are altered again and again", "try again")

    def _tried(
        self,
        connection: Connection,
        moment: tuple[Opened, frozenset[TableName]],
        at: LogPosition,
        tables: Mapping[TableName, Sequence[str]],
    ) -> Snapshot | frozenset[TableName]:
        """What was opened, as a snapshot that knows its place; or, if it can be used for nothing, the tables whose
        doubtful changes cannot be decided. Some tables may have been locked when it was opened."""
        opened, quiet = moment
        books = held(bookkeeping.read(connection, self._spec), self._spec, at)
        for table in tables:
            self._touch(connection, table)
        if opened.log and opened.log != at.head.log:
            raise another_life(self._spec.name, f"its log is called {opened.log} now")
        window = window_of(self._pool, books, self._spec.owner)
        with window.lock:
            high = window.cover(Log(self._pool, self._spec.name, at.head.log), books, at, opened.place or opened.sure)
            low = opened.place or window.settled(opened.executed)
            window.write(self._pool, books)
            found = {
                name: self._known.judged(connection, name, columns, (books, window)) for name, columns in tables.items()
            }
            for name, (_, newest) in found.items():
                old_enough(books, name, at.place, newest)
            if low is None or any(newest > int(low) for _, newest in found.values()):
                return frozenset()
            told = _Told(window, at.place, low, low if opened.place is not None else high)
            seen, doubtful = {}, set()
            for name, known in found.items():
                exact = opened.sure if name in quiet else None
                around = replace(told, low=exact, high=exact) if exact is not None else told
                one = self._seen(connection, known, tables[name], around)
                if one is None:
                    doubtful.add(name)
                else:
                    seen[name] = one
        return frozenset(doubtful) if doubtful else Snapshot(connection, seen)

    def _seen(
        self, connection: Connection, found: tuple[MariaTable, int], columns: Sequence[str], told: _Told
    ) -> Seen | None:
        """What the log tells of a table; None if what it showed cannot be decided."""
        table, newest = found
        texts = self._known.texts(connection, table)

        def changes(names: Sequence[str], first: Place, last: Place) -> pa.Table:
            read = Wanted(tuple(table.columns[c] for c in names), texts)
            return told.window.changes(table.name.table, read, newest, (first, last))

        changed, doubts = [], None
        if told.window.touches(table.name.table, told.low, told.high):
            key = catalog.primary_key(connection, table.name)
            if key != table.key:
                self._known.forget()
                return None
            if not readable_key(table) or told.window.alters(told.low, told.high):
                return None
            doubts = decided(key, changes(key, told.low, told.high))
            if doubts is None:
                return None
            changed.append(doubts.images(changes(columns, told.low, told.high)))
        between = changes(columns, *sorted((told.at, told.low)))
        if told.at < told.low:
            sign = pc.negate(between.column(COUNT))
            between = between.set_column(between.schema.get_field_index(COUNT), COUNT, sign)
        changed.append(between)
        return Seen(table, tuple(one.drop_columns([PLACE]) for one in changed if one.num_rows), doubts)

    def _touch(self, connection: Connection, table: TableName) -> None:
        try:
            rows(connection, f"SELECT 1 FROM {quoted(table.table)} LIMIT 0")
        except Exception as error:
            if getattr(error, "args", (0,))[0] == 1146:
                raise SchemaChanged(f"{table} does not exist", "create it again, or change the views") from None
            raise


def held(books: Books | None, spec: SourceSpec, at: LogPosition) -> Books:
    """The books, if they are those of a position that can be asked about."""
    if books is None or books.floor is None:
        raise CaptureMissing(f"capture is not installed at source {spec.name}", "run 'headwater setup'")
    if at.generation != books.life:
        raise another_life(spec.name, "capture was installed anew")
    if at.place < books.floor.place:
        raise PositionTrimmed(
            f"source {spec.name} keeps nothing before {books.floor.text()}", "ask as of a newer position"
        )
    return books


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(question: Question) -> list[str]:
    return list(dict.fromkeys([*question.columns, *question.key, *(c.column for c in question.conditions)]))


def _sought(table: MariaTable, key: tuple[str, ...], keys: Sequence[pa.Array]) -> Iterator[str]:
    """What finds the keys, statement by statement; nothing if there is none."""
    if not key:
        yield ""
        return
    columns = [table.columns[c] for c in key]
    names = [compared(quoted(c.name), c) for c in columns]
    possible = [row for row in zip(*(k.to_pylist() for k in keys), strict=True) if None not in row]
    for begin in range(0, len(possible), _KEYS):
        part = possible[begin : begin + _KEYS]
        if len(key) == 1:
            yield f"{names[0]} IN ({', '.join(literal(value) for (value,) in part)})"
        else:
            pairs = (" AND ".join(f"{n} = {literal(v)}" for n, v in zip(names, row, strict=True)) for row in part)
            yield f"(({') OR ('.join(pairs)}))"


def _numbered(found: pa.Table, question: Question, keys: Sequence[pa.Array]) -> pa.Table:
    """The rows that have one of the keys, exactly, with the number of it."""
    if not question.key:
        return found.append_column(ORDINAL, pa.array(np.zeros(found.num_rows, np.int64)))
    mine, theirs = np.zeros(found.num_rows, np.int64), np.zeros(question.keys.num_rows, np.int64)
    valid, possible = np.ones(found.num_rows, np.bool_), np.ones(question.keys.num_rows, np.bool_)
    for name, values in zip(question.key, keys, strict=True):
        distinct = values.unique().drop_null()
        for codes, array, good in ((mine, found.column(name), valid), (theirs, values, possible)):
            code = pc.fill_null(pc.index_in(array, value_set=distinct), -1).to_numpy(zero_copy_only=False)
            good &= code >= 0
            codes *= len(distinct) + 1
            codes += code
    order = np.argsort(np.where(possible, theirs, np.iinfo(np.int64).max), kind="stable")
    ranked = np.where(possible, theirs, np.iinfo(np.int64).max)[order]
    place = np.searchsorted(ranked, mine)
    inside = valid & (place < len(ranked))
    inside[inside] &= ranked[place[inside]] == mine[inside]
    kept = np.flatnonzero(inside)
    return found.take(pa.array(kept)).append_column(ORDINAL, pa.array(order[place[kept]], pa.int64()))


# ── conditions and chunks ────────────────────────────────────────────────────────────────────────────────────────


def _pushed(table: MariaTable, conditions: Sequence[Condition]) -> list[str]:
    """What the server may leave out already. It keeps what it compares otherwise than we do; that is left out here."""
    return [text for c in conditions if (text := _condition(table.columns[c.column], c))]


def _condition(column: MariaColumn, condition: Condition) -> str:
    kind, name, value = column.type, quoted(column.name), condition.value
    if kind is None or pa.types.is_floating(kind) or column.base in ("time", "json"):
        return ""
    if value is None:
        return "" if pa.types.is_temporal(kind) else f"{name} {condition.operator}"
    if (pa.types.is_string(kind) or pa.types.is_binary(kind)) and condition.operator not in ("=", "in"):
        return ""
    if isinstance(value, tuple):
        return f"{name} IN ({', '.join(map(literal, value))})" if value else "FALSE"
    return f"{name} {condition.operator} {literal(value)}"


def _bounded(chunk: Chunk) -> str:
    if not chunk.bounds:
        return ""
    name, low, high = quoted(chunk.bounds[0]), *chunk.bounds[1:]
    if not low:
        return f"({name} < {high} OR {name} IS NULL)"
    return f"{name} >= {low}" + (f" AND {name} < {high}" if high else "")


def _within(found: pa.Table, chunk: Chunk) -> pa.Table:
    """The same of rows that are here. Rows without a value belong to the first chunk."""
    if not chunk.bounds:
        return found
    name, low, high = chunk.bounds
    values = found.column(name).cast(pa.int64())
    if low:
        found = found.filter(pc.greater_equal(values, int(low)))
        values = found.column(name).cast(pa.int64())
    if high:
        inside = pc.less(values, int(high))
        found = found.filter(pc.if_else(pc.is_null(inside), not low, inside))
    return found


def chunk_bounds(connection: Connection, table: MariaTable, parts: int) -> list[tuple[str, ...]]:
    """Parts of a table by a whole number that an index has first; evenly where numbers lie close, else by counting."""
    by = [index[0] for index in (table.key, *table.indexes) if index]
    column = next((c for c in by if pa.types.is_integer(table.columns[c].type or pa.null())), None)
    if column is None or parts < 2:
        return [()]
    name = quoted(column)
    ((low, high, count),) = rows(connection, f"SELECT MIN({name}), MAX({name}), COUNT({name}) FROM {table.sql}")
    if low is None or high == low:
        return [()]
    if high - low <= 4 * count:
        step = max(1, (high - low + 1) // parts)
        cuts = [low + step * n for n in range(1, parts) if low + step * n <= high]
    else:
        size, cuts = max(1, count // parts), []
        after = f"{name} >= {low}"
        while len(cuts) < parts - 1:
            found = rows(
                connection, f"SELECT {name} FROM {table.sql} WHERE {after} ORDER BY {name} LIMIT 1 OFFSET {size}"
            )
            if not found or (cuts and found[0][0] == cuts[-1]):
                break
            cuts.append(found[0][0])
            after = f"{name} >= {cuts[-1]}"
    ends = ["", *map(str, cuts), ""]
    return [(column, low, high) for low, high in itertools.pairwise(ends)] if cuts else [()]
