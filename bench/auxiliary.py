"""What keeping relations costs and saves: the chain of four databases, with nothing kept, with groups of tables, with
copies of all of them; with sources on this machine and with sources far away.

    python bench/auxiliary.py                        1M rows a table, 0 and 20 ms added to every question
    python bench/auxiliary.py --n 100000 --delays 0

Every line is a project of its own over the same four SQLite files. `small` is the median of five batches of 1,000
transactions, warm, from reading them to the visible cut; `cpu` is what they computed on average, all processes
together: of that a busy machine says more than its clock. `burst` are the transactions that wait then. `questions` are
those of one small batch, to sources and to kept views; `to sources` those that leave the warehouse.
`kept` are the bytes of what is kept beside the view, with its indexes. Ratios are to 'none' with the same delay.

At the end, for every delay, the table of the cluster paper (`cluster_table`): accesses, space and time over K, from the
engine beside the lab's.
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

from rich.table import Table

import chain_sqlite
import cluster_table
import headwater
import measure
from chain import RELATIONS, Chain
from chain_sql import view_sql
from run import CONSOLE
from scenarios import OUT, answer, caught_up, running, warm
from writer import applied

MODES = {
    "none": "auxiliary = 'none'",
    "equal, 2 groups": "auxiliary = 'equal', groups = 2",
    "frequency, 2 groups": "auxiliary = 'frequency', groups = 2",
    "equal, 4 groups": "auxiliary = 'equal', groups = 4",
    "all": "auxiliary = 'all'",
}


def measured(mode: str, n: int, u: int, delay: int) -> dict[str, Any]:
    chain = Chain(n, u)
    folder = OUT / "projects" / f"auxiliary-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    data = chain_sqlite.working_copy(chain_sqlite.base_files(chain, OUT / "data"), folder / "data")
    (folder / "views").mkdir(parents=True)
    far = f"delay_ms = {delay}\n" if delay else ""
    sources = (
        f'[sources.s{i + 1}]\nurl = "sqlite:///{chain_sqlite.database(data, i)}"\n{far}' for i in range(RELATIONS)
    )
    (folder / "headwater.toml").write_text("".join(sources))
    names = [f"s{i + 1}.{chain_sqlite.table(i)}" for i in range(RELATIONS)]
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v WITH ({MODES[mode]}) AS {view_sql(names)};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    with running(warehouse) as (engine, load):
        at, times, computed = warm(engine, data, chain), list[float](), list[float]()
        for _ in range(5):
            applied(data, chain, at, at + 1000)
            before, cpu = engine.meter.tally, measure.cpu_seconds(os.getpid())
            times.append(caught_up(engine))
            computed.append(measure.cpu_seconds(os.getpid()) - cpu)
            after = engine.meter.tally
            at += 1000
        applied(data, chain, at, u)
        burst = caught_up(engine)
        rows = answer(warehouse)
        found = {
            "mode": mode, "delay_ms": delay, "load_s": load, "small_s": statistics.median(times),
            "small_cpu_s": statistics.mean(computed), "burst_s": burst,
            "transactions": u - at, "questions": after.questions + after.saved - before.questions - before.saved,
            "to_sources": after.questions - before.questions, "kept_bytes": kept(warehouse, folder),
            "correct": rows == chain.answer_after(),
        }  # fmt: skip
    shutil.rmtree(folder, ignore_errors=True)
    return found


def kept(warehouse: headwater.Warehouse, folder: Path) -> int:
    """Bytes of the views that are kept for the view, and of their indexes."""
    names = [view.name for view in warehouse.status().views if view.kept_for]
    folders = [folder / "warehouse" / warehouse.cut().views[name].folder for name in names]
    return sum(file.stat().st_size for one in folders for file in one.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--u", type=int, default=26_000, help="transactions in all; the last 20,000 are the burst")
    parser.add_argument("--delays", default="0,20")
    parser.add_argument("--only", help="one mode")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    delays = [int(delay) for delay in options.delays.split(",")]
    if options.here:
        print(json.dumps(measured(options.only, options.n, options.u, delays[0])))
        return
    table = Table(title=f"chain of four, {options.n:,} rows a table", title_justify="left")
    for i, name in enumerate(
        (
            "kept",
            "delay",
            "load",
            "small",
            "none / it",
            "cpu",
            "burst",
            "none / it",
            "questions",
            "to sources",
            "kept bytes",
            "",
        )
    ):
        table.add_column(name, justify="right" if i else "left")
    papers = []
    for delay in delays:
        first, measured_here = dict[str, Any](), dict[str, Any]()
        for mode in [options.only] if options.only else MODES:
            command = [sys.executable, __file__, "--here", "--only", mode, "--n", str(options.n), "--u", str(options.u)]
            done = subprocess.run(
                [*command, "--delays", str(delay)], stdout=subprocess.PIPE, text=True, check=False, timeout=3600
            )
            lines = done.stdout.strip().splitlines()
            row = json.loads(lines[-1]) if done.returncode == 0 and lines else {}
            print(json.dumps(row or {"mode": mode, "note": "failed"}), flush=True)
            if not row:
                continue
            first, measured_here[mode] = first or row, row
            table.add_row(
                mode, f"{delay} ms", f"{row['load_s']:.1f}", f"{row['small_s']:.2f}",
                f"{first['small_s'] / row['small_s']:.2f}", f"{row['small_cpu_s']:.3f}", f"{row['burst_s']:.1f}",
                f"{first['burst_s'] / row['burst_s']:.2f}", str(row["questions"]), str(row["to_sources"]),
                f"{row['kept_bytes']:,}", "" if row["correct"] else "WRONG",
            )  # fmt: skip
        papers.append(cluster_table.table(measured_here, delay))
    for one in (table, *papers):
        if one is not None:
            CONSOLE.print(one)


if __name__ == "__main__":
    main()
