"""Subqueries inside expressions, each made a join.

    [NOT] EXISTS q          as a condition: a semi (anti) join; elsewhere a flag, from a left join with what exists
    x [NOT] IN q            EXISTS (q where x = its column), with SQL's third truth value where a NULL is compared
    x op ANY q, x op ALL q  the same for other comparisons; ALL is NOT … ANY NOT …
    (q)                     a value: a left join with at most one row

A condition that is not true keeps no row, so there NULL and FALSE are one and a semi or anti join says it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.dialect import each, said
from headwater.algebra.functions import function_name
from headwater.algebra.relations import (
    Expression,
    Name,
    Project,
    Relation,
    mentioned,
)
from headwater.algebra.select.applying import beside, flag, lifts, not_in, scalar, semi
from headwater.algebra.select.context import Built, Context, Place
from headwater.algebra.select.correlation import conjunction, conjuncts, filtered
from headwater.algebra.select.scope import Scope, column
from headwater.model.errors import UnknownName

_QUANTIFIED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def has_query(node: exp.Expr) -> bool:
    return any(isinstance(part, exp.Query) and not isinstance(part, exp.Table) for part in node.walk())


def condition(c: Context, node: exp.Expr, place: Place) -> Place:
    """WHERE, HAVING, QUALIFY: the rows for which it is true. `node` is not resolved yet."""
    for part in conjuncts(node):
        place = _conjunct(c, part, place)
    return place


def _conjunct(c: Context, node: exp.Expr, place: Place) -> Place:
    if not has_query(node):
        return place.over(filtered(place.relation, [c.resolver.resolved(node, place.scope)]))
    inner = node.this.unnest() if isinstance(node, exp.Not) else node
    wanted = inner is node
    existing = _existing(inner)
    if existing is not None:
        return place.over(semi(c, place.relation, _query(c, existing, place), [], wanted))
    test = _comparison(inner)
    if test is not None and not any(has_query(left) for left in test.left):
        operators, query, every = test.operators, test.query, test.every
        inside = _query(c, query, place)
        left = [c.resolver.resolved(x, place.scope) for x in test.left]
        relation, left = _computed(c, place.relation, left)
        names = _widths(c, left, inside, inner)
        plain = operators == [exp.EQ] and isinstance(left[0], exp.Column) and lifts(inside.relation)
        if plain and not wanted and not every:
            return place.over(_dropped(not_in(c, relation, inside, left[0].name, names[0]), place.relation))
        compared = [op(this=x.copy(), expression=column(n)) for op, x, n in zip(operators, left, names, strict=True)]
        if every:  # ALL: no row for which it is not true
            wanted = not wanted
            whole = exp.and_(*compared)
            compared = [exp.Not(this=exp.func("COALESCE", exp.paren(whole), exp.false()))]
        elif not wanted:  # NOT IN, NOT … ANY: no row for which it is true or unknown
            whole = exp.and_(*compared)
            compared = [exp.func("COALESCE", exp.paren(whole), exp.true())]
        if every and wanted:  # NOT (x op ALL q): true if one is false; unknown is not enough
            compared = [exp.Not(this=exp.func("COALESCE", exp.paren(whole), exp.true()))]
        return place.over(_dropped(semi(c, relation, inside, compared, wanted), place.relation))
    expression, place = value(c, node, place)
    return place.over(filtered(place.relation, [expression]))


def _existing(node: exp.Expr) -> exp.Expr | None:
    """The query of EXISTS."""
    return node.this if isinstance(node, exp.Exists) else _argument(node, ("exists",))


def _argument(node: exp.Expr, words: Sequence[str]) -> exp.Expr | None:
    """The query of word ((q) …), which sqlglot takes for a function."""
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1 or function_name(node) not in words:
        return None
    only = node.expressions[0]
    return only if isinstance(only, exp.Query) else None


class _Comparison:
    def __init__(self, left: list[exp.Expr], operators: list[type[exp.Expr]], query: exp.Expr, every: bool) -> None:
        self.left, self.operators, self.query, self.every = left, operators, query, every


def _comparison(node: exp.Expr) -> _Comparison | None:
    """x IN q, x op ANY q, x op ALL q."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        left = _row(node.this)
        return _Comparison(left, [exp.EQ] * len(left), _inner(node.args["query"]), False)
    if isinstance(node, _QUANTIFIED):
        other = node.expression.unnest()
        query = other.this if isinstance(other, exp.Any | exp.All) else _argument(other, ("any", "some", "all"))
        if isinstance(query, exp.Expr) and isinstance(_inner(query), exp.Query):
            left = _row(node.this)
            every = isinstance(other, exp.All) or function_name(other) == "all"
            return _Comparison(left, [type(node)] * len(left), _inner(query), every)
    return None


def _row(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _inner(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Subquery | exp.Paren) and isinstance(node.this, exp.Query | exp.Paren):
        plain = not any(v for k, v in node.args.items() if k != "this")
        if not plain:
            break
        node = node.this
    return node


def _query(c: Context, query: exp.Expr, place: Place) -> Built:
    from headwater.algebra.select.query import build_query

    return build_query(c, _inner(query), place.scope, place.ctes)


def _widths(c: Context, left: list[Expression], inside: Built, node: exp.Expr) -> list[Name]:
    if len(left) != len(inside.outputs):
        raise c.parsed.error(
            f"{len(left)} compared with a query of {len(inside.outputs)} columns",
            "select as many as are compared",
            node,
        )
    return [name for _, name in inside.outputs]


def _computed(c: Context, relation: Relation, wanted: list[Expression]) -> tuple[Relation, list[Expression]]:
    """A relation that has these expressions as columns, so that it can be asked by them."""
    more, found = [], []
    for expression in wanted:
        if isinstance(expression, exp.Column) or not mentioned(expression) & set(relation.columns):
            found.append(expression)
            continue
        name = c.fresh()
        more.append((name, expression))
        found.append(column(name))
    if more:
        relation = Project(relation, (*((n, column(n)) for n in relation.columns), *more))
    return relation, found


def _dropped(relation: Relation, like: Relation) -> Relation:
    """The same rows with no more columns than `like`."""
    if relation.columns == like.columns:
        return relation
    return Project(relation, tuple((n, column(n)) for n in like.columns))


def value(c: Context, node: exp.Expr, place: Place) -> tuple[Expression, Place]:
    """An expression with subqueries in it: what it is over a relation that has their values as columns."""
    relation = place.relation

    def replaced(part: exp.Expr) -> exp.Expr:
        nonlocal relation
        here = place.over(relation)
        existing = _existing(part)
        if existing is not None:
            relation, there = flag(c, relation, _query(c, existing, here), [])
            return there
        test = _comparison(part)
        if test is not None:
            left = []
            for x in test.left:
                resolved = replaced(x.copy()) if has_query(x) else c.resolver.resolved(x, place.scope)
                left.append(resolved)
            relation, left = _computed(c, relation, left)
            inside = _query(c, test.query, place.over(relation))
            again = _query(c, test.query, place.over(relation))
            truths = [_truth(test, left, _widths(c, left, one, part)) for one in (inside, again)]
            relation, yes = flag(c, relation, inside, [truths[0]])
            unknown = exp.Is(this=exp.paren(truths[1]), expression=exp.Null())
            relation, maybe = flag(c, relation, again, [unknown])
            first, last = (exp.false(), exp.true()) if test.every else (exp.true(), exp.false())
            return exp.paren(exp.Case().when(yes, first).when(maybe, exp.cast(exp.null(), "boolean")).else_(last))
        if isinstance(part, exp.Subquery) or (isinstance(part, exp.Query) and not isinstance(part, exp.Table)):
            built = _query(c, part, here)
            if len(built.outputs) != 1:
                raise c.parsed.error(
                    f"a subquery of {len(built.outputs)} columns stands where one value should", "select one", part
                )
            relation, found = scalar(c, relation, built, said(part))
            return found
        if isinstance(part, exp.Column | exp.Lambda | exp.Dot) and not has_query(part):
            return c.resolver.resolved(part, place.scope)
        return each(part, replaced)

    expression = replaced(node.copy())
    return expression, place.over(relation)


def _truth(test: _Comparison, left: list[Expression], names: list[Name]) -> Expression:
    """What decides a comparison with some row: TRUE if one compares true, else NULL if one is unknown, else FALSE. ALL
    is NOT … ANY NOT …"""
    compared = [op(this=x.copy(), expression=column(n)) for op, x, n in zip(test.operators, left, names, strict=True)]
    whole = exp.paren(exp.and_(*compared))
    return exp.Not(this=whole) if test.every else whole


def in_condition(
    c: Context, on: exp.Expr, left: Place, right: Place, both: Scope
) -> tuple[Expression | None, tuple[Relation, Relation]]:
    """ON: subqueries in it are joined to the side that they speak of."""
    if not has_query(on):
        return conjunction(conjuncts(c.resolver.resolved(on, both))), (left.relation, right.relation)
    parts: list[Expression] = []
    sides = [left.relation, right.relation]
    for part in conjuncts(on):
        if not has_query(part):
            parts.append(c.resolver.resolved(part, both))
            continue
        placed = None
        for i in (0, 1):
            try:
                scope = replace((left, right)[i].scope, outer=both.outer)
                expression, place = value(c, part, Place(sides[i], scope, left.ctes))
            except UnknownName:  # it speaks of the other side
                continue
            sides[i], placed = place.relation, expression
            break
        if placed is None:
            raise c.parsed.error(
                "a subquery in ON speaks of both sides of the join", "move the condition to WHERE", part
            )
        parts.append(placed)
    return conjunction(parts), (sides[0], sides[1])


__all__ = ["beside", "condition", "has_query", "in_condition", "value"]
