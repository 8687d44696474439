"""What a run is about: tables at sources, views over them, and the transactions that will happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import pyarrow as pa

from headwater.algebra.bag import Bag, Row
from headwater.algebra.parse import define, parse_views
from headwater.algebra.spj import Spj
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.strategies.contract import WAREHOUSE, Node, StrategySetting, Update
from headwater.model.errors import UnknownName
from headwater.model.names import SourceName, TableName, ViewName, view_table
from headwater.model.schema import Column, TableSchema


@dataclass(frozen=True)
class PlannedUpdate:
    """A transaction that a source will commit: when, and what it changes. `part_of` names the transaction over several
    sources that it is a part of, if any."""

    at: float
    source: Node
    changes: Mapping[TableName, Bag]
    part_of: str = ""


@dataclass(frozen=True)
class World:
    """Sources are named by the first part of their tables' names."""

    columns: Mapping[TableName, tuple[str, ...]]
    views: tuple[ViewDefinition, ...]
    initial: Mapping[TableName, Bag]
    transactions: tuple[PlannedUpdate, ...] = field(default=())

    @staticmethod
    def of(tables: Mapping[str, Sequence[str]], views: Mapping[str, str], rows: Mapping[str, Iterable[Row]]) -> World:
        """`tables` maps `source.table` to its columns, `views` a name to its SELECT, `rows` a table to what it holds
        at the beginning."""
        columns = {table_name(name): tuple(cs) for name, cs in tables.items()}
        initial = {t: Bag.of(rows.get(str(t), ())) for t in columns}
        types = {t: {c: _seen(initial[t], i) for i, c in enumerate(cs)} for t, cs in columns.items()}
        return World(columns, defined(columns, views, types), initial)

    @cached_property
    def sources(self) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(str(t.source) for t in self.columns))

    @cached_property
    def compiled(self) -> tuple[Spj, ...]:
        columns = {**self.columns, **{view_table(view.name): view.columns for view in self.views}}
        return tuple(Spj(view, columns) for view in self.views)

    @cached_property
    def content(self) -> Mapping[str, Bag]:
        """The views at the beginning, each after those that it reads."""
        held, found = dict(self.initial), dict[str, Bag]()
        for spj in self.compiled:
            found[spj.name] = held[view_table(spj.name)] = spj.evaluate(held)
        return found

    def setting(self, view: int = 0) -> StrategySetting:
        """What a strategy for one of the views knows at the beginning. Views that it reads are at the warehouse."""
        spj = self.compiled[view]
        homes = tuple(WAREHOUSE if t.is_view else str(t.source) for t in spj.tables)
        read = {t: self.content[t.table] for t in spj.tables if t.is_view}
        return StrategySetting(spj, homes, {**self.initial, **read} if read else self.initial)

    @property
    def settings(self) -> tuple[StrategySetting, ...]:
        """What a strategy for all of the views knows at the beginning."""
        return tuple(self.setting(i) for i in range(len(self.views)))

    def having(self, transactions: Iterable[PlannedUpdate]) -> World:
        """The same world, where these happen. What has been computed of it stays: no transaction is in it."""
        other = replace(self, transactions=tuple(sorted(transactions, key=lambda t: t.at)))
        other.__dict__.update({name: self.__dict__[name] for name in _COMPUTED if name in self.__dict__})
        return other


_COMPUTED = ("sources", "compiled", "content")


def after(tables: Mapping[TableName, Bag], transactions: Iterable[PlannedUpdate | Update]) -> dict[TableName, Bag]:
    """What tables hold once these have happened."""
    held = dict(tables)
    for transaction in transactions:
        for table, change in transaction.changes.items():
            held[table] = held[table] + change
    return held


def table_name(text: str) -> TableName:
    source, _, table = text.partition(".")
    return TableName(SourceName(source), table)


Types = Mapping[TableName, Mapping[str, pa.DataType]]


def defined(
    columns: Mapping[TableName, Sequence[str]], views: Mapping[str, str], types: Types | None = None
) -> tuple[ViewDefinition, ...]:
    """The views that these SELECTs over these tables mean; columns are integers where `types` says nothing."""
    typed = tuple((t, tuple((c, (types or {}).get(t, {}).get(c, pa.int64())) for c in cs)) for t, cs in columns.items())
    return _defined(typed, tuple(views.items()))


@lru_cache(256)
def _defined(
    tables: tuple[tuple[TableName, tuple[tuple[str, pa.DataType], ...]], ...], views: tuple[tuple[str, str], ...]
) -> tuple[ViewDefinition, ...]:
    """Remembered: generated histories have few shapes, and parsing them took longer than running them."""
    catalog = _Catalog(dict(tables))
    known: dict[ViewName, ViewDefinition] = {}
    for name, select in views:
        (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW `{name}` AS {select}", f"{name}.sql")
        known[ViewName(name)] = define(parsed, catalog, known)
    return tuple(known.values())


def _seen(rows: Bag, i: int) -> pa.DataType:
    """The type of a column, as its values tell."""
    return pa.string() if any(isinstance(row[i], str) for row in rows.counts) else pa.int64()


class _Catalog:
    """What is known of the tables."""

    def __init__(self, tables: Mapping[TableName, Sequence[tuple[str, pa.DataType]]]) -> None:
        self._tables = tables

    def sources(self) -> Sequence[str]:
        return list(dict.fromkeys(str(t.source) for t in self._tables))

    def tables(self, source: str) -> Sequence[str]:
        return [t.table for t in self._tables if t.source == source]

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        meant = [t for t in self._tables if (t.source, t.table) == (source, table) and schema in ("", t.schema)]
        if not meant:
            raise UnknownName("table", f"{source}.{table}", map(str, self._tables))
        return TableSchema(meant[0], tuple(Column(c, kind, str(kind)) for c, kind in self._tables[meant[0]]))
