"""Which state a snapshot shows: where in the log it is.

**MariaDB** says it, exact to the transaction (`binlog_snapshot_position`).

**MySQL** does not. Its snapshot V is known from two sides:

    prefix(low) ⊆ V ⊆ prefix(high)

`low` is the last place up to which all that the log holds was in `gtid_executed` before the snapshot was opened:
a transaction is there only after the engine has committed it (`gtids.py`). `high` is the end of the log, read
afterwards: a transaction is in the log before the engine commits it. What lies between is **doubtful**: a few
transactions that were being committed at that moment, and any of them may be in V or not.

**Doubt is decided row by row, out of the log.** The log has both images of every change, and the changes of a row are
in it in their order (a row is locked until its change is committed). So for a row that doubtful changes touch, what
it was at `low` is what the first of them says it was before; and a row that none of them touches is the same at `low`,
in V and at `high`:

    R(low) = {rows of V that no doubtful change touches} + {images before the first doubtful change of each touched row}

A row is known by its primary key, by code points: an update that changes the key touches two. Whether commits are in
the order of the log does not matter, and nobody waits for anything.

**Without a primary key** rows cannot be told apart, so the table must have no doubtful change at all. If that does not
come about by itself within a few snapshots, one is opened while nobody is committing a change of the table: under LOCK
TABLES, which waits for all transactions that changed it. The log's end, read under that lock, is then exact for this
table. First the lock is asked for that lets writers pass while it waits (READ), then, for a second at most, the one
that does not (WRITE); it is held for two statements.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from headwater.model.changelog import COUNT
from headwater.model.names import TableName
from headwater.sources.mariadb import gtids
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, ConnectionPool, cut_off, dialect, log_end, quoted, rows
from headwater.sources.mariadb.gtids import Gtids
from headwater.sources.mariadb.places import Place, place_of

_LOCK_SECONDS = 1
"""For so long writers may be held up behind a lock that waits for a transaction to end: the least MySQL knows."""
_NOT_HAD = frozenset({1205, 1213, 1044, 1142, 1227})
"""It took too long, or the user may not."""


@dataclass(frozen=True)
class Opened:
    """A snapshot, as it was opened: with its place, or with what it holds for certain."""

    log: str
    """The log's name; empty if it was not said."""
    place: Place | None
    executed: Gtids | None
    sure: Place | None = None
    """Its exact place as far as locked tables are concerned."""


def open_snapshot(connection: Connection, locking: Connection | None = None) -> Opened:
    """`locking` holds the lock of tables."""
    opened = _opened(connection)
    if locking is None:
        return opened
    file, offset, *_ = log_end(locking)
    return replace(opened, sure=place_of(file, int(offset))[1])


def _opened(connection: Connection) -> Opened:
    product = dialect(connection)
    known = None if product.knows_its_place else gtids.executed(connection)
    rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    if known is not None:
        return Opened("", None, known)
    said = dict(rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%%'"))
    log, place = place_of(said["Binlog_snapshot_file"], int(said["Binlog_snapshot_position"]))
    return Opened(log, place, None)


@dataclass(frozen=True)
class Doubts:
    """What doubtful changes say of one table: the keys they touch, and which of them tell what was there before."""

    key: tuple[str, ...]
    touched: frozenset[tuple[Any, ...]]
    before: tuple[int, ...]
    """Of the changes, in the order of the log: those that say what a touched row was."""

    def images(self, changes: pa.Table) -> pa.Table:
        """The touched rows as they were; `changes` are the doubtful ones."""
        found = changes.take(pa.array(self.before, pa.int64()))
        return found.set_column(found.schema.get_field_index(COUNT), COUNT, pc.abs(found.column(COUNT)))

    def untouched(self, keys: Sequence[pa.Array]) -> pa.Array:
        """Of rows with these keys, whether no doubtful change touches them."""
        listed = zip(*(values.to_pylist() for values in keys), strict=True)
        return pa.array([key not in self.touched for key in listed], pa.bool_())


def readable_key(table: MariaTable) -> bool:
    """Whether rows of a table can be told apart here."""
    return bool(table.key) and all(table.columns[c].type is not None for c in table.key)


def doubts(key: tuple[str, ...], changes: pa.Table) -> Doubts | None:
    """`changes` are doubtful ones, with the columns of the key and COUNT; None if one of them has no key to go by."""
    first: dict[tuple[Any, ...], int] = {}
    columns = [changes.column(name).to_pylist() for name in key]
    for number, values in enumerate(zip(*columns, strict=True)):
        if None in values:  # a value that its type here cannot hold
            return None
        first.setdefault(values, number)
    counts = changes.column(COUNT).to_pylist()
    return Doubts(key, frozenset(first), tuple(number for number in first.values() if counts[number] < 0))


@contextlib.contextmanager
def still(pool: ConnectionPool, tables: Iterable[TableName], mode: str) -> Iterator[Connection | None]:
    """While no transaction that changed one of these tables is being committed, and none changes it: the connection
    that sees to it. None if there are no tables, or it could not be had."""
    names = sorted(quoted(table.table) for table in tables)
    if not names:
        yield None
        return
    locking = pool.connect()
    try:
        yield locking if _locked(locking, names, mode) else None
    finally:
        cut_off(locking)


def _locked(locking: Connection, names: Sequence[str], mode: str) -> bool:
    rows(locking, f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
    try:
        rows(locking, f"LOCK TABLES {', '.join(f'{name} {mode}' for name in names)}")
    except pymysql.MySQLError as error:
        if error.args[0] in _NOT_HAD:
            return False
        raise
    return True
