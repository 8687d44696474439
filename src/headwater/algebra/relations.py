"""A view as a tree of relations: what SELECT says, taken apart into operators.

Every node has columns with names that no other node of its tree makes (`c0`, `c1`, …), so an expression, which is a
sqlglot tree over such names, means the same wherever it stands. What the author called them stands at the root only. A
query of WITH that is mentioned twice stands there twice, alike, each time under a projection that renames it.

A tree is a bag: rows have counts, and nothing in it has an order. ORDER BY … LIMIT is a ranking and a filter, in which
ties are decided by all columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from sqlglot import exp

from headwater.model.conditions import Condition
from headwater.model.names import TableName

Name = str
"""A column of a node."""
Expression = exp.Expr
"""Spark SQL over columns of a node, each called by its Name alone."""


@dataclass(frozen=True)
class Table:
    """One mention of a table, or of a view that is maintained: its `columns` are called `names` there. Only rows that
    meet the `conditions` (over `names`) are meant. `one_row`: it is a view that has one row, always."""

    table: TableName
    names: tuple[str, ...]
    columns: tuple[Name, ...]
    conditions: tuple[Condition, ...] = ()
    one_row: bool = False


@dataclass(frozen=True)
class Values:
    """Rows that are written down; expressions of constants."""

    columns: tuple[Name, ...]
    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True)
class Filter:
    """σ: the rows for which the condition is true."""

    child: Relation
    condition: Expression

    @property
    def columns(self) -> tuple[Name, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Project:
    """π: `outputs` are (name, expression over the child)."""

    child: Relation
    outputs: tuple[tuple[Name, Expression], ...]

    @cached_property
    def columns(self) -> tuple[Name, ...]:
        return tuple(name for name, _ in self.outputs)

    @cached_property
    def plain(self) -> dict[Name, Name]:
        """The outputs that are the child's columns as they are."""
        return {name: e.name for name, e in self.outputs if isinstance(e, exp.Column)}


@dataclass(frozen=True)
class Generate:
    """The child's rows, each as often as `generator` (EXPLODE, POSEXPLODE, INLINE, …) makes rows of it, with `made`
    beside it. With `outer`, a row of which nothing is made stays, with NULLs."""

    child: Relation
    generator: Expression
    made: tuple[Name, ...]
    outer: bool = False

    @cached_property
    def columns(self) -> tuple[Name, ...]:
        return (*self.child.columns, *self.made)


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Equality:
    """A pair of columns that a join demands to be equal. With `nulls`, two NULLs are."""

    left: Name
    right: Name
    nulls: bool = False


@dataclass(frozen=True)
class Join:
    """`on` is the whole condition, None for none; `equalities` are what it demands to be equal, by which one side is
    asked for what the other has. RIGHT is LEFT the other way round."""

    kind: JoinKind
    left: Relation
    right: Relation
    equalities: tuple[Equality, ...] = ()
    on: Expression | None = None
    unseen: bool = False
    """Nobody looks at the right side's columns: it only decides which rows of the left there are, and whoever stands
    above drops them at once."""

    @cached_property
    def columns(self) -> tuple[Name, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        return (*self.left.columns, *self.right.columns)

    @property
    def left_keys(self) -> tuple[Name, ...]:
        return tuple(e.left for e in self.equalities)

    @property
    def right_keys(self) -> tuple[Name, ...]:
        return tuple(e.right for e in self.equalities)


@dataclass(frozen=True)
class Union:
    """∪ all: the children's columns correspond by position, `columns` are new."""

    children: tuple[Relation, ...]
    columns: tuple[Name, ...]


class SetKind(Enum):
    """How often a row is there that the left side has `l_` times and the right side `r_` times."""

    UNION = "CASE WHEN l_ + r_ > 0 THEN 1 ELSE 0 END"
    INTERSECT = "CASE WHEN l_ > 0 AND r_ > 0 THEN 1 ELSE 0 END"
    INTERSECT_ALL = "LEAST(l_, r_)"
    EXCEPT = "CASE WHEN l_ > 0 AND r_ <= 0 THEN 1 ELSE 0 END"
    EXCEPT_ALL = "GREATEST(l_ - r_, 0)"


@dataclass(frozen=True)
class SetOperation:
    """Of two children whose columns correspond by position; `columns` are new. NULLs are alike."""

    kind: SetKind
    left: Relation
    right: Relation
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class Aggregate:
    """γ: `keys` are columns of the child, `calls` are (name, expression of aggregates over the child). Without keys
    there is one row, always. DISTINCT has all columns as keys and calls nothing."""

    child: Relation
    keys: tuple[Name, ...]
    calls: tuple[tuple[Name, Expression], ...] = ()

    @cached_property
    def columns(self) -> tuple[Name, ...]:
        return (*self.keys, *(name for name, _ in self.calls))


@dataclass(frozen=True)
class WindowCall:
    """`function OVER (PARTITION BY … ORDER BY order frame)`. With `ties`, rows that `order` leaves together are told
    apart by all their columns; where peers count as one, as in RANK, they must not be."""

    name: Name
    function: Expression
    order: tuple[Expression, ...] = ()
    frame: str = ""
    ties: bool = False


@dataclass(frozen=True)
class Window:
    """The child's rows, each with what the calls make of its partition. `partition` are columns of the child."""

    child: Relation
    partition: tuple[Name, ...]
    calls: tuple[WindowCall, ...]

    @cached_property
    def columns(self) -> tuple[Name, ...]:
        return (*self.child.columns, *(call.name for call in self.calls))


@dataclass(frozen=True)
class Reference:
    """Inside the step of the Recursion of that name: the rows of the level before."""

    name: str
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class Recursion:
    """WITH RECURSIVE … UNION ALL: the rows of `base` are level 0; the `step` makes each level of the one before, which
    it speaks of as a Reference of this name, with columns `inside`. Columns correspond by position, `columns` are new;
    the last one is the level, which the step counts up. A tree that has a row of level `limit` has no state."""

    name: str
    base: Relation
    step: Relation
    inside: tuple[Name, ...]
    columns: tuple[Name, ...]
    limit: int

    @property
    def level(self) -> Name:
        return self.columns[-1]


Relation = (
    Table
    | Values
    | Filter
    | Project
    | Generate
    | Join
    | Union
    | SetOperation
    | Aggregate
    | Window
    | Recursion
    | Reference
)


def has_one_row(node: Relation) -> bool:
    """Whether it has exactly one row in every state: a total."""
    match node:
        case Table():
            return node.one_row and not node.conditions
        case Aggregate():
            return not node.keys and bool(node.calls)
        case Project():
            return has_one_row(node.child)
        case _:
            return False


def children(node: Relation) -> tuple[Relation, ...]:
    match node:
        case Table() | Values() | Reference():
            return ()
        case Join() | SetOperation():
            return (node.left, node.right)
        case Recursion():
            return (node.base, node.step)
        case Union():
            return node.children
        case _:
            return (node.child,)


def with_children(node: Relation, new: tuple[Relation, ...]) -> Relation:
    """The same operator over other children."""
    match node:
        case Table() | Values() | Reference():
            return node
        case Join() | SetOperation():
            return replace(node, left=new[0], right=new[1])
        case Recursion():
            return replace(node, base=new[0], step=new[1])
        case Union():
            return replace(node, children=new)
        case _:
            return replace(node, child=new[0])


def expressions(node: Relation) -> tuple[Expression, ...]:
    """What a node itself says, not its children."""
    match node:
        case Values():
            return tuple(e for row in node.rows for e in row)
        case Filter():
            return (node.condition,)
        case Project():
            return tuple(e for _, e in node.outputs)
        case Generate():
            return (node.generator,)
        case Join():
            return () if node.on is None else (node.on,)
        case Aggregate():
            return tuple(e for _, e in node.calls)
        case Window():
            return tuple(e for call in node.calls for e in (call.function, *call.order))
        case _:
            return ()


def mentioned(*found: Expression) -> frozenset[Name]:
    """The columns that expressions speak of."""
    return frozenset(column.name for one in found for column in one.find_all(exp.Column))


def substituted(expression: Expression, made: Mapping[Name, Expression]) -> Expression:
    """The expression, with what its columns stand for in their place."""

    def put(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in made:
            new = made[part.name].copy()
            return new if isinstance(new, exp.Column | exp.Literal | exp.Paren) else exp.paren(new, copy=False)
        return part

    return expression.copy().transform(put)


def walk(node: Relation) -> Iterator[Relation]:
    yield node
    for child in children(node):
        yield from walk(child)


def is_empty(node: Relation) -> bool:
    """Whether it can be seen that there are no rows: a condition says FALSE."""
    match node:
        case Table() | Values() | SetOperation() | Reference():
            return False
        case Filter():
            parts = node.condition.flatten() if isinstance(node.condition, exp.And) else (node.condition,)
            return any(isinstance(p, exp.Boolean) and not p.this for p in parts) or is_empty(node.child)
        case Join(kind=JoinKind.INNER | JoinKind.SEMI):
            return is_empty(node.left) or is_empty(node.right)
        case Join(kind=JoinKind.FULL):
            return is_empty(node.left) and is_empty(node.right)
        case Aggregate(keys=()):
            return False
        case Union():
            return all(is_empty(child) for child in node.children)
        case _:
            return is_empty(children(node)[0])


def tables(node: Relation) -> list[Table]:
    """The leaves that are tables, from left to right."""
    return [found for found in walk(node) if isinstance(found, Table)]
