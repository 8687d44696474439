"""The contract's join question, for every adapter: the join of the states at a position, whatever has happened since.

The oracle joins plain rows of `world.py`'s states, one by one.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.model.conditions import Condition, meets
from headwater.model.errors import CaptureMissing, PositionTrimmed
from headwater.model.joins import joinable, table_by_table
from headwater.model.names import Position, TableName
from headwater.model.source import COUNT, ORDINAL, Joined, JoinQuestion, Question

from .rigs import Change, Delete, Insert, Rig, Update
from .world import Bag, World, fold

ORDERS = {"id": "int", "customer": "int", "status": "text"}
LINES = {"order_id": "int", "n": "int", "product": "text", "qty": "int"}
PRODUCTS = {"code": "text", "price": "int"}


@pytest.fixture
def shop(rig: Rig) -> World:
    return made(rig)


def made(rig: Rig) -> World:
    orders = rig.create("orders", ORDERS, key=["id"], indexes=[["customer"]])
    lines = rig.create("lines", LINES, indexes=[["order_id"], ["product"]])  # no key: rows may stand twice
    products = rig.create("products", PRODUCTS, indexes=[["code"]])
    return World(rig, {orders: list(ORDERS), lines: list(LINES), products: list(PRODUCTS)})


def order(id: int, customer: int | None = 1, status: str | None = "open") -> dict[str, Any]:  # noqa: A002
    return {"id": id, "customer": customer, "status": status}


def line(order_id: int | None, n: int, product: str | None = "a", qty: int | None = 1) -> dict[str, Any]:
    return {"order_id": order_id, "n": n, "product": product, "qty": qty}


def product(code: str | None, price: int = 5) -> dict[str, Any]:
    return {"code": code, "price": price}


def question(world: World, tables: Sequence[Joined], key: Sequence[tuple[int, str]], keys: Any) -> JoinQuestion:
    """Everything of every table is told, unless a table says what."""
    tables = [
        joined if joined.columns else replace(joined, columns=tuple(world.tables[joined.table])) for joined in tables
    ]
    types = [
        next(c.type for c in world.source.describe()[tables[n].table].columns if c.name == column) for n, column in key
    ]
    asked = pa.table(
        [pa.array([k[n] for k in keys], t) for n, t in enumerate(types)], names=[f"k{n}" for n in range(len(key))]
    )
    names = tuple(f"{n}.{column}" for n, joined in enumerate(tables) for column in joined.columns)
    return JoinQuestion(tuple(tables), tuple(key), asked, names)


def answered(world: World, asked: JoinQuestion, at: Position) -> Bag:
    return fold(world.source.ask_join(asked, at), [ORDINAL, *asked.columns])


def expected(world: World, asked: JoinQuestion, at: Position) -> Bag:
    """By definition."""
    found: list[tuple[int, int, list[dict[str, Any]]]] = [(n, 1, []) for n in range(asked.keys.num_rows)]
    keys = [tuple(key.values()) for key in asked.keys.to_pylist()]
    for number, joined in enumerate(asked.tables):
        rows = []
        schema = pa.schema([(c.name, c.type) for c in world.source.describe()[joined.table].columns])
        for row, count in world.state(joined.table, at).items():
            named = dict(zip(world.tables[joined.table], row, strict=True))
            if meets(pa.Table.from_pylist([named], schema=schema), joined.conditions).num_rows:
                rows.append((named, count))
        found = [
            (ordinal, n * count, [*before, row])
            for ordinal, n, before in found
            for row, count in rows
            if all(row[c] == keys[ordinal][place] for place, (t, c) in enumerate(asked.key) if t == number)
            and all(row[c] is not None and row[c] == before[t][other] for c, t, other in joined.on)
        ]
    bag: Bag = Counter()
    for ordinal, count, rows_ in found:
        bag[(ordinal, *(rows_[n][c] for n, c in asked.told))] += count
    return bag


def agree(world: World, asked: JoinQuestion) -> None:
    for at in world.positions:
        assert answered(world, asked, at) == expected(world, asked, at), f"{asked} at {at}"


def three(world: World) -> tuple[TableName, TableName, TableName]:
    orders, lines, products = world.tables
    return orders, lines, products


def by_order(world: World, keys: Sequence[int] = range(6), **said: Any) -> JoinQuestion:
    orders, lines, products = three(world)
    tables = [
        Joined(orders, ()),
        Joined(lines, (), on=(("order_id", 0, "id"),)),
        Joined(products, (), on=(("code", 1, "product"),)),
    ]
    return question(world, tables, [(0, "id")], [(k,) for k in keys], **said)


def history(world: World) -> None:
    """Updates and deletes on every side, duplicates, NULLs where rows are joined."""
    orders, lines, products = three(world)
    world.commit(*(Insert(orders, order(n, n % 3)) for n in range(5)))
    world.commit(*(Insert(lines, line(n % 4, n, "ab"[n % 2])) for n in range(8)), Insert(lines, line(None, 9, None)))
    world.commit(Insert(products, product("a")), Insert(products, product("a")), Insert(products, product(None)))
    world.commit(Insert(lines, line(0, 0)), Insert(lines, line(0, 0)))  # three alike
    world.commit(Update(orders, order(1, 1), order(1, None, "paid")), Insert(products, product("b", 7)))
    world.commit(Delete(lines, line(0, 0)), Update(lines, line(1, 1, "b"), line(2, 1, "a", None)))
    world.commit(Delete(products, product("a")), Delete(orders, order(2, 2)))
    world.commit(Update(orders, order(3, 0), order(5, 0)), Update(lines, line(3, 3, "b"), line(5, 3, "b")))
    world.commit(Delete(products, product("a")), Insert(orders, order(2, 2)))


def test_every_earlier_state_is_joined_exactly_while_the_tables_move_on(shop: World) -> None:
    history(shop)
    orders, lines, products = three(shop)
    agree(shop, by_order(shop))
    from_the_end = [
        Joined(products, ()),
        Joined(lines, (), on=(("product", 0, "code"),)),
        Joined(orders, (), on=(("id", 1, "order_id"),)),
    ]
    agree(shop, question(shop, from_the_end, [(0, "code")], [("a",), ("b",), ("c",)]))
    from_the_middle = [
        Joined(lines, ()),
        Joined(orders, (), on=(("id", 0, "order_id"),)),
        Joined(products, (), on=(("code", 0, "product"),)),
    ]
    agree(shop, question(shop, from_the_middle, [(0, "order_id")], [(0,), (5,), (77,)]))


def test_the_answer_has_the_names_and_types_that_were_asked_for(shop: World) -> None:
    history(shop)
    asked = by_order(shop, [2, 0, 1])
    for batch in shop.source.ask_join(asked, shop.positions[-1]):
        assert batch.schema.names == [ORDINAL, *asked.columns, COUNT]
        assert batch.schema.field(ORDINAL).type == batch.schema.field(COUNT).type == pa.int64()
        assert batch.schema.field("2.code").type == pa.string()
        assert all(row["0.id"] == [2, 0, 1][row[ORDINAL]] for row in batch.to_pylist())


def test_counts_multiply(shop: World) -> None:
    orders, lines, products = three(shop)
    shop.commit(Insert(orders, order(1)), *[Insert(lines, line(1, 1))] * 3, *[Insert(products, product("a"))] * 2)
    shop.commit(Delete(lines, line(1, 1)), Delete(products, product("a")))
    asked = by_order(shop, [1])
    totals = [sum(answered(shop, asked, at).values()) for at in shop.positions]
    assert totals == [0, 6, 2]


def test_conditions_hold_on_every_table(shop: World) -> None:
    history(shop)
    orders, lines, products = three(shop)
    for first, second, third in [
        ([Condition("status", "=", "open")], [], []),
        ([], [Condition("qty", "is null")], []),
        ([], [Condition("n", "<", 5), Condition("product", "in", ("a", "z"))], [Condition("price", ">=", 6)]),
        ([Condition("customer", "is not null")], [Condition("n", "<>", 0)], [Condition("code", "=", "b")]),
    ]:
        tables = [
            Joined(orders, (), tuple(first)),
            Joined(lines, (), tuple(second), (("order_id", 0, "id"),)),
            Joined(products, (), tuple(third), (("code", 1, "product"),)),
        ]
        agree(shop, question(shop, tables, [(0, "id")], [(n,) for n in range(6)]))


def test_keys_of_several_tables_and_columns(shop: World) -> None:
    """The keys may concern more than the first table, and more than one column of it."""
    history(shop)
    orders, lines, products = three(shop)
    tables = [
        Joined(orders, ()),
        Joined(lines, (), on=(("order_id", 0, "id"),)),
        Joined(products, (), on=(("code", 1, "product"),)),
    ]
    keys = [(o, c, p) for o in range(3) for c in range(3) for p in (5, 7)]
    agree(shop, question(shop, tables, [(0, "id"), (0, "customer"), (2, "price")], keys))
    reached_by_keys_alone = [Joined(orders, ()), Joined(products, ())]
    agree(shop, question(shop, reached_by_keys_alone, [(0, "id"), (1, "code")], [(1, "a"), (2, "b"), (1, "b")]))


def test_composite_joins_and_a_column_that_must_equal_two(rig: Rig) -> None:
    a = rig.create("a", {"x": "int", "y": "int", "s": "text"}, indexes=[["x"]])
    b = rig.create("b", {"x": "int", "y": "int", "s": "text"}, indexes=[["x", "y"]])
    world = World(rig, {a: ["x", "y", "s"], b: ["x", "y", "s"]})
    pool = [{"x": x, "y": y, "s": s} for x in (1, 2, None) for y in (1, 2, None) for s in ("k", None)]
    world.commit(*(Insert(a, row) for row in pool), *(Insert(b, row) for row in pool))
    world.commit(*(Delete(b, row) for row in pool[::3]), Update(a, pool[0], pool[4]))
    for on in [
        (("x", 0, "x"), ("y", 0, "y")),
        (("x", 0, "x"), ("x", 0, "y")),
        (("x", 0, "y"), ("s", 0, "s")),
        (("x", 0, "x"), ("y", 0, "x")),
    ]:
        agree(world, question(world, [Joined(a, ()), Joined(b, (), on=on)], [(0, "x")], [(1,), (2,), (3,)]))
        agree(world, question(world, [Joined(a, ("s",)), Joined(b, (), on=on)], [(0, "x"), (1, "x")], [(1, 1), (2, 1)]))


def test_a_table_joined_with_itself(rig: Rig) -> None:
    staff = rig.create("staff", {"id": "int", "boss": "int"}, key=["id"], indexes=[["boss"]])
    world = World(rig, {staff: ["id", "boss"]})
    row = lambda n, boss: {"id": n, "boss": boss}
    world.commit(
        Insert(staff, row(1, None)), Insert(staff, row(2, 1)), Insert(staff, row(3, 1)), Insert(staff, row(4, 4))
    )
    world.commit(Update(staff, row(3, 1), row(3, 2)))
    world.commit(Delete(staff, row(1, None)), Update(staff, row(4, 4), row(4, 3)))
    up = [
        Joined(staff, ()),
        Joined(staff, (), on=(("id", 0, "boss"),)),
        Joined(staff, ("id",), on=(("id", 1, "boss"),)),
    ]
    agree(world, question(world, up, [(0, "id")], [(n,) for n in range(1, 6)]))
    down = [Joined(staff, ("id",)), Joined(staff, ("id",), on=(("boss", 0, "id"),))]
    agree(world, question(world, down, [(0, "id")], [(n,) for n in range(1, 6)]))


def test_text_joins_by_code_points_only(rig: Rig) -> None:
    texts = ["a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "İ", "i", "", 'it\'s \\ "x"']
    left = rig.create("l", {"id": "int", "s": "text"}, key=["id"])
    right = rig.create("r", {"s": "text"}, indexes=[["s"]])
    world = World(rig, {left: ["id", "s"], right: ["s"]})
    world.commit(
        *(Insert(left, {"id": n, "s": s}) for n, s in enumerate(texts)), *(Insert(right, {"s": s}) for s in texts)
    )
    world.commit(*(Delete(right, {"s": s}) for s in texts[::2]))
    agree(
        world,
        question(
            world,
            [Joined(left, ()), Joined(right, (), on=(("s", 0, "s"),))],
            [(0, "id")],
            [(n,) for n in range(len(texts))],
        ),
    )


VALUES: dict[str, list[Any]] = {
    "int": [0, -1, 2**63 - 1, -(2**63), 2**53 + 1, None],
    "bool": [True, False, None],
    "date": [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    "uuid": ["6f2b9d0e-7a51-4c3c-9f30-1b2f6a5d8c11", "00000000-0000-0000-0000-000000000000", None],
    "time": ["00:00:00", "23:59:59", None],
}


@pytest.mark.parametrize("logical", VALUES)
def test_every_joinable_type(rig: Rig, logical: str) -> None:
    """And what is told beside it may be of any type."""
    left = rig.create("l", {"id": "int", "v": logical, "x": "decimal(10,2)"}, key=["id"])
    right = rig.create("r", {"v": logical, "at": "timestamp", "raw": "bytes", "f": "float"}, indexes=[["v"]])
    world = World(rig, {left: ["id", "v", "x"], right: ["v", "at", "raw", "f"]})
    kind = world.source.describe()[left].column("v")
    assert kind is not None
    assert joinable(kind.type, kind.type)
    at, values = dt.datetime(2024, 1, 1, 12), VALUES[logical]
    world.commit(*(Insert(left, {"id": n, "v": v, "x": None}) for n, v in enumerate(values)))
    rows = [{"v": v, "at": at, "raw": b"\x00\xff", "f": 0.5} for v in values]
    world.commit(*(Insert(right, row) for row in rows))
    world.commit(*(Delete(right, row) for row in rows))
    keys = [(n,) for n in range(len(values))]
    agree(world, question(world, [Joined(left, ()), Joined(right, (), on=(("v", 0, "v"),))], [(0, "id")], keys))


def test_no_keys_no_answer(shop: World) -> None:
    history(shop)
    assert not any(batch.num_rows for batch in shop.source.ask_join(by_order(shop, []), shop.positions[-1]))
    assert not answered(shop, by_order(shop, [99]), shop.positions[-1])


def test_many_keys(shop: World) -> None:
    orders, lines, products = three(shop)
    count = 1300
    first = shop.commit(
        *(Insert(orders, order(n, n % 7)) for n in range(count)),
        *(Insert(lines, line(n % 900, n, "ab"[n % 2])) for n in range(count)),
    )
    second = shop.commit(Insert(products, product("a")), Delete(lines, line(3, 3, "b")), Delete(orders, order(4, 4)))
    asked = by_order(shop, range(count))
    assert not answered(shop, asked, first)
    found = answered(shop, asked, second)
    pairs = [(n % 900, n) for n in range(0, count, 2) if n % 900 != 4]
    assert Counter((row[0], row[5]) for row in found.elements()) == Counter(pairs)


def test_a_trimmed_position_has_no_answer(shop: World) -> None:
    history(shop)
    middle = shop.positions[5]
    shop.source.trim(middle)
    asked = by_order(shop)
    for at in shop.positions[5:]:
        assert answered(shop, asked, at) == expected(shop, asked, at)
    with pytest.raises(PositionTrimmed):
        answered(shop, asked, shop.positions[4])
    with pytest.raises(PositionTrimmed):
        answered(shop, by_order(shop, [99]), shop.positions[4])


def test_every_table_must_be_captured(shop: World) -> None:
    history(shop)
    orders, lines, _ = three(shop)
    shop.source.release([orders, lines])
    with pytest.raises(CaptureMissing):
        answered(shop, by_order(shop), shop.source.position())


def test_an_answer_half_read_disturbs_nobody(shop: World) -> None:
    history(shop)
    asked = by_order(shop)
    for _ in range(3):
        half = shop.source.ask_join(asked, shop.positions[3])
        next(half, None)
        del half
    agree(shop, asked)


def table(world: World, asked: Question, at: Position) -> pa.Table:
    types = {c.name: c.type for c in world.source.describe()[asked.table].columns}
    schema = pa.schema([(ORDINAL, pa.int64()), *((c, types[c]) for c in asked.columns), (COUNT, pa.int64())])
    return pa.Table.from_batches([b.select(schema.names).cast(schema) for b in world.source.ask(asked, at)], schema)


def test_table_by_table_is_the_same(shop: World) -> None:
    """What is done where a source cannot be asked at once."""
    history(shop)
    asked = by_order(shop)
    for at in shop.positions:
        joined = table_by_table(asked, lambda one: table(shop, one, at))  # noqa: B023 (called here and now)
        found = fold([joined], [ORDINAL, *asked.columns]) if joined is not None else Counter()
        assert found == expected(shop, asked, at)


# ── generated histories ──────────────────────────────────────────────────────────────────────────────────────────

SMALL = st.one_of(st.none(), st.integers(0, 2))
WORDS = st.one_of(st.none(), st.sampled_from(["", "a", "A"]))
STEP = st.tuples(
    st.sampled_from(["insert", "insert", "delete", "update"]), st.integers(0, 2), SMALL, WORDS, st.integers(0, 99)
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(history=st.lists(st.lists(STEP, min_size=1, max_size=6), min_size=1, max_size=5), seed=st.integers(0, 1000))
def test_any_history_is_joined_exactly(rig: Rig, history: Any, seed: int) -> None:
    rig.reset()
    columns = ["n", "m", "s"]
    tables = [
        rig.create(name, {"n": "int", "m": "int", "s": "text"}, indexes=indexes)
        for name, indexes in [("p", [["n"], ["s"]]), ("q", [["m", "n"]]), ("r", [])]
    ]
    world = World(rig, dict.fromkeys(tables, columns))
    now: dict[TableName, list[dict[str, Any]]] = {table: [] for table in tables}
    chance = random.Random(seed)
    for steps in history:
        changes: list[Change] = []
        for kind, which, n, s, pick in steps:
            table = tables[which]
            rows, row = now[table], {"n": n, "m": pick % 3, "s": s}
            if kind == "insert" or not rows:
                rows.append(row)
                changes.append(Insert(table, row))
            elif kind == "delete":
                changes.append(Delete(table, rows.pop(pick % len(rows))))
            else:
                old, rows[pick % len(rows)] = rows[pick % len(rows)], row
                changes.append(Update(table, old, row))
        world.commit(*changes)
    joined = [Joined(chance.choice(tables), ())]
    for number in range(1, chance.choice((2, 2, 3))):
        ends = [
            (chance.choice("nm"), chance.randrange(number), chance.choice("nm")),
            ("s", chance.randrange(number), "s"),
        ]
        joined.append(Joined(chance.choice(tables), (), on=tuple(chance.sample(ends, chance.choice((1, 1, 2))))))
    agree(world, question(world, joined, [(0, "n")], [(n,) for n in range(4)]))
    world.source.close()
