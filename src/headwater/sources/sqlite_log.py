"""Reading the log of changes: where it begins and ends, which transactions it holds, forgetting its oldest rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.errors import CaptureMissing, ConfigError, PositionTrimmed
from headwater.model.names import Position, TableName
from headwater.model.source import COUNT, ORDINAL, TRANSACTIONS, Poll
from headwater.sources.sqlite_capture import TAGS
from headwater.sources.sqlite_files import Connection, SqliteFile
from headwater.sources.sqlite_read import Part, Shape, Table

TRIM_SLICE = 10_000
"""Changes forgotten in one write transaction: some milliseconds, so that writers hardly wait."""
_UNIX_EPOCH = 2440587.5
_MICROSECONDS = 86_400e6
_ID = "__id"


def number(position: Position) -> int:
    if not position.isdecimal():
        raise ConfigError(f"{position!r} is not a position of a SQLite source")
    return int(position)


def ends(connection: Connection) -> tuple[int, int]:
    """How far the log is trimmed, and its last change."""
    trimmed, last = connection.rows(
        "SELECT trimmed, coalesce((SELECT max(id) FROM _headwater_changes), 0) FROM _headwater_meta"
    )[0]
    return trimmed, last


def held(connection: Connection, position: Position) -> tuple[int, int]:
    """The id a position names, if the log still reaches back to it, and the last id."""
    trimmed, last = ends(connection)
    asked = number(position)
    if asked < trimmed:
        raise PositionTrimmed(
            f"what came before position {trimmed} is forgotten here, asked for {asked}", "use a newer position"
        )
    if asked > last:
        raise CaptureMissing(
            f"the source is at position {last}, before the position {asked} it was asked about",
            "was the file restored from a backup? rebuild the views over it",
        )
    return asked, last


def poll(connection: Connection, tables: Sequence[tuple[Table, Sequence[str]]], after: Position, limit: int) -> Poll:
    """Inside one read transaction."""
    start, last = held(connection, after)
    end = _cut(connection, start, last, limit)
    log = pa.Table.from_batches(
        connection.stream(
            "SELECT 0 AS id, 0 AS tx, 0 AS tbl, 0.5 AS at UNION ALL"
            f" SELECT id, tx, tbl, at FROM _headwater_changes WHERE id > {start} AND id <= {end}"
        )
    ).slice(1)
    ids, tx = log.column("id").to_numpy(), log.column("tx").to_numpy()
    last_of = np.flatnonzero(np.diff(tx, append=-1))  # where each transaction ends
    present = set(pc.unique(log.column("tbl")).to_pylist())
    named = [TAGS, *(t.captured.number for t, _ in tables)]  # a part is told, whatever it touched
    of_interest = pc.is_in(log.column("tbl"), pa.array(named, pa.int64()))
    told = np.unique(np.searchsorted(ids[last_of], ids[of_interest.to_numpy()]))
    labels = ids[last_of][told]
    moments = (log.column("at").to_numpy()[last_of][told] - _UNIX_EPOCH) * _MICROSECONDS
    changes: dict[TableName, pa.Table] = {
        table.name: _changes(connection, Shape(table, tuple(columns), (COUNT, _ID)), (start, end), labels)
        for table, columns in tables
        if table.captured.number in present
    }
    tags = _tags(connection, (start, end), labels) if TAGS in present else {}
    transactions = pa.table(
        [
            pa.array(labels, pa.int64()).cast(pa.string()),
            pa.array(moments.round().astype(np.int64)).cast(pa.timestamp("us", "UTC")),
            _sparse(len(labels), {n: tag for n, (tag, _) in tags.items()}, pa.string()),
            _sparse(len(labels), {n: parts for n, (_, parts) in tags.items()}, pa.int32()),
        ],
        schema=TRANSACTIONS,
    )
    ends_before = np.concatenate([[start], ids[last_of]])[told]
    before = {str(labels[n]): Position(str(ends_before[n])) for n in tags}
    return Poll(Position(str(end)), transactions, changes, end < last, before)


def _tags(connection: Connection, span: tuple[int, int], labels: npt.NDArray[np.int64]) -> dict[int, tuple[str, int]]:
    """A tagged transaction's ordinal → its global id and number of parts."""
    rows = connection.rows(
        f"SELECT id, c0, count FROM _headwater_changes WHERE tbl = {TAGS} AND id > {span[0]} AND id <= {span[1]}"
    )
    ordinals = np.searchsorted(labels, [row[0] for row in rows]).tolist()
    return {ordinal: (tag, parts) for ordinal, (_, tag, parts) in zip(ordinals, rows, strict=True)}


def _sparse(length: int, values: Mapping[int, str] | Mapping[int, int], kind: pa.DataType) -> pa.Array:
    return pa.array([values.get(n) for n in range(length)], kind) if values else pa.nulls(length, kind)


def _changes(connection: Connection, shape: Shape, span: tuple[int, int], labels: npt.NDArray[np.int64]) -> pa.Table:
    """A transaction's ordinal: how many end before this change."""
    within = [f"id > {span[0]}", f"id <= {span[1]}", f"tbl = {shape.table.captured.number}"]
    part = Part(shape.table.slots(), "_headwater_changes", within, ["count", "id"])
    rows = pa.Table.from_batches(shape.read(connection, [part]))
    ordinals = np.searchsorted(labels, rows.column(_ID).to_numpy())
    return rows.drop_columns([_ID]).append_column(ORDINAL, pa.array(ordinals, pa.int64()))


def _cut(connection: Connection, start: int, last: int, limit: int) -> int:
    """Where a poll ends: between transactions, before the one that would exceed the limit unless it is the first."""
    too_many = connection.rows(
        f"SELECT id, tx FROM _headwater_changes WHERE id > {start} ORDER BY id LIMIT 1 OFFSET {max(1, limit)}"
    )
    if not too_many:
        return last
    there, tx = too_many[0]
    before = connection.rows(
        f"SELECT id FROM _headwater_changes WHERE id > {start} AND id < {there} AND tx < {tx} ORDER BY id DESC LIMIT 1"
    )
    if before:
        return int(before[0][0])
    following = connection.rows(
        f"SELECT id FROM _headwater_changes WHERE id > {there} AND tx > {tx} ORDER BY id LIMIT 1"
    )
    return int(following[0][0]) - 1 if following else last


def trim(file: SqliteFile, below: Position) -> int:
    """In slices. The first one moves the limit, so that nobody is answered from a half-forgotten past. The newest row
    stays, whatever `below` says: ids go on from it."""
    forgotten = 0
    while True:
        with file.writing() as connection:
            trimmed, last = ends(connection)
            limit = min(number(below), last)
            if limit > trimmed:
                connection.execute(f"UPDATE _headwater_meta SET trimmed = {limit}")
            connection.execute(
                "DELETE FROM _headwater_changes WHERE id IN (SELECT id FROM _headwater_changes"
                f" WHERE id <= {limit} AND id < {last} ORDER BY id LIMIT {TRIM_SLICE})"
            )
            gone = int(connection.rows("SELECT changes()")[0][0])
        forgotten += gone
        if gone < TRIM_SLICE:
            return forgotten
