"""PostgreSQL's order: every state that polls tell is one that the server was in.

The judge is the server's own log: a replication slot decodes the transactions in the order of their commits, without
any of our code. Whatever prefix of transactions polls have told must be, as a set, a prefix of that.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import random
import struct
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import ORDINAL, Poll, SourceSpec
from headwater.sources.postgres.adapter import PostgresSource
from headwater.sources.postgres.order import Seen, order
from headwater.sources.postgres.poll import xids_of
from headwater.sources.postgres.snapshot import Snapshot
from postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

SRC = SourceName("pg")
CONTROL, RECEIPTS = TableName(SRC, "control", "public"), TableName(SRC, "receipts", "public")
TABLES = {CONTROL: ["current", "closed"], RECEIPTS: ["id", "batch"]}
_numbers = itertools.count()


class Desk:
    """The control table and the receipts, and a slot that notes the order of commits."""

    def __init__(self, server: PostgresServer) -> None:
        self.server, self.name = server, f"order_{next(_numbers)}"
        self.url = server.create_database(self.name)
        self.main = psycopg.connect(self.url, autocommit=True)
        self.main.execute("CREATE TABLE control (current int, closed int); INSERT INTO control VALUES (1, 0)")
        self.main.execute(
            "CREATE TABLE receipts (id int PRIMARY KEY, batch int); ALTER TABLE control REPLICA IDENTITY FULL"
        )
        self.main.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        self.source = PostgresSource(SourceSpec(SRC, self.url))
        self.source.install(list(TABLES))
        self.main.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self.name])
        self._opened: list[psycopg.Connection[Any]] = []

    def connect(self, isolation: str = "READ COMMITTED") -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.url, autocommit=True)
        connection.execute(f"SET default_transaction_isolation = '{isolation.lower()}'")
        self._opened.append(connection)
        return connection

    def commits(self) -> list[int]:
        """Transactions in the order of the server's log."""
        rows = self.main.execute(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
            " 'publication_names', 'everything')",
            [self.name],
        )
        return [struct.unpack(">I", row[0][17:21])[0] for row in rows if row[0][:1] == b"B"]

    def close(self) -> None:
        self.source.close()
        for connection in self._opened:
            connection.close()
        self.main.execute("SELECT pg_drop_replication_slot(%s)", [self.name])
        self.main.close()
        self.server.drop_database(self.name)


@pytest.fixture(params=["postgres", "postgres_untimed"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    opened = Desk(request.getfixturevalue(request.param))
    yield opened
    opened.close()


def groups(polls: list[Poll]) -> list[list[int]]:
    """The told transactions, each as the ids it is of."""
    labels = [label for poll in polls for label in poll.transactions["transaction"].to_pylist()]
    assert not any("…" in label for label in labels)
    return [xids_of(label) for label in labels]


def check_prefixes(desk: Desk, told: list[list[int]]) -> None:
    commits = desk.commits()
    wanted = {x for group in told for x in group}
    commits = [x for x in commits if x in wanted]
    assert len(wanted) == sum(map(len, told)) == len(commits)
    done = 0
    for group in told:
        assert set(group) == set(commits[done : done + len(group)]), (told, commits)
        done += len(group)


def drain(desk: Desk, after: Position, limit: int) -> Iterator[Poll]:
    while True:
        poll = desk.source.poll(after, TABLES, limit)
        yield poll
        after = poll.end
        if not poll.more:
            return


# ── the cases that were wrong ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 100])
def test_who_only_read_what_another_overwrites_may_come_first(desk: Desk, limit: int) -> None:
    start = desk.source.position()
    closing, receipt = desk.connect("SERIALIZABLE"), desk.connect("SERIALIZABLE")
    closing.execute("BEGIN; UPDATE control SET closed = current, current = current + 1")
    receipt.execute("BEGIN; INSERT INTO receipts SELECT 1, current FROM control; COMMIT")
    closing.execute("COMMIT")
    polls = list(drain(desk, start, limit))
    told = groups(polls)
    check_prefixes(desk, told)
    assert len(told) == (2 if desk.server.timed else 1)


def test_a_transaction_held_open_while_nobody_polled_comes_when_it_committed(desk: Desk) -> None:
    start = desk.source.position()
    held = desk.connect()
    held.execute("BEGIN; INSERT INTO receipts VALUES (1, 1)")
    for n in range(2, 6):
        desk.main.execute("INSERT INTO receipts VALUES (%s, 1)", [n])
    held.execute("COMMIT")
    desk.main.execute("INSERT INTO receipts VALUES (9, 1)")
    check_prefixes(desk, groups(list(drain(desk, start, 100))))
    check_prefixes(desk, groups(list(drain(desk, start, 1))))


def test_one_after_the_other_is_told_one_by_one(desk: Desk) -> None:
    start = desk.source.position()
    for n in range(1, 10):
        desk.main.execute("INSERT INTO receipts VALUES (%s, 1)", [n])
    poll = desk.source.poll(start, TABLES, 1000)
    assert [len(group) for group in groups([poll])] == [1] * 9
    times = desk.source.commit_times(poll.transactions["transaction"].to_pylist())
    if desk.server.timed:
        assert [t and t[0] for t in times] == poll.transactions["committed_at"].to_pylist()
    else:
        assert times == [None] * 9


def test_what_cannot_be_told_apart_has_a_short_label(desk: Desk) -> None:
    start = desk.source.position()
    writers = [desk.connect() for _ in range(12)]
    for n, writer in enumerate(writers):
        writer.execute(f"BEGIN; INSERT INTO receipts VALUES ({n}, 1)")
    for writer in writers:
        writer.execute("COMMIT")
    poll = desk.source.poll(start, TABLES, 1)
    (label, *_) = poll.transactions["transaction"].to_pylist()
    if desk.server.timed:
        assert (label.isdigit(), poll.more) == (True, True)
        return
    first, second, last = xids_of(label)
    assert label == f"{first}+{second}+…+{last} (12)"
    assert poll.changes[RECEIPTS][ORDINAL].to_pylist() == [0] * 12
    assert not poll.more, "what cannot be told apart is not cut"
    assert desk.source.commit_times([label]) == [None]


def test_the_advice_says_what_to_switch_on(desk: Desk) -> None:
    found = desk.source.advice(list(TABLES))
    assert bool(found) == (not desk.server.timed)
    assert all("ALTER SYSTEM SET track_commit_timestamp = on" in line for line in found)


def test_a_long_transaction_was_not_committed_before_it_was_missed(desk: Desk) -> None:
    """Without commit times: no earlier than the poll that did not see it yet."""
    held = desk.connect()
    held.execute("BEGIN; INSERT INTO receipts VALUES (1, 1)")
    start = desk.source.position()
    time.sleep(0.5)
    first = desk.source.poll(start, TABLES, 10)
    missed = desk.main.execute("SELECT clock_timestamp() - interval '0.2 s'").fetchone()
    held.execute("COMMIT")
    (at,) = desk.source.poll(first.end, TABLES, 10).transactions["committed_at"].to_pylist()
    assert missed is not None
    assert at > missed[0]
    assert at < dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)


def test_several_tags_that_cannot_be_told_apart_leave_the_first(postgres_untimed: PostgresServer) -> None:
    desk = Desk(postgres_untimed)
    start = desk.source.position()
    desk.main.execute("BEGIN; SELECT headwater.part_of('before', 2); INSERT INTO receipts VALUES (0, 1); COMMIT")
    one, two = desk.connect(), desk.connect()
    one.execute("BEGIN; SELECT headwater.part_of('g1', 2); INSERT INTO receipts VALUES (1, 1)")
    two.execute("BEGIN; SELECT headwater.part_of('g2', 2); INSERT INTO receipts VALUES (2, 1)")
    one.execute("COMMIT")
    two.execute("COMMIT")
    poll = desk.source.poll(start, TABLES, 100)
    assert poll.transactions["global_id"].to_pylist() == ["before", "g1"]
    labels = poll.transactions["transaction"].to_pylist()
    assert set(poll.before) == set(labels)
    again = desk.source.poll(poll.before[labels[1]], TABLES, 100)
    assert again.transactions["transaction"].to_pylist() == labels[1:]
    desk.close()


# ── generated histories ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_every_prefix_told_is_a_prefix_of_the_commits(
    desk: Desk, isolation: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four sessions take steps in turn: begin, close the batch, file a receipt under the batch that they read, commit,
    roll back. Meanwhile polls of any limit; afterwards polls of the whole history, of every limit."""
    monkeypatch.setattr("headwater.sources.postgres.poll._LABELS_AT_MOST", 1000)
    dice = random.Random(f"{isolation}/{seed}")
    sessions = [desk.connect(isolation) for _ in range(4)]
    for session in sessions:
        session.execute("SET lock_timeout = '20ms'")
    open_ = [False] * 4
    start = after = desk.source.position()
    live: list[Poll] = []
    numbers = itertools.count(1)
    for _ in range(90):
        n = dice.randrange(4)
        try:
            if not open_[n]:
                sessions[n].execute("BEGIN")
                open_[n] = True
            match dice.randrange(7):
                case 0:
                    sessions[n].execute("UPDATE control SET closed = current, current = current + 1")
                case 1 | 2 | 3:
                    statement = "INSERT INTO receipts SELECT %s, current FROM control"
                    sessions[n].execute(statement, [next(numbers)])
                case 4:
                    sessions[n].execute("UPDATE receipts SET batch = batch + 1 WHERE id = %s", [dice.randint(1, 30)])
                case _:
                    sessions[n].execute("COMMIT" if dice.random() < 0.9 else "ROLLBACK")
                    open_[n] = False
        except psycopg.Error:
            sessions[n].execute("ROLLBACK")
            open_[n] = False
        if dice.random() < 0.12:
            live.append(desk.source.poll(after, TABLES, dice.choice([1, 3, 100])))
            after = live[-1].end
    for n, session in enumerate(sessions):
        if open_[n]:
            with contextlib.suppress(psycopg.errors.SerializationFailure):
                session.execute("COMMIT")
    live += drain(desk, after, 5)
    check_prefixes(desk, groups(live))
    for limit in (1, 2, 7, 1000):
        polls = list(drain(desk, start, limit))
        told = groups(polls)
        check_prefixes(desk, told)
        done: set[int] = set()
        for poll in polls:
            done |= {x for group in groups([poll]) for x in group}
            end = Snapshot.parse(poll.end)
            assert {x for group in told for x in group if end.shows(x)} == done, "the end holds what was told"
        if desk.server.timed:
            assert all(len(group) == 1 for group in told)


# ── the order itself ─────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], dict[int, tuple[int, list[int]]]]:
    """Transactions that begin, take snapshots, and commit: (the commits, what each saw last)."""
    commits: list[int] = []
    active: list[int] = []
    seen: dict[int, tuple[int, list[int]]] = {}
    began = 100

    def look(xid: int) -> None:
        xmax = max(commits, default=99) + 1
        seen[xid] = (xmax, [a for a in active if a != xid and a < xmax])

    for step in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=30)):
        if step[0] == 0 and len(active) < 4 and began < 108:
            active.append(began)
            look(began)
            began += 1
        elif step[0] == 1 and active:
            look(active[step[1] % len(active)])
        elif active:
            commits.append(active.pop(step[1] % len(active)))
    return [*commits, *active], seen


@given(history=histories(), shuffle=st.randoms(use_true_random=False), jump=st.integers(-30, 130))
@settings(max_examples=300, deadline=None)
def test_the_boundaries_are_all_that_can_be_proven(history: Any, shuffle: random.Random, jump: int) -> None:
    commits, snapshots = history
    given_ = shuffle.sample(commits, len(commits))
    xids = np.array(given_, np.int64)
    hidden = pa.array([",".join(map(str, snapshots[x][1])) or None for x in given_], pa.string())
    seen = Seen.of(np.array([snapshots[x][0] for x in given_], np.int64), hidden)
    last = np.arange(len(xids))

    def sees(b: int, a: int) -> bool:
        return a < snapshots[b][0] and a not in snapshots[b][1]

    found = order(xids, seen, last, None)
    states = {frozenset(xids[found.places[:k]].tolist()) for k in [*found.starts, len(xids)]}
    proven = {
        frozenset(a)
        for k in range(len(given_) + 1)
        for a in itertools.combinations(given_, k)
        if all(sees(late, early) for late in set(given_) - set(a) for early in a)
    }
    assert states == proven
    assert states <= {frozenset(commits[:k]) for k in range(len(commits) + 1)}
    times = np.array([10 * commits.index(x) for x in given_], np.int64)
    found = order(xids, seen, last, times)
    assert [given_[found.places[k]] for k in found.starts] == commits
    if len(times):
        times[0] = jump  # the clock was wrong once
        places, starts = (part.tolist() for part in vars(order(xids, seen, last, times)).values())
        assert starts == [
            k
            for k in range(len(places))
            if k == 0
            or (
                times[places[k]] > times[places[k - 1]]
                and not any(sees(given_[early], given_[late]) for early in places[:k] for late in places[k:])
            )
        ]
