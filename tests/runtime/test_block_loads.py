"""First loads over joins that sources make: the same rows as of the same position, whoever joins, whoever writes."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.algebra.parse import define
from headwater.algebra.statements import parse_views
from headwater.algebra.view import ViewDefinition
from headwater.maintenance import block_loads
from headwater.maintenance.block_loads import Pushed, pushed
from headwater.model.changelog import COUNT
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import TableSchema
from headwater.model.source import Source, SourceSpec
from headwater.runtime.compute import copying, loading
from headwater.runtime.compute.connections import disconnect
from headwater.runtime.compute.copying import ScanWork, staging_name
from headwater.runtime.project.fingerprints import needed_schema
from headwater.sources import connect
from headwater.storage import Storage
from postgres_server import PostgresServer
from runtime.small_project import Project, rows
from tpch.standard import StandardCatalog

SHOP = SourceName("shop")
TABLES = [
    "CREATE TABLE returned (id INTEGER PRIMARY KEY, item INTEGER, why TEXT)",
    "CREATE TABLE item (id INTEGER PRIMARY KEY, ord INTEGER, kind INTEGER)",
    "CREATE TABLE ord (id INTEGER PRIMARY KEY, customer INTEGER, day TEXT)",
    "CREATE INDEX item_ord ON item (ord)",
    "CREATE INDEX returned_item ON returned (item)",
]
SQL = (
    "SELECT r.why, i.kind, o.customer FROM shop.returned AS r JOIN shop.item AS i ON r.item = i.id"
    " JOIN shop.ord AS o ON i.ord = o.id WHERE r.why <> 'gift'"
)
PLAIN = SQL.replace("shop.", "")


def filled(execute: Callable[[str], object], returned: int = 40, items: int = 400) -> None:
    for n in range(items):
        execute(f"INSERT INTO item VALUES ({n}, {n // 4}, {n % 3})")
        if n % 4 == 0:
            execute(f"INSERT INTO ord VALUES ({n // 4}, {n % 7}, 'd{n}')")
    for n in range(returned):
        execute(f"INSERT INTO returned VALUES ({n}, {'NULL' if n % 9 == 0 else n * 7 % (items + 20)}, 'w{n % 3}')")
    execute("INSERT INTO returned VALUES (1000, 1, 'gift')")


def shape(source: Source, sizes: dict[str, int]) -> tuple[ViewDefinition, dict[TableName, TableSchema], Pushed | None]:
    tables = {name: replace(table, rows=sizes.get(name.table, table.rows)) for name, table in source.describe().items()}
    catalog = StandardCatalog({TableName(SHOP, n.table): replace(t, name=n) for n, t in tables.items()})
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v AS {SQL}", "v.sql")
    view = define(parsed, catalog)
    schemas = {t: needed_schema(view, tables[t]) for t in view.tables}
    leading = {t: frozenset(i[0] for i in (s.key, *s.indexes) if i) for t, s in tables.items()}
    return view, tables, pushed(view, tables, schemas, leading)


@contextmanager
def sqlite_source(folder: Path) -> Iterator[tuple[Source, Callable[[str], object]]]:
    file = sqlite3.connect(folder / "shop.db", isolation_level=None, check_same_thread=False)
    file.execute("PRAGMA journal_mode = WAL")
    source = connect(SourceSpec(SHOP, f"sqlite:///{folder / 'shop.db'}"))
    yield source, file.execute
    source.close()
    file.close()


@contextmanager
def postgres_source(server: PostgresServer) -> Iterator[tuple[Source, Callable[[str], object]]]:
    url = server.create_database("block_loads")
    with psycopg.connect(url, autocommit=True) as connection:
        source = connect(SourceSpec(SHOP, url))
        yield source, connection.execute  # type: ignore[misc] # statements are built here
        source.close()


def staged(source: Source, spec: SourceSpec, found: Pushed, at: Position, folder: Path) -> Counter[tuple[Any, ...]]:
    """Every chunk of the block, one after the other, as a task does it."""
    (load,) = found.loads
    first = load.block.view.occurrences[load.first]
    tables = {t.name: t for t in source.describe().values()}
    of = {o.core(c): tables[o.table].column(c) for o in load.block.view.occurrences for c in o.columns}
    names = found.over.blocks[load.block.table].columns
    schema = pa.schema([pa.field(c, of[c].type) for c in names])  # type: ignore[union-attr]
    chunks = tuple(source.chunks(first.table, 10))
    work = ScanWork(Storage(str(folder)), "block", spec, at, tuple(load.key_schema.names), schema, chunks,
                    first.conditions, join=load)  # fmt: skip
    rows: Counter[tuple[Any, ...]] = Counter()
    for chunk in chunks:
        copying._stage(work, chunk)
        part = pq.read_table(folder / "block" / staging_name(chunk))
        for row in part.to_pylist():
            rows[tuple(row[c] for c in ("r.why", "i.kind", "o.customer"))] += row[COUNT]
    assert len(chunks) > 2
    return Counter({row: n for row, n in rows.items() if n})


def exact_while_written(source: Source, spec: SourceSpec, execute: Callable[[str], Any], folder: Path) -> None:
    for statement in TABLES:
        execute(statement)
    filled(execute)
    source.install(list(source.describe()))
    _, _, found = shape(source, {"returned": 40, "item": 10**6, "ord": 10**6})
    assert found is not None
    assert len(found.over.view.occurrences) == 1, "the view is one block"
    source.expect({})
    wanted = Counter(tuple(row) for row in execute(PLAIN).fetchall())
    at, stop = source.position(), threading.Event()

    def writes() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            execute(f"UPDATE item SET kind = kind + 1, ord = {n % 90} WHERE id = {n * 7 % 400}")
            execute(f"DELETE FROM returned WHERE id = {n % 40}")
            execute(f"INSERT INTO returned VALUES ({2000 + n}, {n % 400}, 'new')")

    writer = threading.Thread(target=writes)
    writer.start()
    try:
        assert staged(source, spec, found, at, folder) == wanted
    finally:
        stop.set()
        writer.join()
        disconnect([0])
    assert Counter(tuple(row) for row in execute(PLAIN).fetchall()) != wanted, "much was written meanwhile"


def test_a_join_made_by_sqlite_is_exact_as_of_the_position(tmp_path: Path) -> None:
    with sqlite_source(tmp_path) as (source, execute):
        exact_while_written(source, SourceSpec(SHOP, f"sqlite:///{tmp_path / 'shop.db'}"), execute, tmp_path / "w")


@pytest.mark.postgres
def test_a_join_made_by_postgresql_is_exact_as_of_the_position(postgres: PostgresServer, tmp_path: Path) -> None:
    with postgres_source(postgres) as (source, execute):
        url = postgres.url("block_loads")
        exact_while_written(source, SourceSpec(SHOP, url), execute, tmp_path / "w")


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ({"returned": 1000, "item": 10**6, "ord": 10**6}, "r"),
        ({"returned": 10**6, "item": 10**6, "ord": 10**6}, None),  # everything is found one by one: copying is cheaper
        ({"returned": 10**6, "item": 10**6, "ord": 1000}, None),  # an order has a thousand items, and so all are met
        ({"returned": 100, "item": 1000, "ord": 1000}, None),  # nothing worth a thought
    ],
)
def test_a_source_joins_where_that_is_cheaper(sizes: dict[str, int], first: str | None, tmp_path: Path) -> None:
    with sqlite_source(tmp_path) as (source, execute):
        for statement in TABLES:
            execute(statement)
        view, tables, found = shape(source, sizes)
        assert (None if found is None else found.loads[0].block.view.occurrences[found.loads[0].first].alias) == first
        schemas = {t: needed_schema(view, tables[t]) for t in view.tables}
        leading = {t: frozenset(i[0] for i in (s.key, *s.indexes) if i) for t, s in tables.items()}
        assert pushed(view, tables, schemas, leading, shared=[TableName(SHOP, "ord")]) is None, "it is copied anyway"


VIEWS = f"""
CREATE MATERIALIZED VIEW one_block AS {SQL};
CREATE MATERIALIZED VIEW two_sources AS SELECT p.name, i.kind AS k, o.day, p.id + i.id AS n FROM crm.person AS p
JOIN shop.ord2 AS o ON o.customer = p.id JOIN shop.item2 AS i ON i.ord2 = o.id WHERE i.kind < 2;
"""
TWO = [statement.replace("ord", "ord2").replace("item", "item2") for statement in TABLES[1:4]]


@pytest.mark.spark
def test_views_are_the_same_whoever_joins(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_loads, "WORTH", -(10**12))
    made: list[list[str]] = []
    real = loading.SparkLoader._joined

    def seen(self: Any, plans: Any, catalog: Any) -> dict[Any, Pushed]:
        found = real(self, plans, catalog)
        made.append(sorted(found))
        return found

    monkeypatch.setattr(loading.SparkLoader, "_joined", seen)
    shown = []
    for place, on in (("on", True), ("off", False)):
        people = "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO person VALUES (1, 'a'), (2, 'b')"
        project = Project(tmp_path / place, VIEWS, {"shop": "; ".join([*TABLES, *TWO]), "crm": people})
        toml = project.folder / "headwater.toml"
        toml.write_text(toml.read_text() + f"join_at_sources = {str(on).lower()}\n")
        with closing(sqlite3.connect(project.folder / "shop.db")) as file, file:
            filled(file.execute, items=80)
            file.execute("INSERT INTO item2 SELECT * FROM item")
            file.execute("INSERT INTO ord2 SELECT * FROM ord")
        warehouse: headwater.Warehouse = project.loaded()
        shown.append({view: Counter(rows(warehouse, view)) for view in ("one_block", "two_sources")})
    assert made == [["one_block", "two_sources"], []]
    assert shown[0] == shown[1]
    assert all(shown[0].values())
