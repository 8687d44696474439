"""Values that the embedded engine may compute in Spark's place.

a + b, a - b, a * b, -a      of whole numbers (both engines fail where the result has no room), of decimals whose
                             result keeps all its digits, of doubles
a % 7                        of a whole number and one that is written down
a || b, CONCAT(a, b)         of texts and whole numbers; NULL of a NULL
CAST(a AS …)                 of a whole number to a larger one or to text, of anything to what it is
array(a, …), array_append, array_contains
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from headwater.maintenance.operators.local_types import duck_type

Value = tuple[str, pa.DataType | None]
"""The words, and the type; None for the type of a literal NULL."""
Made = Callable[[exp.Expr], Value | None]

_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_WHOLE = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""Digits of whole numbers, as Spark counts them."""
_TEXT = (pa.string(), pa.large_string())
_CASTS = {
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.TEXT: pa.string(),
    exp.DType.VARCHAR: pa.string(),
}


def made_of(node: exp.Expr, value: Made) -> Value | None:
    """The expression, if it is one of these; `value` is for its parts."""
    if type(node) in _ARITHMETIC:
        return _arithmetic(_ARITHMETIC[type(node)], value(node.this), value(node.expression))
    if isinstance(node, exp.Mod):
        by = node.expression.unnest()
        if not isinstance(by, exp.Literal) or by.is_string or not by.name.isdigit() or int(by.name) == 0:
            return None
        made = _arithmetic("%", value(node.this), value(by))
        return made if made is not None and made[1] in _WHOLE else None
    if isinstance(node, exp.Neg):
        found = value(node.this)
        return (f"(-{found[0]})", found[1]) if found is not None and found[1] in _WHOLE else None
    if isinstance(node, exp.DPipe):
        return _concatenated([value(node.this), value(node.expression)])
    if isinstance(node, exp.Cast):
        return _cast(value(node.this), _CASTS.get(node.to.this) if not node.to.expressions else None)
    if isinstance(node, exp.Array):
        return _array([value(e) for e in node.expressions])
    if isinstance(node, exp.Anonymous):
        return _called(node.name.lower(), [value(e) for e in node.expressions])
    return None


def _arithmetic(sign: str, a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None or a[1] is None or b[1] is None:
        return None
    kinds = (a[1], b[1])
    if all(kind in _WHOLE for kind in kinds):
        kind = max(kinds, key=lambda k: _WHOLE[k])
        words = duck_type(kind)
        return f"(CAST({a[0]} AS {words}) {sign} CAST({b[0]} AS {words}))", kind
    if all(kind == pa.float64() for kind in kinds):
        return f"({a[0]} {sign} {b[0]})", pa.float64()
    digits = [_digits(kind) for kind in kinds]
    if any(d is None for d in digits):
        return None
    (p, s), (q, t) = (d for d in digits if d is not None)
    if sign == "*":
        made = (p + q + 1, s + t)
        if made[0] > 38:
            return None
        return f"CAST(({a[0]} * {b[0]}) AS DECIMAL({made[0]}, {made[1]}))", pa.decimal128(*made)
    made = (max(p - s, q - t) + max(s, t) + 1, max(s, t))
    if made[0] > 38:
        return None
    words = f"DECIMAL({made[0]}, {made[1]})"
    return f"CAST((CAST({a[0]} AS {words}) {sign} CAST({b[0]} AS {words})) AS {words})", pa.decimal128(*made)


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    return (_WHOLE[kind], 0) if kind in _WHOLE else None


def _concatenated(parts: list[Value | None]) -> Value | None:
    words = []
    for part in parts:
        if part is None or (part[1] not in _TEXT and part[1] not in _WHOLE):
            return None
        words.append(part[0] if part[1] in _TEXT else f"CAST({part[0]} AS VARCHAR)")
    return f"({' || '.join(words)})", pa.string()


def _cast(found: Value | None, kind: pa.DataType | None) -> Value | None:
    if found is None or kind is None or found[1] is None:
        return None
    same = found[1] == kind or (found[1] in _TEXT and kind == pa.string())
    larger = found[1] in _WHOLE and (kind == pa.string() or _WHOLE.get(kind, 0) >= _WHOLE[found[1]])
    return (f"CAST({found[0]} AS {duck_type(kind)})", kind) if same or larger else None


def _array(parts: list[Value | None]) -> Value | None:
    kinds = {part[1] for part in parts if part is not None}
    if not parts or any(part is None for part in parts) or len(kinds) != 1 or None in kinds:
        return None
    return f"[{', '.join(part[0] for part in parts if part is not None)}]", pa.list_(kinds.pop())


def _called(name: str, given: list[Value | None]) -> Value | None:
    if any(part is None for part in given):
        return None
    parts = [part for part in given if part is not None]
    if name == "concat" and len(parts) > 1:
        return _concatenated(given)
    if name in ("array_append", "array_contains") and len(parts) == 2:
        (items, kind), (item, its) = parts
        if kind is None or not pa.types.is_list(kind) or kind.value_type != its or its not in (*_TEXT, *_WHOLE):
            return None
        if name == "array_append":
            return f"CASE WHEN {items} IS NOT NULL THEN list_append({items}, {item}) END", kind
        nulls = f"list_aggregate({items}, 'count') < len({items})"
        text = (
            f"CASE WHEN {items} IS NULL OR {item} IS NULL THEN NULL WHEN list_contains({items}, {item}) THEN TRUE"
            f" WHEN {nulls} THEN NULL ELSE FALSE END"
        )
        return f"({text})", pa.bool_()
    return None
