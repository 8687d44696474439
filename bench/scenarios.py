"""Headwater in each scenario of the bench: one function, one process, one JSON line.

python bench/scenarios.py burst --n 1000000 --u 200000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

import chain_mariadb
import chain_postgres
import chain_sqlite
import headwater
import many_views as many
import measure
from chain import RELATIONS, Answer, Chain, row_hash
from chain_sql import view_sql
from headwater.model.written import Tally
from headwater.runtime.engine import Engine
from postgres_peer import running_postgres
from writer import applied, write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from mariadb_server import MariadbServer, mariadb_server

OUT = Path(__file__).resolve().parent / "out"
SPARE = 20_000
"""Transactions kept beyond the burst, for small batches after it."""


def project(
    folder: Path, urls: list[str], tables: list[str], settings: str = "", source: str = ""
) -> headwater.Warehouse:
    """A project with the chain view over four sources."""
    (folder / "views").mkdir(parents=True, exist_ok=True)
    sources = "".join(f'[sources.s{i + 1}]\nurl = "{url}"\n{source}' for i, url in enumerate(urls))
    (folder / "headwater.toml").write_text(sources + settings)
    names = [f"s{i + 1}.{table}" for i, table in enumerate(tables)]
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {view_sql(names)};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    return warehouse


def sqlite_project(chain: Chain, settings: str = "") -> tuple[Path, headwater.Warehouse]:
    folder = OUT / "projects" / f"{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    data = chain_sqlite.working_copy(chain_sqlite.base_files(chain, OUT / "data"), folder / "data")
    urls = [f"sqlite:///{chain_sqlite.database(data, i)}" for i in range(RELATIONS)]
    return data, project(folder, urls, [chain_sqlite.table(i) for i in range(RELATIONS)], settings)


@contextmanager
def running(warehouse: headwater.Warehouse) -> Iterator[tuple[Engine, float]]:
    """An engine that has loaded its views, and how long the load took (the session was up before)."""
    plans = warehouse.plans()
    with warehouse.engine() as engine:
        begun = time.perf_counter()
        engine.start(plans)
        engine.catch_up()
        yield engine, time.perf_counter() - begun


def caught_up(engine: Engine) -> float:
    begun = time.perf_counter()
    engine.catch_up()
    return time.perf_counter() - begun


def warm(engine: Engine, data: Path, chain: Chain) -> int:
    """A few small batches, so that workers and caches are as in a run that has been going; returns where they end."""
    for i in range(5):
        applied(data, chain, 200 * i, 200 * (i + 1))
        engine.catch_up()
    return 1000


def answer(warehouse: headwater.Warehouse) -> Answer:
    rows = warehouse.rows("v")
    return Answer(
        rows.num_rows, int(row_hash(*(rows.column(i).to_numpy().astype(np.int64) for i in range(RELATIONS))).sum())
    )


def spent(before: Tally, after: Tally) -> dict[str, Any]:
    return {"questions": after.questions - before.questions, "keys": after.keys - before.keys,
            "scans": after.scans - before.scans}  # fmt: skip


def burst(n: int, u: int) -> dict[str, Any]:
    """All U transactions wait; from reading them to the visible cut record, every one a state of its own."""
    chain = Chain(n, u)
    data, warehouse = sqlite_project(chain)
    with running(warehouse) as (engine, load):
        first = warm(engine, data, chain)
        applied(data, chain, first, u)
        before, seq = engine.meter.tally, engine.cut.seq
        cpu = measure.cpu_seconds(os.getpid())
        with measure.TreeMemory() as memory:
            seconds = caught_up(engine)
        cpu = measure.cpu_seconds(os.getpid()) - cpu
        done = engine.cut.seq - seq
        facts = spent(before, engine.meter.tally)
        peak = memory.peak_mb
        read = time.perf_counter()
        found = answer(warehouse)
        read = time.perf_counter() - read
    return {
        "load_s": load, "burst_s": seconds, "cpu_s": cpu, "transactions": done, "updates_per_s": done / seconds,
        **facts,
        "peak_rss_mb": peak, "full_view_read_s": read, "correct": found == chain.answer_after() and done == u - first,
        "states": "every update", "ends_at": "visible",
    }  # fmt: skip


@contextmanager
def postgres_project(chain: Chain, settings: str = "") -> Iterator[tuple[list[str], headwater.Warehouse, list[int]]]:
    """The chain over four databases of a server, or of four (SERVERS=4), captured as CAPTURED_BY says: where they are,
    the project, and the servers' processes."""
    with ExitStack() as stack:
        urls, servers = [], []
        for i in range(RELATIONS):
            if not servers or os.environ.get("SERVERS") == "4":
                connection, url = stack.enter_context(running_postgres())
                servers.append(measure.server_of(connection.info.backend_pid))
            connection.execute(f"CREATE DATABASE r{i + 1}")
            urls.append(url.replace("/postgres?", f"/r{i + 1}?"))
            with psycopg.connect(urls[i], autocommit=True) as database:
                chain_postgres.load(database, chain, [i])
        folder = OUT / "projects" / f"{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        source = f'capture = "{os.environ.get("CAPTURED_BY", "triggers")}"\n'
        warehouse = project(folder, urls, [f"r{i + 1}" for i in range(RELATIONS)], settings, source)
        yield urls, warehouse, servers


def applied_there(urls: list[str], chain: Chain, part: slice) -> None:
    for i in range(RELATIONS):
        with psycopg.connect(urls[i], autocommit=True) as database:
            chain_postgres.apply(database, chain.transactions[part], [i])


def burst_postgres(n: int, u: int) -> dict[str, Any]:
    """The same burst over four PostgreSQL databases, captured as CAPTURED_BY says."""
    chain = Chain(n, u)
    with postgres_project(chain) as (urls, warehouse, servers), running(warehouse) as (engine, load):
        applied_there(urls, chain, slice(0, 1000))
        engine.catch_up()
        applied_there(urls, chain, slice(1000, u))
        before, seq = engine.meter.tally, engine.cut.seq
        cpu = measure.cpu_seconds(os.getpid(), *servers)
        seconds = caught_up(engine)
        cpu = measure.cpu_seconds(os.getpid(), *servers) - cpu
        done = engine.cut.seq - seq
        found = answer(warehouse)
    return {"load_s": load, "burst_s": seconds, "cpu_s": cpu, "transactions": done, "updates_per_s": done / seconds,
            **spent(before, engine.meter.tally), "correct": found == chain.answer_after(),
            "states": "every update", "ends_at": "visible"}  # fmt: skip


@contextmanager
def mariadb_project(chain: Chain) -> Iterator[tuple[list[MariadbServer], headwater.Warehouse]]:
    """The chain over four MariaDB servers, captured by their logs."""
    with ExitStack() as stack:
        servers, urls = [], []
        for i in range(RELATIONS):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            servers.append(stack.enter_context(mariadb_server(folder)))
            urls.append(servers[i].create_database("bench"))
            with closing(servers[i].connect("bench", local_infile=True)) as connection:
                chain_mariadb.load(connection, chain, [i])
        folder = OUT / "projects" / f"{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        yield servers, project(folder, urls, [f"r{i + 1}" for i in range(RELATIONS)])


def burst_mariadb(n: int, u: int) -> dict[str, Any]:
    """The same burst over four MariaDB databases by their logs, each of a server of its own."""
    chain = Chain(n, u)
    with mariadb_project(chain) as (servers, warehouse), running(warehouse) as (engine, load):

        def applied(part: slice) -> None:
            for i, server in enumerate(servers):
                with closing(server.connect("bench", local_infile=True)) as connection:
                    chain_mariadb.apply(connection, chain.transactions[part], [i])

        applied(slice(0, 1000))
        engine.catch_up()
        applied(slice(1000, u))
        before, seq = engine.meter.tally, engine.cut.seq
        cpu = measure.cpu_seconds(os.getpid())  # of which the servers are children
        seconds = caught_up(engine)
        cpu = measure.cpu_seconds(os.getpid()) - cpu
        done = engine.cut.seq - seq
        found = answer(warehouse)
    return {"load_s": load, "burst_s": seconds, "cpu_s": cpu, "transactions": done, "updates_per_s": done / seconds,
            **spent(before, engine.meter.tally), "correct": found == chain.answer_after(),
            "states": "every update", "ends_at": "visible"}  # fmt: skip


def freshness_postgres(n: int, u: int, rate: int = 500, seconds: int = 60) -> dict[str, Any]:
    """Steady single-row transactions over four PostgreSQL databases, as in `freshness`; committed as the server's
    defaults have it, each on disk."""
    chain = Chain(n, rate * seconds + 1000)
    settings = "[run]\npoll_seconds = 0.05\n"
    with postgres_project(chain, settings) as (urls, warehouse, servers), running(warehouse) as (engine, _):
        applied_there(urls, chain, slice(0, 1000))
        engine.catch_up()
        seq, cpu = engine.cut.seq, measure.cpu_seconds(os.getpid(), *servers)
        begun = time.perf_counter()
        writer = subprocess.Popen([sys.executable, str(Path(__file__).with_name("postgres_writer.py")), str(chain.n),
                                   str(chain.u), "1000", str(rate), *urls])  # fmt: skip
        while writer.poll() is None:
            engine.step()
        took = time.perf_counter() - begun
        engine.catch_up()
        cpu = measure.cpu_seconds(os.getpid(), *servers) - cpu
        lags, cuts = lags_since(warehouse, seq)
        found = answer(warehouse)
    return {"transactions": len(lags), "cuts": cuts, "written_per_s": len(lags) / took, "cpu_s": cpu,
            "p50_s": float(np.quantile(lags, 0.5)), "p99_s": float(np.quantile(lags, 0.99)),
            "max_s": float(lags.max()), "correct": found == chain.answer_after()}  # fmt: skip


def small(n: int, u: int) -> dict[str, Any]:
    """1,000 transactions at a time, warm: from reading them to the visible cut record. Median of nine."""
    chain = Chain(n, 10_000)
    data, warehouse = sqlite_project(chain)
    with running(warehouse) as (engine, load):
        at = warm(engine, data, chain)
        times, peak = [], 0.0
        for _ in range(9):
            applied(data, chain, at, at + 1000)
            at += 1000
            with measure.TreeMemory() as memory:  # not while the writer lives: it is the application
                times.append(caught_up(engine))
            peak = max(peak, memory.peak_mb)
        read = time.perf_counter()
        rows = warehouse.rows("v").num_rows
        read = time.perf_counter() - read
    return {"load_s": load, "small_s": statistics.median(times), "best_s": min(times), "worst_s": max(times),
            "peak_rss_mb": peak, "full_view_read_s": read, "rows": rows}  # fmt: skip


def single(n: int, u: int) -> dict[str, Any]:
    """SWEEP's schedule: one transaction after the other through the same machinery, on a sample (of one relation, so
    that no two are ever taken in together)."""
    chain = Chain(n, 10_000)
    data, warehouse = sqlite_project(chain, "[run]\nbatch_changes = 1\nparallel = 1\npoll_seconds = 0.01\n")
    with running(warehouse) as (engine, _):
        applied(data, chain, 0, 20, relation=1)
        engine.catch_up()
        before, seq = engine.meter.tally, engine.cut.seq
        applied(data, chain, 20, 220, relation=1)
        seconds = caught_up(engine)
        done = engine.cut.seq - seq
    return {"sample": done, "seconds_each": seconds / done, "transactions_per_s": done / seconds,
            **spent(before, engine.meter.tally)}  # fmt: skip


def freshness(n: int, u: int, rate: int = 500, seconds: int = 60) -> dict[str, Any]:
    """Steady single-row transactions: from their commit at the source to the cut that shows them."""
    chain = Chain(n, rate * seconds + 1000)
    data, warehouse = sqlite_project(chain, "[run]\npoll_seconds = 0.05\n")
    with running(warehouse) as (engine, _):
        first = warm(engine, data, chain)
        seq = engine.cut.seq
        writer = write(data, chain, first, first + rate * seconds, rate)
        while writer.poll() is None:
            engine.step()
        engine.catch_up()
        lags, cuts = lags_since(warehouse, seq)
    return {"transactions": len(lags), "cuts": cuts, "p50_s": float(np.quantile(lags, 0.5)),
            "p99_s": float(np.quantile(lags, 0.99)), "max_s": float(lags.max())}  # fmt: skip


def lags_since(warehouse: headwater.Warehouse, seq: int) -> tuple[np.ndarray, int]:
    """From the commit of each transaction after that one to the cut that shows it; and how many cuts there were."""
    committed = np.array([t["committed_at"].timestamp() for t in warehouse.log(seq + 1)])
    cuts = warehouse.cuts._query(f"SELECT seq, at FROM cuts WHERE seq > {seq} ORDER BY seq, cut")
    shown = np.array([c["at"].timestamp() for c in cuts])
    ends = np.array([c["seq"] for c in cuts])
    which = np.searchsorted(ends, seq + 1 + np.arange(len(committed)))
    return shown[which] - committed, len(cuts)


def many_views(n: int, u: int) -> dict[str, Any]:
    """24 views: managers side by side or one after the other; groups of their own or one."""
    chain = Chain(n, 2 * u + 20_000)
    facts: dict[str, Any] = {}
    data, warehouse = sqlite_project(chain)
    facts |= many.concurrent(many.Bench(warehouse, data, chain, many.shared_views()), u)
    data, warehouse = sqlite_project(chain)
    return facts | many.agreement(many.Bench(warehouse, data, chain, many.separate_views()), u)


def capture(n: int, u: int) -> dict[str, Any]:
    """Single-row transactions of one writer, with and without capture."""
    chain = Chain(n, u)
    facts = {}
    for name in ("plain", "captured"):
        data, _ = sqlite_project(chain) if name == "captured" else (
            chain_sqlite.working_copy(chain_sqlite.base_files(chain, OUT / "data"), OUT / "projects" / "plain"), None
        )  # fmt: skip
        begun = time.perf_counter()
        with chain_sqlite.Writer(data) as writer:
            writer.apply(chain.transactions[:2000], commit_every=1)
        facts[f"sqlite_{name}_tx_per_s"] = 2000 / (time.perf_counter() - begun)
    with running_postgres() as (connection, url):
        chain_postgres.load(connection, chain)
        for name in ("plain", "captured"):
            if name == "captured":
                project(OUT / "projects" / f"pg{os.getpid()}", [url] * 4, [chain_postgres.table(i) for i in range(4)])
            begun = time.perf_counter()
            half = slice(0, u // 2) if name == "plain" else slice(u // 2, u)
            chain_postgres.apply(connection, chain.transactions[half])
            facts[f"postgres_{name}_tx_per_s"] = (u // 2) / (time.perf_counter() - begun)
    return facts


SCENARIOS = {
    f.__name__: f
    for f in (burst, burst_postgres, burst_mariadb, freshness_postgres, small, single, freshness, capture, many_views)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--u", type=int, default=200_000)
    options = parser.parse_args()
    try:
        facts = SCENARIOS[options.scenario](options.n, options.u)
    finally:
        shutil.rmtree(OUT / "projects" / f"{os.getpid()}", ignore_errors=True)
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"scenario": options.scenario, "n": options.n, "u": options.u, "machine_load": load, **facts}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
