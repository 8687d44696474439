"""Transactions at the two SQLite files: one statement per line. MARK tells Headwater where a transaction begins."""

from __future__ import annotations

import random

MARK = "INSERT INTO _headwater_transaction(tag) VALUES (NULL)"


def crm_transaction(rng: random.Random) -> str:
    return _transaction(rng, [_customer, _customer, _visit, _tally])


def stock_transaction(rng: random.Random) -> str:
    return _transaction(rng, [_product, _bin])


def _transaction(rng: random.Random, makers: list[object]) -> str:
    lines = [MARK] if rng.random() < 0.6 else []
    for _ in range(rng.choice((1, 1, 2, 3))):
        make = rng.choice(makers)
        assert callable(make)
        lines.append(make(rng))
    if rng.random() < 0.1:
        lines.append("ROLLBACK")
    return "\n".join(lines)


def _name(rng: random.Random) -> str:
    return rng.choice(("'Ada'", "'Bo'", "'Cy'", "'Di'", "'Ed'", "'nobody'", "NULL"))


def _customer(rng: random.Random) -> str:
    key, name, city = rng.randint(1, 6), _name(rng), rng.choice(("'Bologna'", "'Worcester'", "NULL"))
    age = rng.randint(1, 99)
    return rng.choice(
        (
            f"INSERT OR REPLACE INTO customers VALUES ({key}, {name}, {city}, {age}, 0)",
            f"INSERT OR REPLACE INTO customers (id, name, city) VALUES ({key}, {name}, {city})",
            f"UPDATE OR REPLACE customers SET name = {name} WHERE id = {key}",
            f"UPDATE OR REPLACE customers SET id = {rng.randint(1, 6)}, age = {age} WHERE id = {key}",
            f"UPDATE OR IGNORE customers SET name = 'Di' WHERE id > {key}",
            f"INSERT OR IGNORE INTO customers VALUES ({key}, {name}, {city}, {age}, 0)",
            f"INSERT INTO customers VALUES ({key}, 'Up{age}', {city}, {age}, 0)"
            " ON CONFLICT (id) DO UPDATE SET age = excluded.age, city = excluded.city",
            f"UPDATE customers SET city = {city} WHERE id % 2 = {key % 2}",
            f"DELETE FROM customers WHERE id = {key}",
        )
    )


def _visit(rng: random.Random) -> str:
    key, customer, day = rng.randint(1, 12), rng.randint(1, 4), rng.choice(("mon", "tue", "wed"))
    return rng.choice(
        (
            f"INSERT OR REPLACE INTO visits VALUES ({key}, {customer}, '{day}')",
            f"INSERT OR REPLACE INTO visits (customer, day) VALUES ({customer}, '{day}')",
            f"UPDATE OR REPLACE visits SET day = '{day}' WHERE customer = {customer}",
            f"DELETE FROM visits WHERE id = {key}",
        )
    )


def _tally(rng: random.Random) -> str:
    return rng.choice(
        (
            f"UPDATE OR REPLACE tally SET badge = '{rng.choice(('mon', 'tue'))}' WHERE customer = {rng.randint(1, 4)}",
            f"DELETE FROM tally WHERE customer = {rng.randint(1, 4)}",
        )
    )


def _product(rng: random.Random) -> str:
    sku, price = rng.choice("abcd"), f"{rng.randint(1, 99)}.{rng.randint(10, 99)}"
    return rng.choice(
        (
            f"INSERT OR REPLACE INTO products VALUES ('{sku}', 't{rng.randint(1, 9)}', {price})",
            f"INSERT INTO products VALUES ('{sku}', 'new', {price})"
            " ON CONFLICT (sku) DO UPDATE SET price = excluded.price",
            f"UPDATE OR REPLACE products SET sku = '{rng.choice('abcd')}' WHERE sku = '{sku}'",
            f"DELETE FROM products WHERE sku = '{sku}'",
        )
    )


def _bin(rng: random.Random) -> str:
    sku, place = rng.choice("abcd"), rng.choice(("north", "south", "east"))
    return rng.choice(
        (
            f"INSERT INTO bins VALUES ('{sku}', '{place}')",
            f"UPDATE bins SET place = '{place}' WHERE sku = '{sku}'",
            f"DELETE FROM bins WHERE place = '{place}'",
        )
    )
