"""MariaDB as a source: how fast a backlog is polled, what a question costs, how fast a table is loaded.

    python bench/mariadb.py [transactions]

Starts a server of its own, installed or unpacked by `make mariadb`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from headwater.model.names import SourceName, TableName
from headwater.model.source import Question, SourceSpec
from headwater.sources.mariadb.adapter import MariadbSource
from mariadb_server import MariadbServer, mariadb_server

COLUMNS = ["id", "k", "s", "d"]
FILL = (
    "CREATE PROCEDURE fill(n int) BEGIN DECLARE i int DEFAULT 0;"
    " WHILE i < n DO INSERT INTO t VALUES (i, i MOD 1000, concat('text ', i), i / 7); SET i = i + 1; END WHILE; END"
)


def measure(server: MariadbServer, count: int) -> None:
    url = server.create_database("bench")
    with server.connect("bench") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, k int, s varchar(40), d decimal(10,2), KEY (k))")
        cursor.execute("CREATE TABLE big (id int PRIMARY KEY, k int, s varchar(40), d decimal(10,2), at datetime(3))")
        cursor.execute(FILL)
        source = MariadbSource(SourceSpec(SourceName("m"), url))
        t, big = (TableName(SourceName("m"), name) for name in ("t", "big"))
        source.install([t])
        start = source.position()
        begun = time.perf_counter()
        cursor.execute("CALL fill(%s)", [count])
        said(f"{count:,} transactions of one row are written", begun)

        begun, at, told = time.perf_counter(), start, 0
        while True:
            poll = source.poll(at, {t: COLUMNS}, 20_000)
            at, told = poll.end, told + poll.transactions.num_rows
            if not poll.more:
                break
        said(f"{told:,} are polled", begun)

        question = Question(t, ("k",), pa.table({"k": pa.array([5, 6], pa.int32())}), tuple(COLUMNS))
        for label, place in (("the first", start), ("the second", start), ("one about now", at)):
            begun = time.perf_counter()
            list(source.ask(question, place))
            said(f"a question as of their beginning, {label}" if place == start else "a question about now", begun)

        cursor.execute(
            "INSERT INTO big SELECT seq, seq % 1000, concat('text ', seq), seq / 7, now() FROM seq_1_to_1000000"
        )
        source.install([big])
        at, begun = source.position(), time.perf_counter()
        rows = sum(
            batch.num_rows
            for chunk in source.chunks(big, 250_000)
            for batch in source.scan(chunk, [*COLUMNS, "at"], at)
        )
        said(f"{rows:,} rows are scanned", begun)


def said(what: str, begun: float) -> None:
    print(f"{what}: {time.perf_counter() - begun:.3f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, mariadb_server(folder) as running:
        measure(running, int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
