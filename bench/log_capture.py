"""What capture costs the writers of a PostgreSQL server, and what a burst costs that is read from its log.

    python bench/log_capture.py             writers: nothing captured, triggers, the log, the log while it is read
    python bench/log_capture.py --burst     the chain over four databases, by triggers and by the log
    python bench/log_capture.py --freshness the chain over four databases, 500 transactions a second, by the log

Writers: one connection, transactions of 1 and of 100 rows, synchronous_commit off, the ways in turn and several rounds
of each, as the machine is noisy; a rate is the best of its rounds. `identity` is a table with REPLICA IDENTITY FULL
and nothing else: what the log holds more of an update or a delete. While the log is read, reader and writer share the
machine's cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time

import psycopg
from rich.table import Table

from headwater.model.names import SourceName, TableName
from headwater.model.source import CAPTURE, SourceSpec
from headwater.sources.postgres.adapter import PostgresSource
from postgres_peer import running_postgres
from run import CONSOLE

WAYS = ("nothing", "identity", "triggers", "log", "log, read")
ROUNDS = 4
SECONDS = 2.0

_ONE = """
DO $$ DECLARE until timestamptz := clock_timestamp() + interval '{seconds} s'; n int := 0; low int;
BEGIN
  low := (SELECT max(id) FROM t);
  WHILE clock_timestamp() < until LOOP
    n := n + 1;
    IF n % 3 = 1 THEN INSERT INTO t SELECT low + i, 1, 'some text of a row' FROM generate_series(1, {rows}) AS i;
    ELSIF n % 3 = 2 THEN UPDATE t SET v = v + 1 WHERE id > low AND id <= low + {rows};
    ELSE DELETE FROM t WHERE id > low AND id <= low + {rows}; low := low + {rows};
    END IF;
    COMMIT;
  END LOOP;
  PERFORM set_config('bench.done', n::text, false);
END $$"""


def rate(connection: psycopg.Connection, rows: int) -> float:
    begun = time.perf_counter()
    connection.execute(_ONE.format(seconds=SECONDS, rows=rows))
    row = connection.execute("SELECT current_setting('bench.done')::int").fetchone()
    assert row is not None
    return row[0] / (time.perf_counter() - begun)


class Reader:
    """Polls as a run does, while somebody writes."""

    def __init__(self, source: PostgresSource, table: TableName) -> None:
        self._source, self._table, self._stopping = source, table, threading.Event()
        self._at = source.position()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.2):
            self._at = self._source.poll(self._at, {self._table: ["id", "v"]}, 500_000).end
            self._source.trim(self._at)


def writers() -> None:
    table = TableName(SourceName("w"), "t", "public")
    best: dict[tuple[str, int], float] = {}
    with running_postgres() as (connection, url):
        open_ways = {}
        for n, way in enumerate(WAYS):
            connection.execute(f"CREATE DATABASE w{n}")
            place = url.replace("/postgres?", f"/w{n}?")
            database = psycopg.connect(place, autocommit=True)
            database.execute("SET synchronous_commit = off")
            database.execute("CREATE TABLE t (id int PRIMARY KEY, v int, w text)")
            database.execute("INSERT INTO t SELECT n, 1, 'some text of a row' FROM generate_series(1, 60000) AS n")
            if way == "identity":
                database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
            how = "triggers" if way == "triggers" else "log"
            source = PostgresSource(SourceSpec(table.source, place, ((CAPTURE, how),)))
            if way in ("triggers", "log", "log, read"):
                source.install([table])
            open_ways[way] = (database, source)
        for _ in range(ROUNDS):
            for way, (database, source) in open_ways.items():
                database.execute("VACUUM ANALYZE t")
                for rows in (1, 100):
                    if way == "log, read":
                        with Reader(source, table):
                            found = rate(database, rows)
                    else:
                        found = rate(database, rows)
                    best[way, rows] = max(best.get((way, rows), 0.0), found)
        for database, source in open_ways.values():
            database.close()
            source.close()
    shown = Table(title="transactions a second of one writer", title_justify="left")
    for name in ("", "1 row", "of none", "100 rows", "of none"):
        shown.add_column(name, justify="right" if name else "left")
    for way in WAYS:
        shown.add_row(
            way, f"{best[way, 1]:,.0f}", f"{best[way, 1] / best['nothing', 1]:.2f}",
            f"{best[way, 100]:,.0f}", f"{best[way, 100] / best['nothing', 100]:.2f}",
        )  # fmt: skip
    print(json.dumps({f"{way}, {rows}": value for (way, rows), value in best.items()}))
    CONSOLE.print(shown)


def scenario(name: str, how: str, n: int, u: int) -> None:
    command = [sys.executable, "scenarios.py", name, "--n", str(n), "--u", str(u)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=sys.path[0],
                          env={**os.environ, "CAPTURED_BY": how})  # fmt: skip
    print(how, (done.stdout.strip().splitlines() or ["failed"])[-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burst", action="store_true")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--u", type=int, default=200_000)
    parser.add_argument("--freshness", action="store_true")
    options = parser.parse_args()
    if options.freshness:
        scenario("freshness_postgres", "log", min(options.n, 100_000), 0)
    elif options.burst:
        for how in ("triggers", "log"):
            scenario("burst_postgres", how, options.n, options.u)
    else:
        writers()


if __name__ == "__main__":
    main()
