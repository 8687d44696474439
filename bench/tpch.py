"""TPC-H: the 22 queries as complete views over PostgreSQL and two SQLite files, against recomputing them.

    python bench/tpch.py                          scale 1; an hour or so
    python bench/tpch.py --scale 0.1 --only q01,q06 --batches 5

Every query is a project of its own over the same databases. The clock of `headwater` runs from the last commit of a
batch of 1,000 changed rows (see tpch_changes.py) to the cut that shows it, every transaction a state; it is the median
of some batches, warm. What it is compared with computes the query once, over everything:

    spark            from Parquet files that were exported before: reading the sources is not in it
    spark, sources   from the databases, as `headwater verify` does it, which it is
    duckdb           from the same Parquet files
    duckdb, sources  from the databases, through DuckDB's scanners

`scans` are questions of one batch that read a whole table. Seconds are worth something on a quiet machine only; ratios
are of one run; seconds of processor time (without PostgreSQL's) suffer least. All in bench/out/tpch.json as well.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Timer
from typing import Any

from rich.console import Console
from rich.table import Table

import environments
import headwater
import measure
from headwater.maintenance.operators.program import Asked, Evaluated
from headwater.runtime.engine import Engine
from headwater.runtime.project.plan import ViewPlan
from scenarios import OUT, caught_up, running
from tpch_changes import Changes, commit
from tpch_data import Sources, exported, generated, queries, sources, without_sources

HERE = Path(__file__).resolve().parent
CONSOLE = Console(width=None if os.isatty(1) else 160)
SIZE = 1000
WARM = 2
DUCKDB = ("duckdb==1.5.5", "duckdb-extension-sqlite-scanner==1.5.5", "duckdb-extension-postgres-scanner==1.5.5")
"""The scanners are published as wheels for DuckDB up to 1.5.5, hence that version."""

Facts = dict[str, Any]


def shape_of(plan: ViewPlan) -> Facts:
    """What a batch takes, as planned: `whole` are tables that are asked for by no key."""
    if plan.tree is None:
        return {"kind": "wave"}
    steps = plan.tree.program.steps
    asked = [step for step in steps if isinstance(step, Asked)]
    whole = sorted({step.table.table.table for step in asked if not step.columns})
    phases = 1 + sum(isinstance(step, Evaluated) for step in steps)
    return {"kind": "tree", "steps": len(steps), "asked": len(asked), "whole": whole, "phases": phases}


def cpu_seconds() -> dict[int, float]:
    """What this process and each below it have used so far; PostgreSQL is not below it."""
    found = {}
    for pid in measure.descendants(os.getpid()):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def used_since(before: dict[int, float]) -> float:
    """Processor seconds since then; those of processes that ended meanwhile are not in it."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in cpu_seconds().items())


def maintained(query: str, given: Sources, changes: Changes, options: argparse.Namespace) -> Facts:
    """One query in this process: loaded, warmed up, measured batch by batch, verified."""
    folder = OUT / "projects" / f"{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "views").mkdir(parents=True)
    heap = '[spark.options]\n"spark.driver.memory" = "4g"\n'
    (folder / "headwater.toml").write_text(f"{given.settings()}[run]\npoll_seconds = 0.05\n{heap}")
    kept = f"WITH (auxiliary = '{options.auxiliary}')"
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v {kept} AS {queries(options.scale)[query]};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    try:
        *parts, plan = warehouse.plans().values()
        facts = {"query": query, **shape_of(plan), "kept": len(parts)}
        with running(warehouse) as (engine, load):
            facts |= {"load_s": load, **batches(engine, given, changes, options, list(queries(1)).index(query))}
            facts["halted"] = list(warehouse.halted().values())
        if not options.no_verify:
            begun, used = time.perf_counter(), cpu_seconds()
            facts["verified"] = all(v.ok for v in warehouse.verify())
            facts["spark_sources_s"], facts["spark_sources_cpu_s"] = time.perf_counter() - begun, used_since(used)
    finally:
        warehouse.teardown()
        shutil.rmtree(folder, ignore_errors=True)
    return facts


def batches(engine: Engine, given: Sources, changes: Changes, options: argparse.Namespace, place: int) -> Facts:
    """Some batches, each committed and then caught up with; what the last of them cost."""
    times, busy = [], []
    spent: Facts = {}
    each = WARM + options.batches
    for number in range(place * each, (place + 1) * each):
        commit(given, changes.batch(number, SIZE))
        before, used = asdict(engine.meter.tally), cpu_seconds()
        times.append(caught_up(engine))
        busy.append(used_since(used))
        spent = {name: value - before[name] for name, value in asdict(engine.meter.tally).items()}
        if sum(times) > options.patience:
            break
    warm = WARM if len(times) > WARM else len(times) - 1
    medians = {"headwater_s": statistics.median(times[warm:]), "headwater_cpu_s": statistics.median(busy[warm:])}
    return {**medians, "times": times, **spent}


def in_processes(names: list[str], given: Sources, options: argparse.Namespace) -> Iterator[Facts]:
    """The queries one after the other in one process, and in another one after a query that it does not survive."""
    waiting = list(names)
    words = ["--scale", options.scale, "--batches", options.batches, "--patience", options.patience]
    words += ["--auxiliary", options.auxiliary]
    words += ["--sales", given.sales, "--files", given.folder, *(["--no-verify"] if options.no_verify else [])]
    while waiting:
        log = OUT / "logs" / f"tpch-{waiting[0]}.err"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(Path(__file__)), *map(str, words), "--here", ",".join(waiting)]
        with log.open("w") as errors:
            run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        for line in _lines(run, options.timeout):
            yield json.loads(line)
            waiting.pop(0)
        run.wait()
        if waiting:
            yield {"query": waiting.pop(0), "note": f"failed, or not done after {options.timeout:.0f} s, see {log}"}


def _lines(run: subprocess.Popen[str], patience: float) -> Iterator[str]:
    """What a process says; it is killed when it says nothing for so many seconds."""
    assert run.stdout is not None
    while True:
        late = Timer(patience, run.kill)
        late.start()
        line = run.stdout.readline()
        late.cancel()
        if not line:
            return
        yield line


def recomputed(given: Sources, folder: Path, names: list[str], options: argparse.Namespace) -> Facts:
    """{peer: {query: seconds}}, over what the sources hold now."""
    parquet = given.folder / "parquet"
    exported(given, folder, parquet)
    texts = {name: without_sources(queries(options.scale)[name]) for name in names}
    (given.folder / "queries.json").write_text(json.dumps(texts))
    words = ["--queries", str(given.folder / "queries.json"), "--parquet", str(parquet)]
    found = {"spark": _peer("tpch_spark.py", Path(sys.executable), words)}
    attached = ["--postgres", given.sales, "--sqlite", str(given.folder)]
    try:
        python = environments.python_of("duckdb-tpch", DUCKDB, OUT / "venvs")
    except environments.NotInstalled as error:
        CONSOLE.print(f"duckdb over the sources is not measured: {error}")
        python, attached = Path(sys.executable), []
    duck = _peer("tpch_duckdb.py", python, [*words, *attached])
    return {**found, "duckdb": duck.get("parquet", {}), "duckdb_sources": duck.get("sources", {})}


def _named(peer: str, times: list[float] | None) -> Facts:
    return {} if times is None else {f"{peer}_s": times[0], f"{peer}_cpu_s": times[1]}


def _peer(script: str, python: Path, words: list[str]) -> Facts:
    log = OUT / "logs" / f"{script}.err"
    with log.open("w") as errors:
        command = [str(python), str(HERE / "peers" / script), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    if done.returncode != 0:
        CONSOLE.print(f"{script} failed, see {log}")
        return {}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def show(rows: list[Facts], title: str) -> None:
    table = Table(title=title, title_justify="left")
    names = ["query", "kind", "phases", "scans", "load", "headwater", "spark", "spark, sources", "duckdb"]
    names += ["duckdb, sources", "spark / hw", "sources / hw", "duckdb / hw", "cpu: hw", "spark", "duckdb", "verified"]
    for i, name in enumerate(names):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        if "note" in row:
            continue
        times = [_number(row, k) for k in ("spark_s", "spark_sources_s", "duckdb_s", "duckdb_sources_s")]
        ratios = [_ratio(row, k) for k in ("spark_s", "spark_sources_s", "duckdb_s")]
        words = [str(row.get(k, "")) for k in ("query", "kind", "phases", "scans")]
        own = [_number(row, k) for k in ("load_s", "headwater_s")]
        busy = [_number(row, f"{k}_cpu_s") for k in ("headwater", "spark", "duckdb")]
        table.add_row(*words, *own, *times, *ratios, *busy, str(row.get("verified", "")))
    CONSOLE.print(table)
    for row in rows:
        if "note" in row:
            CONSOLE.print(f"{row['query']}: {row['note']}")


def _number(row: Facts, name: str) -> str:
    return f"{row[name]:.2f}" if name in row else ""


def _ratio(row: Facts, name: str) -> str:
    return f"{row[name] / row['headwater_s']:.2g}" if name in row else ""


def medians(rows: list[Facts]) -> str:
    parts = []
    for name in ("spark_s", "spark_sources_s", "duckdb_s", "duckdb_sources_s"):
        ratios = [row[name] / row["headwater_s"] for row in rows if name in row and "headwater_s" in row]
        if ratios:
            faster = sum(ratio >= 1 for ratio in ratios)
            tenfold = sum(ratio >= 10 for ratio in ratios)
            about = (
                f"median {statistics.median(ratios):.2g}, {faster} of {len(ratios)} at least 1, {tenfold} at least 10"
            )
            parts.append(f"{name.removesuffix('_s').replace('_', ', ')} / headwater: {about}")
    loads = sum(row.get("load_s", 0.0) for row in rows)
    whole = [row["query"] for row in rows if row.get("whole")]
    return "\n".join(
        [*parts, f"loads: {loads:.0f} s in all; planned to read tables whole: {', '.join(whole) or 'none'}"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="", help="some queries: q01,q06")
    parser.add_argument("--batches", type=int, default=3, help="how many are measured")
    parser.add_argument("--patience", type=float, default=120, help="no further batch of a query after so many seconds")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds that a query may take in all")
    parser.add_argument("--auxiliary", default="auto", choices=("auto", "none"), help="what is kept beside the views")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT / "tpch.json")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--sales", help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = generated(options.scale, OUT / "data")
    if options.here:
        changes = Changes(folder)
        for name in options.here.split(","):
            print(json.dumps(maintained(name, Sources(options.sales, options.files), changes, options)), flush=True)
        return
    names = [n for n in queries(options.scale) if not options.only or n in options.only.split(",")]
    work = OUT / "projects" / f"tpch-{os.getpid()}"
    try:
        with sources(folder, work) as given:
            rows = []
            for row in in_processes(names, given, options):
                rows.append(row)
                CONSOLE.print(json.dumps(rows[-1]), soft_wrap=True, highlight=False)
            if not options.no_peers:
                for peer, found in recomputed(given, folder, names, options).items():
                    rows = [row | _named(peer, found.get(row["query"])) for row in rows]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    show(rows, f"TPC-H, scale {options.scale:g}: {SIZE:,} changed rows, to the visible cut")
    CONSOLE.print(medians(rows))
    options.out.write_text(json.dumps({"scale": options.scale, "load": os.getloadavg(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
