"""What the embedded engine may decide in Spark's place: expressions that mean the same to both.

Columns, literals, comparisons of the same kind (whole numbers and decimals, text by its bytes, dates, instants,
booleans), AND, OR, NOT, IS NULL, IN, BETWEEN, LIKE, CASE and COALESCE of such, the first letters of a text, the year of
a date, sums and products whose digits all have room (`local_values`). Everything else is Spark's: divisions, casts that
may not fit, other functions, comparisons of text with numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.conditions import comparable, digits, kind_of
from headwater.algebra.relations import Expression, Name
from headwater.algebra.rules.fold_constants import date_of
from headwater.maintenance.operators.local_types import duck_type
from headwater.maintenance.operators.local_values import made_of

Types = Mapping[Name, pa.DataType]

_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_BOOL = pa.bool_()
_TEXT = (pa.string(), pa.large_string())
_PARTS = ("YEAR", "MONTH", "DAY")


def null_of(kind: pa.DataType) -> str:
    return f"CAST(NULL AS {duck_type(kind)})"


def local_sql(node: Expression, types: Types) -> str | None:
    """The expression in the embedded engine's words; None where it is Spark's to decide."""
    found = _value(node, types)
    return None if found is None else found[0]


def _value(node: Expression, types: Types) -> tuple[str, pa.DataType | None] | None:
    """The words, and the type; None for the type of a literal NULL."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return (node.name, types[node.name]) if node.name in types else None
    if isinstance(node, exp.Boolean):
        return ("TRUE" if node.this else "FALSE"), _BOOL
    if isinstance(node, exp.Null):
        return "NULL", None
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Null) and node.to.is_type(exp.DType.BOOLEAN):
        return "CAST(NULL AS BOOLEAN)", _BOOL
    day = date_of(node)
    if day is not None:
        return f"DATE '{day.isoformat()}'", pa.date32()
    if isinstance(node, exp.And | exp.Or):
        return _connected(node, types)
    if isinstance(node, exp.Not):
        denied = _boolean(node.this, types)
        return None if denied is None else (f"(NOT {denied})", _BOOL)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        inner = _value(node.this, types)
        return None if inner is None else (f"({inner[0]} IS NULL)", _BOOL)
    if isinstance(node, exp.NullSafeEQ):
        return _compared(node.this, "IS NOT DISTINCT FROM", node.expression, types)
    if type(node) in _COMPARED:
        return _compared(node.this, _COMPARED[type(node)], node.expression, types)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = _compared(node.this, ">=", node.args["low"], types)
        high = _compared(node.this, "<=", node.args["high"], types)
        return None if low is None or high is None else (f"({low[0]} AND {high[0]})", _BOOL)
    if isinstance(node, exp.In) and node.expressions:
        parts = [_compared(node.this, "=", e, types) for e in node.expressions]
        return None if any(p is None for p in parts) else (f"({' OR '.join(p[0] for p in parts if p)})", _BOOL)
    if isinstance(node, exp.Like):
        return _like(node, types)
    if isinstance(node, exp.Substring):
        return _substring(node, types)
    if isinstance(node, exp.Extract) and node.name.upper() in _PARTS:
        found = _value(node.expression, types)
        text = f"CAST(EXTRACT({node.name} FROM {found[0]}) AS INTEGER)" if found else ""
        return (text, pa.int32()) if found and found[1] == pa.date32() else None
    if isinstance(node, exp.Coalesce):
        return _same([node.this, *node.expressions], types, lambda parts: f"COALESCE({', '.join(parts)})")
    if isinstance(node, exp.Case) and node.args.get("this") is None:
        return _case(node, types)
    return made_of(node, lambda part: _value(part, types))


def may_fail(node: Expression, types: Types) -> bool:
    """Whether there are values of which it has no result: a sum of whole numbers may have no room. Such an expression
    is kept away from rows that never were, and it is Spark's, which names the row, wherever Spark can be asked."""
    found = (_value(part, types) for part in node.find_all(exp.Add, exp.Sub, exp.Mul, exp.Neg))
    return any(one is None or one[1] is None or pa.types.is_integer(one[1]) for one in found)


def _like(node: exp.Like, types: Types) -> tuple[str, pa.DataType] | None:
    """By a pattern that escapes nothing: how that is done differs."""
    found, pattern = _value(node.this, types), node.expression
    if found is None or found[1] not in _TEXT or not (isinstance(pattern, exp.Literal) and pattern.is_string):
        return None
    words = _literal(pattern)
    if words is None or "\\" in pattern.name:
        return None
    return f"({found[0]} {'NOT LIKE' if node.args.get('negate') else 'LIKE'} {words[0]})", _BOOL


def _substring(node: exp.Substring, types: Types) -> tuple[str, pa.DataType] | None:
    """Of text, from a place that is there."""
    found = _value(node.this, types)
    bounds = [node.text("start"), node.text("length")]
    if found is None or found[1] not in _TEXT or not all(b.isdigit() for b in bounds) or int(bounds[0]) == 0:
        return None
    return f"SUBSTRING({found[0]}, {bounds[0]}, {bounds[1]})", pa.string()


def _literal(node: exp.Literal) -> tuple[str, pa.DataType] | None:
    if node.is_string:
        return "'" + node.name.replace("'", "''") + "'", pa.string()
    text = node.name
    if text.isdigit() and len(text) <= 18:
        return text, pa.int32() if int(text) < 2**31 else pa.int64()
    whole, _, part = text.partition(".")
    if whole.isdigit() and part.isdigit() and len(whole) + len(part) <= 30:
        return f"CAST({text} AS DECIMAL({len(whole) + len(part)}, {len(part)}))", pa.decimal128(
            len(whole) + len(part), len(part)
        )
    return None


def _boolean(node: Expression, types: Types) -> str | None:
    found = _value(node, types)
    return found[0] if found is not None and found[1] == _BOOL else None


def _connected(node: Expression, types: Types) -> tuple[str, pa.DataType] | None:
    left, right = _boolean(node.this, types), _boolean(node.expression, types)
    if left is None or right is None:
        return None
    return f"({left} {'AND' if isinstance(node, exp.And) else 'OR'} {right})", _BOOL


def _compared(left: Expression, operator: str, right: Expression, types: Types) -> tuple[str, pa.DataType] | None:
    a, b = _value(left, types), _value(right, types)
    if a is None or b is None or a[1] is None or b[1] is None or not equal_here(a[1], b[1]):
        return None
    if kind_of(a[1]) == "float" and not (
        isinstance(left.unnest(), exp.Column) and isinstance(right.unnest(), exp.Column)
    ):
        return None
    return f"({a[0]} {operator} {b[0]})", _BOOL


def equal_here(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether values of the two types compare the same in both engines."""
    if not comparable(a, b) or pa.types.is_null(a) or pa.types.is_null(b):
        return False
    if {kind_of(a), kind_of(b)} <= {"integer", "decimal"}:
        whole, scale = (max(digits(a)[n], digits(b)[n]) for n in (0, 1))
        return whole + scale <= 38
    return True


def _same(
    nodes: Sequence[Expression], types: Types, make: Callable[[list[str]], str]
) -> tuple[str, pa.DataType] | None:
    """Of several values of one type."""
    parts = [_value(n, types) for n in nodes]
    if any(p is None for p in parts):
        return None
    kinds = {p[1] for p in parts if p is not None and p[1] is not None}
    if len(kinds) != 1:
        return None
    return make([p[0] for p in parts if p is not None]), kinds.pop()


def _case(node: exp.Case, types: Types) -> tuple[str, pa.DataType] | None:
    branches = node.args["ifs"]
    tests = [_boolean(b.this, types) for b in branches]
    if any(t is None for t in tests):
        return None
    last = node.args.get("default")
    results = [b.args["true"] for b in branches] + ([last] if last is not None else [])
    parts = [_value(r, types) for r in results]
    if any(p is None for p in parts):
        return None
    kinds = {p[1] for p in parts if p is not None and p[1] is not None}
    whole = all(k is not None and pa.types.is_integer(k) for k in kinds)
    if len(kinds) != 1 and not (kinds and whole):
        return None
    kind = next(iter(kinds)) if len(kinds) == 1 else pa.int64()
    if kind != pa.int64() and whole and len(kinds) > 1:
        return None
    words = [f"WHEN {t} THEN {p[0]}" for t, p in zip(tests, parts, strict=False) if p is not None]
    otherwise = f" ELSE {parts[-1][0]}" if last is not None and parts[-1] is not None else ""
    return f"CASE {' '.join(words)}{otherwise} END", kind
