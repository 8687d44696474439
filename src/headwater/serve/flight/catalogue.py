"""What clients browse: catalogs, schemas, tables and what the server can, as the tables that Flight SQL wants.

There is one catalog, one schema in it, and every view is a table of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version

import pyarrow as pa

from headwater.serve import catalog
from headwater.serve.flight.wire import Fields

SCHEMA, KIND = "public", "TABLE"
_NAME, _TRANSACTIONS = pa.utf8(), 1
_KEYS = [
    ("pk_catalog_name", _NAME), ("pk_db_schema_name", _NAME), ("pk_table_name", _NAME), ("pk_column_name", _NAME),
    ("fk_catalog_name", _NAME), ("fk_db_schema_name", _NAME), ("fk_table_name", _NAME), ("fk_column_name", _NAME),
    ("key_sequence", pa.int32()), ("fk_key_name", _NAME), ("pk_key_name", _NAME), ("update_rule", pa.uint8()),
    ("delete_rule", pa.uint8()),
]  # fmt: skip
_FOREIGN = pa.schema(_KEYS).empty_table()
_PRIMARY = pa.schema([
    ("catalog_name", _NAME), ("db_schema_name", _NAME), ("table_name", _NAME), ("column_name", _NAME),
    ("key_name", _NAME), ("key_sequence", pa.int32()),
]).empty_table()  # fmt: skip
_VALUES = [
    pa.field("string_value", _NAME), pa.field("bool_value", pa.bool_()), pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()), pa.field("string_list", pa.list_(_NAME)),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
]  # fmt: skip
FACTS: Mapping[int, str | bool | int] = {
    0: "Headwater", 1: version("headwater"), 2: pa.__version__, 3: True, 4: True, 5: False, 8: _TRANSACTIONS, 9: False,
    504: '"',
}  # fmt: skip
"""By their numbers: name, version, version of Arrow, read-only, SQL, Substrait, transactions (but no savepoints),
cancel, how identifiers are quoted."""

Views = Mapping[str, pa.Schema]


def tables(said: Fields, views: Views) -> pa.Table:
    known = said.text(1) in (None, catalog.DATABASE) and _like(said.text(2), SCHEMA)
    kinds = said.texts(4)
    names = [n for n in sorted(views) if known and _like(said.text(3), n) and (not kinds or KIND in kinds)]
    found = {
        "catalog_name": pa.array([catalog.DATABASE] * len(names), _NAME),
        "db_schema_name": pa.array([SCHEMA] * len(names), _NAME),
        "table_name": pa.array(names, _NAME),
        "table_type": pa.array([KIND] * len(names), _NAME),
    }
    if said.whole(5):
        written = [views[name].serialize().to_pybytes() for name in names]
        found["table_schema"] = pa.array(written, pa.binary())
    must = ("table_name", "table_type", "table_schema")
    return pa.table(found, pa.schema([pa.field(n, c.type, n not in must) for n, c in found.items()]))


def catalogs(said: Fields, views: Views) -> pa.Table:
    return pa.table([[catalog.DATABASE]], pa.schema([pa.field("catalog_name", _NAME, False)]))


def schemas(said: Fields, views: Views) -> pa.Table:
    there = said.text(1) in (None, catalog.DATABASE) and _like(said.text(2), SCHEMA)
    schema = pa.schema([("catalog_name", _NAME), pa.field("db_schema_name", _NAME, False)])
    return pa.table([[catalog.DATABASE] * there, [SCHEMA] * there], schema)


def kinds(said: Fields, views: Views) -> pa.Table:
    return pa.table([[KIND]], pa.schema([pa.field("table_type", _NAME, False)]))


def facts(said: Fields, views: Views) -> pa.Table:
    wanted = said.wholes(1) or list(FACTS)
    shown = {number: FACTS[number] for number in wanted if number in FACTS}
    sorts: Sequence[type] = (str, bool, int)
    kind = [next(n for n, sort in enumerate(sorts) if type(value) is sort) for value in shown.values()]
    kind = [3 if number == 8 else k for number, k in zip(shown, kind, strict=True)]
    parts: list[list[object]] = [[] for _ in _VALUES]
    offsets = []
    for value, of in zip(shown.values(), kind, strict=True):
        offsets.append(len(parts[of]))
        parts[of].append(value)
    children = [pa.array(part, field.type) for part, field in zip(parts, _VALUES, strict=True)]
    values = pa.UnionArray.from_dense(
        pa.array(kind, pa.int8()), pa.array(offsets, pa.int32()), children, [field.name for field in _VALUES]
    )
    schema = pa.schema([pa.field("info_name", pa.uint32(), False), pa.field("value", values.type, False)])
    return pa.table([pa.array(list(shown), pa.uint32()), values], schema)


def _like(pattern: str | None, name: str) -> bool:
    """Whether a name has the form of a pattern: % stands for any text, _ for any letter."""
    if pattern is None:
        return True
    parts = {"%": ".*", "_": "."}
    return bool(re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), name, re.DOTALL | re.IGNORECASE))


COMMANDS: Mapping[str, Callable[[Fields, Views], pa.Table]] = {
    "CommandGetTables": tables,
    "CommandGetCatalogs": catalogs,
    "CommandGetDbSchemas": schemas,
    "CommandGetTableTypes": kinds,
    "CommandGetSqlInfo": facts,
    "CommandGetPrimaryKeys": lambda said, views: _PRIMARY,
    "CommandGetExportedKeys": lambda said, views: _FOREIGN,
    "CommandGetImportedKeys": lambda said, views: _FOREIGN,
    "CommandGetCrossReference": lambda said, views: _FOREIGN,
}
