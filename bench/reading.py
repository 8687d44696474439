"""What it costs to read a view: its newest state, an old one, one row by its key, and `status`.

    python bench/reading.py                      1M rows
    python bench/reading.py --n 100000           smaller

A view of four plain columns over one SQLite table, with a batch of transactions after its load, compacted.

    newest, old     `warehouse.scan`, beside reading a Parquet file that holds the newest rows   aims: 1.5 and 3 times
    ordered         `warehouse.rows`, the newest rows sorted by all columns, beside the same
    lookup          `headwater read v --where id=…` less `headwater --version`                   aim: 50 ms
    status          at a hundredth of the rows, and at all of them                               aim: the same

The best of several counts; commands are processes of their own, started as a person would. `cpu` is what they and the
reads computed, all threads together: of that a busy machine says more than its clock.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import headwater
from scenarios import running

OUT = Path(__file__).resolve().parent / "out"
VIEW = "SELECT id, g, k, x FROM s.t"
BATCH = 20_000
"""Changed rows after the load, a hundred of them in a transaction."""
TIMES = 5


def filled(path: Path, n: int) -> None:
    chance = random.Random(n)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, k INTEGER, x INTEGER)")
        rows = ((i, i % 10, chance.randrange(n // 2), chance.randrange(10**9)) for i in range(n))
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    connection.close()


def changed(path: Path, n: int) -> None:
    chance = random.Random(1)
    connection = sqlite3.connect(path)
    for number in range(BATCH):
        if number % 100 == 0:
            connection.execute("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")
        connection.execute("UPDATE t SET x = ? WHERE id = ?", (chance.randrange(10**9), chance.randrange(n)))
        if number % 100 == 99:
            connection.commit()
    connection.close()


def project(n: int) -> tuple[Path, headwater.Warehouse]:
    """A view of n rows, changed and compacted."""
    folder = OUT / "projects" / f"reading-{os.getpid()}-{n}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "views").mkdir(parents=True)
    filled(folder / "s.db", n)
    (folder / "headwater.toml").write_text(f'[sources.s]\nurl = "sqlite:///{folder / "s.db"}"\n')
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {VIEW};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    with running(warehouse) as (engine, _):
        changed(folder / "s.db", n)
        engine.catch_up()
        engine.compact()
    return folder, warehouse


def best(work: Callable[[], object], times: int = TIMES) -> tuple[float, float]:
    """Seconds by the clock, and computed, here and in the processes that it started."""
    clock, computed = [], []
    for _ in range(times):
        begun, before = time.perf_counter(), os.times()
        work()
        clock.append(time.perf_counter() - begun)
        computed.append(sum(os.times()[:4]) - sum(before[:4]))
    return min(clock), min(computed)


def told(name: str, found: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_s": found[0], f"{name}_cpu_s": found[1]}


def command(folder: Path, *words: str) -> Callable[[], object]:
    line = [sys.executable, "-c", "from headwater.cli.main import main; main()", *words]
    return lambda: subprocess.run(line, cwd=folder, stdout=subprocess.PIPE, check=True)


def measured(n: int) -> dict[str, Any]:
    small, _ = project(n // 100)
    folder, warehouse = project(n)
    try:
        return {"n": n, **states(folder, warehouse), **commands(small, folder, n),
                "machine_load": round(os.getloadavg()[0], 1)}  # fmt: skip
    finally:
        for path in (small, folder):
            shutil.rmtree(path, ignore_errors=True)


def states(folder: Path, warehouse: headwater.Warehouse) -> dict[str, Any]:
    view = warehouse.cut().views["v"]
    old = (view.horizon + view.seq) // 2
    plain = folder / "plain.parquet"
    rows = warehouse.rows("v")
    pq.write_table(rows, plain, compression="zstd")
    scan = best(lambda: pq.read_table(plain))
    found = {
        "parquet_scan": scan,
        "newest": best(lambda: scanned(warehouse, None)),
        "old": best(lambda: scanned(warehouse, old)),
        "ordered": best(lambda: warehouse.rows("v")),
    }
    ratios = {f"{name}_ratio": found[name][0] / scan[0] for name in ("newest", "old", "ordered")}
    return {"rows": rows.num_rows, **{k: v for name in found for k, v in told(name, found[name]).items()}, **ratios}


def scanned(warehouse: headwater.Warehouse, at: int | None) -> int:
    with warehouse.scan("v", at) as batches:
        return int(batches.read_all().num_rows)


def commands(small: Path, folder: Path, n: int) -> dict[str, Any]:
    start = best(command(folder, "--version"))
    where = ("read", "v", "--where")
    first = best(command(folder, *where, f"id={n // 3}"), 1)  # makes the index
    lookup = best(command(folder, *where, f"id={n // 2}"))
    found = told("start", start) | told("first_lookup", first) | told("lookup", lookup)
    found |= {"lookup_beyond_start_ms": 1000 * (lookup[0] - start[0])}
    for path, size in ((small, n // 100), (folder, n)):
        found |= told(f"status_{size}", best(command(path, "status")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    options = parser.parse_args()
    print(json.dumps(measured(options.n)))


if __name__ == "__main__":
    main()
