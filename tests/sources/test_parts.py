"""Parts of global transactions, at every adapter: tagged inside the transaction, told with it, forgotten with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.integrator.global_transactions import Assembly
from headwater.integrator.numbering import number
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import CaptureMissing, LifeChanged, PositionTrimmed
from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.model.source import TRANSACTIONS, Poll, Source, SourceSpec
from headwater.sources import connect
from postgres_server import PostgresServer

from .rig_postgres import PostgresRig
from .rigs import Change, Insert, Rig, SqliteRig, Update
from .world import World

ORDERS = {"id": "int", "status": "text"}


def order(id: int, status: str = "open") -> dict[str, Any]:  # noqa: A002
    return {"id": id, "status": status}


@pytest.fixture
def shop(rig: Rig) -> World:
    orders = rig.create("orders", ORDERS, key=["id"])
    return World(rig, {orders: list(ORDERS)})


def the_table(world: World) -> TableName:
    return next(iter(world.tables))


def tags(poll: Poll) -> list[tuple[str, int] | None]:
    assert poll.transactions.schema == TRANSACTIONS
    found = poll.transactions.select(["global_id", "parts"]).to_pylist()
    assert all((row["global_id"] is None) == (row["parts"] is None) for row in found)
    return [None if row["global_id"] is None else (row["global_id"], row["parts"]) for row in found]


def drained(world: World, after: Position, limit: int) -> Iterator[Poll]:
    while True:
        poll = world.poll(after, limit)
        yield poll
        after = poll.end
        if not poll.more:
            return


# ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tag_is_told_with_its_transaction(shop: World) -> None:
    orders = the_table(shop)
    shop.commit(Insert(orders, order(1)), part_of=("transfer-17", 2))
    shop.commit(Update(orders, order(1), order(1, "paid")), part_of=("ü 'quoted', \"odd\" id", 3))
    poll = shop.poll(shop.positions[0])
    assert tags(poll) == [("transfer-17", 2), ("ü 'quoted', \"odd\" id", 3)]
    told = shop.polled(poll)
    shop.rig.exact_transactions = True  # a tag marks it, whoever else does not
    assert told == shop.committed()


def test_untagged_transactions_have_no_tag(shop: World) -> None:
    shop.commit(Insert(the_table(shop), order(1)))
    poll = shop.poll(shop.positions[0])
    assert tags(poll) == [None]
    assert not poll.before


def test_tagged_and_untagged_mix(shop: World) -> None:
    orders = the_table(shop)
    for n in range(6):
        shop.commit(Insert(orders, order(n)), part_of=(f"g{n}", 2) if n % 3 == 1 else None)
    poll = shop.poll(shop.positions[0])
    assert [tag for tag in tags(poll) if tag] == [("g1", 2), ("g4", 2)]
    if shop.rig.exact_transactions:
        assert tags(poll) == [None, ("g1", 2), None, None, ("g4", 2), None]


def test_a_part_that_touched_nothing_of_interest_is_told(shop: World) -> None:
    """In a table that is not polled, in one that is not captured, in none at all."""
    notes, loose = shop.rig.create("notes", {"text": "text"}), shop.rig.create("loose", {"text": "text"})
    shop.source.install([notes])
    start = shop.source.position()
    shop.rig.transaction(Insert(notes, {"text": "a"}), part_of=("captured", 2))
    shop.rig.transaction(Insert(loose, {"text": "b"}), part_of=("loose", 2))
    shop.rig.transaction(part_of=("empty", 2))
    assert shop.source.position() != start
    poll = shop.poll(start)
    assert tags(poll) == [("captured", 2), ("loose", 2), ("empty", 2)]
    assert not any(rows.num_rows for rows in poll.changes.values())
    assert tags(shop.poll(poll.end)) == []


def test_a_part_is_told_once_however_it_is_polled(shop: World) -> None:
    orders = the_table(shop)
    after, told = shop.positions[0], []
    for n in range(5):
        shop.commit(Insert(orders, order(n)), part_of=(f"g{n}", 2) if n % 2 else None)
        poll = shop.poll(after)
        told += tags(poll)
        after = poll.end
    assert told == [None, ("g1", 2), None, ("g3", 2), None]
    for limit in 1, 2, 3, 100:
        found = [tag for poll in drained(shop, shop.positions[0], limit) for tag in tags(poll) if tag]
        assert found == [("g1", 2), ("g3", 2)]


def check_before(world: World, after: Position, poll: Poll) -> None:
    """Polled from just before a part, the source tells that part and what came after; what it held before is whole."""
    table = the_table(world)
    labels = poll.transactions.column("transaction").to_pylist()
    assert set(poll.before) == {label for label, tag in zip(labels, tags(poll), strict=True) if tag}
    told = [labels[:n] for n in range(len(labels))]
    for before in (ls for ls in told if labels[len(ls)] in poll.before):
        at = poll.before[labels[len(before)]]
        again = world.poll(at)
        assert again.transactions.column("transaction").to_pylist() == labels[len(before) :]
        assert tags(again) == tags(poll)[len(before) :]
        rows = poll.changes[table].to_pylist() if table in poll.changes else []
        early = sum(row[COUNT] for row in rows if row["__ordinal"] < len(before))
        assert world.scan(table, at).total() == world.scan(table, after).total() + early


def test_the_position_before_a_part_divides_the_poll(shop: World) -> None:
    orders = the_table(shop)
    for n in range(6):
        shop.commit(Insert(orders, order(n)), part_of=(f"g{n}", 2) if n in (0, 3, 4) else None)
    check_before(shop, shop.positions[0], shop.poll(shop.positions[0]))
    check_before(shop, shop.positions[2], shop.poll(shop.positions[2]))


@given(
    history=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8),
    limit=st.integers(1, 12),
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_of_parts(rig: Rig, history: list[tuple[int, bool]], limit: int) -> None:
    rig.reset()
    orders = rig.create("orders", ORDERS, key=["id"])
    world = World(rig, {orders: list(ORDERS)})
    wanted = []
    for n, (rows, tagged) in enumerate(history):
        if rows or tagged:
            tag = (f"g{n}", 2 + n) if tagged else None
            world.commit(*(Insert(orders, order(10 * n + m)) for m in range(rows)), part_of=tag)
            wanted.append(tag)
    found = [tag for poll in drained(world, world.positions[0], limit) for tag in tags(poll)]
    assert [tag for tag in found if tag] == [tag for tag in wanted if tag]
    if rig.exact_transactions:
        assert found == wanted
    check_before(world, world.positions[0], world.poll(world.positions[0]))


# ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_older_capture_is_polled_as_it_is_and_upgraded_in_place(shop: World) -> None:
    orders = the_table(shop)
    fresh = shop.rig.objects()
    generation = shop.source.capture().generation  # type: ignore[union-attr]  # it is installed
    shop.rig.age()
    if isinstance(shop.rig, PostgresRig):  # its older captures cannot prove what is asked of them now
        check_capture_anew(shop, fresh, generation)
        return
    shop.commit(Insert(orders, order(1)))
    assert tags(shop.poll(shop.positions[0])) == [None]
    assert shop.source.trim(shop.positions[0]) == 0
    planned = shop.source.plan_install([orders])
    assert len(planned) == (0 if shop.rig.name == "memory" else 1)
    assert shop.source.install([orders]) == planned
    assert shop.source.plan_install([orders]) == []
    assert shop.rig.objects() == fresh
    assert shop.source.capture().generation == generation  # type: ignore[union-attr]  # as above
    shop.commit(Insert(orders, order(2)), part_of=("g", 2))
    poll = shop.poll(shop.positions[0])
    assert tags(poll) == [None, ("g", 2)]
    shop.check(shop.positions[-1], {orders: [["id"]]})


def check_capture_anew(shop: World, fresh: set[str], generation: str) -> None:
    orders = the_table(shop)
    assert "older Headwater; run 'headwater setup'" in shop.source.capture().broken[orders]  # type: ignore[union-attr]  # as above
    for attempt in (
        lambda: shop.poll(shop.positions[0]),
        lambda: shop.source.identities({orders: ["id"]}),
        lambda: shop.source.check(shop.positions[0], [orders]),
        lambda: shop.source.trim(shop.positions[0]),
    ):
        with pytest.raises(CaptureMissing):
            attempt()
    planned = shop.source.plan_install([orders])
    assert len(planned) == 2
    assert shop.source.install([orders]) == planned
    assert shop.source.plan_install([orders]) == []
    assert shop.rig.objects() == fresh
    assert shop.source.capture().generation != generation  # type: ignore[union-attr]  # as above
    with pytest.raises(LifeChanged):
        shop.poll(shop.positions[0])
    start = shop.source.position()
    shop.commit(Insert(orders, order(2)), part_of=("g", 2))
    assert tags(shop.poll(start)) == [("g", 2)]


def test_trimming_forgets_tags_and_only_those_below(shop: World) -> None:
    orders = the_table(shop)
    shop.commit(Insert(orders, order(1)), part_of=("old", 2))
    shop.commit(part_of=("old and empty", 2))
    middle = shop.positions[-1]
    shop.commit(Insert(orders, order(2)), part_of=("new", 2))
    shop.source.trim(middle)
    assert tags(shop.poll(middle)) == [("new", 2)]
    with pytest.raises(PositionTrimmed):
        shop.poll(shop.positions[0])
    shop.commit(part_of=("last", 2))
    shop.source.trim(shop.positions[-1])
    assert tags(shop.poll(shop.positions[-1])) == []
    with pytest.raises(PositionTrimmed):
        shop.poll(shop.positions[-2])


def test_remove_leaves_nothing_behind(rig: Rig) -> None:
    orders = rig.create("orders", ORDERS, key=["id"])
    before = rig.objects()
    world = World(rig, {orders: list(ORDERS)})
    world.commit(Insert(orders, order(1)), part_of=("g", 2))
    world.source.remove()
    assert rig.objects() == before


@pytest.mark.parametrize(("part_of", "words"), [(("", 2), "empty"), (("g", 1), "2|two"), (("g", -3), "2|two")])
def test_a_wrong_tag_is_refused_at_the_call(shop: World, part_of: tuple[str, int], words: str) -> None:
    orders = the_table(shop)
    with pytest.raises(Exception, match=words):
        shop.rig.transaction(Insert(orders, order(1)), part_of=part_of)
    shop.commit(Insert(orders, order(2)), part_of=("g", 2))
    assert tags(shop.poll(shop.positions[0])) == [("g", 2)]


# ── a bank transfer ──────────────────────────────────────────────────────────────────────────────────────────────


class Bank:
    """Accounts at one source: their sum after each number, and what moved."""

    def __init__(self, rig: Any, name: str) -> None:
        self.rig = rig
        self.table = rig.create("accounts", {"id": "int", "balance": "int"}, key=["id"])
        self.name = SourceName(name)
        self.source: Source = connect(SourceSpec(self.name, rig.spec.url))
        self.accounts = TableName(self.name, "accounts", self.table.schema)
        rig.transaction(Insert(self.table, {"id": 1, "balance": 100}))
        self.source.install([self.accounts])
        self.at = self.source.position()

    def moved(self, old: int, new: int) -> Change:
        return Update(self.table, {"id": 1, "balance": old}, {"id": 1, "balance": new})

    def poll(self) -> Poll:
        poll = self.source.poll(self.at, {self.accounts: ["id", "balance"]}, 100)
        self.at = poll.end
        return poll


@pytest.fixture
def banks(postgres: PostgresServer, tmp_path: Any) -> Iterator[tuple[Bank, Bank]]:
    rig = PostgresRig(postgres.create_database("bank_of_parts"))
    here, there = Bank(rig, "giro"), Bank(SqliteRig(tmp_path / "savings.db", "wal"), "savings")
    yield here, there
    here.source.close()
    rig.close()
    postgres.drop_database("bank_of_parts")


def sums(polls: dict[SourceName, Poll], alone: frozenset[str]) -> list[int]:
    """All money there is, after each number."""
    numbered = number(Seq(0), {}, polls, alone)
    moved = [0] * numbered.hi
    for rows in numbered.changes.values():
        for row in rows.to_pylist():
            moved[row[SEQ] - 1] += row["balance"] * row[COUNT]
    return [200 + sum(moved[: n + 1]) for n in range(numbered.hi)]


@pytest.mark.postgres
def test_a_transfer_between_postgres_and_sqlite_is_one_state(banks: tuple[Bank, Bank]) -> None:
    """Money goes from one bank to the other: tagged, no state ever shows it twice or not at all."""
    giro, savings = banks
    giro.rig.transaction(giro.moved(100, 70), part_of=("transfer-17", 2))
    assembly = Assembly(patience=30.0)
    ready = assembly.ready({giro.name: giro.poll()}, 0.0)
    assert ready.polls == {}, "the money has left, and nobody sees it"
    savings.rig.transaction(savings.moved(100, 130), part_of=("transfer-17", 2))
    savings.rig.transaction(savings.moved(130, 125), part_of=("transfer-18", 2))
    giro.rig.transaction(giro.moved(70, 75), part_of=("transfer-18", 2))
    ready = assembly.ready({**ready.held, savings.name: savings.poll()}, 1.0)
    assert sums(dict(ready.polls), ready.alone) == [200]
    ready = assembly.ready({**ready.held, giro.name: giro.poll()}, 2.0)
    assert (ready.held, ready.reports) == ({}, ())
    assert sums(dict(ready.polls), ready.alone) == [200]


@pytest.mark.postgres
def test_a_transfer_whose_other_part_never_comes_is_said_so(banks: tuple[Bank, Bank]) -> None:
    giro, _ = banks
    giro.rig.transaction(giro.moved(100, 70), part_of=("transfer-17", 2))
    assembly = Assembly(patience=30.0)
    ready = assembly.ready({giro.name: giro.poll()}, 0.0)
    ready = assembly.ready(ready.held, 30.0)
    assert [r.text for r in ready.reports] == [
        "transfer-17: 1 of 2 parts came within 30 s (giro); its parts are numbered separately"
    ]
    assert sums(dict(ready.polls), ready.alone) == [170]


# ── what only PostgreSQL can do ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[tuple[psycopg.Connection, psycopg.Connection, Source, TableName]]:
    url = postgres.create_database("parts")
    table = TableName(SourceName("src"), "t", "public")
    source = connect(SourceSpec(SourceName("src"), url))
    with psycopg.connect(url, autocommit=True) as one, psycopg.connect(url, autocommit=True) as two:
        one.execute("CREATE TABLE t (id int)")
        source.install([table])
        yield one, two, source, table
    source.close()
    postgres.drop_database("parts")


Server = tuple[psycopg.Connection, psycopg.Connection, Source, TableName]


@pytest.mark.postgres
def test_a_transaction_is_part_of_one_only(server: Server) -> None:
    one, _, source, table = server
    start = source.position()
    with one.transaction():
        one.execute("SELECT headwater.part_of('g', 2)")
        one.execute("INSERT INTO t VALUES (1)")
        one.execute("SELECT headwater.part_of('g', 2)")  # said twice, meant once
    for other in ("'h', 2", "'g', 3"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"a part of 'g' \(2 parts\) already"):
            one.execute(f"BEGIN; SELECT headwater.part_of('g', 2); SELECT headwater.part_of({other})")
        one.execute("ROLLBACK")
    for wrong in ("NULL, 2", "'g', NULL", "'', 2", "'g', 1"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"headwater\.part_of"):
            one.execute(f"SELECT headwater.part_of({wrong})")
    assert tags(source.poll(start, {table: ["id"]}, 10)) == [("g", 2)]


@pytest.mark.postgres
def test_what_was_rolled_back_was_never_tagged(server: Server) -> None:
    one, _, source, table = server
    start = source.position()
    one.execute("BEGIN; SELECT headwater.part_of('never', 2); INSERT INTO t VALUES (1); ROLLBACK")
    one.execute("BEGIN; SAVEPOINT s; SELECT headwater.part_of('not this', 2); ROLLBACK TO s; INSERT INTO t VALUES (2)")
    one.execute("SAVEPOINT s; SELECT headwater.part_of('this', 2); RELEASE s; COMMIT")
    assert tags(source.poll(start, {table: ["id"]}, 10)) == [("this", 2)]


@pytest.mark.postgres
def test_any_writer_may_tag_and_read_nothing(server: Server) -> None:
    one, _, source, table = server
    start = source.position()
    one.execute("DROP ROLE IF EXISTS teller; CREATE ROLE teller; GRANT ALL ON t TO teller; SET ROLE teller")
    one.execute("SET search_path = pg_temp")
    one.execute("BEGIN; SELECT headwater.part_of('g', 2); INSERT INTO public.t VALUES (1); COMMIT")
    for forbidden in (
        "SELECT * FROM headwater.parts",
        "INSERT INTO headwater.parts (global_id, parts) VALUES ('x', 2)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            one.execute(forbidden)
    one.execute("RESET ROLE; DROP OWNED BY teller; DROP ROLE teller")
    assert tags(source.poll(start, {table: ["id"]}, 10)) == [("g", 2)]


@pytest.mark.postgres
def test_the_position_before_a_part_holds_though_commits_are_out_of_id_order(server: Server) -> None:
    one, two, source, table = server
    start = source.position()
    one.execute("BEGIN; SELECT headwater.part_of('old', 2)")
    two.execute("INSERT INTO t VALUES (1)")
    two.execute("BEGIN; SELECT headwater.part_of('young', 2); INSERT INTO t VALUES (2); COMMIT")
    one.execute("INSERT INTO t VALUES (3); COMMIT")
    two.execute("INSERT INTO t VALUES (4)")
    poll = source.poll(start, {table: ["id"]}, 100)
    labels = poll.transactions.column("transaction").to_pylist()
    assert tags(poll) == [None, ("young", 2), ("old", 2), None]
    assert int(labels[2]) < int(labels[0])
    for n in 1, 2:
        again = source.poll(poll.before[labels[n]], {table: ["id"]}, 100)
        assert again.transactions.column("transaction").to_pylist() == labels[n:]
        assert sorted(again.changes[table].column("id").to_pylist()) == sorted([1, 2, 3, 4][n:])
        rest = source.poll(poll.before[labels[n]], {table: ["id"]}, 1)
        assert rest.transactions.column("transaction").to_pylist() == labels[n : n + 1]


@pytest.mark.postgres
def test_trim_leaves_no_tag_and_an_idle_source_alone(server: Server) -> None:
    one, _, source, _ = server
    one.execute("SELECT headwater.part_of('g', 2)")
    source.trim(source.position())
    assert one.execute("SELECT count(*) FROM headwater.parts").fetchone() == (0,)
    idle = source.position()
    source.trim(idle)
    assert source.position() == idle


# ── what only SQLite does ────────────────────────────────────────────────────────────────────────────────────────


def test_sqlite_unmarked_changes_after_a_polled_part_do_not_repeat_its_tag(tmp_path: Any) -> None:
    rig = SqliteRig(tmp_path / "parts.db", "wal", marked=False)
    orders = rig.create("orders", ORDERS, key=["id"])
    world = World(rig, {orders: list(ORDERS)})
    world.commit(Insert(orders, order(1)), part_of=("g", 2))
    first = world.poll(world.positions[0])
    world.commit(Insert(orders, order(2)))
    assert (tags(first), tags(world.poll(first.end))) == ([("g", 2)], [None])


def test_sqlite_what_was_rolled_back_was_never_tagged(tmp_path: Any) -> None:
    rig = SqliteRig(tmp_path / "parts.db", "wal")
    orders = rig.create("orders", ORDERS, key=["id"])
    world = World(rig, {orders: list(ORDERS)})
    rig.run("BEGIN", "INSERT INTO _headwater_transaction(tag, parts) VALUES ('never', 2)", "ROLLBACK")
    rig.run("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")
    assert tags(world.poll(world.positions[0])) == []


@pytest.mark.parametrize(
    "wrong", ["(tag, parts) VALUES (NULL, 2)", "(tag) VALUES ('g')", "(tag, parts) VALUES ('g', 'two')"]
)
def test_sqlite_refuses_half_a_tag(tmp_path: Any, wrong: str) -> None:
    rig = SqliteRig(tmp_path / "parts.db", "wal")
    World(rig, {rig.create("orders", ORDERS, key=["id"]): list(ORDERS)})
    with pytest.raises(Exception, match="headwater: "):
        rig.run(f"INSERT INTO _headwater_transaction{wrong}")
