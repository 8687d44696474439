"""Reading views at one cut, without a JVM.

state(s) = SELECT columns, sum(count) AS n FROM log WHERE seq <= s GROUP BY columns HAVING n > 0
rows(s)  = every row of the state, n times

One view is scanned (`state.py`): that costs what its files cost. SQL over several is the fold as SQL, run by the engine
that deltalake has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.model.arrow import pc
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import UsageError
from headwater.model.names import Seq, ViewName
from headwater.storage import Storage
from headwater.warehouse.delta import open_table
from headwater.warehouse.delta_log import version_of
from headwater.warehouse.folding import as_counted

if TYPE_CHECKING:
    from headwater.warehouse.contents import Shelf

Order = tuple[tuple[str, bool, bool], ...]
"""(column, descending, NULLs first) each."""


@dataclass(frozen=True)
class Pinned:
    """A view as a reader has it: the Delta version, and the transaction up to which it is read."""

    folder: str
    version: int
    seq: Seq
    order: Order = ()
    """The order in which rows are shown, before all columns decide."""
    folded: bool = False
    """Its log may count a row less than zero times for a while (a convergent view), so it is read by folding it."""


def scan_view(shelf: Shelf, view: Pinned) -> pa.RecordBatchReader:
    """The rows of one view, duplicates repeated, in no particular order, as they are read."""
    from headwater.warehouse.state import State  # who looks one row up scans nothing

    contents = shelf.contents(view.folder, view.version)
    state = State(contents.schema, int(view.seq), lambda: contents)
    names = state.schema.names
    if view.folded or contents.many_back or not names:
        return run_sql(contents.storage, {ViewName("it"): view}, 'SELECT * FROM "it"').to_reader()
    return pa.RecordBatchReader.from_batches(state.schema, state.rows(names))


def read_view(shelf: Shelf, view: Pinned, limit: int | None = None) -> pa.Table:
    """The rows of one view, duplicates repeated, in the view's own order and then by all columns; the first `limit`
    of them."""
    return in_order(scan_view(shelf, view).read_all(), view.order, limit)


def in_order(rows: pa.Table, order: Order, limit: int | None = None) -> pa.Table:
    """In that order, and then by all columns, NULLs last."""
    if rows.num_rows <= 1:
        return rows.slice(0, limit)
    said = {name: (down, first) for name, down, first in reversed(order)}
    keys = [*dict.fromkeys(name for name, _, _ in order), *(n for n in rows.column_names if n not in said)]
    by = [(name, *said.get(name, (False, False))) for name in keys]
    if all(_arrow_sorts(rows.schema.field(name).type, down, first) for name, down, first in by):
        places = pc.sort_indices(rows, [(name, "descending" if down else "ascending") for name, down, _ in by])
    else:
        from headwater.kept.engine import ordered  # an engine of its own is started only where it is needed

        places = ordered(rows, by)
    return rows.take(places if limit is None else places.slice(0, limit))


def _arrow_sorts(kind: pa.DataType, down: bool, nulls_first: bool) -> bool:
    """Arrow has NULLs last, and NaN last even in descending order; lists and the like it does not sort."""
    odd = pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or (down and pa.types.is_floating(kind))
    return not nulls_first and not odd


def columns_of(storage: Storage, view: Pinned) -> pa.Schema:
    schema = version_of(storage, view.folder, view.version).schema
    return pa.schema([f for f in schema if f.name not in (COUNT, SEQ)])


def find_rows(storage: Storage, view: Pinned, where: Mapping[str, object], limit: int | None = None) -> pa.Table:
    """Those rows whose columns have these values, in the same order. They are looked up, not looked for: the first time
    that a large view is asked by some columns, an index of it is made."""
    from headwater.kept.files import FilesKept  # what is kept beside a view is loaded by who looks rows up
    from headwater.kept.standing import can_order

    table = version_of(storage, view.folder, view.version)
    shown = [name for name in table.schema.names if name not in (COUNT, SEQ)]
    paths = [storage.path(f"{view.folder}/{name}") for name in table.files]
    kept = FilesKept(storage, table.schema, paths, int(view.seq))
    ordered = all(can_order(table.schema.field(name).type) for name in where)
    if ordered and any(value is not None for value in where.values()):
        rows = kept.standing(where, [*shown, COUNT])
    else:
        keys = pa.table({n: pa.array([value], table.schema.field(n).type) for n, value in where.items()})
        rows = kept.found(list(where), keys)
    return in_order(as_counted(rows), view.order, limit)


def run_sql(
    storage: Storage, views: Mapping[ViewName, Pinned], query: str, known: Iterable[str] | None = None
) -> pa.Table:
    """Any SQL over the views, all at the versions given. `known` are the views there are, for who names another."""
    from deltalake import QueryBuilder

    engine = QueryBuilder()
    for number, (name, view) in enumerate(views.items()):
        log = f"__log{number}"
        table = open_table(storage, view.folder, view.version)
        engine = engine.register(log, table)
        columns = [f.name for f in pa.schema(table.schema().to_arrow()) if f.name not in (COUNT, SEQ)]
        fold = bag_sql(log, columns, view.seq)
        for spelling in dict.fromkeys((name, name.lower())):
            engine.execute(f"CREATE VIEW {identifier(spelling)} AS {fold}").read_all()
    try:
        return plain(pa.table(engine.execute(query).read_all()))
    except Exception as error:
        raise UsageError(
            f"the query does not run: {_first_lines(error)}", "views: " + ", ".join(known or views)
        ) from error


def count_rows(storage: Storage, view: Pinned, most: int | None = None) -> int | None:
    """How many rows a view has, without folding it: the sum of the counts. None if its history is longer than `most`
    entries, which Delta's statistics tell without reading them."""
    table = open_table(storage, view.folder, view.version)
    if most is not None:
        entries = pa.table(table.get_add_actions(flatten=True)).column("num_records")
        if any(not entry.is_valid for entry in entries) or sum(entry.as_py() for entry in entries) > most:
            return None
    from deltalake import QueryBuilder

    summed = f"SELECT sum({identifier(COUNT)}) AS n FROM log WHERE {identifier(SEQ)} <= {int(view.seq)}"
    found = pa.table(QueryBuilder().register("log", table).execute(summed).read_all())
    return int(found.column("n")[0].as_py() or 0)


def state_sql(log: str, columns: Iterable[str], at: int | None) -> str:
    """The folded state: columns and COUNT."""
    names = [identifier(c) for c in columns]
    where = "" if at is None else f" WHERE {identifier(SEQ)} <= {int(at)}"
    total = f"sum({identifier(COUNT)})"
    if not names:
        return f"SELECT {total} AS {identifier(COUNT)} FROM {log}{where} HAVING {total} > 0"
    listed = ", ".join(names)
    return f"SELECT {listed}, {total} AS {identifier(COUNT)} FROM {log}{where} GROUP BY {listed} HAVING {total} > 0"


def bag_sql(log: str, columns: Iterable[str], at: int | None) -> str:
    """The state as rows, duplicates repeated."""
    columns = list(columns)
    listed = ", ".join(identifier(c) for c in columns)
    state = state_sql(log, columns, at)
    return f'SELECT {listed} FROM (SELECT {listed}, unnest(range(0, {identifier(COUNT)})) AS "__n" FROM ({state}))'


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def plain(table: pa.Table) -> pa.Table:
    """Without the engine's view types, which other tools do not know."""
    swap = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return table.cast(pa.schema([pa.field(f.name, swap.get(f.type, f.type)) for f in table.schema]))


def _first_lines(error: Exception) -> str:
    return " ".join(str(error).strip().splitlines()[:2])
