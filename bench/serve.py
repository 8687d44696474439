"""How fast the views are read over the wire: point queries by PostgreSQL's protocol, whole views by Flight SQL.

    python bench/serve.py                  a view of 1,000,000 rows, 3 seconds each
    python bench/serve.py --n 100000 --seconds 1

A warehouse is written by hand: one view that was loaded, and a hundred transactions after it, each of which changes a
row. `headwater serve` runs
in a process of its own; each client is a process, too. A rate is that of the wall clock, with the machine's load
beside it. DuckDB alone asks the same question of one Parquet file, in this process, with nothing between. A whole view
by Flight is compared with reading one Parquet file that holds the same rows, by pyarrow, all columns into memory; both
are the best of seven, taken in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_flightsql import dbapi
from pyarrow import flight

from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.serve.flight.wire import any_of
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog, ViewState
from headwater.warehouse.format import check_format
from headwater.warehouse.table import ChangelogTable, write_file

PASSWORD = "bench"
CHANGES = 100
POINT = "SELECT id, name, amount FROM sales WHERE id = %s"


def rows_of(low: int, high: int) -> dict[str, Any]:
    ids = np.arange(low, high)
    return {
        "id": ids,
        "customer": ids % 997,
        "name": pa.array([f"name {n}" for n in ids.tolist()]),
        "amount": ids * 0.25,
        "day": pa.array(ids % 3650, pa.int32()).cast(pa.date32()),
    }


def project(folder: Path, n: int) -> Path:
    """A project whose warehouse holds the view `sales`, and its newest rows as one Parquet file beside it."""
    (folder / "views").mkdir(parents=True)
    (folder / "headwater.toml").write_text('[sources.crm]\nurl = "sqlite:///crm.db"\n')
    storage = Storage(str(folder / "warehouse"))
    check_format(storage, create=True)
    log = ChangelogTable(storage, "views/sales/1/log")
    loaded = pa.table({**rows_of(0, n), COUNT: np.ones(n, np.int64), SEQ: np.ones(n, np.int64)})
    log.create(loaded.schema)
    files = [write_file(storage, log.folder, loaded, "load")]
    for number in range(CHANGES):
        old, new = rows_of(number, number + 1), {**rows_of(number, number + 1), "name": pa.array(["changed"])}
        both = [pa.table({**row, COUNT: [count], SEQ: [number + 2]}) for row, count in ((old, -1), (new, 1))]
        files.append(write_file(storage, log.folder, pa.concat_tables(both).cast(loaded.schema), f"b{number}"))
    version = log.commit(files)
    last = Seq(CHANGES + 1)
    state = ViewState("views/sales/1", version, -1, last, Seq(1), "complete", "f")
    source = SourceName("crm")
    CutLog(storage).append(Cut(1, last, {source: Position("1")}, {source: "g"}, {ViewName("sales"): state}))
    pq.write_table(pa.table(rows_of(0, n)), folder / "sales.parquet", compression="zstd")
    return folder


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """Where `headwater serve` answers: PostgreSQL's clients, and Arrow's."""
    said = ["--port", "0", "--flight", "0", "--json", "--project", str(folder)]
    command = [sys.executable, "-m", "headwater.cli.main", "serve", *said]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "HEADWATER_PASSWORD": PASSWORD}
    ) as served:
        assert served.stdout is not None
        try:
            told = json.loads(served.stdout.readline())
            yield str(told["url"]).replace("@", f":{PASSWORD}@"), str(told["flight"])
        finally:
            served.terminate()


def rate(ask: Callable[[int], Any], n: int, seconds: float, seed: int = 1) -> float:
    """Questions a second, each by another key."""
    keys = np.random.default_rng(seed).integers(0, n, 100_000).tolist()
    begin, asked = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        assert ask(keys[asked % len(keys)])[0] == keys[asked % len(keys)]
        asked += 1
    return asked / (time.perf_counter() - begin)


def client(url: str, prepare: bool, n: int, seconds: float, seed: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:

        def ask(key: int) -> Any:
            return connection.execute(POINT, (key,), prepare=prepare).fetchone()

        for key in range(20):
            ask(key)
        return rate(ask, n, seconds, seed)


def clients(url: str, many: int, prepare: bool, n: int, seconds: float) -> float:
    with ProcessPoolExecutor(many) as pool:
        each = [pool.submit(client, url, prepare, n, seconds, seed) for seed in range(many)]
        return sum(one.result() for one in each)


def first(url: str) -> float:
    begin = time.perf_counter()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(POINT, (7,)).fetchone()
    return time.perf_counter() - begin


def alone(file: Path, n: int, seconds: float) -> float:
    engine = duckdb.connect(":memory:", config={"threads": 2})
    query = f"SELECT id, name, amount FROM '{file}' WHERE id = ?"
    return rate(lambda key: engine.execute(query, [key]).fetchone(), n, seconds)


def whole(flown: str, file: Path, n: int) -> dict[str, float]:
    """Seconds to have all rows in memory."""
    bare = flight.connect(flown)
    token = bare.authenticate_basic_token("headwater", PASSWORD)
    options = flight.FlightCallOptions(headers=[token])
    descriptor = flight.FlightDescriptor.for_command(any_of("CommandStatementQuery", (1, b"SELECT * FROM sales")))

    def fly() -> pa.Table:
        return bare.do_get(bare.get_flight_info(descriptor, options).endpoints[0].ticket, options).read_all()

    def adbc() -> pa.Table:
        who = {"username": "headwater", "password": PASSWORD}
        with dbapi.connect(flown, db_kwargs=who, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM sales")
            return cursor.fetch_arrow_table()

    def timed(read: Callable[[], pa.Table]) -> float:
        begin = time.perf_counter()
        assert read().num_rows == n
        return time.perf_counter() - begin

    first = min(timed(fly) for _ in range(2))  # from the second time on it is read from a copy that needs no decoding
    timed(fly)
    time.sleep(3.0)
    ways = {"flight_pyarrow_s": fly, "flight_adbc_s": adbc, "parquet_scan_s": lambda: pq.read_table(file)}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(7):
        for name, read in ways.items():
            taken[name].append(timed(read))
    best = {name: min(times) for name, times in taken.items()}
    ratio = best["flight_pyarrow_s"] / best["parquet_scan_s"]
    return {"flight_at_first_s": first, **best, "flight_to_parquet": ratio}


def measure(n: int, seconds: float = 3.0) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        made = project(Path(folder) / "bench", n)
        with serving(made) as (url, flown):
            found = {"first_query_s": first(url)}
            found |= whole(flown, made / "sales.parquet", n)
            for many in (1, 4):
                for prepare in (True, False):
                    name = f"{'prepared' if prepare else 'unprepared'}_{many}_per_s"
                    found[name] = clients(url, many, prepare, n, seconds)
        found["duckdb_alone_per_s"] = alone(made / "sales.parquet", n, seconds)
        return {**{name: round(value, 4) for name, value in found.items()}, "load": round(os.getloadavg()[0], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    for name, value in measure(options.n, options.seconds).items():
        print(f"{name:24}{value:>12,.3f}")


if __name__ == "__main__":
    main()
