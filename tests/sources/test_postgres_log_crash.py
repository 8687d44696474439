"""A server that is killed while it is written to and its log is read: everything that was committed is told, once."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.model.errors import SourceUnavailable
from headwater.model.names import Position
from headwater.model.source import COUNT, ORDINAL
from postgres_server import PostgresServer, postgres_server

from .test_postgres_log import COLUMNS, T, World

pytestmark = [pytest.mark.postgres, pytest.mark.soak]


class Writer(threading.Thread):
    """Writes until it is told to stop, whatever happens to the server, and remembers what it knows to be committed."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url, self._numbers = url, itertools.count(1)
        self.stopping = threading.Event()
        self.committed: set[int] = set()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, connect_timeout=2) as connection:
                    while not self.stopping.is_set():
                        self._write(connection, next(self._numbers))
            except psycopg.Error:
                time.sleep(0.05)

    def _write(self, connection: psycopg.Connection[Any], n: int) -> None:
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (%s, %s, 'x')", [n, n % 40])
            connection.execute("UPDATE t SET v = v || 'y' WHERE id = %s", [n // 2])
            connection.execute("DELETE FROM t WHERE id = %s", [n // 3])
        self.committed.add(n)


class Told:
    """What polls told, followed to its end: the rows, and in how many transactions each number was inserted."""

    def __init__(self, world: World) -> None:
        self._world, self.at = world, world.start
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.inserted: Counter[int] = Counter()
        self.states: list[tuple[Position, Counter[tuple[Any, ...]]]] = []

    def poll(self) -> bool:
        poll = self._world.source.poll(self.at, {T: COLUMNS}, 500)
        for row in sorted(poll.changes[T].to_pylist(), key=lambda r: r[ORDINAL]):
            self.rows[tuple(row[c] for c in COLUMNS)] += row[COUNT]
            self.inserted[row["id"]] += row[COUNT] if row["v"] == "x" and row[COUNT] > 0 else 0
        assert min(self.rows.values(), default=0) >= 0, "a row went that was not there"
        self.rows = +self.rows
        moved, self.at = poll.end != self.at, poll.end
        return moved


def test_everything_is_told_once_though_the_server_is_killed(tmp_path: Path) -> None:
    with postgres_server(tmp_path / "server", timed=False) as server:
        _killed(server)


def _killed(server: PostgresServer) -> None:
    world = World(server, "killed")
    writer, told, kills = Writer(world.url), Told(world), 0
    writer.start()
    try:
        while kills < 5:
            until = time.monotonic() + 1.0 + 0.3 * kills
            while time.monotonic() < until:
                told.poll()
            told.states = [*told.states, (told.at, told.rows.copy())][-3:]
            world.source.trim(told.states[0][0])
            killer = threading.Thread(target=server.kill)
            killer.start()
            kills += 1
            while killer.is_alive():
                try:
                    told.poll()
                except SourceUnavailable:
                    time.sleep(0.02)
            killer.join()
    finally:
        writer.stopping.set()
        writer.join()
    while told.poll():
        pass
    with psycopg.connect(world.url) as reader:
        now = Counter(reader.execute("SELECT id, k, v FROM t").fetchall())
    assert told.rows == now
    assert len(writer.committed) > 100
    assert {told.inserted[n] for n in writer.committed} == {1}
    assert set(told.inserted.values()) <= {0, 1}
    for at, state in told.states:
        assert world.as_of(at) == state
    world.source.close()
