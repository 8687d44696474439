"""A position belongs to one past: restored backups, copies, crashes, and connections that say too much.

These tests stop, crash and replace whole servers, so they have one of their own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from headwater.model.errors import CaptureMissing, ConfigError, HeadwaterError, LifeChanged
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import Chunk, SourceSpec
from headwater.sources.postgres.adapter import PostgresSource
from headwater.sources.postgres.snapshot import Snapshot, life_of
from postgres_server import PASSWORD, PostgresServer, postgres_server

from .postgres_database import fold

pytestmark = pytest.mark.postgres

SRC = SourceName("pg")
T = TableName(SRC, "t", "public")


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    folder = tempfile.TemporaryDirectory(prefix="headwater-postgres-", ignore_cleanup_errors=True)
    with folder as path, postgres_server(path) as server:
        yield server


class Past:
    """A database with one captured table; connections come and go with its server."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.url = server.create_database(name)
        self.source = PostgresSource(SourceSpec(SRC, self.url))
        self.run("CREATE TABLE t (id int)")
        self.source.install([T])

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def questions(self, at: Position) -> list[Callable[[], Any]]:
        return [
            lambda: self.source.poll(at, {T: ["id"]}, 10),
            lambda: list(self.source.scan(Chunk(T, 0), ["id"], at)),
            lambda: self.source.check(at, [T]),
            lambda: self.source.check(at, []),
            lambda: self.source.trim(at),
        ]


def check_other_life(past: Past, at: Position, words: str, questions: int = 5) -> None:
    for question in past.questions(at)[:questions]:
        with pytest.raises(LifeChanged, match=words) as caught:
            question()
        assert "headwater apply" in caught.value.fix


# ── restored ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moved_on", [0, 1, 40])
def test_a_restored_backup_is_another_life(own: PostgresServer, moved_on: int) -> None:
    """However far it moves on: it may pass the transaction ids and the change ids that were used before."""
    past = Past(own, f"restored_{moved_on}")
    past.run("INSERT INTO t VALUES (1)")
    kept = past.source.position()
    own.stop()
    own.keep_copy()
    own.start()
    past.source.close()
    past.run("INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)")
    lost = past.source.position()
    middle = past.source.poll(kept, {T: ["id"]}, 1).end
    own.stop()
    own.restore_copy()
    own.start()
    past.source.close()
    for n in range(moved_on):
        past.run(f"INSERT INTO t VALUES ({100 + n})")
    check_other_life(past, lost, "restored from a backup")
    check_other_life(past, middle, "restored from a backup")
    told = past.source.poll(kept, {T: ["id"]}, 1000).changes[T]["id"].to_pylist()
    assert told == [100 + n for n in range(moved_on)], "what the backup has goes on"
    past.source.close()


def test_the_last_to_commit_is_remembered_though_its_changes_are_older(own: PostgresServer) -> None:
    """A long transaction that wrote early and committed last; the backup was taken in between."""
    past = Past(own, "long_one")
    with psycopg.connect(past.url) as first:
        first.execute("INSERT INTO t VALUES (1)")
        past.run("INSERT INTO t VALUES (2)")
        before = past.source.position()
    after = past.source.position()
    polled = past.source.poll(before, {T: ["id"]}, 10).end
    assert life_of(before) != life_of(after) == life_of(polled)
    past.source.close()


def test_trimming_and_recapturing_keep_the_witnesses(own: PostgresServer) -> None:
    past = Past(own, "witnesses")
    positions = []
    for n in range(4):
        past.run(f"INSERT INTO t VALUES ({n})")
        positions.append(past.source.position())
    past.source.trim(positions[1])
    for at in positions[1:]:
        past.source.check(at, [])
        past.source.poll(at, {T: ["id"]}, 10)
    past.run("DROP TRIGGER headwater_insert ON t")
    past.source.install([T])
    for at in positions[1:]:
        past.source.check(at, [])
    assert life_of(past.source.position()) == life_of(positions[-1])
    past.source.trim(past.source.position())
    past.source.check(past.source.position(), [T])
    past.source.close()


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_of_the_database_is_another_life(own: PostgresServer) -> None:
    past = Past(own, "original")
    past.run("INSERT INTO t VALUES (1)")
    at = past.source.position()
    past.source.close()
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE copied TEMPLATE original")
    generation = past.source.capture().generation
    past.source.close()
    copy = Past.__new__(Past)
    copy.server, copy.url = own, own.url("copied")
    copy.source = PostgresSource(SourceSpec(SRC, copy.url))
    check_other_life(copy, at, "copy")
    found = copy.source.capture()
    assert found.tables == frozenset()
    assert "came with a copy" in found.broken[T]
    assert "headwater setup" in found.broken[T]
    assert any("copy" in line for line in copy.source.plan_install([T]))
    copy.source.install([T])
    assert (copy.source.capture().tables, copy.source.capture().generation != generation) == ({T}, True)
    check_other_life(copy, at, "installed anew", 4)
    start = copy.source.position()
    copy.run("INSERT INTO t VALUES (2)")
    assert fold(copy.source.poll(start, {T: ["id"]}, 10).changes[T]) == {(2,): 1}
    past.source.check(at, [T])
    copy.source.close()
    past.source.close()


def test_a_copy_can_be_cleared_of_its_capture(own: PostgresServer) -> None:
    past = Past(own, "cleared")
    past.source.close()
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE cleared_copy TEMPLATE cleared")
    copy = PostgresSource(SourceSpec(SRC, own.url("cleared_copy")))
    assert copy.remove()[-1] == "dropped schema headwater"
    assert copy.capture() is None
    copy.close()


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_crash_takes_back_nothing_that_was_told(own: PostgresServer) -> None:
    """Commits that do not wait for the disk, a poll right behind each, and the server dies."""
    past = Past(own, "crashed")
    start = at = past.source.position()
    told = []
    with psycopg.connect(past.url, autocommit=True) as writer:
        writer.execute("SET synchronous_commit = off")
        for n in range(20):
            writer.execute(f"INSERT INTO t VALUES ({n})")
            poll = past.source.poll(at, {T: ["id"]}, 10)
            told += poll.changes[T]["id"].to_pylist() if T in poll.changes else []
            at = poll.end
        own.stop("immediate")
    own.start()
    past.source.close()
    past.source.check(at, [T])
    assert told == list(range(20))
    assert fold(past.source.scan(Chunk(T, 0), ["id"], at)) == {(n,): 1 for n in told}
    past.run("INSERT INTO t VALUES (99)")
    assert fold(past.source.poll(at, {T: ["id"]}, 10).changes[T]) == {(99,): 1}
    assert fold(past.source.poll(start, {T: ["id"]}, 100).changes[T]) == {(n,): 1 for n in [*told, 99]}
    past.source.close()


def test_an_idle_transaction_does_not_hold_up_polls(own: PostgresServer) -> None:
    """Its last page stays in memory until somebody has it flushed."""
    past = Past(own, "idle")
    start = past.source.position()
    with psycopg.connect(past.url) as idle:
        idle.execute("SET synchronous_commit = off")
        idle.execute("INSERT INTO t VALUES (2)")
        past.run("INSERT INTO t VALUES (1)")
        idle.execute("INSERT INTO t VALUES (3)")
        poll = past.source.poll(start, {T: ["id"]}, 10)
        assert fold(poll.changes[T]) == {(1,): 1}
        assert Snapshot.parse(past.source.position()).xip
    past.source.close()


def test_what_is_not_on_disk_is_not_told(own: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    past = Past(own, "unflushed")
    start = past.source.position()
    past.run("INSERT INTO t VALUES (1)")
    monkeypatch.setattr("headwater.sources.postgres.life.flushed", lambda connection, lsn: False)
    poll = past.source.poll(start, {T: ["id"]}, 10)
    assert (poll.end, poll.transactions.num_rows) == (start, 0)
    monkeypatch.undo()
    assert past.source.poll(start, {T: ["id"]}, 10).transactions.num_rows == 1
    past.source.close()


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────

SECRETS = [
    "s3/cr3t",
    "s3@cr3t",
    "s3:cr3t",
    "s3%cr3t",
    "s3 cr3t",
    "s3?cr3t",
    "s3#cr3t",
    "12/s3cr3t",
    "s3/cr3t@x",
    "%zzs3cr3t",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("encoded", [True, False])
def test_no_message_holds_a_password(own: PostgresServer, secret: str, encoded: bool) -> None:
    for host, port in ((own.host, own.port), ("127.0.0.1", 1), ("no-such-host.invalid", 5432)):
        written = quote(secret, safe="") if encoded else secret
        url = f"postgresql://postgres:{written}@{host}:{port}/postgres"
        with pytest.raises(HeadwaterError) as caught:
            PostgresSource(SourceSpec(SRC, url)).position()
        said = repr(caught.value) + str(caught.value) + repr(caught.value.__cause__)
        for part in ("cr3t", secret):
            assert part not in said
        if encoded:
            assert f"{host}:{port}/postgres" in str(caught.value)


def test_parts_of_a_source_may_be_given_one_by_one(own: PostgresServer) -> None:
    options = (("host", own.host), ("port", str(own.port)), ("database", "postgres"), ("user", "postgres"))
    source = PostgresSource(SourceSpec(SRC, "postgresql://", (*options, ("password", PASSWORD))))
    assert Snapshot.parse(source.position())
    source.close()
    url = f"postgresql://postgres:wrong@{own.host}:{own.port}/nowhere"
    source = PostgresSource(SourceSpec(SRC, url, (("database", "postgres"), ("password", PASSWORD))))
    assert Snapshot.parse(source.position())
    source.close()
    with pytest.raises(ConfigError):
        PostgresSource(SourceSpec(SRC, "postgresql://u:p/w@host/db", options))


def test_a_life_is_only_claimed_where_there_is_one(own: PostgresServer) -> None:
    past = Past(own, "bare")
    bare = Snapshot.parse(past.source.position()).position()
    assert past.source.poll(bare, {T: ["id"]}, 10).end == past.source.position()
    with pytest.raises(CaptureMissing):
        past.source.check(past.source.position(), [TableName(SRC, "nowhere", "public")])
    past.source.close()
