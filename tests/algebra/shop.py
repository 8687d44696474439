"""The sources that the view tests speak of: a shop, its customers, its stock."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.algebra import ViewDefinition, define, in_order, parse_views
from headwater.model.errors import UnknownName
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import Column, TableSchema


def table(source: str, called: str, schema: str = "", /, **columns: pa.DataType | None) -> TableSchema:
    """A table; a column without a type is one that Headwater cannot represent."""
    made = (Column(c, t, "geometry" if t is None else str(t)) for c, t in columns.items())
    return TableSchema(TableName(SourceName(source), called, schema), tuple(made))


class Known:
    """A catalog of the given tables."""

    def __init__(self, *tables: TableSchema) -> None:
        self.known = tables

    def sources(self) -> Sequence[str]:
        return list(dict.fromkeys(t.name.source for t in self.known))

    def tables(self, source: str) -> Sequence[str]:
        return [t.name.table for t in self.known if t.name.source == source]

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        for known in self.known:
            if known.name.source == source and known.name.table == table and schema in ("", known.name.schema):
                return known
        raise UnknownName("table", table, self.tables(source), f"in source {source}")


ORDERS = table(
    "shop",
    "orders",
    "public",
    id=pa.int64(),
    customer_id=pa.int64(),
    sku=pa.string(),
    qty=pa.int32(),
    status=pa.string(),
    day=pa.date32(),
    weight=pa.float64(),
    paid=pa.bool_(),
    made_at=pa.timestamp("us"),
    seen_at=pa.timestamp("us", "UTC"),
)
CUSTOMERS = table("crm", "customers", id=pa.int32(), name=pa.string(), region=pa.string(), spot=None, Zip=pa.string())
PRODUCTS = table("stock", "products", sku=pa.string(), title=pa.string(), price=pa.decimal128(10, 2))
PRICES = table("stock", "prices", sku=pa.string(), qty=pa.decimal128(12, 0), price=pa.decimal128(10, 2))
CATALOG = Known(ORDERS, CUSTOMERS, PRODUCTS, PRICES)


def view(select: str, catalog: Known = CATALOG) -> ViewDefinition:
    """The view `v` with this SELECT, which begins in line 2 of v.sql."""
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v AS\n{select}", "v.sql")
    return define(parsed, catalog)


def views(text: str, catalog: Known = CATALOG, file: str = "v.sql") -> dict[ViewName, ViewDefinition]:
    """The views of a file, each after those it reads."""
    parsed = in_order(parse_views(text, file))
    found: dict[ViewName, ViewDefinition] = {}
    for one in parsed:
        defined = define(one, catalog, found, [p.name for p in parsed])
        found[defined.name] = defined
    return found
