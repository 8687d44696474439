"""DuckDB recomputing TPC-H's queries: over Parquet files, and over the sources themselves through its scanners.

    python tpch_duckdb.py --queries queries.json --parquet FOLDER [--postgres URL --sqlite FOLDER]

Prints a JSON line {"parquet": {query: [seconds, processor seconds]}, "sources": {…}}; each is the median of so many
runs after one that is not counted. Connecting is not timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from importlib.metadata import distribution
from pathlib import Path

import duckdb

SOURCES = {"parts": ("supplier", "part", "partsupp"), "geo": ("region", "nation")}
SALES = ("customer", "orders", "lineitem")
SCANNERS = ("duckdb-extension-sqlite-scanner", "duckdb-extension-postgres-scanner")


def timed(connection: duckdb.DuckDBPyConnection, queries: dict[str, str], repeat: int) -> dict[str, list[float]]:
    found = {}
    for name, query in queries.items():
        times = []
        for _ in range(repeat + 1):
            begun, used = time.perf_counter(), time.process_time()
            connection.execute(query).fetchall()
            times.append((time.perf_counter() - begun, time.process_time() - used))
        found[name] = [statistics.median(column) for column in zip(*times[1:], strict=True)]
    return found


def over_parquet(folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for file in folder.glob("*.parquet"):
        connection.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
    return connection


def over_sources(postgres: str, files: Path) -> duckdb.DuckDBPyConnection:
    """Extensions as their wheels ship them, so that nothing is downloaded."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for wheel in SCANNERS:
        shipped = distribution(wheel).files or []
        (path,) = [str(file.locate()) for file in shipped if file.name.endswith(".duckdb_extension")]
        connection.execute(f"LOAD '{path}'")
    connection.execute(f"ATTACH '{postgres}' AS sales (TYPE postgres, READ_ONLY)")
    for table in SALES:
        connection.execute(f"CREATE VIEW {table} AS FROM sales.public.{table}")
    for source, tables in SOURCES.items():
        connection.execute(f"ATTACH '{files / source}.db' AS {source} (TYPE sqlite, READ_ONLY)")
        for table in tables:
            connection.execute(f"CREATE VIEW {table} AS FROM {source}.{table}")
    return connection


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--parquet", type=Path, required=True)
    parser.add_argument("--postgres", default="")
    parser.add_argument("--sqlite", type=Path, default=Path())
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    queries = json.loads(options.queries.read_text())
    found = {"parquet": timed(over_parquet(options.parquet), queries, options.repeat)}
    if options.postgres:
        found["sources"] = timed(over_sources(options.postgres, options.sqlite), queries, 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
