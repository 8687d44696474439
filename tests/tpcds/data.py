"""Tiny random data for TPC-DS that its queries find something in: a column holds the constants that queries compare it
with, and a few other values; a foreign key is that of some row; days and times are what their keys say they are.

Transactions are random rows that come, change and go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.statements import ParsedView
from headwater.model.names import TableName
from headwater.model.schema import Column
from tpch.standard import read_schema, read_views
from tpch.world import Edit, Row, World

SCHEMA = read_schema(Path(__file__).parent / "schema.sql")
VIEWS = read_views(Path(__file__).parent / "queries")
FACTS = ("store_sales", "catalog_sales", "web_sales", "store_returns", "catalog_returns", "web_returns", "inventory")
ROWS = {**dict.fromkeys(FACTS, 60), "item": 8, "customer": 8, "customer_address": 6, "store": 4, "inventory": 40}
FEW = 5
"""Rows of every other table."""
OFTEN = 4
RETURNS = {
    "store_returns": {
        "sr_item_sk": "ss_item_sk",
        "sr_ticket_number": "ss_ticket_number",
        "sr_customer_sk": "ss_customer_sk",
    },
    "catalog_returns": {"cr_item_sk": "cs_item_sk", "cr_order_number": "cs_order_number"},
    "web_returns": {"wr_item_sk": "ws_item_sk", "wr_order_number": "ws_order_number"},
    "catalog_sales": {"cs_item_sk": "ss_item_sk", "cs_bill_customer_sk": "ss_customer_sk"},
}
"""What is taken from some sale: what comes back was sold, and people buy again what they know."""

DAYS = [date(1999, 11, 1) + timedelta(n) for n in (*range(0, 61, 12), 80, 130, 200, 290, *range(366, 427, 5), 440, 460)]
TIMES = (8 * 3600 + 1800, 9 * 3600, 9 * 3600 + 2100, 12 * 3600, 15 * 3600 + 60, 20 * 3600 + 2000)
FIRST_DAY = date(1900, 1, 1)


def compared(views: Iterable[ParsedView]) -> dict[str, list[Any]]:
    """By column, the constants that queries compare it with most often."""
    found: dict[str, Counter[Any]] = defaultdict(Counter)
    for view in views:
        for node in view.select.find_all(exp.EQ, exp.In, exp.Between):
            subject = node.this.find(exp.Column)
            parts = [node.expression, *node.expressions, node.args.get("low"), node.args.get("high")]
            if subject is not None:
                found[subject.name].update(c for part in parts if (c := _constant(part)) is not None)
    return {name: [value for value, _ in counts.most_common(OFTEN)] for name, counts in found.items()}


def _constant(node: exp.Expr | None) -> Any:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return -Decimal(node.this.name)
    return (node.name if node.is_string else Decimal(node.name)) if isinstance(node, exp.Literal) else None


class Rows:
    """Makes rows of any table."""

    def __init__(self, random: Random) -> None:
        self._random, self._known = random, compared(VIEWS.values())
        self._sold: dict[str, Any] = {}

    def row(self, table: TableName, number: int) -> Row:
        if table.table == "date_dim":
            return self._day(DAYS[number % len(DAYS)])
        if table.table == "time_dim":
            return self._time(TIMES[number % len(TIMES)])
        key, columns = SCHEMA[table].key, SCHEMA[table].columns
        made = {c.name: self._value(c, c.name in key) for c in columns}
        if len(key) == 1:
            made[key[0]] = number
        copied = RETURNS.get(table.table, {})
        if all(old in self._sold for old in copied.values()) and self._random.random() < 0.8:
            made |= {new: self._sold[old] for new, old in copied.items()}
        if self._random.random() < 0.3:
            self._sold |= made
        return tuple(made[c.name] for c in columns)

    def _value(self, column: Column, key: bool) -> Any:
        random = self._random
        if not key and random.random() < 0.04:
            return None
        if column.name.endswith("_sk"):
            return self._reference(column.name)
        known = [v for v in self._known.get(column.name, ()) if isinstance(v, str) == _text(column)]
        if known and random.random() < 0.85:
            return self._as(column, random.choice(known))
        if _text(column):
            return random.choice((f"{column.name}-1", f"{column.name}-2"))
        if pa.types.is_date(column.type):
            return random.choice(DAYS)
        return self._as(
            column, Decimal(random.randint(1, 9 if "number" in column.name or "_id" in column.name else 120))
        )

    def _as(self, column: Column, value: Any) -> Any:
        return int(value) if pa.types.is_integer(column.type) else value

    def _reference(self, name: str) -> int:
        if "date_sk" in name:
            return _day_key(self._random.choice(DAYS))
        if "time_sk" in name:
            return self._random.choice(TIMES)
        table = next((t for t in ("item", "customer", "store") if name.endswith(f"{t}_sk")), "")
        return self._random.randint(1, ROWS.get("customer_address" if "addr" in name else table, FEW))

    def _day(self, day: date) -> Row:
        quarter = (day.month - 1) // 3 + 1
        months = (day.year - 1900) * 12 + day.month - 1
        special = {
            "d_date_sk": _day_key(day),
            "d_date": day,
            "d_month_seq": months,
            "d_week_seq": ((day - FIRST_DAY).days + 1) // 7 + 1,
            "d_quarter_seq": (day.year - 1900) * 4 + quarter - 1,
            "d_year": day.year,
            "d_dow": (day.weekday() + 1) % 7,
            "d_moy": day.month,
            "d_dom": day.day,
            "d_qoy": quarter,
            "d_day_name": day.strftime("%A"),
            "d_quarter_name": f"{day.year}Q{quarter}",
        }
        return tuple(special.get(c.name) for c in SCHEMA[_named("date_dim")].columns)

    def _time(self, second: int) -> Row:
        hour = second // 3600
        meal = "breakfast" if hour < 10 else "dinner" if hour > 17 else None
        special = {
            "t_time_sk": second,
            "t_time": second,
            "t_hour": hour,
            "t_minute": second // 60 % 60,
            "t_second": second % 60,
            "t_am_pm": "AM" if hour < 12 else "PM",
            "t_meal_time": meal,
        }
        return tuple(special.get(c.name) for c in SCHEMA[_named("time_dim")].columns)


def _text(column: Column) -> bool:
    return bool(pa.types.is_string(column.type))


def _day_key(day: date) -> int:
    return 2415021 + (day - FIRST_DAY).days


def _named(table: str) -> TableName:
    return next(name for name in SCHEMA if name.table == table)


def size(table: str) -> int:
    return {"date_dim": len(DAYS), "time_dim": len(TIMES)}.get(table, ROWS.get(table, FEW))


def tiny(seed: int) -> dict[TableName, list[Row]]:
    """All tables, some rows of each in turn."""
    make = Rows(Random(seed))
    found: dict[TableName, list[Row]] = {name: [] for name in SCHEMA}
    for n in range(1, max(map(size, (name.table for name in SCHEMA))) + 1):
        for name in sorted(SCHEMA, key=lambda t: "returns" in t.table):
            if n <= size(name.table):
                found[name].append(make.row(name, n))
    return found


class Transactions:
    """Of the tables that a view reads; facts change more often than what they speak of."""

    def __init__(self, world: World, seed: int, tables: Iterable[TableName]) -> None:
        self._world, self._random = world, Random(seed)
        self._make, self._next = Rows(self._random), 1000
        self._tables = sorted(set(tables))

    def next(self) -> list[Edit]:
        weights = [4 if name.table in FACTS else 1 for name in self._tables]
        return [self._edit(t) for t in self._random.choices(self._tables, weights, k=self._random.choice((1, 2, 5)))]

    def _edit(self, table: TableName) -> Edit:
        rows, self._next = self._world.rows[table], self._next + 1
        old = self._random.choice(list(rows.values())) if rows and self._random.random() < 0.6 else None
        if old is not None and self._random.random() < 0.5:
            return (table, old, None)
        new = self._make.row(table, self._next)
        if old is None:
            return (table, None, new)
        key = SCHEMA[table].key
        names = [c.name for c in SCHEMA[table].columns]
        return (table, old, tuple(o if n in key else v for n, o, v in zip(names, old, new, strict=True)))
