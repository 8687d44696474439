"""What capture costs the writers of a MariaDB server.

    python bench/mariadb_writers.py

One connection, transactions of 1 and of 100 rows (insert, update, delete in turn), the ways in turn and several rounds
of each, as the machine is noisy; a rate is the best of its rounds. CPU is what the server's process took for one
transaction, the least of its rounds: it depends less on what else the machine does.

`nothing` and `triggers` are on a server that keeps no log, `log` is on one that does, `log, nothing` there without
capture. `polled` has a reader beside it, on the same cores, which polls and lets go as a run does. Servers of its own;
nothing is synced to disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from headwater.model.names import SourceName, TableName
from headwater.model.source import CAPTURE, Source, SourceSpec
from headwater.sources import connect
from mariadb_server import MariadbServer, mariadb_server

WAYS = ("nothing", "triggers", "triggers, polled", "log, nothing", "log", "log, polled")
ROUNDS = 4
SECONDS = 2.0
T = TableName(SourceName("m"), "t")

WRITE = """
CREATE PROCEDURE work(seconds double, wide int, OUT done int) BEGIN
  DECLARE until datetime(6) DEFAULT SYSDATE(6) + INTERVAL seconds * 1000000 MICROSECOND;
  DECLARE low int DEFAULT (SELECT MAX(id) FROM t);
  SET done = 0;
  WHILE SYSDATE(6) < until DO
    SET done = done + 1;
    START TRANSACTION;
    IF done MOD 3 = 1 THEN INSERT INTO t SELECT low + n, 1, 'some text of a row' FROM numbers WHERE n <= wide;
    ELSEIF done MOD 3 = 2 THEN UPDATE t SET v = v + 1 WHERE id > low AND id <= low + wide;
    ELSE DELETE FROM t WHERE id > low AND id <= low + wide; SET low = low + wide;
    END IF;
    COMMIT;
  END WHILE;
END
"""


def prepared(server: MariadbServer, way: str, number: int) -> tuple[str, Source | None]:
    """A database, and what captures it."""
    name = f"w{number}"
    url = server.create_database(name)
    with server.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE numbers (n int PRIMARY KEY) AS SELECT seq AS n FROM seq_1_to_100")
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, v int, w text)")
        cursor.execute("INSERT INTO t SELECT seq, 1, 'some text of a row' FROM seq_1_to_60000")
        cursor.execute(WRITE)
    if "nothing" in way:
        return name, None
    source = connect(SourceSpec(T.source, url, ((CAPTURE, way.partition(",")[0]),)))
    source.install([T])
    return name, source


def cpu(server: MariadbServer) -> float:
    """Seconds that its process has taken."""
    assert server._process is not None
    fields = Path(f"/proc/{server._process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(server: MariadbServer, name: str, rows: int) -> tuple[float, float]:
    """Transactions a second, and microseconds of CPU for one."""
    with server.connect(name) as connection, connection.cursor() as cursor:
        taken, begun = cpu(server), time.perf_counter()
        cursor.execute("CALL work(%s, %s, @done)", [SECONDS, rows])
        cursor.execute("SELECT @done")
        (done,) = cursor.fetchone()  # type: ignore[misc]  # one row
        return int(done) / (time.perf_counter() - begun), (cpu(server) - taken) / int(done) * 1e6


@contextlib.contextmanager
def polled(source: Source | None):  # type: ignore[no-untyped-def]  # a context
    if source is None:
        yield
        return
    stop = threading.Event()

    def read(at: str) -> None:
        while not stop.wait(0.2):
            at = source.poll(at, {T: ["id", "v"]}, 500_000).end  # type: ignore[arg-type]  # a position
            source.trim(at)  # type: ignore[arg-type]  # as above

    thread = threading.Thread(target=read, args=[source.position()])
    thread.start()
    yield
    stop.set()
    thread.join()


def main() -> None:
    best: dict[tuple[str, int], float] = {}
    least: dict[tuple[str, int], float] = {}
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        mariadb_server(one, {"skip-log-bin": "1"}) as bare,
        mariadb_server(two) as logged,
    ):
        made = {}
        for n, way in enumerate(WAYS):
            server = logged if way.startswith("log") else bare
            made[way] = server, *prepared(server, way, n)
        for _ in range(ROUNDS):
            for way, (server, name, source) in made.items():
                for rows in (1, 100):
                    with polled(source if way.endswith("polled") else None):
                        found, taken = rate(server, name, rows)
                    best[way, rows] = max(best.get((way, rows), 0.0), found)
                    least[way, rows] = min(least.get((way, rows), 1e9), taken)
    shown = Table(title="one writer: transactions a second, and CPU of the server for one", title_justify="left")
    for name in ("", "1 row", "of none", "CPU µs", "of none", "100 rows", "of none", "CPU µs", "of none"):
        shown.add_column(name, justify="right" if name else "left")
    for way in WAYS:
        cells = []
        for n in (1, 100):
            cells += [f"{best[way, n]:,.0f}", f"{best[way, n] / best['nothing', n]:.2f}"]
            cells += [f"{least[way, n]:,.0f}", f"{least[way, n] / least['nothing', n]:.2f}"]
        shown.add_row(way, *cells)
    print(json.dumps({f"{way}, {n}": [round(best[way, n]), round(least[way, n])] for way in WAYS for n in (1, 100)}))
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
