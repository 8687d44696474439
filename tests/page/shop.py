"""A shop's warehouse, written by hand as a run would have written it: four views over three databases, a few hundred
transactions, a cut every few seconds. To look at the page without a JVM, the same every time."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from headwater.integrator.journal import Journal
from headwater.integrator.numbering import number
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import VIEWS, Position, Seq, SourceName, TableName, ViewName
from headwater.model.schema import Column, TableSchema
from headwater.model.source import ORDINAL, TRANSACTIONS, Poll
from headwater.runtime.project.about import About
from headwater.runtime.project.remembered import remember
from headwater.runtime.report import FILE, told
from headwater.runtime.snapshot import (
    Counts,
    FreshnessNow,
    GroupNow,
    LegNow,
    ManagerNow,
    MomentNow,
    RowNow,
    RunSnapshot,
    SourceNow,
    Totals,
)
from headwater.storage import Storage
from headwater.storage.records import encode
from headwater.warehouse.cuts import Cut, CutLog, ViewState
from headwater.warehouse.format import check_format
from headwater.warehouse.lock import Lock
from headwater.warehouse.table import ChangelogTable, write_file
from headwater.warehouse.verdicts import Verdict, record_verdicts

SHOP, CRM, STOCK = SourceName("shop"), SourceName("crm"), SourceName("stock")
ORDERS, CUSTOMERS, PRODUCTS = TableName(SHOP, "orders"), TableName(CRM, "customers"), TableName(STOCK, "products")
CITIES = ("Porto", "Graz", "Bergen", "Turin", "Ghent", "Lyon")
NAMES = ("Ada Moss", "Bo Nagy", "Chloé Fuchs", "Dora Kaya", "Emil Berg", "Hana Lund", "Jun Ito", "Noor Costa")
TITLES = ("blue tea", "fine paper", "red wool", "plain toys", "small garden set", "old music box")
ROUNDS, EACH, APART = 40, 8, 4.0
"""So many cuts, of so many transactions each, so many seconds apart."""

Row = dict[str, Any]
SETTINGS = """[sources.shop]
url = "sqlite:///shop.db"

[sources.crm]
url = "sqlite:///crm.db"

[sources.stock]
url = "sqlite:///stock.db"

[views.open_orders]
freshness = "5 s"

[views.busy_cities]
freshness = "5 s"
"""
VIEWS_SQL = {
    "open_orders": "SELECT o.id, c.name, c.city, p.title, o.qty, o.qty * p.price AS amount\nFROM shop.orders o\n"
    "JOIN crm.customers c ON c.id = o.customer_id\nJOIN stock.products p ON p.sku = o.sku\nWHERE o.status = 'open'",
    "busy_cities": "SELECT city, COUNT(*) AS orders, SUM(amount) AS amount\nFROM open_orders\nGROUP BY city",
    "best_sellers": "SELECT p.title, SUM(o.qty) AS sold\nFROM shop.orders o JOIN stock.products p ON p.sku = o.sku\n"
    "GROUP BY p.title",
    "customers": "SELECT id, name, city FROM crm.customers",
}
READS = {
    "open_orders": (ORDERS, CUSTOMERS, PRODUCTS),
    "busy_cities": (TableName(VIEWS, "open_orders"),),
    "best_sellers": (ORDERS, PRODUCTS),
    "customers": (CUSTOMERS,),
}
SCHEMAS = {
    "open_orders": pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("title", pa.string()),
         ("qty", pa.int32()), ("amount", pa.decimal128(12, 2))]
    ),
    "busy_cities": pa.schema([("city", pa.string()), ("orders", pa.int64()), ("amount", pa.decimal128(12, 2))]),
    "best_sellers": pa.schema([("title", pa.string()), ("sold", pa.int64())]),
    "customers": pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string())]),
}  # fmt: skip
TABLES = {
    ORDERS: {"id": pa.int64(), "customer_id": pa.int64(), "sku": pa.string(), "qty": pa.int32(), "status": pa.string()},
    CUSTOMERS: {"id": pa.int64(), "name": pa.string(), "city": pa.string()},
    PRODUCTS: {"sku": pa.string(), "title": pa.string(), "price": pa.decimal128(8, 2)},
}


@dataclass
class _World:
    """The views' rows as they are, and what a transaction does to them."""

    random: random.Random
    orders: dict[int, Row] = field(default_factory=dict)
    log: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in VIEWS_SQL})

    def open(self, key: int, seq: int) -> list[Row]:
        who, what, qty = (
            self.random.randrange(len(NAMES)),
            self.random.randrange(len(TITLES)),
            self.random.randint(1, 5),
        )
        amount = (7 + 3 * what) * qty
        shown = {"id": key, "name": NAMES[who], "city": CITIES[who % len(CITIES)], "title": TITLES[what], "qty": qty}
        self._put(seq, {**shown, "amount": amount}, 1)
        self.orders[key] = {**shown, "amount": amount}
        return [{"id": key, "customer_id": who, "sku": f"P{what:04}", "qty": qty, "status": "open", COUNT: 1}]

    def close(self, seq: int) -> list[Row]:
        key = self.random.choice(sorted(self.orders))
        gone = self.orders.pop(key)
        self._put(seq, gone, -1)
        order = {"id": key, "customer_id": NAMES.index(gone["name"]), "qty": gone["qty"]}
        order["sku"] = f"P{TITLES.index(gone['title']):04}"
        return [{**order, "status": "open", COUNT: -1}, {**order, "status": "shipped", COUNT: 1}]

    def _put(self, seq: int, order: Row, count: int) -> None:
        self.log["open_orders"].append({**order, COUNT: count, SEQ: seq})
        self._group("busy_cities", "city", order, {"orders": count, "amount": count * order["amount"]}, seq)
        if count > 0:
            self._group("best_sellers", "title", order, {"sold": order["qty"]}, seq)

    def _group(self, view: str, key: str, order: Row, more: Mapping[str, int], seq: int) -> None:
        log = self.log[view]
        old = next((row for row in reversed(log) if row[key] == order[key] and row[COUNT] > 0), None)
        if old is not None:
            log.append({**old, COUNT: -1, SEQ: seq})
        new = {name: (old[name] if old else 0) + value for name, value in more.items()}
        log.append({key: order[key], **new, COUNT: 1, SEQ: seq})


def shop_project(folder: Path, ended: float) -> Path:
    """A project whose last cut was made at `ended`."""
    folder.mkdir(parents=True)
    (folder / "headwater.toml").write_text(SETTINGS)
    storage = Storage(str(folder / "warehouse"))
    check_format(storage, create=True)
    world = _World(random.Random(7))
    world.log["customers"] = [
        {"id": n, "name": name, "city": CITIES[n % len(CITIES)], COUNT: 1, SEQ: 0} for n, name in enumerate(NAMES)
    ]
    tables = {name: ChangelogTable(storage, f"views/{name}/1/log") for name in VIEWS_SQL}
    for name, table in tables.items():
        table.create(pa.schema([*SCHEMAS[name], (COUNT, pa.int64()), (SEQ, pa.int64())]))
        statement = f"CREATE MATERIALIZED VIEW {name} WITH (consistency = 'complete') AS\n{VIEWS_SQL[name]};\n"
        reads: dict[TableName, Any] = {t: {} for t in READS[name]}
        about = About(ViewName(name), VIEWS_SQL[name], statement, f"views/{name}.sql", reads)
        storage.put(f"views/{name}/1/view.json", about.to_json())
    for table, columns in TABLES.items():
        known = [Column(name, kind, str(kind)) for name, kind in columns.items()]
        remember(storage, table.source, [TableSchema(table, tuple(known))])
    journal, cuts = Journal(storage), CutLog(storage)
    for turn in range(ROUNDS):
        _round(world, journal, cuts, tables, (turn, ended - (ROUNDS - 1 - turn) * APART))
    return folder


def _round(
    world: _World, journal: Journal, cuts: CutLog, tables: Mapping[str, ChangelogTable], moment: tuple[int, float]
) -> None:
    """Some transactions, journaled, computed and shown."""
    turn, at = moment
    changes: list[Row] = []
    before = {name: len(rows) for name, rows in world.log.items()} if turn else dict.fromkeys(world.log, 0)
    for n in range(EACH):
        seq = turn * EACH + n + 1
        closes = len(world.orders) > 20 and world.random.random() < 0.45
        rows = world.close(seq) if closes else world.open(1000 + seq, seq)
        changes += [{**row, ORDINAL: n} for row in rows]
    lag = 0.5 + world.random.random() * 1.4
    _journal(journal, turn * EACH, changes, [at - lag - 0.2 * (EACH - n) for n in range(EACH)])
    views = {}
    for name, table in tables.items():
        rows = world.log[name][before[name] :]
        found = pa.Table.from_pylist([_typed(name, row) for row in rows], table.schema)
        version = table.commit([write_file(cuts._storage, table.folder, found, "x")] if rows else [])
        own = tuple(sorted({t.source for t in READS[name] if t.source != VIEWS})) or (CRM, SHOP, STOCK)
        seq = Seq((turn + 1) * EACH)
        views[ViewName(name)] = ViewState(f"views/{name}/1", version, -1, seq, Seq(0), "complete", "f", own)
    cut = Cut(turn + 1, Seq((turn + 1) * EACH), {SHOP: Position(str(turn))}, {SHOP: "g"}, views)
    with patch("headwater.warehouse.cuts.time.time", return_value=at):
        cuts.append(cut)


def _typed(view: str, row: Row) -> Row:
    from decimal import Decimal

    return {**row, "amount": Decimal(row["amount"])} if "amount" in SCHEMAS[view].names else row


def _journal(journal: Journal, lo: int, changes: Sequence[Row], commits: Sequence[float]) -> None:
    types = [pa.field(n, t) for n, t in TABLES[ORDERS].items()]
    rows = pa.Table.from_pylist(list(changes), pa.schema([*types, (COUNT, pa.int64()), (ORDINAL, pa.int64())]))
    when = pa.array([dt.datetime.fromtimestamp(at, dt.UTC) for at in commits], TRANSACTIONS.field(1).type)
    names = pa.array([str(4200 + lo + n) for n in range(len(commits))])
    untagged = [pa.nulls(len(commits), pa.string()), pa.nulls(len(commits), pa.int32())]
    poll = Poll(Position(str(lo + len(commits))), pa.table([names, when, *untagged], TRANSACTIONS), {ORDERS: rows})
    journal.append(number(Seq(lo), {SHOP: Position(str(lo))}, {SHOP: poll}))


def verified(folder: Path) -> None:
    """As if verify had run now and then."""
    storage = Storage(str(folder / "warehouse"))
    rows = {"open_orders": 37, "busy_cities": 6, "best_sellers": 6, "customers": 8}
    for hours in (48, 24, 0):
        found = [Verdict(n, 320 - hours, time.time() - hours * 3600 - 700, True, rows[n]) for n in VIEWS_SQL]
        record_verdicts(storage, [replace(v) for v in found])


@contextmanager
def shop_running(folder: Path, **changes: Any) -> Iterator[None]:
    """As if a run maintained it, a little busy; told anew while the block lasts."""
    storage, done = Storage(str(folder / "warehouse")), threading.Event()

    def tell() -> None:
        while not done.is_set():
            storage.put(FILE, encode(told(_now(**changes))))
            done.wait(0.7)

    with Lock(storage, "headwater run"):
        teller = threading.Thread(target=tell)
        teller.start()
        try:
            yield
        finally:
            done.set()
            teller.join()
            storage.delete(FILE)


def _now(**changes: Any) -> RunSnapshot:
    now = time.time()
    newest, passed = Seq(ROUNDS * EACH), int(now * 13) % 10**6
    buckets = (0, 0, 6, 80, 31, 3, 0, 0, 0, 0, 0, 0, 0)
    names, taken = list(VIEWS_SQL), {SHOP: 8120, CRM: 911, STOCK: 2044}
    waits = dict(zip(names, ("", "view open_orders", "its own computation", ""), strict=True))
    managers = [
        ManagerNow(name, True, newest + 3, waits[name], now - 1.2, 410, 12, 1800,
                   FreshnessNow(0.9, now - 1.4 if waits[name] else None, 140.0, buckets))
        for name in names
    ]  # fmt: skip
    entries: dict[str, tuple[str, int]] = {"open_orders": ("r", newest + 2), "busy_cities": ("r", 0)}
    rows = [
        RowNow(newest, newest + 1, ["shop.orders"], now - 1.4, {**entries, "best_sellers": ("w", 0)}, ["open_orders"]),
        RowNow(newest + 1, newest + 2, ["crm.customers"], now - 1.1,
               {"open_orders": ("w", 0), "customers": ("r", 0)}, []),
        RowNow(newest + 2, newest + 4, ["shop.orders", "stock.products"], now - 0.6,
               dict.fromkeys(names[:3], ("w", 0)), []),
    ]  # fmt: skip
    facts: dict[str, Any] = {
        "at": now, "cut": ROUNDS, "seq": newest, "numbered": Seq(newest + 4),
        "totals": Totals(900.0, Counts(passed, 2 * passed, 640, 2950, 9000, 0, 1280, 0, 0, 4_000_000), 0.9, 0.84),
        "load": None,
        "sources": [SourceNow(s, "ok", "", now - 900, "1", "1", n, 0.9) for s, n in taken.items()],
        "views": [], "managers": managers,
        "groups": [GroupNow("Painting", [CRM, SHOP, STOCK], {name: name for name in names}, rows, 3, 1)],
        "building": None, "not_built": {}, "missing": [], "torn": [], "moments": _moments(names),
    }  # fmt: skip
    return RunSnapshot(**{**facts, **changes})


_BEGAN = time.time()


def _moments(names: list[str]) -> list[MomentNow]:
    """Three cuts of which the slowest view was waited for."""
    found = []
    for n in range(3):
        at = _BEGAN - 60 + 10 * n
        legs = [
            LegNow(name, 10 * n, 10 * n + 10, SHOP, at - 0.9, at - 0.7, at - 0.65, at - 0.5 + 0.12 * i, 2 + i, 0.05)
            for i, name in enumerate(names)
        ]
        found.append(MomentNow(ROUNDS - 2 + n, at, len(legs), legs[::-1]))
    return found
