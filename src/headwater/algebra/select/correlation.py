"""A subquery that speaks of rows outside it, made one that does not.

A relation is correlated if its expressions mention columns that it does not have: its *free* columns, which belong to
the query around it. Two ways to be rid of them:

    lifted     the conditions that mention them are taken out of the subquery and become the join's. What stands above
               such a condition must not mind: a grouping or a ranking minds unless the condition is an equality, by
               whose column it then groups or partitions as well.
    joined     the subquery is evaluated for every combination of free values there is (D = DISTINCT free columns of the
               query around), side by side: every operator of it carries D along. Works for anything.

The first is what people write; it asks by key. The second is Neumann and Kemper's unnesting, for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.dialect import each
from headwater.algebra.functions import is_aggregate
from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Filter,
    Generate,
    Join,
    JoinKind,
    Name,
    Project,
    Recursion,
    Reference,
    Relation,
    SetOperation,
    Table,
    Union,
    Values,
    Window,
    children,
    expressions,
    mentioned,
)
from headwater.algebra.select.scope import Fresh, column


def free(node: Relation) -> frozenset[Name]:
    """The columns it speaks of that are not its own."""
    below = frozenset[Name]().union(*(free(child) for child in children(node)))
    own = frozenset(name for child in children(node) for name in child.columns)
    return below | (mentioned(*expressions(node)) - own)


def conjuncts(condition: Expression | None) -> list[Expression]:
    if condition is None:
        return []
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    return [] if isinstance(condition, exp.Boolean) and condition.this else [condition]


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    parts = [p.copy() for p in parts]
    if not parts:
        return None
    return exp.and_(*parts, copy=False) if len(parts) > 1 else parts[0]


def filtered(child: Relation, parts: Iterable[Expression]) -> Relation:
    condition = conjunction(parts)
    return child if condition is None else Filter(child, condition)


@dataclass(frozen=True)
class Lifted:
    """`relation` has no free columns; `conditions` are between its columns and the free ones."""

    relation: Relation
    conditions: tuple[Expression, ...]


def lift(node: Relation) -> Lifted | None:
    """The first way; None if something minds."""
    outside = free(node)
    if not outside:
        return Lifted(node, ())
    match node:
        case Filter():
            return _lift_filter(node, outside)
        case Project():
            return _lift_project(node, outside)
        case Join():
            return _lift_join(node, outside)
        case Aggregate():
            below = _equalities_below(node.child)
            if below is None or mentioned(*expressions(node)) & outside:
                return None
            lifted, by = below
            keys = (*node.keys, *(name for name in by if name not in node.keys))
            return Lifted(replace(node, child=lifted.relation, keys=keys), lifted.conditions)
        case Window():
            below = _equalities_below(node.child)
            if below is None or mentioned(*expressions(node)) & outside:
                return None
            lifted, by = below
            partition = (*node.partition, *(name for name in by if name not in node.partition))
            return Lifted(replace(node, child=lifted.relation, partition=partition), lifted.conditions)
        case Generate() if not mentioned(*expressions(node)) & outside:
            inner = lift(node.child)
            return inner and Lifted(replace(node, child=inner.relation), inner.conditions)
        case _:
            return None


def _lift_filter(node: Filter, outside: frozenset[Name]) -> Lifted | None:
    inner = lift(node.child)
    if inner is None:
        return None
    parts = conjuncts(node.condition)
    stay = [p for p in parts if not mentioned(p) & outside]
    go = [p for p in parts if mentioned(p) & outside]
    return Lifted(filtered(inner.relation, stay), (*inner.conditions, *go))


def _lift_project(node: Project, outside: frozenset[Name]) -> Lifted | None:
    inner = lift(node.child)
    if inner is None or mentioned(*expressions(node)) & outside:
        return None
    needed = mentioned(*inner.conditions) - outside - set(node.columns)
    more = tuple((name, column(name)) for name in inner.relation.columns if name in needed)
    return Lifted(Project(inner.relation, (*node.outputs, *more)), inner.conditions)


def _lift_join(node: Join, outside: frozenset[Name]) -> Lifted | None:
    """An inner join lifts from both sides and its own condition, others from their left side."""
    left = lift(node.left)
    right = lift(node.right) if node.kind is JoinKind.INNER else Lifted(node.right, ())
    if left is None or right is None or (node.kind is JoinKind.FULL and left.conditions) or free(right.relation):
        return None
    parts = conjuncts(node.on)
    go = [p for p in parts if mentioned(p) & outside]
    if go and node.kind is not JoinKind.INNER:
        return None
    stay = conjunction(p for p in parts if not mentioned(p) & outside)
    joined = replace(node, left=left.relation, right=right.relation, on=stay)
    return Lifted(joined, (*left.conditions, *right.conditions, *go))


def _equalities_below(node: Relation) -> tuple[Lifted, tuple[Name, ...]] | None:
    """What is below a grouping or ranking, lifted by equalities alone, and the columns that they fix."""
    lifted = lift(node)
    if lifted is None:
        return None
    own = set(lifted.relation.columns)
    fixed: list[Name] = []
    for condition in lifted.conditions:
        if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
            return None
        sides = [(condition.this.unnest(), condition.expression.unnest())]
        sides.append((sides[0][1], sides[0][0]))
        inner = next(
            (a for a, b in sides if isinstance(a, exp.Column) and a.name in own and not mentioned(b) & own), None
        )
        if inner is None:
            return None
        fixed.append(inner.name)
    return lifted, tuple(dict.fromkeys(fixed))


@dataclass(frozen=True)
class Domain:
    """D: the distinct values of the free columns, as the query around has them, each under a name of its own."""

    relation: Relation
    names: dict[Name, Name]

    def over(self, expression: Expression) -> Expression:
        """The expression, over D's columns in place of the free ones."""

        def rename(part: exp.Expr) -> exp.Expr:
            return column(self.names[part.name]) if isinstance(part, exp.Column) and part.name in self.names else part

        return expression.copy().transform(rename)


def joined(node: Relation, around: Relation, fresh: Fresh) -> tuple[Relation, tuple[Expression, ...]]:
    """The second way: a relation without free columns, and the conditions that join it to the query around."""
    domain = _domain(sorted(free(node)), around, fresh)
    relation, names = _carry(node, domain, fresh)
    on = tuple(exp.NullSafeEQ(this=column(c), expression=column(d)) for c, d in names.items())
    return relation, on


def _domain(columns: list[Name], around: Relation, fresh: Fresh) -> Domain:
    # a left join keeps every row of its left side: D is the same without the subqueries that were joined before
    while isinstance(around, Join) and around.kind is JoinKind.LEFT and not set(columns) & set(around.right.columns):
        around = around.left
    names = {c: fresh() for c in columns}
    chosen = Project(around, tuple((d, column(c)) for c, d in names.items()))
    return Domain(Aggregate(chosen, tuple(names.values())), names)


def _again(domain: Domain, fresh: Fresh) -> Domain:
    """The same values under other names, for a second place of the tree."""
    names = {c: fresh() for c in domain.names}
    renamed = Project(domain.relation, tuple((names[c], column(d)) for c, d in domain.names.items()))
    return Domain(renamed, names)


def _carry(node: Relation, domain: Domain, fresh: Fresh) -> tuple[Relation, dict[Name, Name]]:
    """The node beside D: for every combination of D, what it is there; and how D's columns are called in it."""
    if not free(node):
        own = _again(domain, fresh)
        return Join(JoinKind.INNER, node, own.relation), own.names
    match node:
        case Filter():
            child, names = _carry(node.child, domain, fresh)
            return Filter(child, Domain(child, names).over(node.condition)), names
        case Project():
            child, names = _carry(node.child, domain, fresh)
            here = Domain(child, names)
            outputs = tuple((name, here.over(e)) for name, e in node.outputs)
            return Project(child, (*outputs, *((d, column(d)) for d in names.values()))), names
        case Generate():
            child, names = _carry(node.child, domain, fresh)
            return replace(node, child=child, generator=Domain(child, names).over(node.generator)), names
        case Join():
            return _carry_join(node, domain, fresh)
        case Aggregate():
            return _carry_aggregate(node, domain, fresh)
        case Window():
            child, names = _carry(node.child, domain, fresh)
            here = Domain(child, names)
            calls = tuple(
                replace(c, function=here.over(c.function), order=tuple(here.over(o) for o in c.order))
                for c in node.calls
            )
            return Window(child, (*node.partition, *names.values()), calls), names
        case Union():
            carried = [_carry(child, domain, fresh) for child in node.children]
            made = {c: fresh() for c in domain.names}
            parts = tuple(_in_order(r, c.columns, n) for (r, n), c in zip(carried, node.children, strict=True))
            return Union(parts, (*node.columns, *made.values())), made
        case SetOperation():
            (left, ln), (right, rn) = (_carry(child, domain, fresh) for child in (node.left, node.right))
            made = {c: fresh() for c in domain.names}
            sides = _in_order(left, node.left.columns, ln), _in_order(right, node.right.columns, rn)
            return SetOperation(node.kind, *sides, (*node.columns, *made.values())), made
        case Values():
            own = _again(domain, fresh)
            rows = [
                Project(
                    own.relation,
                    tuple(zip(node.columns, (own.over(e) for e in row), strict=True))
                    + tuple((d, column(d)) for d in own.names.values()),
                )
                for row in node.rows
            ]
            if len(rows) == 1:
                return rows[0], own.names
            made = {c: fresh() for c in domain.names}
            columns = (*fresh.several(len(node.columns)), *made.values())
            renamed = Union(tuple(rows), columns)
            back = tuple((old, column(new)) for old, new in zip(node.columns, columns, strict=False))
            return Project(renamed, (*back, *((d, column(d)) for d in made.values()))), made
        case Table() | Recursion() | Reference():
            raise AssertionError("neither a table nor a query of WITH is ever correlated")


def _in_order(node: Relation, columns: tuple[Name, ...], names: dict[Name, Name]) -> Relation:
    return Project(node, tuple((c, column(c)) for c in (*columns, *names.values())))


def _carry_join(node: Join, domain: Domain, fresh: Fresh) -> tuple[Relation, dict[Name, Name]]:
    right_free = bool(free(node.right)) or node.kind is JoinKind.FULL
    left, names = _carry(node.left, domain, fresh)
    here = Domain(left, names)
    parts = [here.over(p) for p in conjuncts(node.on)]
    right = node.right
    if right_free:
        right, theirs = _carry(node.right, domain, fresh)
        parts += [exp.NullSafeEQ(this=column(names[c]), expression=column(theirs[c])) for c in names]
    carried = replace(node, left=left, right=right, on=conjunction(parts))
    if node.kind is not JoinKind.FULL:
        return carried, names
    both = {c: fresh() for c in names}
    outputs: list[tuple[Name, Expression]] = [(c, column(c)) for c in node.columns]
    outputs += [(both[c], exp.func("COALESCE", column(names[c]), column(theirs[c]))) for c in names]
    return Project(carried, tuple(outputs)), both


def _carry_aggregate(node: Aggregate, domain: Domain, fresh: Fresh) -> tuple[Relation, dict[Name, Name]]:
    """Without keys there is a row for every combination of D, also where there is nothing to aggregate: a row that
    counts for nothing stands in for it."""
    child, names = _carry(node.child, domain, fresh)
    here = Domain(child, names)
    calls = tuple((name, here.over(e)) for name, e in node.calls)
    keys = (*node.keys, *names.values())
    if node.keys or not node.calls:
        return Aggregate(child, keys, calls), names
    own, present = _again(domain, fresh), fresh()
    marked = Project(child, (*((c, column(c)) for c in child.columns), (present, exp.true())))
    on = [exp.NullSafeEQ(this=column(own.names[c]), expression=column(names[c])) for c in names]
    padded = Join(JoinKind.LEFT, own.relation, marked, on=conjunction(on))
    return Aggregate(
        padded, tuple(own.names.values()), tuple((n, only(e, column(present))) for n, e in calls)
    ), own.names


def only(call: Expression, condition: Expression) -> Expression:
    """An expression of aggregates, each over the rows for which the condition is true."""

    def restrict(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Filter):
            both = exp.and_(condition.copy(), part.expression.this.copy())
            return exp.Filter(this=part.this, expression=exp.Where(this=both))
        if isinstance(part, exp.WithinGroup) or is_aggregate(part):
            return exp.Filter(this=part, expression=exp.Where(this=condition.copy()))
        return each(part, restrict)

    return restrict(call.copy())
