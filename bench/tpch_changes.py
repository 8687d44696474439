"""Batches of changes for TPC-H: the standard's refreshes and updates of single rows.

Half of a batch's rows come with new orders and their lines (RF1), a quarter goes with old ones (RF2), a quarter are
updates of one row each: lines, orders, customers, offers, and few parts and suppliers. An order with its lines is one
transaction, an update is one. Nations and regions stay, and nobody moves to another nation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import numpy as np
import psycopg

from tpch_data import FILES, Sources, base_table

Statement = tuple[str, tuple[Any, ...]]
FIRST_DAY, LAST_DAY, TODAY = date(1992, 1, 1), date(1998, 8, 2), date(1995, 6, 17)
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
KEYS = (("lineitem", "l_orderkey"), ("orders", "o_orderkey"))
CONTAINERS = ("SM CASE", "SM BOX", "MED BAG", "MED BOX", "LG CASE", "JUMBO PKG", "WRAP DRUM")


@dataclass(frozen=True)
class Transaction:
    """`rows` are those that it changes."""

    source: str
    statements: tuple[Statement, ...]
    rows: int


Update = Callable[[np.random.Generator, int], Transaction]


class Changes:
    """Batches by number: each has orders of its own, so any may be committed after any other."""

    def __init__(self, folder: Path) -> None:
        lines = base_table(folder, "lineitem", ["l_orderkey"]).column(0).to_numpy()
        keys, counts = np.unique(lines, return_counts=True)
        self._orders = np.random.default_rng(1).permutation(np.stack([keys, counts], axis=1))
        self._offers = np.stack(
            [c.to_numpy() for c in base_table(folder, "partsupp", ["ps_partkey", "ps_suppkey"]).columns], axis=1
        )
        self._customers = base_table(folder, "customer", ["c_custkey"]).num_rows
        self._last = int(keys.max())
        self._parts, self._suppliers = int(self._offers[:, 0].max()), int(self._offers[:, 1].max())

    def batch(self, number: int, size: int) -> list[Transaction]:
        random = np.random.default_rng(1000 + number)
        mine = iter(self._orders[(number * size + np.arange(size)) % len(self._orders)].tolist())
        updates: list[Update] = []
        updates += [self._line] * 8 + [self._order] * 4 + [self._customer] * 3 + [self._offer] * 3
        updates += [self._supplier, self._part]
        found: list[Transaction] = []
        rows = 0
        while rows < size // 2:
            found.append(self._new_order(random, self._last + 1 + number * size + len(found)))
            rows += found[-1].rows
        while rows < size // 4 * 3:
            key, lines = next(mine)
            gone = [(f"DELETE FROM {table} WHERE {column} = ?", (key,)) for table, column in KEYS]
            found.append(Transaction("sales", tuple(gone), 1 + lines))
            rows += found[-1].rows
        while rows < size:
            found.append(updates[rows % len(updates)](random, next(mine)[0]))
            rows += 1
        random.shuffle(found)
        return found

    def _new_order(self, random: np.random.Generator, key: int) -> Transaction:
        ordered = FIRST_DAY + timedelta(int(random.integers((LAST_DAY - FIRST_DAY).days)))
        lines = [self._new_line(random, key, n, ordered) for n in range(1, int(random.integers(2, 9)))]
        customer = 3 * int(random.integers(self._customers // 3)) + int(random.integers(1, 3))
        states = {line[9] for line in lines}
        status = states.pop() if len(states) == 1 else "P"
        total = round(sum(line[5] * (1 + line[7]) * (1 - line[6]) for line in lines), 2)
        order = (
            key,
            customer,
            status,
            total,
            ordered,
            str(random.choice(PRIORITIES)),
            "Clerk#000000001",
            0,
            "new order",
        )
        statements = [(f"INSERT INTO orders VALUES ({_marks(order)})", order)]
        statements += [(f"INSERT INTO lineitem VALUES ({_marks(line)})", line) for line in lines]
        return Transaction("sales", tuple(statements), len(statements))

    def _new_line(self, random: np.random.Generator, order: int, number: int, ordered: date) -> tuple[Any, ...]:
        part, supplier = (int(key) for key in self._offers[random.integers(len(self._offers))])
        quantity = int(random.integers(1, 51))
        price = round(quantity * (900 + part % 1000), 2)
        shipped = ordered + timedelta(int(random.integers(1, 122)))
        committed = ordered + timedelta(int(random.integers(30, 91)))
        received = shipped + timedelta(int(random.integers(1, 31)))
        flag = str(random.choice(("R", "A"))) if received <= TODAY else "N"
        cut, tax = int(random.integers(11)) / 100, int(random.integers(9)) / 100
        return (
            *(order, part, supplier, number, quantity, price, cut, tax, flag, "O" if shipped > TODAY else "F"),
            *(shipped, committed, received, str(random.choice(INSTRUCTIONS)), str(random.choice(MODES)), "new line"),
        )

    def _line(self, random: np.random.Generator, order: int) -> Transaction:
        values = (int(random.integers(1, 51)), int(random.integers(11)) / 100, order)
        return _update(
            "sales", "lineitem SET l_quantity = ?, l_discount = ? WHERE l_orderkey = ? AND l_linenumber = 1", values
        )

    def _order(self, random: np.random.Generator, order: int) -> Transaction:
        values = (str(random.choice(PRIORITIES)), str(random.choice(("F", "O", "P"))), order)
        return _update("sales", "orders SET o_orderpriority = ?, o_orderstatus = ? WHERE o_orderkey = ?", values)

    def _customer(self, random: np.random.Generator, order: int) -> Transaction:
        values = (_money(random), str(random.choice(SEGMENTS)), int(random.integers(1, self._customers + 1)))
        return _update("sales", "customer SET c_acctbal = ?, c_mktsegment = ? WHERE c_custkey = ?", values)

    def _offer(self, random: np.random.Generator, order: int) -> Transaction:
        keys = (int(key) for key in self._offers[random.integers(len(self._offers))])
        values = (int(random.integers(1, 10_000)), int(random.integers(100, 100_001)) / 100, *keys)
        where = "WHERE ps_partkey = ? AND ps_suppkey = ?"
        return _update("parts", f"partsupp SET ps_availqty = ?, ps_supplycost = ? {where}", values)

    def _supplier(self, random: np.random.Generator, order: int) -> Transaction:
        values = (_money(random), int(random.integers(1, self._suppliers + 1)))
        return _update("parts", "supplier SET s_acctbal = ? WHERE s_suppkey = ?", values)

    def _part(self, random: np.random.Generator, order: int) -> Transaction:
        values = (int(random.integers(1, 51)), str(random.choice(CONTAINERS)), int(random.integers(1, self._parts + 1)))
        return _update("parts", "part SET p_size = ?, p_container = ? WHERE p_partkey = ?", values)


def _update(source: str, text: str, values: tuple[Any, ...]) -> Transaction:
    return Transaction(source, ((f"UPDATE {text}", values),), 1)


def commit(sources: Sources, transactions: Iterable[Transaction]) -> None:
    """Each with a COMMIT of its own. SQLite through the library that the engine uses: two copies of it in one process
    lose each other's locks."""
    with ExitStack() as opened:
        sales = opened.enter_context(psycopg.connect(sources.sales, autocommit=True))
        sales.execute("SET synchronous_commit = off")
        files = {name: opened.enter_context(_file(sources.folder / f"{name}.db")) for name in FILES}
        begins = {name: ["BEGIN IMMEDIATE", *_marks_of(file)] for name, file in files.items()}
        for one in transactions:
            if one.source == "sales":
                with sales.transaction():
                    for sql, values in one.statements:
                        sales.execute(sql.replace("?", "%s"), values)
                continue
            for sql in begins[one.source]:
                files[one.source].execute(sql)
            for sql, values in one.statements:
                files[one.source].execute(sql, values)
            files[one.source].execute("COMMIT")


@contextmanager
def _file(path: Path) -> Iterator[Any]:
    with adbc.connect(str(path), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 20000")
        yield cursor


def _marks_of(file: Any) -> list[str]:
    """What tells a captured file that a transaction begins."""
    file.execute("SELECT 1 FROM sqlite_master WHERE name = '_headwater_transaction'")
    return ["INSERT INTO _headwater_transaction(tag) VALUES (NULL)"] if file.fetchall() else []


def _money(random: np.random.Generator) -> float:
    return int(random.integers(-99_999, 1_000_000)) / 100


def _marks(row: tuple[Any, ...]) -> str:
    return ", ".join("?" * len(row))
