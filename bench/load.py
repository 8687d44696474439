"""The first load of an aggregate beside the load of the join that it groups.

    python bench/load.py                  1M rows, 500k groups; three loads of each, in turn
    python bench/load.py --n 100000       smaller

Facts and half as many keys in one SQLite file, joined by the key: `join` shows every pair, `groups` counts and sums
them by the key. Each load is a project of its own in a process of its own; the clock runs from the first question to
the visible cut, with the session up before. The best of the loads counts: what else the machine does only adds. The aim
is twice the join's.
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

OUT = Path(__file__).resolve().parent / "out"
JOIN = "FROM s.t JOIN s.d ON t.k = d.k"
VIEWS = {
    "join": f"SELECT t.id, t.k, t.x, d.name {JOIN}",
    "groups": f"SELECT t.k, d.name, COUNT(*) AS n, SUM(t.x) AS x {JOIN} GROUP BY t.k, d.name",
}
LOADS = 3


def made(path: Path, n: int) -> None:
    """n facts of n/2 keys, each of which has two of them."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    chance, aside = random.Random(n), path.with_suffix(".tmp")
    with sqlite3.connect(aside) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER)")
        connection.execute("CREATE TABLE d (k INTEGER PRIMARY KEY, name TEXT)")
        facts = ((i, i % (n // 2), chance.randrange(10**9)) for i in range(n))
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", facts)
        connection.executemany("INSERT INTO d VALUES (?, ?)", ((k, f"name {k}") for k in range(n // 2)))
        connection.execute("CREATE INDEX t_k ON t (k)")
    connection.close()
    aside.rename(path)


def loaded(kind: str, n: int) -> dict[str, Any]:
    """One load, here."""
    import headwater
    from scenarios import running

    folder, base = OUT / "projects" / f"load-{os.getpid()}", OUT / "data" / f"load-{n}.db"
    made(base, n)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "views").mkdir(parents=True)
    shutil.copy(base, folder / "s.db")
    (folder / "headwater.toml").write_text(f'[sources.s]\nurl = "sqlite:///{folder / "s.db"}"\n')
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {VIEWS[kind]};\n")
    try:
        warehouse = headwater.open(folder)
        warehouse.setup()
        with running(warehouse) as (_, seconds):
            pass
        return {"kind": kind, "n": n, "load_s": seconds, "rows": warehouse.rows("v").num_rows}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measured(n: int, loads: int = LOADS) -> dict[str, Any]:
    """Each in turn, in processes of their own: the best of each, and how they compare."""
    times: dict[str, list[float]] = {kind: [] for kind in VIEWS}
    rows: dict[str, int] = {}
    for _ in range(loads):
        for kind in VIEWS:
            command = [sys.executable, __file__, "--here", kind, "--n", str(n)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=3600)
            found = json.loads(done.stdout.strip().splitlines()[-1])
            times[kind].append(found["load_s"])
            rows[kind] = found["rows"]
    best = {kind: min(seconds) for kind, seconds in times.items()}
    return {
        "n": n,
        "rows": rows,
        "times": times,
        **{f"{kind}_s": seconds for kind, seconds in best.items()},
        "ratio": best["groups"] / best["join"],
        "machine_load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--loads", type=int, default=LOADS)
    parser.add_argument("--here", choices=VIEWS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    print(json.dumps(loaded(options.here, options.n) if options.here else measured(options.n, options.loads)))


if __name__ == "__main__":
    main()
