"""Transactions at the PostgreSQL shop."""

from __future__ import annotations

import random
from collections.abc import Callable

Script = list[str]
Number = Callable[[], int]
"""A number that was not used yet."""

LEVELS = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


def transaction(rng: random.Random, name: str, number: Number) -> Script:
    """A transaction from BEGIN to its end; `name` is for PREPARE TRANSACTION."""
    script = [f"BEGIN ISOLATION LEVEL {rng.choice(LEVELS)}"]
    for n in range(rng.choice((1, 1, 2, 3, 5))):
        if rng.random() < 0.15:
            script += [f"SAVEPOINT s{n}", statement(rng, number)]
            script.append(f"ROLLBACK TO SAVEPOINT s{n}" if rng.random() < 0.5 else f"RELEASE SAVEPOINT s{n}")
        else:
            script.append(statement(rng, number))
    end = rng.random()
    if end < 0.08:
        script.append("ROLLBACK")
    elif end < 0.16:
        script += [f"PREPARE TRANSACTION '{name}'", f"COMMIT PREPARED '{name}'"]
    else:
        script.append("COMMIT")
    return script


def close_period(rng: random.Random, number: Number) -> list[tuple[str, str]]:
    """(closer or clerk, statement). The closer changes first, the clerk reads what was before, and commits first."""
    level, book = rng.choice(LEVELS), rng.choice((1, 2))
    closer = f"UPDATE control SET closed = current, current = current + 1 WHERE id = {book}"
    clerk = f"INSERT INTO receipts SELECT {number()}, current, 'r' FROM control WHERE id = {book}"
    more = statement(rng, number)
    steps = [
        ("closer", f"BEGIN ISOLATION LEVEL {level}"),
        ("closer", closer),
        ("clerk", f"BEGIN ISOLATION LEVEL {rng.choice(LEVELS)}"),
        ("clerk", clerk),
        ("clerk", "COMMIT"),
        ("closer", "COMMIT"),
    ]
    if rng.random() < 0.3:
        steps.insert(4, ("clerk", more))
    if rng.random() < 0.2:
        steps[4:6] = [("closer", "COMMIT"), ("clerk", "COMMIT")]
    return steps


def statement(rng: random.Random, number: Number) -> str:
    makers: list[tuple[int, Callable[[random.Random, Number], str]]] = [
        (12, _insert_order), (10, _update_orders), (5, _delete_orders), (8, _lines), (6, _upsert), (4, _merge),
        (6, _events), (4, _receipts), (1, _truncate), (4, _copy), (3, _move_rows),
    ]  # fmt: skip
    return rng.choices([m for _, m in makers], [w for w, _ in makers])[0](rng, number)


def _order(rng: random.Random, key: int) -> str:
    customer = rng.choice(("1", "2", "3", "4", "NULL"))
    placed = f"timestamp '2024-05-0{rng.randint(1, 9)} 10:{rng.randint(10, 59)}:01.5'"
    weight = rng.choice(("1.5", "0.1", "'NaN'", "'Infinity'", "NULL"))
    return (
        f"({key}, {customer}, '{rng.choice('abcd')}', {rng.randint(1, 9)}, '{rng.choice(('open', 'done'))}', {placed},"
        f" {rng.randint(1, 99)}.{rng.randint(10, 99)}, {weight}, date '2024-06-{rng.randint(10, 28)}',"
        f" '{rng.choice(('web', 'desk'))}')"
    )


_ORDER = "orders (id, customer, sku, qty, status, placed, price, weight, due, kind)"


def _insert_order(rng: random.Random, number: Number) -> str:
    return f"INSERT INTO {_ORDER} VALUES " + ", ".join(_order(rng, number()) for _ in range(rng.randint(1, 3)))


def _upsert(rng: random.Random, number: Number) -> str:
    return (
        f"INSERT INTO {_ORDER} VALUES {_order(rng, rng.randint(1, 8))}"
        " ON CONFLICT (id) DO UPDATE SET qty = orders.qty + 1, status = excluded.status"
    )


def _update_orders(rng: random.Random, number: Number) -> str:
    change = rng.choice(
        ("qty = qty + 1", "status = 'done'", "customer = NULL", "sku = 'a'", "price = price + 0.5", "kind = 'mail'",
         "customer = 2, qty = 1", "due = due + 1", "placed = placed + interval '0.25 s'", "id = id + 1000")
    )  # fmt: skip
    return f"UPDATE orders SET {change} WHERE id % {rng.choice((3, 5, 7))} = {rng.randint(0, 2)}"


def _delete_orders(rng: random.Random, number: Number) -> str:
    return f"DELETE FROM orders WHERE id % {rng.choice((5, 7, 11))} = {rng.randint(0, 4)}"  # lines go with them


def _lines(rng: random.Random, number: Number) -> str:
    order = f"(SELECT min(id) FROM orders WHERE id % 4 = {rng.randint(0, 3)})"
    return rng.choice(
        (
            f"INSERT INTO lines SELECT m, {number()}, 'l{rng.randint(1, 5)}' FROM {order} AS o(m) WHERE m IS NOT NULL",
            f"UPDATE lines SET note = 'u{rng.randint(1, 9)}' WHERE order_id = {order}",
            f"DELETE FROM lines WHERE n % 5 = {rng.randint(0, 4)}",
        )
    )


def _merge(rng: random.Random, number: Number) -> str:
    return (
        f"MERGE INTO receipts r USING (VALUES ({rng.randint(1, 5)}, {rng.randint(1, 3)}), ({number()}, 1))"
        " AS s(id, period)"
        " ON r.id = s.id WHEN MATCHED AND r.period = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged'"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.period, 'new')"
    )


def _events(rng: random.Random, number: Number) -> str:
    part = rng.randint(0, 1)
    return rng.choice(
        (
            f"INSERT INTO events VALUES ({number()}, {part}, 'e'), ({number()}, {1 - part}, 'f')",
            f"UPDATE events SET note = 'g{rng.randint(1, 9)}' WHERE id % 3 = {rng.randint(0, 2)}",
            f"DELETE FROM events WHERE id % 7 = {rng.randint(0, 6)}",
        )
    )


def _move_rows(rng: random.Random, number: Number) -> str:
    return f"UPDATE events SET part = 1 - part WHERE id % 4 = {rng.randint(0, 3)} AND part < 2"


def _receipts(rng: random.Random, number: Number) -> str:
    return rng.choice(
        (
            f"UPDATE receipts SET note = 'x{rng.randint(1, 9)}' WHERE id % 3 = {rng.randint(0, 2)}",
            f"DELETE FROM receipts WHERE id % 5 = {rng.randint(0, 4)}",
        )
    )


def _truncate(rng: random.Random, number: Number) -> str:
    return f"TRUNCATE {rng.choice(('lines', 'events', 'orders, lines', 'receipts'))}"


def _copy(rng: random.Random, number: Number) -> str:
    rows = "".join(f"\\n{number()}\\t{rng.randint(1, 3)}\\tcopied" for _ in range(3))
    return f"COPY receipts FROM STDIN{rows}"
