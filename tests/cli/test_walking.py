"""What `plan` says of the way of a change, and of tables that are asked together."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from headwater.algebra import define, parse_views
from headwater.cli.plan import _together
from headwater.cli.walking import Meeting, Together, Walk, walk_of
from headwater.model.names import SourceName, TableName
from headwater.model.source import SourceSpec
from headwater.sources.memory import MemorySource, database
from maintenance.oracle import Memory

SHOP = {
    "orders": ({"id": pa.int64(), "customer": pa.int64()}, ("id",), (("customer",),)),
    "lines": ({"order_id": pa.int64(), "qty": pa.int64()}, (), (("order_id",),)),
}
CRM = {"customers": ({"id": pa.int64(), "name": pa.string()}, ("id",), ())}
ORDERS, LINES = (TableName(SourceName("shop"), name) for name in SHOP)


def walk(join: bool) -> Walk:
    sources = {}
    for name, tables in {"shop": SHOP, "crm": CRM}.items():
        spec = SourceSpec(SourceName(name), f"memory://walking-{name}")
        for table, (columns, key, indexes) in tables.items():
            database(spec.url).create(table, columns, key, indexes)
        sources[spec.name] = MemorySource(spec)
    (parsed,) = parse_views(
        "CREATE MATERIALIZED VIEW v AS SELECT o.id, l.qty, c.name FROM shop.orders o JOIN shop.lines l"
        " ON l.order_id = o.id JOIN crm.customers c ON c.id = o.customer",
        "v.sql",
    )
    view = define(parsed, Memory(sources))
    schemas = {name: schema for source in sources.values() for name, schema in source.describe().items()}
    types = {name: pa.schema([(c.name, c.type) for c in schema.columns]) for name, schema in schemas.items()}
    return walk_of(view, SimpleNamespace(schemas=types), schemas, join)  # type: ignore[arg-type]


def test_one_by_one() -> None:
    found = walk(join=False)
    assert (found.questions, found.for_themselves, list(found.together)) == (4, 0, [])
    assert found.orders["c"] == [Meeting("o", ("o.customer = c.id",)), Meeting("l", ("l.order_id = o.id",))]


def test_tables_that_are_asked_together_are_one_meeting() -> None:
    found = walk(join=True)
    assert (found.questions, found.for_themselves) == (2, 2)
    assert found.together == [Together((ORDERS, LINES), ("o.customer",))]
    assert str(_together(found.together[0])) == "shop.orders ⋈ shop.lines by o.customer, in one question"
    assert found.orders["c"] == [Meeting("o ⋈ l", ("o.customer = c.id",))]
    assert found.orders["l"] == [Meeting("o", ("o.id = l.order_id",)), Meeting("c", ("c.id = o.customer",))]
    assert {(look.table.table, look.columns) for look in found.lookups} == {
        ("customers", ("id",)),
        ("lines", ("order_id",)),
        ("orders", ("id",)),
    }
