"""Parameters become literals: one of unknown type takes the type that it is compared with, as in PostgreSQL.

A query that is asked again with other values is written once, with marks in the places of its texts; then the values
are put in. That is done only where a value stands beside a comparison: elsewhere (a format, a path) what is written
may depend on what the value says.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from sqlglot import exp

from headwater.serve import types
from headwater.serve.errors import Refused

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MARK = re.compile("\x02(\\d+)\x03")
_BESIDE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.ILike)
WRITTEN = 16

_Kinds = tuple[int, ...]


class Template:
    """A query for the engine, whose parameters are to be given."""

    def __init__(self, tree: exp.Expression) -> None:
        self._tree, self._lock = tree, Lock()
        found = [(node, _number(node)) for node in tree.find_all(exp.Parameter)]
        self.parameters = max((number for _, number in found), default=0)
        written = tree.sql(dialect="duckdb")
        self._plain = None if found else written
        self._beside = "\x02" not in written and all(isinstance(_above(node), _BESIDE) for node, _ in found)
        self._written: OrderedDict[_Kinds, tuple[str, ...]] = OrderedDict()

    def bound(self, values: Sequence[str | None], oids: Sequence[int]) -> str:
        """As the engine takes it, with these values for $1, $2, …"""
        if len(values) < self.parameters:
            said = f"there are {len(values)} values for {self.parameters} parameters"
            raise Refused("08P01", said, "give one for each of $1, $2, …")
        if self._plain is not None:
            return self._plain
        kinds = tuple(oids[n] if n < len(oids) else 0 for n in range(self.parameters))
        if not self._beside or not all(_quoted(kind) for kind in kinds) or None in values:
            return self._with(values, kinds)
        parts = self._parts(kinds)
        return "".join(part if n % 2 == 0 else _escaped(values[int(part)]) for n, part in enumerate(parts))

    def _parts(self, kinds: _Kinds) -> tuple[str, ...]:
        """The text between the marks, and the number of each mark, in turn."""
        with self._lock:
            found = self._written.get(kinds)
            if found is None:
                found = tuple(_MARK.split(self._with([f"\x02{n}\x03" for n in range(self.parameters)], kinds)))
                self._written[kinds] = found
                while len(self._written) > WRITTEN:
                    self._written.popitem(last=False)
            return found

    def _with(self, values: Sequence[str | None], kinds: _Kinds) -> str:
        tree = self._tree.copy()
        for node in list(tree.find_all(exp.Parameter)):
            number = _number(node)
            oid = kinds[number - 1]
            node.replace(_literal(values[number - 1], oid or (types.TEXT.array if _listed(node) else 0)))
        return tree.sql(dialect="duckdb")


def _quoted(oid: int) -> bool:
    """Whether a value of that type is written in quotes, whatever it is."""
    kind = types.BY_OID.get(oid)
    return oid == 0 or (kind is not None and kind not in (types.NUMERIC, types.BYTEA))


def _escaped(value: str | None) -> str:
    assert value is not None
    return value.replace("'", "''")


def _above(node: exp.Expression) -> Any:
    above: Any = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return above


def _number(node: exp.Parameter) -> int:
    said = node.name
    if not said.isdecimal() or not 0 < int(said) < 65536:
        raise Refused("42P02", f"there is no parameter ${said}", "parameters are $1, $2, …")
    return int(said)


def _listed(node: exp.Parameter) -> bool:
    """Whether it stands where an array is wanted: = ANY($1), $1::text[]."""
    above = _above(node)
    return isinstance(above, exp.Any) or (isinstance(above, exp.Cast) and above.to.is_type(exp.DataType.Type.ARRAY))


def _literal(value: str | None, oid: int) -> exp.Expression:
    kind = types.BY_OID.get(oid)
    inner = types.BY_ARRAY.get(oid)
    if inner is not None:
        listed = [] if value is None else [_literal(v, inner.oid) for v in types.read_array(value)]
        array: exp.Expression = exp.Null() if value is None else exp.Array(expressions=listed)
        return exp.cast(array, f"{inner.duck}[]", dialect="duckdb") if inner is not types.NUMERIC else array
    if value is None:
        typed = kind is not None and kind is not types.NUMERIC
        return exp.cast(exp.Null(), kind.duck, dialect="duckdb") if typed and kind is not None else exp.Null()
    if kind is None or kind.category == "S":
        return exp.Literal.string(value)
    if kind is types.NUMERIC:
        if not _NUMBER.fullmatch(value):
            raise Refused("22P02", f"{value!r} is no number")
        number = exp.Literal.number(value.lstrip("+-"))
        return exp.Paren(this=exp.Neg(this=number)) if value.startswith("-") else number
    if kind is types.BYTEA:
        if not re.fullmatch(r"\\x([0-9a-fA-F]{2})*", value):
            raise Refused("22P02", "bytes are not written in hexadecimal", r"write them as '\x00ff'")
        return exp.Anonymous(this="unhex", expressions=[exp.Literal.string(value[2:])])
    return exp.cast(exp.Literal.string(value), kind.duck, dialect="duckdb")
