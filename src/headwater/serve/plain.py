"""Plain questions: some columns of one view, all of it or by key.

    SELECT id, name AS who FROM people WHERE id = $1 LIMIT 1

They are most of what programs ask, and need no engine: rows by key are looked up, a whole view is read as it stands.
What is not exactly that is not plain, and the engine answers it; so nothing here changes what a question means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headwater.serve import types

_WHOLE = re.compile(r"[+-]?\d{1,19}")
_SIZES = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_CASTS = {
    exp.DataType.Type.SMALLINT: 16, exp.DataType.Type.INT: 32, exp.DataType.Type.BIGINT: 64,
    exp.DataType.Type.VARCHAR: 0, exp.DataType.Type.TEXT: 0,
}  # fmt: skip
_OIDS = {types.INT2.oid: 16, types.INT4.oid: 32, types.INT8.oid: 64}


@dataclass(frozen=True)
class Value:
    """What a column is compared with: a text as it was written, or the number of a parameter. `bits`: it is a whole
    number of that size; 0: a text; None: whatever the column is."""

    text: str
    parameter: int = 0
    bits: int | None = None


@dataclass(frozen=True)
class Plain:
    """`columns` are (name in the view, name in the answer); none: all of them, in their order."""

    view: str
    columns: tuple[tuple[str, str], ...]
    where: tuple[tuple[str, Value], ...]
    limit: int | None

    def shown(self, schema: pa.Schema) -> list[tuple[str, str]] | None:
        """The columns of the answer, or None if the view has not exactly these."""
        names = self.columns or tuple((name, name) for name in schema.names)
        known = set(schema.names)
        wanted = {name for name, _ in names} | {name for name, _ in self.where}
        return list(names) if wanted <= known and all(_flat(schema.field(name).type) for name in wanted) else None

    def keys(self, schema: pa.Schema, values: Sequence[str | None], oids: Sequence[int]) -> Mapping[str, object] | None:
        """The values to look for, as the columns have them; None if that takes an engine's knowledge of types."""
        found: dict[str, object] = {}
        for name, value in self.where:
            text, bits = value.text, value.bits
            if value.parameter:
                said = values[value.parameter - 1] if value.parameter <= len(values) else None
                if said is None:
                    return None
                oid = oids[value.parameter - 1] if value.parameter <= len(oids) else 0
                known = types.BY_OID.get(oid)
                if oid not in _OIDS and oid and (known is None or known.category != "S"):
                    return None
                if oid in _OIDS and bits == 0:
                    return None
                text, bits = said, _OIDS.get(oid) if bits is None else bits
            kind, size = schema.field(name).type, _SIZES.get(schema.field(name).type)
            if kind == pa.string() and bits in (None, 0):
                found[name] = text
            elif size and bits != 0 and _WHOLE.fullmatch(text) and _fits(int(text), min(size, bits or size)):
                found[name] = int(text)
            else:
                return None
        return found


def plain(tree: exp.Expression, views: Sequence[str]) -> Plain | None:
    """What is plain in a query, if it is."""
    if not isinstance(tree, exp.Select) or len(views) != 1:
        return None
    said = {name: value for name, value in tree.args.items() if value}
    if not {"expressions", "from_"} <= said.keys() <= {"expressions", "from_", "where", "limit"}:
        return None
    table = said["from_"].this
    if not isinstance(table, exp.Table) or not {n for n, v in table.args.items() if v} <= {"this", "alias"}:
        return None
    alias = table.args.get("alias")
    if alias is not None and {n for n, v in alias.args.items() if v} != {"this"}:
        return None
    try:
        named = {(alias.name if alias is not None else table.name).lower(), ""}
        columns = tuple(_columns(tree, named))
        where = tuple(_conditions(said["where"].this, named)) if "where" in said else ()
        limit = _limit(said["limit"]) if "limit" in said else None
    except _NotPlain:
        return None
    names = [name for name, _ in where]
    return Plain(views[0], columns, where, limit) if len(set(names)) == len(names) else None


class _NotPlain(Exception):
    pass


def _columns(tree: exp.Select, named: set[str]) -> Iterator[tuple[str, str]]:
    only = tree.expressions[0]
    if len(tree.expressions) == 1 and type(only) is exp.Star and not any(only.args.values()):
        return
    for shown in tree.expressions:
        inner = shown.this if isinstance(shown, exp.Alias) else shown
        yield _column(inner, named), shown.alias if isinstance(shown, exp.Alias) else inner.name


def _column(node: Any, named: set[str]) -> str:
    if type(node) is not exp.Column or not isinstance(node.this, exp.Identifier) or node.table.lower() not in named:
        raise _NotPlain
    return str(node.name)


def _conditions(node: Any, named: set[str]) -> Iterator[tuple[str, Value]]:
    if isinstance(node, exp.Paren):
        yield from _conditions(node.this, named)
    elif type(node) is exp.And:
        yield from _conditions(node.this, named)
        yield from _conditions(node.expression, named)
    elif type(node) is exp.EQ:
        sides = (node.this, node.expression) if isinstance(node.this, exp.Column) else (node.expression, node.this)
        yield _column(sides[0], named), _value(sides[1])
    else:
        raise _NotPlain


def _value(node: Any) -> Value:
    if isinstance(node, exp.Paren):
        return _value(node.this)
    if type(node) is exp.Cast and node.to.this in _CASTS and not node.to.expressions:
        inner, bits = _value(node.this), _CASTS[node.to.this]
        if (inner.parameter or inner.bits is None) and inner.bits in (None, bits):
            return Value(inner.text, inner.parameter, bits)
        raise _NotPlain
    if isinstance(node, exp.Parameter) and node.name.isdecimal() and int(node.name):
        return Value("", int(node.name))
    negative = isinstance(node, exp.Neg)
    node = node.this if negative else node
    if isinstance(node, exp.Literal) and not (negative and node.is_string):
        return Value(("-" if negative else "") + node.name, 0, None if node.is_string else 64)
    raise _NotPlain


def _limit(node: Any) -> int:
    count = node.expression
    if not isinstance(count, exp.Literal) or count.is_string or not count.name.isdecimal():
        raise _NotPlain
    return int(count.name)


def _fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _flat(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "us" and kind.tz in (None, "UTC"))
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary,
             pa.types.is_date32, pa.types.is_decimal128)  # fmt: skip
    return any(test(kind) for test in tests)
