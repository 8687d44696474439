"""An aggregation over a join, catching up: batches one after the other, and two at a time.

    python bench/ahead.py                    100,000 changes, batches of 3,000, sources on this machine and 20 ms away
    python bench/ahead.py --small 0          every batch as a Spark job
    python bench/ahead.py --changes 300000

Each line is a project of its own over the same two SQLite files; the changes are there before the clock runs. Two at a
time means that a batch asks its questions while the one before it is computed (`[run] parallel = 2`).
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
from pathlib import Path
from typing import Any

from rich.table import Table

import headwater
from run import CONSOLE
from scenarios import OUT, caught_up, running

ROWS, BATCH = 100_000, 3_000
VIEW = "SELECT u.g, COUNT(*) AS n, SUM(t.x) AS s, MIN(t.x) AS low FROM a.t JOIN b.u ON t.k = u.k GROUP BY u.g"


def made(folder: Path) -> None:
    chance = random.Random(1)
    with sqlite3.connect(folder / "a.db") as a:
        a.execute("PRAGMA journal_mode = WAL")
        a.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER)")
        rows = ((i, i % (ROWS // 2), chance.randrange(1000)) for i in range(ROWS))
        a.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    with sqlite3.connect(folder / "b.db") as b:
        b.execute("PRAGMA journal_mode = WAL")
        b.execute("CREATE TABLE u (k INTEGER PRIMARY KEY, g INTEGER)")
        b.executemany("INSERT INTO u VALUES (?, ?)", ((i, i % 1000) for i in range(ROWS // 2)))


def measured(parallel: int, delay: int, changes: int, small: int) -> dict[str, Any]:
    folder = OUT / "projects" / f"ahead-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "views").mkdir(parents=True)
    made(folder)
    sources = "".join(f'[sources.{n}]\nurl = "sqlite:///{folder / n}.db"\ndelay_ms = {delay}\n' for n in "ab")
    run = f"[run]\nparallel = {parallel}\nbatch_changes = {BATCH}\nsmall_batch = {small}\n"
    (folder / "headwater.toml").write_text(sources + run)
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {VIEW};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    chance = random.Random(2)
    with running(warehouse) as (engine, _):
        times = []
        for number in (BATCH, changes):
            with sqlite3.connect(folder / "a.db") as a:
                for _ in range(number // 2):
                    a.execute("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")
                    a.execute("UPDATE t SET x = ? WHERE id = ?", (chance.randrange(1000), chance.randrange(ROWS)))
            times.append(caught_up(engine))
    ok = all(v.ok for v in warehouse.verify())
    shutil.rmtree(folder, ignore_errors=True)
    return {"parallel": parallel, "delay_ms": delay, "seconds": times[-1], "note": "exact" if ok else "WRONG"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--small", type=int, default=4_000, help="batches up to so large need no Spark job")
    parser.add_argument("--delays", default="0,20", help="milliseconds that every question takes longer")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        parallel, delay = map(int, options.here.split(","))
        print(json.dumps(measured(parallel, delay, options.changes, options.small)))
        return
    table = Table(title=f"{options.changes:,} changes in batches of {BATCH:,}, seconds", title_justify="left")
    for name in ("a question takes longer by", "one batch at a time", "two", "two / one"):
        table.add_column(name, justify="right")
    for delay in options.delays.split(","):
        found = []
        for parallel in (1, 2):
            command = [sys.executable, __file__, "--here", f"{parallel},{delay}"]
            command += ["--changes", str(options.changes), "--small", str(options.small)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=3600)
            found.append(json.loads(done.stdout.strip().splitlines()[-1]))
            print(json.dumps(found[-1]), flush=True)
        one, two = (row["seconds"] for row in found)
        table.add_row(f"{delay} ms", f"{one:.1f}", f"{two:.1f}", f"{two / one:.2f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
