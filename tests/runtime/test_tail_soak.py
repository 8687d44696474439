"""`tail --follow` while runs are killed (-9) and started again, and while it is killed itself: each seq once.

A writer never rests; every transaction of it inserts a row of its own and changes another, so a change that is told
twice or left out is seen. Who listens knows only what it has read: after its own death it goes on by --from.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater

pytestmark = [pytest.mark.spark, pytest.mark.soak]

KILLS = 3
VIEW = (
    "CREATE MATERIALIZED VIEW big AS SELECT o.id, o.n, c.name FROM crm.orders o JOIN crm.customers c ON c.id = o.who;"
)


def project(folder: Path) -> Path:
    (folder / "views").mkdir(parents=True)
    (folder / "views" / "big.sql").write_text(VIEW)
    (folder / "headwater.toml").write_text('[sources.crm]\nurl = "sqlite:///crm.db"\n[run]\npoll_seconds = 0.05\n')
    with closing(sqlite3.connect(folder / "crm.db")) as crm, crm:
        # closed here: who is collected later, by this other copy of SQLite, takes the log of all others along
        crm.execute("PRAGMA journal_mode = WAL")
        crm.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        crm.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER, who INTEGER)")
        crm.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"c{n}") for n in range(3)])
        crm.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(n, 0, n % 3) for n in range(5)])
    return folder


class Writer(threading.Thread):
    """One transaction after the other: a new order, and an older one that changes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._file, self.done, self.last = folder / "crm.db", threading.Event(), 4

    def run(self) -> None:
        chance, crm = random.Random(1), sqlite3.connect(self._file, timeout=30, isolation_level=None)
        while not self.done.is_set():
            crm.execute("BEGIN IMMEDIATE")
            crm.execute("INSERT INTO orders VALUES (?, 0, ?)", (self.last + 1, chance.randrange(3)))
            crm.execute("UPDATE orders SET n = n + 1 WHERE id = ?", (chance.randrange(self.last + 1),))
            crm.execute("COMMIT")
            self.last += 1
            time.sleep(0.02)
        crm.close()


class Listener:
    """A `tail` in a process of its own. `told` are the lines that came whole."""

    def __init__(self, folder: Path, told: list[dict[str, Any]], after: int) -> None:
        command = [sys.executable, "-m", "headwater.cli.main", "tail", "big", "--from", str(after), "-f", "--json"]
        self.process = subprocess.Popen([*command, "-p", str(folder)], stdout=subprocess.PIPE, text=True)
        self._told, self._thread = told, threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self._told.append(json.loads(line))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._thread.join(timeout=20)


def wait_for(what: str, holds: Any, seconds: float = 150) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.1)


@pytest.mark.timeout(900)
def test_each_seq_once_through_kills(tmp_path: Path, spark: SparkSession) -> None:
    folder = project(tmp_path / "p")
    warehouse = headwater.open(folder)
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    begin, chance = warehouse.cut().seq, random.Random(5)
    before = Counter((row["id"], row["n"], row["name"]) for row in rows(warehouse))
    told: list[dict[str, Any]] = []
    writer, listener = Writer(folder), Listener(folder, told, begin)
    writer.start()
    for kill in range(KILLS):
        with (tmp_path / f"run{kill}.log").open("wb") as log:
            run = subprocess.Popen(
                [sys.executable, "-m", "headwater.cli.main", "run", "-p", str(folder)], stdout=log, stderr=log
            )
            known = len(told)
            wait_for(
                f"a change after start {kill}", lambda known=known, run=run: len(told) > known or run.poll() is not None
            )
            time.sleep(chance.uniform(0.5, 3))
            assert run.poll() is None, (tmp_path / f"run{kill}.log").read_text()
            if kill == 1:  # who listens dies, too, and goes on after what it has read
                listener.kill()
                listener = Listener(folder, told, told[-1]["seq"])
            run.send_signal(signal.SIGKILL)
            run.wait()
    writer.done.set()
    writer.join()
    headwater.open(folder).run(until_caught_up=True)
    last = headwater.open(folder)
    wait_for("the last change", lambda: told[-1]["seq"] >= last.cut().seq or len(told) == told_of(last, begin))
    listener.kill()
    seqs = [change["seq"] for change in told]
    assert seqs == sorted(set(seqs)), "each once, in order"
    assert seqs == [change.seq for change in last.changes("big", after=begin)]
    added = Counter(c["row"]["id"] for change in told for c in change["changes"] for _ in range(max(c["count"], 0)))
    for change in told:
        for entry in change["changes"]:
            before[entry["row"]["id"], entry["row"]["n"], entry["row"]["name"]] += entry["count"]
        assert min(before.values()) >= 0, f"{change['seq']} takes away what was not there"
    now = Counter((row["id"], row["n"], row["name"]) for row in rows(last))
    assert +before == now, "what was there and what was told is what is there"
    assert set(range(5, writer.last + 1)) <= added.keys(), "every order was told of"
    assert len(told) > 50


def rows(warehouse: headwater.Warehouse) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = warehouse.query("SELECT id, n, name FROM big").to_pylist()
    return found


def told_of(warehouse: headwater.Warehouse, begin: int) -> int:
    return sum(1 for _ in warehouse.changes("big", after=begin))
