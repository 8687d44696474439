"""Tables of one source asked together, or one by one: questions and seconds per batch of 1,000 changes.

    python bench/pushdown.py                        100,000 facts, sources near and 20 ms away
    python bench/pushdown.py --facts 1000000        more of them
    python bench/pushdown.py --delays 0,20,100      other distances

A star: facts and five dimensions in PostgreSQL, joined with a table in each of two SQLite files. Batches are of changes
at those two (nothing of the star changed), of facts, and of everything. Each setting is a project of its own over a
copy of the same data; the clock runs from reading the waiting changes to the visible cut, the median of the batches
after two that warm things up. Questions are those of one batch. At the end every view is compared with recomputation.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_sqlite.dbapi as adbc
import psycopg
from rich.table import Table

import headwater
from postgres_peer import running_postgres
from run import CONSOLE
from scenarios import OUT, caught_up, running

DIMENSIONS = "abcde"
BATCH, WARM, BATCHES = 1000, 2, 5
VIEW = (
    "SELECT f.id, f.amount, x.name AS x, y.name AS y, "
    + ", ".join(f"{d}.name AS {d}" for d in DIMENSIONS)
    + " FROM star.facts f "
    + " ".join(f"JOIN star.{d} ON {d}.id = f.{d}_id" for d in DIMENSIONS)
    + " JOIN xs.x ON x.id = f.x_id JOIN ys.y ON y.id = f.y_id"
)


def database(url: str, name: str) -> str:
    """The url of another database of the same server."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def fill(connection: psycopg.Connection, facts: int) -> None:
    """Dimensions of a hundredth of the facts."""
    size = facts // 100
    for d in DIMENSIONS:
        connection.execute(f"CREATE TABLE {d} (id int PRIMARY KEY, name text)")
        connection.execute(f"INSERT INTO {d} SELECT n, '{d}' || n FROM generate_series(0, {size - 1}) AS n")
    keys = ", ".join(f"{d}_id int" for d in DIMENSIONS)
    values = ", ".join(f"(random() * {size - 1})::int" for _ in DIMENSIONS)
    connection.execute(f"CREATE TABLE facts (id bigint PRIMARY KEY, {keys}, x_id int, y_id int, amount int)")
    connection.execute("SELECT setseed(0.5)")
    half = facts // 2 - 1
    connection.execute(
        f"INSERT INTO facts SELECT n, {values}, (random() * {half})::int, (random() * {half})::int, n % 1000"
        f" FROM generate_series(1, {facts}) AS n"
    )
    for column in (*(f"{d}_id" for d in DIMENSIONS), "x_id", "y_id"):
        connection.execute(f"CREATE INDEX ON facts ({column})")
    connection.execute("ANALYZE")


def fill_file(path: Path, table: str, rows: int) -> None:
    write(
        path,
        "PRAGMA journal_mode = WAL",
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT)",
        f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows - 1})"
        f" INSERT INTO {table} SELECT i, '{table}' || i FROM n",
    )


def write(path: Path, *statements: str) -> None:
    """Through the same copy of SQLite as the engine's: two in one process lose each other's locks."""
    with closing(adbc.connect(str(path), autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 20000")
        for statement in statements:
            cursor.execute(statement)


class Star:
    """One project, and writers of its sources."""

    def __init__(self, folder: Path, url: str, facts: int, join: bool, delay: int) -> None:
        self.folder, self.url, self.facts, self.chance = folder, url, facts, random.Random(3)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "views").mkdir(parents=True)
        for name in ("x", "y"):
            fill_file(folder / f"{name}s.db", name, facts // 2)
        urls = {"star": url, **{f"{name}s": f"sqlite:///{folder / f'{name}s.db'}" for name in ("x", "y")}}
        far = f"delay_ms = {delay}\n" if delay else ""
        sources = "".join(f'[sources.{name}]\nurl = "{where}"\n{far}' for name, where in urls.items())
        (folder / "headwater.toml").write_text(f"{sources}[run]\njoin_at_sources = {str(join).lower()}\n")
        (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {VIEW};\n")

    def others(self, count: int = BATCH) -> None:
        for name in ("x", "y"):
            ids = self.chance.sample(range(self.facts // 2), count // 2)
            write(self.folder / f"{name}s.db", *(f"UPDATE {name} SET name = name || '!' WHERE id = {i}" for i in ids))

    def of_facts(self, count: int = BATCH) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for n in self.chance.sample(range(1, self.facts + 1), count):
                connection.execute("UPDATE facts SET amount = amount + 1 WHERE id = %s", [n])

    def everything(self) -> None:
        self.others(BATCH // 2)
        self.of_facts(BATCH // 2 - 5)
        with psycopg.connect(self.url, autocommit=True) as connection:
            for d in DIMENSIONS:
                connection.execute(f"UPDATE {d} SET name = name || '!' WHERE id = {self.chance.randrange(50)}")


KINDS: dict[str, Callable[[Star], None]] = {
    "at the two others": Star.others,
    "of facts": Star.of_facts,
    "of everything": Star.everything,
}


def measured(star: Star) -> dict[str, tuple[int, float]]:
    """Per kind of batch: questions, seconds."""
    warehouse = headwater.open(star.folder)
    warehouse.setup()
    found: dict[str, tuple[int, float]] = {}
    with running(warehouse) as (engine, _):
        for kind, change in KINDS.items():
            seconds, questions = [], []
            for _ in range(WARM + BATCHES):
                change(star)
                before = engine.meter.tally.questions
                seconds.append(caught_up(engine))
                questions.append(engine.meter.tally.questions - before)
            found[kind] = (int(statistics.median(questions[WARM:])), statistics.median(seconds[WARM:]))
    assert not warehouse.halted(), warehouse.halted()
    assert all(checked.ok for checked in warehouse.verify()), "WRONG"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--delays", default="0,20", help="milliseconds to every source")
    options = parser.parse_args()
    delays = [int(delay) for delay in options.delays.split(",")]
    results: dict[tuple[int, bool], dict[str, Any]] = {}
    folder = OUT / "projects" / f"pushdown-{os.getpid()}"
    with running_postgres() as (server, url):
        server.execute("CREATE DATABASE base")
        with psycopg.connect(database(url, "base"), autocommit=True) as base:
            fill(base, options.facts)
        for delay in delays:
            for join in (False, True):
                name = f"star_{delay}_{join}".lower()
                server.execute(f"CREATE DATABASE {name} TEMPLATE base")
                star = Star(folder, database(url, name), options.facts, join, delay)
                results[delay, join] = measured(star)
                CONSOLE.print(f"{delay} ms, {'together' if join else 'one by one'}: {results[delay, join]}")
    shutil.rmtree(folder, ignore_errors=True)
    shown(results, delays, options.facts)


def shown(results: dict[tuple[int, bool], dict[str, Any]], delays: list[int], facts: int) -> None:
    table = Table(title=f"{BATCH:,} changes, {facts:,} facts, exact in every case", title_justify="left")
    for i, name in enumerate(("changes", "delay", "questions", "together", "seconds", "together", "times faster")):
        table.add_column(name, justify="right" if i > 1 else "left")
    for kind in KINDS:
        for delay in delays:
            (asked, slow), (fewer, fast) = (results[delay, join][kind] for join in (False, True))
            numbers = (str(asked), str(fewer), f"{slow:.2f}", f"{fast:.2f}", f"{slow / fast:.2f}")
            table.add_row(kind, f"{delay} ms", *numbers)
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
