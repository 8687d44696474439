"""Views of other shapes over the chain's data, beside the inner join in one run: what an outer join, EXISTS, a top-10
per group and a running sum cost.

    python bench/shapes.py --n 1000000 --u 200000

Every shape is a project of its own over the same four SQLite files; the clock runs from reading the waiting
transactions to the visible cut. `small` is the median of five batches of 1,000 transactions, warm.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import chain_sqlite
import headwater
from chain import RELATIONS, Chain
from scenarios import OUT, caught_up, running, warm
from writer import applied

T = [f"s{i + 1}.{chain_sqlite.table(i)}" for i in range(RELATIONS)]
GROUPS = 20_000

SHAPES = {
    "inner join": f"SELECT t1.a AS a1, t2.a AS a2, t3.a AS a3, t4.a AS a4 FROM {T[0]} t1 JOIN {T[1]} t2 ON t1.a = t2.b"
    f" JOIN {T[2]} t3 ON t2.a = t3.b JOIN {T[3]} t4 ON t3.a = t4.b",
    "left join": f"SELECT t1.a AS a1, t2.a AS a2, t3.a AS a3, t4.a AS a4 FROM {T[0]} t1"
    f" LEFT JOIN {T[1]} t2 ON t1.a = t2.b LEFT JOIN {T[2]} t3 ON t2.a = t3.b LEFT JOIN {T[3]} t4 ON t3.a = t4.b",
    "one left join": f"SELECT t1.a AS a1, t2.a AS a2 FROM {T[0]} t1 LEFT JOIN {T[1]} t2 ON t1.a = t2.b",
    "exists": f"SELECT t1.a AS a1, t1.b AS b1 FROM {T[0]} t1 WHERE EXISTS (SELECT 1 FROM {T[1]} t2 WHERE t1.a = t2.b)",
    "top 10 of each": f"SELECT * FROM (SELECT a, b, a DIV {GROUPS} AS g, ROW_NUMBER() OVER (PARTITION BY b % {GROUPS}"
    f" ORDER BY a DESC) AS place FROM {T[0]}) r WHERE place <= 10",
    "running sum": f"SELECT a, b, SUM(a) OVER (PARTITION BY b % {GROUPS} ORDER BY a, b"
    f" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far FROM {T[0]}",
}
BURSTS = ("inner join", "left join", "one left join", "exists")


def measured(shape: str, n: int, u: int) -> dict[str, Any]:
    chain = Chain(n, u)
    folder = OUT / "projects" / f"{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    data = chain_sqlite.working_copy(chain_sqlite.base_files(chain, OUT / "data"), folder / "data")
    (folder / "views").mkdir(parents=True)
    sources = (f'[sources.s{i + 1}]\nurl = "sqlite:///{chain_sqlite.database(data, i)}"\n' for i in range(RELATIONS))
    (folder / "headwater.toml").write_text("".join(sources))
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {SHAPES[shape]};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    with running(warehouse) as (engine, load):
        at, times = warm(engine, data, chain), []
        for _ in range(5):
            applied(data, chain, at, at + 1000)
            at += 1000
            times.append(caught_up(engine))
        found: dict[str, Any] = {"shape": shape, "load_s": load, "small_s": statistics.median(times)}
        if shape in BURSTS:
            applied(data, chain, at, u)
            found["burst_s"] = caught_up(engine)
            found["updates_per_s"] = (u - at) / found["burst_s"]
        found["halted"] = list(warehouse.halted())
    found["verified"] = all(v.ok for v in warehouse.verify())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--u", type=int, default=200_000)
    parser.add_argument("--only", help="one shape, in this process")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measured(options.only, options.n, options.u)))
        return
    rows = []
    for shape in SHAPES:
        command = [sys.executable, str(Path(__file__)), "--n", str(options.n), "--u", str(options.u), "--only", shape]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=1800)
        lines = done.stdout.strip().splitlines()
        rows.append(json.loads(lines[-1]) if done.returncode == 0 and lines else {"shape": shape, "note": "failed"})
        base = rows[0].get("burst_s")
        ratio = f", {rows[-1]['burst_s'] / base:.2f} times the inner join" if base and "burst_s" in rows[-1] else ""
        print(json.dumps(rows[-1]) + ratio, flush=True)


if __name__ == "__main__":
    main()
