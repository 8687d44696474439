"""σ, taken apart: what joins, what one source can decide alone, and what is left for Spark.

A conjunct of ON and WHERE becomes

    an equality   plain column = plain column of two different occurrences, of types that compare exactly;
    a condition   column op literal, in the forms that mean the same in every engine, if the column's type holds the
                  literal exactly;
    a residual    anything else, as Spark SQL over the core.

A view's columns have types that only Spark knows (UNTYPED): they may join, but a condition on them is a residual.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.dialect import over_core, spark_sql
from headwater.algebra.disjunctions import factored
from headwater.algebra.names import Bound, Scope
from headwater.algebra.view import UNTYPED, Equality, ViewDefinition
from headwater.model.conditions import Condition, Operator, Scalar
from headwater.model.errors import ViewSqlError
from headwater.model.names import TableName
from headwater.model.schema import Column, TableSchema

_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass
class Pieces:
    """`conditions` holds a list per occurrence. Nothing stands twice."""

    conditions: list[list[Condition]]
    equalities: list[Equality] = field(default_factory=list)
    residual: list[str] = field(default_factory=list)


def take_apart(trees: Sequence[exp.Expr], scope: Scope) -> Pieces:
    """The pieces of a conjunction of resolved trees."""
    pieces = Pieces([[] for _ in scope.bounds])
    for tree in trees:
        for conjunct in _conjuncts(factored(tree)):
            _sort_in(conjunct, scope, pieces)
    return pieces


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    elif not (isinstance(tree, exp.Boolean) and tree.this):
        yield tree


def _sort_in(conjunct: exp.Expr, scope: Scope, pieces: Pieces) -> None:
    equality = _equality(conjunct, scope)
    if equality is not None:
        if equality not in pieces.equalities:
            pieces.equalities.append(equality)
        return
    found = _conditions(conjunct, scope)
    if found is not None:
        bound, conditions = found
        known = pieces.conditions[bound.index]
        known.extend(c for c in conditions if c not in known)
        return
    text = spark_sql(over_core(conjunct))
    if text not in pieces.residual:
        pieces.residual.append(text)


def _equality(node: exp.Expr, scope: Scope) -> Equality | None:
    if not isinstance(node, exp.EQ):
        return None
    left, right = _column(node.this, scope), _column(node.expression, scope)
    if left is None or right is None or left[0] is right[0] or not comparable(left[2], right[2]):
        return None
    sides = sorted([(left[0].index, left[1]), (right[0].index, right[1])])
    return Equality(sides[0], sides[1])


def comparable(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether values of the two types are equal in every engine or in none. A type not known yet may be: ask again when
    it is."""
    kinds = kind_of(a), kind_of(b)
    if UNTYPED in (a, b):
        return all(kinds)
    if kinds[0] == "timestamp" == kinds[1]:
        return (a.tz is None) == (b.tz is None)
    return bool(kinds[0]) and (kinds[0] == kinds[1] or set(kinds) == {"integer", "decimal"})


def check_equalities(view: ViewDefinition, schemas: Mapping[TableName, pa.Schema]) -> None:
    """Once Spark has said the types of the views that it reads: raises ViewSqlError for a join that compares what does
    not compare exactly."""
    for equality in view.equalities:
        ends = [(view.occurrences[i], column) for i, column in (equality.left, equality.right)]
        (a, left), (b, right) = ((o.core(column), schemas[o.table].field(column).type) for o, column in ends)
        if not comparable(left, right):
            raise ViewSqlError(
                f"{view.file}:{view.line}: view {view.name}: {a} is {left} and {b} is {right}, which cannot be joined",
                "cast the column in the view that is read, such as CAST(x AS BIGINT) AS x",
            )
        if not {kind_of(left), kind_of(right)} <= {"integer", "decimal"}:
            continue
        whole, scale = (max(digits(left)[n], digits(right)[n]) for n in (0, 1))
        if whole + scale > 38:
            raise ViewSqlError(
                f"{view.file}:{view.line}: view {view.name}: {a} is {left} and {b} is {right}: no decimal of 38 digits"
                f" holds {whole} before and {scale} behind the point, so they cannot be compared exactly",
                "declare the columns numeric(p,s) with fewer digits at the sources, or make a view that says"
                f" {_narrower((a, left), (b, right))} AS x, and join that",
            )


def digits(kind: pa.DataType) -> tuple[int, int]:
    """How many digits an integer or a decimal has before and behind the point, as Spark counts them."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return {8: 3, 16: 5, 32: 10, 64: 20}[kind.bit_width], 0


def _narrower(a: tuple[str, pa.DataType], b: tuple[str, pa.DataType]) -> str:
    """The cast of the side with more digits behind the point, to as many as the other leaves room for."""
    (name, kind), (_, other) = (a, b) if digits(a[1])[1] > digits(b[1])[1] else (b, a)
    scale = min(digits(kind)[1], 38 - digits(other)[0])
    return f"CAST({name.rpartition('.')[2]} AS DECIMAL({digits(other)[0] + scale}, {scale}))"


def kind_of(kind: pa.DataType) -> str:
    types = pa.types
    tests = {
        "integer": types.is_integer,
        "decimal": types.is_decimal,
        "text": lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t),
        "bool": types.is_boolean,
        "date": types.is_date,
        "timestamp": types.is_timestamp,
        "binary": lambda t: types.is_binary(t) or types.is_large_binary(t) or types.is_fixed_size_binary(t),
        "float": types.is_floating,
        "untyped": types.is_null,
    }
    return next((name for name, test in tests.items() if test(kind)), "")


def _column(node: exp.Expr, scope: Scope) -> tuple[Bound, str, pa.DataType] | None:
    node = node.unnest()
    if not isinstance(node, exp.Column):
        return None
    bound = next(b for b in scope.bounds if b.alias == node.table)
    column = bound.schema.column(node.name)
    assert column is not None, "the tree is resolved"
    return bound, column.name, column.type


def pushed_conditions(parts: Sequence[exp.Expr], table: TableName, columns: tuple[Column, ...]) -> list[Condition]:
    """Those of the conjuncts that the source of a table can decide alone; they speak of these columns, without an
    alias."""
    bound = Bound(0, "", TableSchema(table, columns), ())
    scope = Scope((bound,), ())
    found: list[Condition] = []
    for part in parts:
        if all(bound.schema.column(c.name) is not None for c in part.find_all(exp.Column)):
            said = _conditions(part.unnest(), scope)
            found += [c for c in (said[1] if said else []) if c not in found]
    return found


def _conditions(node: exp.Expr, scope: Scope) -> tuple[Bound, list[Condition]] | None:
    """The conditions on one occurrence that `node` says, if it says nothing else."""
    inner = node.this.unnest() if isinstance(node, exp.Not) else node
    if inner.args.get("negate"):
        return None
    said = _column(inner, scope)
    if said is not None:
        bound, name, kind = said
        return (bound, [Condition(name, "=", inner is node)]) if kind_of(kind) == "bool" else None
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        tested = _column(inner.this, scope)
        if tested is None or tested[2] == UNTYPED:
            return None
        return tested[0], [Condition(tested[1], "is null" if inner is node else "is not null")]
    if isinstance(node, exp.In):
        return _member(node, scope)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        return _compared([(node.this, ">=", node.args["low"]), (node.this, "<=", node.args["high"])], scope)
    operator = _OPERATORS.get(type(node))
    if operator is None:
        return None
    if _column(node.this, scope) is None:
        return _compared([(node.expression, _FLIPPED[operator], node.this)], scope)
    return _compared([(node.this, operator, node.expression)], scope)


def _compared(parts: list[tuple[exp.Expr, Operator, exp.Expr]], scope: Scope) -> tuple[Bound, list[Condition]] | None:
    conditions = []
    for side, operator, literal in parts:
        said = _column(side, scope)
        if said is None:
            return None
        bound, name, kind = said
        value = _value(literal, kind)
        if value is None or (operator not in ("=", "<>") and kind_of(kind) in ("text", "bool")):
            return None
        conditions.append(Condition(name, operator, value))
    return bound, conditions


def _member(node: exp.In, scope: Scope) -> tuple[Bound, list[Condition]] | None:
    said = _column(node.this, scope)
    if said is None or not node.expressions:
        return None
    bound, name, kind = said
    values = [_value(literal, kind) for literal in node.expressions]
    exact = tuple(dict.fromkeys(v for v in values if v is not None))
    return None if None in values else (bound, [Condition(name, "in", exact)])


def _value(node: exp.Expr, kind: pa.DataType) -> Scalar | None:
    """The value a literal has in a column of this type; None if it is no literal or the type cannot hold it exactly."""
    node = node.unnest()
    name = kind_of(kind)
    if name == "bool":
        return bool(node.this) if isinstance(node, exp.Boolean) else None
    if name == "text":
        return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None
    if name == "date":
        if isinstance(node, exp.Cast) and node.to.is_type(exp.DType.DATE):
            node = node.this
        return _date(node.name) if isinstance(node, exp.Literal) and node.is_string else None
    number = _number(node)
    if number is None:
        return None
    if name == "integer":
        return int(number) if number == number.to_integral_value() and _holds(kind, int(number)) else None
    if name == "decimal":
        return _scaled(number, kind.precision, kind.scale)
    return None


def _number(node: exp.Expr) -> Decimal | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this.unnest())
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and re.fullmatch(r"\d*\.?\d*", node.name):
        return Decimal(node.name)
    return None  # 1e3 is a double in Spark: its comparisons are not exact


def _holds(kind: pa.DataType, number: int) -> bool:
    bits: int = kind.bit_width
    if pa.types.is_signed_integer(kind):
        return -(1 << bits - 1) <= number < (1 << bits - 1)
    return 0 <= number < (1 << bits)


def _scaled(number: Decimal, precision: int, scale: int) -> Decimal | None:
    shifted = number.scaleb(scale)
    if shifted != shifted.to_integral_value() or abs(shifted) >= 10**precision:
        return None
    return Decimal(int(shifted)).scaleb(-scale)


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if _ISO_DATE.fullmatch(text) else None
    except ValueError:
        return None
