"""The embedded engine: one of it in a process, for what the same rows mean in every engine.

To start one takes tens of milliseconds, a connection to it next to nothing; what is temporary belongs to a connection
and goes with it. It is imported by the first who needs it: who finds rows by their values' order does without.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.kept.contract import Ints
from headwater.kept.whole import VERSION, all_whole, hashes_of_whole, is_whole, matched_whole

if TYPE_CHECKING:
    import duckdb

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "2GB",
    "preserve_insertion_order": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_started: dict[int, duckdb.DuckDBPyConnection] = {}
_starting = threading.Lock()


def version() -> str:
    """Hashes are this version's own, the engine's and ours."""
    import duckdb

    return f"{duckdb.__version__} {VERSION}"


def connected() -> duckdb.DuckDBPyConnection:
    """A connection of one's own, to be closed."""
    import duckdb

    process = os.getpid()  # a fork begins anew: the engine's threads are not there any more
    with _starting:
        if process not in _started or not _lives(_started[process]):
            _started[process] = duckdb.connect(":memory:", config=_SETTINGS)
        return _started[process].cursor()


@atexit.register
def _end() -> None:
    """Threads of others outlive this module when Python ends; an engine that they keep alive complains on screen."""
    for engine in _started.values():
        engine.close()
    _started.clear()


def _lives(engine: duckdb.DuckDBPyConnection) -> bool:
    """After an error of its own making an engine answers nothing any more."""
    import duckdb

    try:
        engine.execute("SELECT 1").fetchall()
    except duckdb.Error:
        return False
    return True


@contextmanager
def speaking(**tables: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that knows these tables, for a moment."""
    connection = connected()
    try:
        for name, rows in tables.items():
            connection.register(name, rows)
        yield connection
    finally:
        connection.close()


def hashes(rows: pa.Table) -> Ints:
    """One number of every row, in their order; equal rows have the same, NULLs included."""
    if rows.num_rows == 0 or not rows.num_columns:
        return np.zeros(rows.num_rows, np.int64)
    if all_whole(rows.schema):
        return hashes_of_whole(rows)
    names = [f"c{i}" for i in range(rows.num_columns)]
    given = rows.rename_columns(names).append_column("i_", pa.array(np.arange(rows.num_rows)))
    with speaking(rows_=given) as here:  # answers in any order that suits it
        made = here.sql(f"SELECT i_, hash({', '.join(names)}) AS h FROM rows_").to_arrow_table()
    found = np.empty(rows.num_rows, np.int64)
    found[made.column("i_").to_numpy()] = made.column("h").to_numpy().view(np.int64)
    return found


_HASHED = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
}
_mine = threading.local()


def can_hash(kind: pa.DataType) -> bool:
    """Whether `hash_of` knows a type."""
    return kind in _HASHED


def hash_of(values: Sequence[object], kinds: Sequence[pa.DataType]) -> int:
    """What `hashes` says of one row. Asked again and again by one thread, it needs no table for that."""
    if all(map(is_whole, kinds)):
        row = pa.table({str(i): pa.array([values[i]], kind) for i, kind in enumerate(kinds)})
        return int(hashes_of_whole(row)[0])
    here = getattr(_mine, "connection", None)
    if here is None or _mine.process != os.getpid():
        here = _mine.connection = connected()
        _mine.process = os.getpid()
    sql = f"SELECT hash({', '.join(f'CAST(? AS {_HASHED[kind]})' for kind in kinds)})"
    found = here.execute(sql, list(values)).fetchall()[0][0]
    return int(np.uint64(found).astype(np.int64))


def matched(rows: pa.Table, keys: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Which rows equal which keys, NULLs alike: the places of both, by the rows' places. Columns by position."""
    if all_whole(rows.schema) and rows.schema.types == keys.schema.types:
        return matched_whole(rows, keys)
    names = [f"c{i}" for i in range(rows.num_columns)]
    left = rows.rename_columns(names).append_column("i_", pa.array(np.arange(rows.num_rows)))
    right = keys.rename_columns(names).append_column("j_", pa.array(np.arange(keys.num_rows)))
    same = " AND ".join(f"l_.{n} IS NOT DISTINCT FROM r_.{n}" for n in names) or "TRUE"
    with speaking(l_=left, r_=right) as here:
        found = here.sql(f"SELECT i_, j_ FROM l_ JOIN r_ ON {same} ORDER BY i_").to_arrow_table()
    return found.column("i_").combine_chunks(), found.column("j_").combine_chunks()


def first_of_equals(rows: pa.Table, counts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Of rows that are equal, NULLs alike, the place of the first, and what their counts come to."""
    names = [f"c{i}" for i in range(rows.num_columns)]
    given = rows.rename_columns(names).append_column("i_", pa.array(np.arange(rows.num_rows)))
    by = f" GROUP BY {', '.join(names)}" if names else ""
    with speaking(rows_=given.append_column("n_", counts)) as here:
        found = here.sql(f"SELECT min(i_) AS i, CAST(sum(n_) AS BIGINT) AS n FROM rows_{by}").to_arrow_table()
    return found.column("i"), found.column("n")


def ordered(rows: pa.Table, order: Sequence[tuple[str, bool, bool]]) -> pa.Array:
    """The places of the rows in an order: (column, descending, NULLs first) each."""
    names = {name: f"c{i}" for i, name in enumerate(rows.column_names)}
    given = rows.rename_columns(list(names.values())).append_column("i_", pa.array(np.arange(rows.num_rows)))
    said = [
        f"{names[name]} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}" for name, down, first in order
    ]
    by = f" ORDER BY {', '.join(said)}" if said else ""
    with speaking(rows_=given) as here:
        return here.sql(f"SELECT i_ FROM rows_{by}").to_arrow_table().column("i_").combine_chunks()
