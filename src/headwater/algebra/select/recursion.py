"""WITH RECURSIVE name AS (base UNION ALL step): the base is level 0, the step makes each level of the one before.

    R = base ∪ step(base) ∪ step(step(base)) ∪ …

The step is *linear* in the level before it: a row of that level is joined, filtered and computed with, never grouped,
ranked or denied. So a change of a level is carried to the next one by the step's own change rule, and nothing else is
needed. That is also all that Spark SQL lets a step be.

Every row carries its level, counted up by the step: it tells a recursion that is deep from one that never ends.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headwater.algebra.dialect import MOST_LEVELS
from headwater.algebra.relations import (
    Filter,
    Generate,
    Join,
    JoinKind,
    Name,
    Project,
    Recursion,
    Reference,
    Relation,
    Union,
    walk,
)
from headwater.algebra.select.context import Built, Context, Cte
from headwater.algebra.select.scope import column
from headwater.model.errors import ViewSqlError

MOST = 100
"""Levels that there may be, as Spark has it, where MAX RECURSION LEVEL says nothing else."""

_PLACE = "in a join (of an outer, SEMI or ANTI one on the side that is kept), under WHERE and in SELECT"


def mentions(query: exp.Expr, name: str) -> bool:
    """Whether a query of WITH speaks of itself."""
    return any(t.name.lower() == name.lower() and len(t.parts) == 1 for t in query.find_all(exp.Table))


def build(c: Context, cte: Cte) -> Built:
    from headwater.algebra.select.query import build_query

    assert cte.alias is not None
    name = cte.alias.name
    query = cte.query.unnest()
    if not isinstance(query, exp.Union) or query.args.get("distinct"):
        what = "is no UNION ALL" if not isinstance(query, exp.Union) else "is UNION, which Spark SQL has not"
        raise _error(c, cte, f"WITH RECURSIVE {name} {what}", "write base UNION ALL step")
    if any(query.args.get(clause) for clause in ("order", "limit", "offset")):
        raise _error(c, cte, "a recursive query cannot have ORDER BY or LIMIT", "order and limit where you read it")
    if mentions(query.this, name):
        raise _error(c, cte, f"the first part of {name} speaks of {name}", "let the first part be where it begins")
    first = build_query(c, query.this, None, cte.known)
    called = [new or old for new, old in zip(_padded(cte.columns, len(first.outputs)), _names(first), strict=True)]
    inside = c.fresh.several(len(called) + 1)
    reference = Reference(f"levels_{inside[-1]}", inside)
    known = {n: q for n, q in cte.known.items() if n.lower() != name.lower()}
    known[name] = Cte(mention := exp.Table(this=exp.to_identifier(name)), (), {})
    c.built[id(mention)] = Built(reference, tuple(zip(called, inside[:-1], strict=True)))
    c.alive.append(mention)
    second = build_query(c, query.expression, None, known)
    if len(second.outputs) != len(first.outputs):
        what = f"UNION ALL of {len(first.outputs)} and of {len(second.outputs)} columns"
        raise _error(c, cte, what, "select as many on both sides")
    base = Project(first.relation, (*_kept(c, first), (c.fresh(), exp.Literal.number(0))))
    try:
        levels = Levels(c, reference)
        rows, level = levels.beside(second.relation)
    except NotLinear:
        what = f"{name} stands where a row of the level before cannot be followed"
        raise _error(c, cte, what, f"it may stand once, {_PLACE}") from None
    counted = exp.Add(this=column(level), expression=exp.Literal.number(1))
    step = Project(rows, (*_kept(c, second), (c.fresh(), counted)))
    limit = cte.alias.meta.get(MOST_LEVELS, MOST)
    if limit != MOST:
        c.exact = False  # it has no place in the query as it is written out
    columns = c.fresh.several(len(called) + 1)
    relation = Recursion(reference.name, base, step, inside, columns, limit)
    return Built(relation, tuple(zip(called, columns[:-1], strict=True)))


def _kept(c: Context, built: Built) -> list[tuple[Name, exp.Expr]]:
    return [(c.fresh(), column(name)) for _, name in built.outputs]


def _names(built: Built) -> list[str]:
    return [name for name, _ in built.outputs]


def _padded(columns: tuple[str, ...], width: int) -> list[str]:
    return [*columns[:width], *[""] * (width - len(columns))]


def _error(c: Context, cte: Cte, what: str, fix: str) -> ViewSqlError:
    return c.parsed.error(what, fix, cte.alias, "RECURSIVE")


class NotLinear(Exception):
    """The reference stands twice, or where its rows are not taken one by one."""


class Levels:
    """Carries the level of the reference's rows through a step."""

    def __init__(self, c: Context, reference: Reference) -> None:
        self._c, self._reference = c, reference

    def beside(self, node: Relation) -> tuple[Relation, Name]:
        """The node's rows with their level, and what it is called there."""
        if not any(one == self._reference for one in walk(node)):
            raise NotLinear
        match node:
            case Reference():
                return node, node.columns[-1]
            case Filter() | Generate():
                child, level = self.beside(node.child)
                return replace(node, child=child), level
            case Project():
                child, level = self.beside(node.child)
                shown = self._c.fresh()
                return Project(child, (*node.outputs, (shown, column(level)))), shown
            case Union():
                return self._union(node)
            case Join():
                return self._join(node)
            case _:
                raise NotLinear

    def _union(self, node: Union) -> tuple[Relation, Name]:
        parts = []
        for child in node.children:
            rows, level = self.beside(child)
            chosen = [(self._c.fresh(), column(n)) for n in (*child.columns, level)]
            parts.append(Project(rows, tuple(chosen)))
        level = self._c.fresh()
        return Union(tuple(parts), (*node.columns, level)), level

    def _join(self, node: Join) -> tuple[Relation, Name]:
        sides = [any(one == self._reference for one in walk(side)) for side in (node.left, node.right)]
        if all(sides) or (sides[1] and node.kind is not JoinKind.INNER) or node.kind is JoinKind.FULL:
            raise NotLinear
        if sides[0]:
            left, level = self.beside(node.left)
            return replace(node, left=left), level
        right, level = self.beside(node.right)
        return replace(node, right=right), level
