"""Commits from several threads at once.

Each transaction says by RETURNING what it changed, and writes a message into the server's log; a logical slot then
tells in which order the server committed them. Nothing reads the tables meanwhile.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping

import psycopg

from .business import COLUMNS, Bag, stored
from .shop import Shop

THREADS = 4
SLOT = "oracle"
_ORDERS = ", ".join(COLUMNS["shop.orders"])
_BEFORE = ", ".join(f"old.{c}" for c in COLUMNS["shop.orders"])
_AFTER = ", ".join(f"new.{c}" for c in COLUMNS["shop.orders"])

Member = tuple[str, tuple[float, float], Mapping[str, Bag], str]


def rage(shop: Shop, seed: int, transactions: int) -> None:
    """So many transactions in each of several threads, and what they did, recorded."""
    members: dict[str, Member] = {}
    threads = [
        threading.Thread(target=_work, args=(shop.url, random.Random(seed * 10 + n), transactions, members, n))
        for n in range(THREADS)
    ]
    listen(shop)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    order = [label for label in listen(shop) if label in members]
    assert len(order) == len(members), "the server's log tells every commit"
    shop.history.storm([members[label] for label in order], shop.read(shop.history.newest.state))


def listen(shop: Shop) -> list[str]:
    """The transactions that the server's log has had since the last call, in commit order. The first call makes the
    slot, which waits for every open transaction to end."""
    connection = shop.connection("listener")
    if not connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [SLOT]).fetchone():
        connection.execute("CREATE PUBLICATION oracle")
        connection.execute("SET statement_timeout = 0")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [SLOT])
    found = connection.execute(
        "SELECT xid::text, data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
        " 'publication_names', 'oracle', 'messages', 'true')",
        [SLOT],
    ).fetchall()
    return [xid for xid, data in found if bytes(data[:1]) == b"C"]


def _work(url: str, rng: random.Random, transactions: int, members: dict[str, Member], number: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '300ms'")
        for n in range(transactions):
            with contextlib.suppress(psycopg.Error):
                label, *member = _transaction(
                    connection, rng, 100_000 + number * 1000 + n + rng.randint(1, 99) * 10_000
                )
                members[label] = (label, *member)  # type: ignore[assignment]


def _transaction(connection: psycopg.Connection, rng: random.Random, key: int) -> Member:
    delta: Bag = Counter()
    what = rng.choice(
        (
            f"INSERT INTO orders (id, customer, qty, status) VALUES ({key}, 1, 1, 'storm') RETURNING {_ORDERS}",
            f"UPDATE orders SET qty = qty + 1 WHERE id = {rng.randint(1, 9)} RETURNING {_BEFORE}, {_AFTER}",
            f"UPDATE orders SET status = 'storm' WHERE id = {rng.randint(1, 9)} RETURNING {_BEFORE}, {_AFTER}",
        )
    )
    connection.execute("BEGIN")
    try:
        for row in connection.execute(what).fetchall():
            if what.startswith("UPDATE"):
                half = len(row) // 2
                delta[stored("shop.orders", row[:half])] -= 1
                row = row[half:]
            delta[stored("shop.orders", row)] += 1
        found = connection.execute(
            "SELECT pg_current_xact_id()::text, pg_logical_emit_message(true, 'storm', '')"
        ).fetchone()
        assert found is not None
        began = time.monotonic()
        connection.execute("COMMIT")
    except psycopg.Error:
        connection.execute("ROLLBACK")
        raise
    return (found[0], (began, time.monotonic()), {"orders": delta}, what.partition(" RETURNING")[0])
