"""The one suite that every source adapter passes: three questions, one promise, on real databases.

The oracle is a plain fold of what was written (`world.py`). Where an adapter cannot keep a part of the contract its
rig says so as a value (`exact_transactions`), and the suite then asks for what it can keep.
"""

from __future__ import annotations

import datetime as dt
import pickle
import random
import threading
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.model.conditions import Condition, meets
from headwater.model.errors import CaptureMissing, ConfigError, PositionTrimmed, UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, ORDINAL, TRANSACTIONS, Question, SourceSpec
from headwater.sources import connect

from .rigs import Change, Delete, Insert, Rig, Update
from .world import World, added, fold, rows_of

ORDERS = {"id": "int", "customer": "int", "status": "text", "qty": "int"}
NOTES = {"customer": "int", "text": "text"}


@pytest.fixture
def shop(rig: Rig) -> World:
    """A table with a key, and one without any."""
    orders = rig.create("orders", ORDERS, key=["id"], indexes=[["customer"]])
    notes = rig.create("notes", NOTES)
    return World(rig, {orders: list(ORDERS), notes: list(NOTES)})


def order(id: int, customer: int | None = 1, status: str | None = "open", qty: int | None = 1) -> dict[str, Any]:  # noqa: A002
    return {"id": id, "customer": customer, "status": status, "qty": qty}


def note(customer: int | None, text: str | None) -> dict[str, Any]:
    return {"customer": customer, "text": text}


def names(world: World) -> tuple[TableName, TableName]:
    orders, notes = world.tables
    return orders, notes


# ── polling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_poll_tells_whole_transactions_in_order(shop: World) -> None:
    orders, notes = names(shop)
    start = shop.positions[0]
    shop.commit(Insert(orders, order(1)), Insert(orders, order(2)), Insert(notes, note(1, "hello")))
    shop.commit(Update(orders, order(1), order(1, status="paid")))
    shop.commit(Delete(orders, order(2)), Delete(notes, note(1, "hello")), Insert(orders, order(3)))
    poll = shop.poll(start)
    assert shop.polled(poll) == shop.committed()
    assert poll.transactions.schema == TRANSACTIONS
    labels = poll.transactions.column("transaction").to_pylist()
    assert len(set(labels)) == len(labels)
    for at in poll.transactions.column("committed_at").to_pylist():
        assert abs(at - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
    assert poll.end == shop.positions[-1]
    assert not poll.more


def test_a_poll_after_each_transaction_tells_exactly_it(shop: World) -> None:
    orders, notes = names(shop)
    after = shop.positions[0]
    for n in range(1, 6):
        shop.commit(Insert(orders, order(n)), Insert(notes, note(n, None)))
        poll = shop.poll(after)
        assert shop.polled(poll) == shop.committed(n - 1, n)
        after = poll.end
    assert shop.polled(shop.poll(after)) == []


def test_nothing_new_is_an_empty_poll(shop: World) -> None:
    poll = shop.poll(shop.positions[0])
    assert poll.transactions.num_rows == 0
    assert poll.transactions.schema == TRANSACTIONS
    assert not any(rows.num_rows for rows in poll.changes.values())
    assert not poll.more


def test_polls_name_tables_and_columns(shop: World) -> None:
    """Transactions that touched none of the named tables are left out, and the end covers them."""
    orders, notes = names(shop)
    start = shop.positions[0]
    shop.commit(Insert(notes, note(1, "a")))
    shop.commit(Insert(orders, order(1, qty=5)), Insert(notes, note(2, "b")))
    shop.commit(Insert(notes, note(3, "c")))
    poll = shop.source.poll(start, {orders: ["qty", "id"]}, 1000)
    assert poll.transactions.num_rows == 1
    assert set(poll.changes) == {orders}
    rows = poll.changes[orders]
    assert set(rows.column_names) == {"qty", "id", COUNT, ORDINAL}
    assert rows.select(["qty", "id", COUNT, ORDINAL]).to_pylist() == [{"qty": 5, "id": 1, COUNT: 1, ORDINAL: 0}]
    assert poll.end == shop.positions[-1]
    assert shop.source.poll(poll.end, {orders: ["id"]}, 1000).transactions.num_rows == 0


def test_a_limit_cuts_between_transactions(shop: World) -> None:
    orders, _ = names(shop)
    start, told, rounds = shop.positions[0], [], 0
    for n in range(10):
        shop.commit(*(Insert(orders, order(10 * n + m)) for m in range(4)))
    after, more = start, True
    while more:
        poll = shop.poll(after, limit=9)
        found = shop.polled(poll)
        assert found, "a poll that says more must have moved on"
        if shop.rig.exact_transactions:
            assert len(found) <= 3
        told += found
        after, more, rounds = poll.end, poll.more, rounds + 1
    assert told == shop.committed()
    assert after == shop.positions[-1]
    if shop.rig.exact_transactions:
        assert rounds >= 4


def test_a_transaction_larger_than_the_limit_comes_whole(shop: World) -> None:
    orders, _ = names(shop)
    shop.commit(*(Insert(orders, order(n)) for n in range(50)))
    assert shop.polled(shop.poll(shop.positions[0], limit=3)) == shop.committed()


def test_waiting_is_the_lag(shop: World) -> None:
    orders, _ = names(shop)
    start = shop.positions[0]
    assert shop.source.waiting(start) == 0
    for n in range(5):
        shop.commit(Insert(orders, order(n)))
    assert 1 <= shop.source.waiting(start) <= 50
    assert shop.source.waiting(shop.positions[-1]) == 0


# ── as of ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_earlier_state_is_answered_exactly_while_changes_pile_up(shop: World) -> None:
    orders, notes = names(shop)
    asks = {orders: [["id"], ["customer"], ["customer", "status"]], notes: [["customer"], ["text"]]}
    shop.commit(*(Insert(orders, order(n, n % 3)) for n in range(12)))
    shop.commit(Insert(notes, note(1, "twice")), Insert(notes, note(1, "twice")), Insert(notes, note(None, None)))
    shop.commit(Update(orders, order(3, 0), order(3, 7, "paid")), Delete(orders, order(4, 1)))
    shop.commit(Delete(notes, note(1, "twice")))
    shop.commit(Insert(orders, order(4, 1)), Update(orders, order(5, 2), order(105, 2)))  # a key moves
    shop.commit(Delete(notes, note(1, "twice")), Delete(notes, note(None, None)))
    shop.commit(Update(orders, order(6, 0), order(6, None, None, None)), Insert(notes, note(1, "twice")))
    for at in shop.positions:
        shop.check(at, asks, target_rows=4)
    poll = shop.poll(shop.positions[0])
    assert added(*(t.get(orders, Counter()) for t in shop.polled(poll))) == shop.states[-1][orders]


def test_rows_from_before_capture_are_part_of_every_state(rig: Rig) -> None:
    orders = rig.create("orders", ORDERS, key=["id"])
    before = [order(n, n % 2) for n in range(20)]
    rig.transaction(*(Insert(orders, row) for row in before))
    world = World(rig, {orders: list(ORDERS)})
    world.states = [{orders: Counter(tuple(row.values()) for row in before)}]
    world.commit(Delete(orders, before[0]))
    world.commit(Update(orders, before[1], order(1, 99)))
    for at in world.positions:
        world.check(at, {orders: [["id"], ["customer"]]})


def test_answers_carry_the_ordinal_of_their_key(shop: World) -> None:
    orders, _ = names(shop)
    at = shop.commit(*(Insert(orders, order(n, n % 5)) for n in range(50)))
    keys = list(range(9, -1, -1))
    random.Random(1).shuffle(keys)
    question = Question(orders, ("customer",), pa.table({"c": pa.array(keys, pa.int64())}), ("id", "customer"))
    batches = list(shop.source.ask(question, at))
    for batch in batches:
        assert batch.schema.names == [ORDINAL, "id", "customer", COUNT]
        assert batch.schema.field(ORDINAL).type == pa.int64()
        for row in batch.to_pylist():
            assert keys[row[ORDINAL]] == row["customer"]
    assert sum(batch.num_rows for batch in batches) == 50


def test_no_keys_no_answer(shop: World) -> None:
    orders, _ = names(shop)
    at = shop.commit(Insert(orders, order(1)))
    question = Question(orders, ("id",), pa.table({"id": pa.array([], pa.int64())}), ("id",))
    assert not any(batch.num_rows for batch in shop.source.ask(question, at))


def test_an_empty_table_answers_nothing(shop: World) -> None:
    shop.check(shop.positions[0], {})
    orders, _ = names(shop)
    assert shop.ask(orders, ["id"], [(1,)], shop.positions[0]) == {(1,): Counter()}


def test_many_keys_many_rows(shop: World) -> None:
    orders, _ = names(shop)
    rows = [order(n, n % 1000, "open" if n % 2 else "paid", n) for n in range(5000)]
    first = shop.commit(*(Insert(orders, row) for row in rows))
    shop.commit(*(Delete(orders, row) for row in rows[:500]))
    keys = [(n,) for n in range(1200)]
    assert shop.ask(orders, ["customer"], keys, first) == shop.expected(orders, ["customer"], keys, first)
    assert shop.scan(orders, first, target_rows=700) == shop.state(orders, first)


def test_an_answer_half_read_disturbs_nobody(shop: World) -> None:
    orders, _ = names(shop)
    first = shop.commit(*(Insert(orders, order(n)) for n in range(100)))
    (chunk,) = shop.source.chunks(orders, 1_000_000)
    half = shop.source.scan(chunk, ["id"], first)
    head = next(half)
    shop.commit(*(Delete(orders, order(n)) for n in range(100)))
    assert shop.scan(orders, first) == shop.state(orders, first)
    assert shop.scan(orders, shop.positions[-1]) == Counter()
    assert added(fold([head], ["id"]), fold(half, ["id"])) == Counter({(n,): 1 for n in range(100)})
    abandoned = shop.source.scan(chunk, ["id"], first)
    next(abandoned, None)
    del abandoned
    shop.commit(Insert(orders, order(1)))
    assert shop.scan(orders, shop.positions[-1]) == shop.states[-1][orders]


def test_chunks_hold_every_row_exactly_once_whatever_comes_later(shop: World) -> None:
    orders, _ = names(shop)
    first = shop.commit(*(Insert(orders, order(n)) for n in range(100, 200)))
    chunks = shop.source.chunks(orders, 10)
    assert [c.number for c in chunks] == list(range(len(chunks)))
    last = shop.commit(
        *(Insert(orders, order(n)) for n in (*range(-5, 5), *range(1000, 1010))),
        *(Update(orders, order(n), order(n + 10_000)) for n in range(100, 120)),
        *(Delete(orders, order(n)) for n in range(150, 160)),
    )
    for at in (first, last):
        parts = [fold(shop.source.scan(chunk, list(ORDERS), at), list(ORDERS)) for chunk in chunks]
        assert added(*parts) == shop.state(orders, at)
        assert all(n == 1 for part in parts for n in part.values())


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

TYPES: dict[str, list[Any]] = {
    "int": [0, -1, 2**63 - 1, -(2**63), 2**53 + 1],
    "float": [0.0, 1.5, -2.5e300, 5.0, 0.1],
    "decimal(10,2)": [Decimal("0.00"), Decimal("1.10"), Decimal("-99999999.99"), Decimal("5.00"), Decimal("0.07")],
    "text": ["", "a", "A", "ß 漢字 😀", 'it\'s "quoted"; -- \\'],
    "bool": [True, False],
    "date": [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "time": ["00:00:00", "23:59:59"],
    "timestamp": [dt.datetime(2024, 2, 29, 12, 34, 56), dt.datetime(1969, 12, 31, 23, 59, 59, 123456)],
    "timestamptz": [
        dt.datetime(2024, 2, 29, 12, 34, 56, tzinfo=dt.UTC),
        dt.datetime(1999, 12, 31, 23, 59, 59, 1, tzinfo=dt.UTC),
    ],
    "bytes": [b"", b"\x00\xff\x80", b"text"],
    "uuid": ["6f2b9d0e-7a51-4c3c-9f30-1b2f6a5d8c11", "00000000-0000-0000-0000-000000000000"],
    "json": ['{"a": [1, 2]}', '"text"', "null"],
}
ARROW = {
    "int": pa.int64(),
    "float": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "text": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytes": pa.binary(),
}


@pytest.mark.parametrize("logical", TYPES)
def test_every_type_survives_every_question(rig: Rig, logical: str) -> None:
    table = rig.create("t", {"id": "int", "v": logical}, key=["id"], indexes=[] if logical == "json" else [["v"]])
    world = World(rig, {table: ["id", "v"]})
    described = world.source.describe()[table].column("v")
    assert described is not None
    if logical in ARROW:
        assert described.type == ARROW[logical]
    values = [*TYPES[logical], None]
    rows = [{"id": n, "v": value} for n, value in enumerate(values)]
    world.commit(*(Insert(table, row) for row in rows))
    shifted = [{"id": n, "v": value} for n, value in enumerate([*values[1:], values[0]])]
    world.commit(*(Update(table, old, new) for old, new in zip(rows, shifted, strict=True)))
    world.commit(*(Delete(table, row) for row in shifted))
    asks = {table: [["id"], *([] if logical in ("json", "time") else [["v"], ["v", "id"]])]}
    for at in world.positions:
        world.check(at, asks)
    poll = world.poll(world.positions[0])
    assert world.polled(poll) == world.committed()
    if logical in ARROW:
        assert all(rows.schema.field("v").type == ARROW[logical] for rows in poll.changes.values())


def test_all_columns_null_first_and_full_later(rig: Rig) -> None:
    columns = {"id": "int", **{f"c{n}": logical for n, logical in enumerate(TYPES)}}
    table = rig.create("wide", columns, key=["id"])
    world = World(rig, {table: list(columns)})
    empty = [dict.fromkeys(columns) | {"id": n} for n in range(100)]
    full = [{"id": n, **{f"c{m}": v[n % len(v)] for m, v in enumerate(TYPES.values())}} for n in range(100, 106)]
    world.commit(*(Insert(table, row) for row in empty))
    world.commit(*(Insert(table, row) for row in full))
    world.commit(*(Delete(table, row) for row in empty[:50]))
    for at in world.positions:
        world.check(at, {table: [["id"]]})
    assert world.polled(world.poll(world.positions[0])) == world.committed()


def test_names_of_every_kind(rig: Rig) -> None:
    columns = {"select": "int", 'a "b" c': "text", "naïve.dotted": "int", "Ünï ✓": "text", "'); DROP": "int"}
    table = rig.create('the "odd".table — ✓', columns, key=["select"], indexes=[['a "b" c'], ["naïve.dotted"]])
    other = rig.create("order", {"group": "int", "index": "text"})
    world = World(rig, {table: list(columns), other: ["group", "index"]})
    rows = rows_of(list(columns), [1, "x", 5, "y", 7], [2, None, None, None, None], [3, "x", 6, "Y", 7])
    world.commit(*(Insert(table, row) for row in rows), Insert(other, {"group": 1, "index": "i"}))
    world.commit(Update(table, rows[0], rows[0] | {'a "b" c': "z"}), Delete(other, {"group": 1, "index": "i"}))
    for at in world.positions:
        world.check(at, {table: [["select"], ['a "b" c'], ["naïve.dotted", "Ünï ✓"]], other: [["group", "index"]]})
    assert world.polled(world.poll(world.positions[0])) == world.committed()
    assert [c.name for c in world.source.describe()[table].columns] == list(columns)


def test_composite_and_missing_keys(rig: Rig) -> None:
    lines = rig.create("lines", {"o": "int", "n": "int", "what": "text"}, key=["o", "n"], unique=[["what", "o"]])
    heap = rig.create("heap", {"a": "int", "b": "text"})
    world = World(rig, {lines: ["o", "n", "what"], heap: ["a", "b"]})
    described = world.source.describe()
    assert described[lines].key == ("o", "n")
    assert ("o", "n") in described[lines].indexes
    assert described[heap].key == ()
    rows = rows_of(["o", "n", "what"], *((o, n, f"{o}/{n}") for o in range(4) for n in range(4)))
    same = {"a": 1, "b": None}
    world.commit(*(Insert(lines, row) for row in rows), Insert(heap, same), Insert(heap, same), Insert(heap, same))
    world.commit(Delete(lines, rows[5]), Update(heap, same, {"a": None, "b": "x"}), Delete(heap, same))
    for at in world.positions:
        world.check(at, {lines: [["o"], ["o", "n"], ["n"], ["what", "o"]], heap: [["a"], ["b"]]})


# ── conditions ───────────────────────────────────────────────────────────────────────────────────────────────────

CONDITIONS: list[list[Condition]] = [
    [Condition("n", "=", 2)],
    [Condition("n", "<>", 2)],
    [Condition("n", "<", 2), Condition("n", ">=", -1)],
    [Condition("n", ">", 2**53)],
    [Condition("n", "in", (1, 2, 2**53 + 1))],
    [Condition("n", "is null")],
    [Condition("n", "is not null")],
    [Condition("s", "=", "a")],
    [Condition("s", "<>", "a")],
    [Condition("s", "in", ("a", "it's", "漢"))],
    [Condition("s", "=", "A"), Condition("n", "<=", 5)],
    [Condition("d", "=", Decimal("1.10"))],
    [Condition("d", ">", Decimal("1.10"))],
    [Condition("d", "in", (Decimal("5.00"), Decimal("0.07")))],
    [Condition("b", "=", True)],
    [Condition("b", "<>", True)],
    [Condition("day", "<", dt.date(2024, 1, 1))],
    [Condition("day", "=", dt.date(2024, 2, 29))],
    [Condition("at", ">=", dt.datetime(2024, 2, 29, 12, 34, 56))],
    [Condition("at", "=", dt.datetime(2024, 2, 29, 12, 34, 56)), Condition("s", "is not null")],
]


def test_conditions_mean_what_they_mean_in_arrow(rig: Rig) -> None:
    columns = {
        "id": "int",
        "n": "int",
        "s": "text",
        "d": "decimal(10,2)",
        "b": "bool",
        "day": "date",
        "at": "timestamp",
    }
    table = rig.create("t", columns, key=["id"], indexes=[["n"], ["s"]])
    world = World(rig, {table: list(columns)})
    pool: dict[str, list[Any]] = {
        "n": [None, 1, 2, -5, 2**53 + 1, 2**53],
        "s": [None, "a", "A", "it's", "漢", "", "a "],
        "d": [None, Decimal("1.10"), Decimal("5.00"), Decimal("-3.14"), Decimal("0.07")],
        "b": [None, True, False],
        "day": [None, dt.date(2024, 2, 29), dt.date(1999, 1, 1)],
        "at": [None, dt.datetime(2024, 2, 29, 12, 34, 56), dt.datetime(2024, 2, 29, 12, 34, 56, 1)],
    }
    rng = random.Random(7)
    rows = [{"id": n, **{c: rng.choice(v) for c, v in pool.items()}} for n in range(120)]
    world.commit(*(Insert(table, row) for row in rows))
    changed = [row | {c: rng.choice(v) for c, v in pool.items()} for row in rows[:40]]
    world.commit(*(Update(table, old, new) for old, new in zip(rows, changed, strict=False)))
    world.commit(*(Delete(table, row) for row in rows[60:80]))
    schema = pa.schema([(c.name, c.type) for c in world.source.describe()[table].columns])
    keys = [(n,) for n in range(120)]
    for at in world.positions[1:]:
        state = [dict(zip(columns, row, strict=True)) for row in world.state(table, at)]
        for conditions in CONDITIONS:
            kept = meets(pa.Table.from_pylist(state, schema=schema), conditions)
            wanted = Counter(tuple(row.values()) for row in kept.to_pylist())
            assert world.scan(table, at, conditions=conditions) == wanted, f"scan {conditions}"
            asked = world.ask(table, ["id"], keys, at, conditions)
            assert added(*asked.values()) == wanted, f"ask {conditions}"
        few = [Condition("n", "=", 2), Condition("s", "<>", "a")]
        kept = meets(pa.Table.from_pylist(state, schema=schema), few)
        assert world.scan(table, at, ["id"], few) == Counter((n,) for n in kept.column("id").to_pylist())


def test_text_is_equal_by_code_points_only(rig: Rig) -> None:
    table = rig.create("t", {"s": "text"}, indexes=[["s"]])
    world = World(rig, {table: ["s"]})
    texts = ["a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "İ", "i", ""]
    world.commit(*(Insert(table, {"s": s}) for s in texts))
    at = world.positions[-1]
    assert world.ask(table, ["s"], [(s,) for s in texts], at) == {(s,): Counter({(s,): 1}) for s in texts}
    for s in texts:
        assert world.scan(table, at, conditions=[Condition("s", "=", s)]) == Counter({(s,): 1})


# ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_capture_comes_and_goes_without_a_trace(rig: Rig) -> None:
    orders = rig.create("orders", ORDERS, key=["id"])
    notes = rig.create("notes", NOTES)
    rig.transaction(Insert(orders, order(1)))
    before = rig.objects()
    source = rig.source()
    assert source.capture() is None
    assert source.remove() == []
    planned = source.plan_install([orders])
    assert planned
    assert rig.objects() == before
    assert source.install([orders])
    assert source.plan_install([orders]) == []
    assert rig.objects() != before
    installed = rig.objects()
    capture = source.capture()
    assert capture is not None
    assert capture.tables == {orders}
    assert not capture.broken
    source.install([orders])
    assert rig.objects() == installed
    source.install([orders, notes])
    again = source.capture()
    assert again is not None
    assert again.tables == {orders, notes}
    assert again.generation == capture.generation
    assert set(source.describe()) == {orders, notes}, "capture's own tables are not the user's"
    assert source.remove()
    assert rig.objects() == before
    assert source.remove() == []
    assert source.capture() is None
    source.install([orders])
    anew = source.capture()
    assert anew is not None
    assert anew.generation != capture.generation


def test_without_capture_there_is_no_answer(rig: Rig) -> None:
    orders = rig.create("orders", ORDERS, key=["id"])
    notes = rig.create("notes", NOTES)
    source = rig.source()
    source.install([orders])
    at = source.position()
    with pytest.raises(CaptureMissing):
        source.poll(at, {notes: ["text"]}, 10)
    (chunk,) = source.chunks(notes, 10)
    with pytest.raises(CaptureMissing):
        list(source.scan(chunk, ["text"], at))
    source.remove()
    (chunk,) = source.chunks(orders, 10)
    with pytest.raises(CaptureMissing):
        list(source.scan(chunk, ["id"], at))
    with pytest.raises(CaptureMissing):
        source.poll(at, {orders: ["id"]}, 10)


def test_a_table_added_later_answers_from_then_on(shop: World) -> None:
    orders, _ = names(shop)
    early = shop.commit(Insert(orders, order(1)))
    late = shop.rig.create("late", {"id": "int", "x": "text"}, key=["id"])
    shop.rig.transaction(Insert(late, {"id": 1, "x": "before"}))
    shop.source.install([late])
    shop.tables[late] = ["id", "x"]
    # what came before its capture is in every state it has; installing need not move the position
    shop.states = [state | {late: Counter({(1, "before"): 1})} for state in shop.states]
    first = shop.source.position()
    if first not in shop.positions:
        shop.positions.append(first)
        shop.states.append(shop.states[-1])
        shop.transactions.append(())
    shop.commit(Insert(late, {"id": 2, "x": "after"}), Insert(orders, order(2)))
    assert shop.polled(shop.poll(first)) == shop.committed(len(shop.transactions) - 1)
    for at in (first, shop.positions[-1]):
        shop.check(at, {late: [["id"]], orders: [["id"]]})
    assert shop.scan(orders, early) == shop.state(orders, early)


def test_names_resolve_exactly_or_whatever_the_case(rig: Rig) -> None:
    orders = rig.create("orders", ORDERS, key=["id"])
    source = rig.source()
    assert source.resolve("", "orders") == orders
    assert source.resolve(orders.schema, "orders") == orders
    assert source.resolve("", "ORDERS") in (orders, None)
    assert source.resolve("", "nowhere") is None
    assert source.resolve("no such schema", "orders") is None


def test_unknown_tables_are_named(rig: Rig) -> None:
    orders = rig.create("orders", ORDERS, key=["id"])
    missing = TableName(orders.source, "ordres", orders.schema)
    with pytest.raises(UnknownName, match="ordres"):
        rig.source().plan_install([missing])
    with pytest.raises(UnknownName, match="ordres"):
        rig.source().install([missing])


# ── trimming ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_trimming_forgets_exactly_what_was_asked(shop: World) -> None:
    orders, notes = names(shop)
    for n in range(8):
        shop.commit(Insert(orders, order(n)), Insert(notes, note(n, "x")))
    middle = shop.positions[4]
    assert shop.source.trim(middle) > 0
    for at in shop.positions[4:]:
        shop.check(at, {orders: [["id"]]})
    assert shop.polled(shop.poll(middle)) == shop.committed(4)
    for at in shop.positions[:4]:
        (chunk, *_) = shop.source.chunks(orders, 1000)
        with pytest.raises(PositionTrimmed):
            list(shop.source.scan(chunk, ["id"], at))
        with pytest.raises(PositionTrimmed):
            shop.ask(orders, ["id"], [(1,)], at)
        with pytest.raises(PositionTrimmed):
            shop.poll(at)
    assert shop.source.trim(middle) == 0
    assert shop.source.trim(shop.positions[1]) == 0
    shop.source.trim(shop.positions[-1])
    now = shop.positions[-1]
    assert shop.polled(shop.poll(now)) == [], "trimming everything loses nothing after it, and invents nothing"
    shop.check(now, {orders: [["id"]]})
    shop.commit(Insert(orders, order(100)))
    assert shop.positions[-1] != now
    assert shop.polled(shop.poll(now)) == shop.committed(8)
    shop.check(now, {orders: [["id"]]})
    shop.check(shop.positions[-1], {orders: [["id"]]})


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_readers_see_real_states_while_writers_write(rig: Rig) -> None:
    """Money moves between accounts, and every move is written down. At every position the total is the same, the
    number of moves fits, and what a position answered once it answers again at the end."""
    accounts = rig.create("accounts", {"id": "int", "balance": "int", "moves": "int"}, key=["id"])
    moves = rig.create("moves", {"id": "int", "amount": "int"}, key=["id"])
    count, writers, rounds = 12, 3, 15
    for n in range(count):
        rig.transaction(Insert(accounts, {"id": n, "balance": 100, "moves": 0}))
    source = rig.source()
    source.install([accounts, moves])
    start = source.position()
    tables = {accounts: ["id", "balance", "moves"], moves: ["id", "amount"]}
    begun = {n: {"id": n, "balance": 100, "moves": 0} for n in range(count)}
    done, failures = threading.Event(), list[BaseException]()

    def write(writer: int) -> None:
        """Each writer has accounts of its own: rows are changed by their full value."""
        rng = random.Random(writer)
        mine = {n: dict(begun[n]) for n in range(writer, count, writers)}
        for number in range(rounds):
            a, b = rng.sample(sorted(mine), 2)
            amount = rng.randint(1, 50)
            new_a = mine[a] | {"balance": mine[a]["balance"] - amount, "moves": mine[a]["moves"] + 1}
            new_b = mine[b] | {"balance": mine[b]["balance"] + amount}
            change: list[Change] = [
                Update(accounts, mine[a], new_a),
                Insert(moves, {"id": writer * 1000 + number, "amount": amount}),
                Update(accounts, mine[b], new_b),
            ]
            rig.transaction(*change)
            mine[a], mine[b] = new_a, new_b

    def state(reader: Any, table: TableName, at: Position) -> Any:
        return added(*(fold(reader.scan(c, tables[table], at), tables[table]) for c in reader.chunks(table, 5)))

    seen: list[tuple[Position, Any, Any]] = []

    def read() -> None:
        reader = rig.source()
        while not done.is_set():
            at = reader.position()
            held, moved = state(reader, accounts, at), state(reader, moves, at)
            assert sum(balance for _, balance, _ in held) == 100 * count, "a torn state"
            assert sum(m for _, _, m in held) == len(moved), "two tables at one position disagree"
            keys = pa.table({"id": pa.array(range(count), pa.int64())})
            asked = fold(reader.ask(Question(accounts, ("id",), keys, tuple(tables[accounts])), at), tables[accounts])
            assert asked == held, "ask and scan at one position disagree"
            seen.append((at, held, moved))
        reader.close()

    def guarded(work: Any, *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    readers = [guarded(read) for _ in range(2)]
    for thread in [guarded(write, writer) for writer in range(writers)]:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not failures, failures
    assert seen
    for at, held, moved in seen[:: max(1, len(seen) // 10)]:
        assert (state(source, accounts, at), state(source, moves, at)) == (held, moved), "a position changed its answer"

    balances, written = Counter({tuple(row.values()): 1 for row in begun.values()}), Counter[Any]()
    after, transactions, more = start, 0, True
    while more:
        poll = source.poll(after, tables, limit=10)
        for ordinal in range(poll.transactions.num_rows):
            parts = {
                t: [rows.filter(pa.compute.equal(rows.column(ORDINAL), ordinal))] for t, rows in poll.changes.items()
            }
            balances = added(balances, fold(parts.get(accounts, []), tables[accounts]))
            written = added(written, fold(parts.get(moves, []), tables[moves]))
            assert min(balances.values()) == 1, "a transaction was torn"
            assert sum(balance for _, balance, _ in balances) == 100 * count
            assert sum(m for _, _, m in balances) == len(written)
        transactions += poll.transactions.num_rows
        after, more = poll.end, poll.more
    assert written.total() == writers * rounds
    if rig.exact_transactions and getattr(rig, "orders_what_overlaps", True):
        assert transactions == writers * rounds
    assert balances == state(source, accounts, after)


# ── connecting ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_spec_travels_and_reopens(shop: World) -> None:
    orders, _ = names(shop)
    at = shop.commit(Insert(orders, order(1)))
    spec = pickle.loads(pickle.dumps(shop.rig.spec))
    assert spec == shop.rig.spec
    assert spec.url not in repr(spec)
    again = connect(spec)
    assert again.name == shop.source.name
    assert again.position() == at
    assert fold(again.scan(again.chunks(orders, 10)[0], list(ORDERS), at), list(ORDERS)) == shop.state(orders, at)
    again.close()
    again.close()
    assert again.position() == at, "an adapter reconnects"


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="oracle") as caught:
        connect(SourceSpec(SourceName("x"), "oracle://user:secret@host/db"))
    assert "sqlite://" in str(caught.value)
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError):
        connect(SourceSpec(SourceName("x"), "just words"))


# ── generated histories ──────────────────────────────────────────────────────────────────────────────────────────

SMALL = st.one_of(st.none(), st.integers(0, 3))
WORDS = st.one_of(st.none(), st.sampled_from(["", "a", "A", "b"]))
STEP = st.tuples(
    st.sampled_from(["insert", "insert", "delete", "update"]), st.booleans(), SMALL, WORDS, st.integers(0, 99)
)
HISTORY = st.lists(st.lists(STEP, min_size=1, max_size=5), min_size=1, max_size=6)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=HISTORY, poll_every=st.integers(1, 3), limit=st.integers(1, 8))
def test_any_history_is_told_and_answered_exactly(rig: Rig, history: Any, poll_every: int, limit: int) -> None:
    rig.reset()
    keyed = rig.create("keyed", {"id": "int", "n": "int", "s": "text"}, key=["id"], indexes=[["n"]])
    heap = rig.create("heap", {"n": "int", "s": "text"}, indexes=[["s"]])
    world = World(rig, {keyed: ["id", "n", "s"], heap: ["n", "s"]})
    now: dict[TableName, list[dict[str, Any]]] = {keyed: [], heap: []}
    next_id, after, polled_to, told = 0, world.positions[0], 0, []

    def poll() -> None:
        nonlocal after, polled_to, told
        more = True
        part = []
        while more:
            found = world.poll(after, limit)
            part += world.polled(found)
            after, more = found.end, found.more
        assert [t for t in part if t] == world.committed(polled_to)
        polled_to = len(world.transactions)
        told += part

    for number, steps in enumerate(history):
        changes: list[Change] = []
        for kind, in_heap, n, s, pick in steps:
            table = heap if in_heap else keyed
            rows = now[table]
            fresh: dict[str, Any] = {"n": n, "s": s}
            if kind == "insert" or not rows:
                row = fresh if in_heap else {"id": next_id, **fresh}
                next_id += not in_heap
                rows.append(row)
                changes.append(Insert(table, row))
            elif kind == "delete":
                changes.append(Delete(table, rows.pop(pick % len(rows))))
            else:
                old = rows[pick % len(rows)]
                rows[pick % len(rows)] = old | fresh
                changes.append(Update(table, old, old | fresh))
        world.commit(*changes)
        if number % poll_every == 0:
            poll()
    poll()
    for table in (keyed, heap):
        assert added(*(t.get(table, Counter()) for t in told)) == world.states[-1][table]
    for at in world.positions:
        world.check(at, {keyed: [["id"], ["n"], ["n", "s"]], heap: [["s"], ["n"]]}, target_rows=2)
    world.source.close()


# ── what a source must prove ─────────────────────────────────────────────────────────────────────────────────────


def test_columns_keep_their_identity_while_rows_change(shop: World) -> None:
    orders, notes = names(shop)
    wanted = {orders: ["id", "qty"], notes: ["text"]}
    before = shop.source.identities(wanted)
    assert {table: list(found) for table, found in before.items()} == wanted
    assert len({identity for found in before.values() for identity in found.values()}) == 3
    shop.source.expect(before)
    at = shop.commit(Insert(orders, order(1)), Insert(notes, note(1, "a")))
    again = shop.rig.source()
    after = again.identities(wanted)
    assert not any(before[t][c].became(after[t][c]) for t in wanted for c in wanted[t])
    assert shop.polled(shop.poll(shop.positions[0])) == shop.committed()
    shop.check(at, {orders: [["id"]]})
    again.close()


def test_what_is_not_captured_has_no_identity(shop: World) -> None:
    late = shop.rig.create("late", {"id": "int"}, key=["id"])
    if shop.rig.name != "memory":
        with pytest.raises(CaptureMissing):
            shop.source.identities({late: ["id"]})
    with pytest.raises(CaptureMissing):
        shop.source.check(shop.positions[0], [late])


def test_check_says_whether_a_position_still_holds(shop: World) -> None:
    orders, notes = names(shop)
    for n in range(4):
        shop.commit(Insert(orders, order(n)))
    for at in shop.positions:
        shop.source.check(at, [orders, notes])
    shop.source.trim(shop.positions[2])
    shop.source.check(shop.positions[2], [orders])
    with pytest.raises(PositionTrimmed):
        shop.source.check(shop.positions[1], [orders])
    shop.source.remove()
    with pytest.raises(CaptureMissing):
        shop.source.check(shop.positions[-1], [orders])


def test_commit_times_never_decrease_along_the_log(shop: World) -> None:
    orders, _ = names(shop)
    for n in range(5):
        shop.commit(Insert(orders, order(n)))
    labels = shop.poll(shop.positions[0]).transactions.column("transaction").to_pylist()
    found = shop.source.commit_times(labels)
    assert len(found) == len(labels)
    known = [times for times in found if times is not None]
    assert all(first <= last for first, last in known)
    assert known == sorted(known)


def test_what_is_released_is_no_longer_captured(shop: World) -> None:
    orders, notes = names(shop)
    assert shop.source.release([orders, notes]) == []
    assert shop.source.release([orders])
    assert shop.source.release([orders]) == []
    found = shop.source.capture()
    assert found is not None
    assert found.tables == {orders}
    at = shop.source.position()
    shop.rig.transaction(Insert(orders, order(1)), Insert(notes, note(1, "a")))
    assert fold(shop.source.poll(at, {orders: ["id"]}, 10).changes.values(), ["id"]) == Counter({(1,): 1})
    with pytest.raises(CaptureMissing):
        shop.source.poll(at, {notes: ["text"]}, 10)
