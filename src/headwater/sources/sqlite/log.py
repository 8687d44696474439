"""Reading the log of changes: which transactions it holds, forgetting its oldest rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.errors import CaptureMissing
from headwater.model.names import Position, TableName
from headwater.model.numbers import ascending
from headwater.model.source import COUNT, ORDINAL, TRANSACTIONS, Poll
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import SqliteFile
from headwater.sources.sqlite.layout import TAGS
from headwater.sources.sqlite.life import LifeMoment, Log, held, parse, read_log
from headwater.sources.sqlite.owners import Owner, Registered, let_go, registered, write
from headwater.sources.sqlite.read import Part, Shape, Table
from headwater.sources.sqlite.unfit import with_unfit

TRIM_SLICE = 10_000
"""Changes forgotten in one write transaction: some milliseconds, so that writers hardly wait."""
_UNIX_EPOCH = 2440587.5
_MICROSECONDS = 86_400e6
_ID = "__id"


def poll(
    connection: Connection, tables: Sequence[tuple[Table, Sequence[str]]], log: Log, after: LifeMoment, limit: int
) -> Poll:
    """Inside one read transaction, which found `after` to be of this past."""
    start, last = after.id, log.last
    if start == last:
        return Poll(after.position, TRANSACTIONS.empty_table(), {})
    end = _cut(connection, start, last, limit)
    found = pa.Table.from_batches(
        connection.stream(
            "SELECT 0 AS id, 0 AS tx, 0 AS tbl, 0.5 AS at, 0 AS salt UNION ALL"
            f" SELECT id, tx, tbl, at, salt FROM _headwater_changes WHERE id > {start} AND id <= {end}"
        )
    ).slice(1)
    ids, tx = found.column("id").to_numpy(), found.column("tx").to_numpy()
    last_of = np.flatnonzero(np.diff(tx, append=-1))  # where each transaction ends
    present = set(pc.unique(found.column("tbl")).to_pylist())
    named = [TAGS, *(t.captured.number for t, _ in tables)]  # a part is told, whatever it touched
    of_interest = pc.is_in(found.column("tbl"), pa.array(named, pa.int64()))
    told = ascending(np.searchsorted(ids[last_of], ids[of_interest.to_numpy()]))
    labels = ids[last_of][told]
    times = (found.column("at").to_numpy()[last_of][told] - _UNIX_EPOCH) * _MICROSECONDS
    changes: dict[TableName, pa.Table] = {
        table.name: _changes(connection, Shape(table, tuple(columns), (COUNT, _ID)), (start, end), labels)
        for table, columns in tables
        if table.captured.number in present
    }
    tags = _tags(connection, (start, end), labels) if TAGS in present else {}
    transactions = pa.table(
        [
            pa.array(labels, pa.int64()).cast(pa.string()),
            pa.array(times.round().astype(np.int64)).cast(pa.timestamp("us", "UTC")),
            _sparse(len(labels), {n: tag for n, (tag, _) in tags.items()}, pa.string()),
            _sparse(len(labels), {n: parts for n, (_, parts) in tags.items()}, pa.int32()),
        ],
        schema=TRANSACTIONS,
    )
    ends_before = np.concatenate([[start], ids[last_of]])[told].tolist()

    def position(number: int) -> Position:
        """Ids are in order, and every one is there."""
        if number == start:
            return after.position
        row = int(np.searchsorted(ids, number))
        return LifeMoment.at(number, log.generation, found.column("at")[row].as_py(), found.column("salt")[row].as_py())

    before = {str(labels[n]): position(ends_before[n]) for n in tags}
    return Poll(position(end), transactions, changes, end < last, before)


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
    batches: list[pa.RecordBatch] = []
    misfits: dict[int, Mapping[str, str]] = {}
    for batch, odd in shape.read(connection, [part]):
        before = sum(b.num_rows for b in batches)
        misfits |= {before + row: values for row, values in odd.items()}
        batches.append(batch)
    rows = with_unfit(connection, shape.table, pa.Table.from_batches(batches), misfits, _ID)
    ordinals = np.searchsorted(labels, rows.column(_ID).to_numpy())
    return rows.drop_columns([_ID]).append_column(ORDINAL, pa.array(ordinals, pa.int64()))


def _cut(connection: Connection, start: int, last: int, limit: int) -> int:
    """Where a poll ends: between transactions, before the one that would exceed the limit unless it is the first."""
    if last - start <= max(1, limit):
        return last
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
    if not following:
        return last
    return int(connection.rows(f"SELECT max(id) FROM _headwater_changes WHERE id < {following[0][0]}")[0][0])


def trim(file: SqliteFile, source: str, owner: Owner, below: Position) -> int:
    """This project lets go what `below` contains; what all projects have let go is forgotten, in slices. The first one
    moves the limit, so that nobody is answered from a half-forgotten past. The change that witnesses the limit stays,
    and so does the newest one: ids go on from it. Nobody is writing now, so nothing can be in play."""
    forgotten = 0
    while True:
        with file.writing() as connection:
            log, mine = read_log(connection, owner.id, parse(below).id), registered(connection).get(owner.id)
            if mine is None:
                raise CaptureMissing(f"source {source}: nothing is captured for this project", "run 'headwater setup'")
            if parse(below).id > mine.trimmed:
                asked = held(log, below, f"source {source}")
                write(connection, Registered(mine.owner, asked.id, mine.tables))
            limit = let_go(connection)
            connection.execute(f"UPDATE _headwater_meta SET trimmed = max(trimmed, {limit})")
            connection.execute(
                "DELETE FROM _headwater_changes WHERE id IN (SELECT id FROM _headwater_changes"
                f" WHERE id < {min(limit, log.last)} ORDER BY id LIMIT {TRIM_SLICE})"
            )
            gone = int(connection.rows("SELECT changes()")[0][0])
            connection.execute("DELETE FROM _headwater_stash")
        forgotten += gone
        if gone < TRIM_SLICE:
            return forgotten
