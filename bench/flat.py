"""What a batch costs as what is kept grows: 1,000 transactions on views with state, over tables of more and more rows.

    python bench/flat.py                         N = 10k, 100k, 1M
    python bench/flat.py --sizes 10000,10000000  others
    python bench/flat.py --only distinct         one kind of view
    python bench/flat.py --states                every transaction a state of its own (SQLite does not tell them apart)

Each size is a project of its own over one SQLite file; the clock runs from reading the waiting transactions to the
visible cut, the median of five batches after a few that warm things up. Beside the largest size's time over the
smallest's stand the same of the processor time of all processes, which a busy machine disturbs less, and of the peak
memory of all processes in one more batch (PSS): what is their own, and with pages of mapped files. A view is checked
against recomputation at the end (--check, which reads everything).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.table import Table

import headwater
import measure
from run import CONSOLE
from scenarios import OUT, caught_up, running

KINDS = {
    "sum by key": ["SELECT k, COUNT(*) AS n, SUM(x) AS s FROM s.t GROUP BY k"],
    "min, max by key": ["SELECT k, MIN(x) AS low, MAX(x) AS high FROM s.t GROUP BY k"],
    "min, max, distinct of 10": ["SELECT g, MIN(x) AS low, MAX(x) AS high, COUNT(DISTINCT x) AS n FROM s.t GROUP BY g"],
    "percentiles of 10": ["SELECT g, MEDIAN(x) AS mid, PERCENTILE(x, 0.9) AS p90 FROM s.t GROUP BY g"],
    "median by key": ["SELECT k, MEDIAN(x) AS mid FROM s.t GROUP BY k"],
    "distinct": ["SELECT DISTINCT k, g FROM s.t"],
    "top 10 of each": ["SELECT * FROM (SELECT id, k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) AS place"
                       " FROM s.t) r WHERE place <= 10"],
    "join of two views": ["SELECT id, k, x FROM s.t WHERE g < 9", "SELECT id, k, x FROM s.t WHERE g > 0",
                          "SELECT a.id AS a, b.id AS b, a.x + b.x AS x FROM v0 a JOIN v1 b ON a.k = b.k"],
}  # fmt: skip
BATCH, WARM, BATCHES = 1000, 3, 5


def made(path: Path, n: int) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = random.Random(n)
    aside = path.with_suffix(".tmp")
    connection = sqlite3.connect(aside)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, k INTEGER, x INTEGER)")
    rows = ((i, i % 10, chance.randrange(n // 2), chance.randrange(10**9)) for i in range(n))
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    connection.execute("CREATE INDEX t_k ON t (k)")
    connection.commit()
    connection.close()
    aside.rename(path)


def written(path: Path, n: int, chance: random.Random, states: bool) -> None:
    """A batch of transactions: an insert, an update or a delete each."""
    connection = sqlite3.connect(path, isolation_level=None)
    for _ in range(BATCH):
        if states:
            connection.execute("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")
        kind, row = chance.randrange(3), chance.randrange(n)
        if kind == 0:
            values = (chance.randrange(10), chance.randrange(n // 2), chance.randrange(10**9))
            connection.execute("INSERT INTO t (g, k, x) VALUES (?, ?, ?)", values)
        elif kind == 1:
            connection.execute("UPDATE t SET x = ? WHERE id = ?", (chance.randrange(10**9), row))
        else:
            connection.execute("DELETE FROM t WHERE id = ?", (row,))
    connection.close()


def worked() -> float:
    """Seconds of processor time that this process and all it started have taken so far."""
    total = 0.0
    for process in measure.descendants(os.getpid()):
        with suppress(OSError, IndexError):  # it has ended
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def measured(kind: str, n: int, check: bool, states: bool) -> dict[str, Any]:
    folder = OUT / "projects" / f"flat-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "views").mkdir(parents=True)
    base = OUT / "data" / f"flat-{n}.db"
    made(base, n)
    shutil.copy(base, folder / "s.db")
    (folder / "headwater.toml").write_text(f'[sources.s]\nurl = "sqlite:///{folder / "s.db"}"\n')
    for i, sql in enumerate(KINDS[kind]):
        (folder / "views" / f"v{i}.sql").write_text(f"CREATE MATERIALIZED VIEW v{i} AS {sql};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    chance, times, works = random.Random(7), [], []
    with running(warehouse) as (engine, load):
        for _ in range(WARM + BATCHES):
            written(folder / "s.db", n, chance, states)
            before = worked()
            times.append(caught_up(engine))
            works.append(worked() - before)
        written(folder / "s.db", n, chance, states)
        with measure.TreeMemory() as memory:
            caught_up(engine)
        halted = list(warehouse.halted())
    found: dict[str, Any] = {
        "kind": kind, "n": n, "load_s": load, "batch_s": statistics.median(times[WARM:]),
        "cpu_s": statistics.median(works[WARM:]), "peak_mb": memory.peak_mb, "own_mb": memory.own_mb,
    }  # fmt: skip
    if halted:
        found["note"] = f"halted: {halted}"
    elif check:
        found["note"] = "exact" if all(v.ok for v in warehouse.verify()) else "WRONG"
    shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--only", help="one kind of view")
    parser.add_argument("--check", action="store_true", help="compare with recomputation at the end")
    parser.add_argument("--states", action="store_true", help="tell the transactions apart: each is a state")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.here:
        print(json.dumps(measured(options.only, sizes[0], options.check, options.states)))
        return
    table = Table(title=f"{BATCH:,} transactions, seconds to the visible cut", title_justify="left")
    shares = ("largest / smallest", "processor", "own memory", "with files", "largest load")
    for i, name in enumerate(("view", *(f"{size:,} rows" for size in sizes), *shares)):
        table.add_column(name, justify="right" if i else "left")
    for kind in [options.only] if options.only else KINDS:
        rows = []
        for size in sizes:
            command = [sys.executable, __file__, "--here", "--only", kind, "--sizes", str(size)]
            command += ["--check"] if options.check else []
            command += ["--states"] if options.states else []
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=3600)
            lines = done.stdout.strip().splitlines()
            rows.append(json.loads(lines[-1]) if done.returncode == 0 and lines else {"note": "failed"})
            print(json.dumps(rows[-1]), flush=True)
        times = [row.get("batch_s", float("nan")) for row in rows]
        notes = ["" if row.get("note", "exact") == "exact" else f" ({row['note']})" for row in rows]
        shown = [f"{seconds:.2f}{note}" for seconds, note in zip(times, notes, strict=True)]
        ratios = [
            f"{rows[-1].get(what, float('nan')) / (rows[0].get(what) or float('nan')):.2f}"
            for what in ("batch_s", "cpu_s", "own_mb", "peak_mb")
        ]
        table.add_row(kind, *shown, *ratios, f"{rows[-1].get('load_s', float('nan')):.1f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
