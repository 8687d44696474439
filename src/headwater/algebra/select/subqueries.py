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

from headwater.algebra.dialect import said
from headwater.algebra.functions import function_name, is_aggregate
from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Filter,
    Join,
    JoinKind,
    Name,
    Project,
    Relation,
    mentioned,
    walk,
)
from headwater.algebra.select.context import Built, Context, Place
from headwater.algebra.select.correlation import conjunction, conjuncts, filtered, free, joined, lift
from headwater.algebra.select.scope import Scope, column, null_like
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
        return place.over(_semi(c, place.relation, _query(c, existing, place), [], wanted))
    test = _comparison(inner)
    if test is not None and not any(has_query(left) for left in test.left):
        operators, query, every = test.operators, test.query, test.every
        inside = _query(c, query, place)
        left = [c.resolver.resolved(x, place.scope) for x in test.left]
        relation, left = _computed(c, place.relation, left)
        names = _widths(c, left, inside, inner)
        plain = operators == [exp.EQ] and isinstance(left[0], exp.Column) and _lifts(inside.relation)
        if plain and not wanted and not every:
            return place.over(_dropped(_not_in(c, relation, inside, left[0].name, names[0]), place.relation))
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
        return place.over(_dropped(_semi(c, relation, inside, compared, wanted), place.relation))
    expression, place = value(c, node, place)
    return place.over(filtered(place.relation, [expression]))


def _not_in(c: Context, left: Relation, inside: Built, x: Name, name: Name) -> Relation:
    """x NOT IN q: no row of q equals x, none of them is NULL, and if x is NULL there is none at all. With three anti
    joins each side is asked by key; one, by `x = y OR x IS NULL OR y IS NULL`, would have to look at everything."""
    own = inside.relation
    nothing = c.fresh()
    kept = _semi(c, left, inside, [exp.EQ(this=column(x), expression=column(name))], False)
    nulls = Filter(own, exp.Is(this=column(name), expression=exp.Null()))
    kept = _semi(c, kept, replace(inside, relation=nulls), [], False)
    some = Project(own, (*((n, column(n)) for n in own.columns), (nothing, null_like(name))))
    same = exp.NullSafeEQ(this=column(x), expression=column(nothing))
    return _semi(c, kept, replace(inside, relation=some), [same], False)


def _lifts(inside: Relation) -> bool:
    """Whether a subquery can be freed of the query around it without looking at that query's rows."""
    return not free(inside) or (not _counts_nothing(inside) and lift(inside) is not None)


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


def _semi(c: Context, left: Relation, inside: Built, more: list[Expression], wanted: bool) -> Relation:
    bare = inside.relation
    while isinstance(bare, Project):
        bare = bare.child
    if isinstance(bare, Aggregate) and not bare.keys and bare.calls and not more:  # it has its row, always
        return left if wanted else Filter(left, exp.false())
    right, on = _apart(c, inside.relation, left)
    kind = JoinKind.SEMI if wanted else JoinKind.ANTI
    return Join(kind, left, right, on=conjunction([*on, *more]))


def _apart(c: Context, inside: Relation, around: Relation) -> tuple[Relation, tuple[Expression, ...]]:
    """A subquery without its free columns, and the conditions that join it with the query around."""
    outside = free(inside)
    if not outside:
        return inside, ()
    if not outside & set(around.columns):
        return inside, ()  # correlated with a query further out: its own subquery will see to that
    if outside <= set(around.columns) and not _counts_nothing(inside):
        lifted = lift(inside)
        if lifted is not None:
            return lifted.relation, lifted.conditions
    return joined(inside, around, c.fresh)


def _counts_nothing(node: Relation) -> bool:
    """Whether somewhere in it a grouping without keys would have to say something of no rows at all, once lifted."""
    return any(isinstance(one, Aggregate) and not one.keys and one.calls and free(one) for one in walk(node))


def value(c: Context, node: exp.Expr, place: Place) -> tuple[Expression, Place]:
    """An expression with subqueries in it: what it is over a relation that has their values as columns."""
    relation = place.relation

    def replaced(part: exp.Expr) -> exp.Expr:
        nonlocal relation
        here = place.over(relation)
        existing = _existing(part)
        if existing is not None:
            relation, flag = _flag(c, relation, _query(c, existing, here), [])
            return flag
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
            relation, yes = _flag(c, relation, inside, [truths[0]])
            unknown = exp.Is(this=exp.paren(truths[1]), expression=exp.Null())
            relation, maybe = _flag(c, relation, again, [unknown])
            first, last = (exp.false(), exp.true()) if test.every else (exp.true(), exp.false())
            return exp.paren(exp.Case().when(yes, first).when(maybe, exp.cast(exp.null(), "boolean")).else_(last))
        if isinstance(part, exp.Subquery) or (isinstance(part, exp.Query) and not isinstance(part, exp.Table)):
            built = _query(c, part, here)
            if len(built.outputs) != 1:
                raise c.parsed.error(
                    f"a subquery of {len(built.outputs)} columns stands where one value should", "select one", part
                )
            relation, found = _scalar(c, relation, built, said(part))
            return found
        if isinstance(part, exp.Column | exp.Lambda | exp.Dot) and not has_query(part):
            return c.resolver.resolved(part, place.scope)
        for key, inner in list(part.args.items()):
            if isinstance(inner, exp.Expr):
                part.set(key, replaced(inner))
            elif isinstance(inner, list):
                part.set(key, [replaced(v) if isinstance(v, exp.Expr) else v for v in inner])
        return part

    expression = replaced(node.copy())
    return expression, place.over(relation)


def _truth(test: _Comparison, left: list[Expression], names: list[Name]) -> Expression:
    """What decides a comparison with some row: TRUE if one compares true, else NULL if one is unknown, else FALSE. ALL
    is NOT … ANY NOT …"""
    compared = [op(this=x.copy(), expression=column(n)) for op, x, n in zip(test.operators, left, names, strict=True)]
    whole = exp.paren(exp.and_(*compared))
    return exp.Not(this=whole) if test.every else whole


def _flag(c: Context, left: Relation, inside: Built, more: list[Expression]) -> tuple[Relation, Expression]:
    """Whether there is a row: a left join with the keys for which there is one."""
    right = filtered(inside.relation, more)
    outside = free(right) & set(left.columns)
    if not outside:
        found = c.fresh()
        there = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(0))
        one = Aggregate(right, (), ((found, there),))
        return Join(JoinKind.INNER, left, one), column(found)
    lifted = lift(right) if not _counts_nothing(right) else None
    keys = _equal_keys(lifted.conditions, set(lifted.relation.columns)) if lifted is not None else None
    if lifted is not None and keys is not None:
        relation, on = lifted.relation, lifted.conditions
    else:
        relation, on = joined(right, left, c.fresh)
        keys = _equal_keys(on, set(relation.columns))
        assert keys is not None, "a domain is joined by equalities"
    found = c.fresh()
    chosen = Project(Aggregate(relation, keys), (*((k, column(k)) for k in keys), (found, exp.true())))
    flagged = Join(JoinKind.LEFT, left, chosen, on=conjunction(on))
    return flagged, exp.paren(exp.Not(this=exp.Is(this=column(found), expression=exp.Null())))


def _equal_keys(conditions: tuple[Expression, ...], own: set[Name]) -> tuple[Name, ...] | None:
    """The columns of the inner side, if the conditions are nothing but equalities with them."""
    found: list[Name] = []
    for one in conditions:
        if not isinstance(one, exp.EQ | exp.NullSafeEQ):
            return None
        sides = [one.this.unnest(), one.expression.unnest()]
        inner = [s for s in sides if isinstance(s, exp.Column) and s.name in own]
        outer = [s for s in sides if not mentioned(s) & own]
        if len(inner) != 1 or len(outer) != 1:
            return None
        found.append(inner[0].name)
    return tuple(dict.fromkeys(found))


def _scalar(c: Context, left: Relation, inside: Built, words: str) -> tuple[Relation, Expression]:
    """At most one row for each row of `left`; none is NULL, two are an error."""
    name = inside.outputs[0][1]
    grouped = _over_groups(inside.relation, name)
    if grouped is not None:
        return _scalar_aggregate(c, left, *grouped)
    right = inside.relation
    relation, on = _apart(c, right, left)
    keys = _equal_keys(on, set(relation.columns)) if free(right) & set(left.columns) else ()
    if keys is None:
        relation, on = joined(right, left, c.fresh)
        keys = _equal_keys(on, set(relation.columns))
        assert keys is not None
    one, many = c.fresh(), c.fresh()
    # MIN would do for plain types; the least of one value is that value
    calls = ((one, exp.Min(this=column(name))), (many, exp.Count(this=exp.Star(), big_int=True)))
    single = Aggregate(relation, keys, calls)
    kind = JoinKind.LEFT if keys or on else JoinKind.INNER
    least = Join(kind, left, single, on=conjunction(on))
    short = words if len(words) <= 80 else words[:77] + "..."
    message = exp.Literal.string(f"a subquery has more than one row where one value is wanted: {short}")
    error = exp.Anonymous(this="raise_error", expressions=[message])
    two = exp.GT(this=column(many), expression=exp.Literal.number(1))
    return least, exp.paren(exp.Case().when(two, error).else_(column(one)))


def _over_groups(relation: Relation, name: Name) -> tuple[Aggregate, list[Expression], Expression] | None:
    """π σ γ without keys: the grouping, the conditions on it, and the value over its results."""
    value: Expression = column(name)
    conditions: list[Expression] = []
    while not isinstance(relation, Aggregate):
        if isinstance(relation, Project):
            made = dict(relation.outputs)
            value = _substituted(value, made)
            conditions = [_substituted(one, made) for one in conditions]
            relation = relation.child
        elif isinstance(relation, Filter):
            conditions.append(relation.condition)
            relation = relation.child
        else:
            return None
    return None if relation.keys or not relation.calls else (relation, conditions, value)


def _substituted(expression: Expression, made: dict[Name, Expression]) -> Expression:
    def put(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in made:
            new = made[part.name].copy()
            return new if isinstance(new, exp.Column | exp.Literal) else exp.paren(new, copy=False)
        return part

    return expression.copy().transform(put)


def _scalar_aggregate(
    c: Context, left: Relation, node: Aggregate, conditions: list[Expression], value: Expression
) -> tuple[Relation, Expression]:
    """A grouping without keys has one row, also of nothing: where the join finds no group, the calls are of nothing."""
    if not free(node) & set(left.columns):
        one: Relation = node
        relation: Relation = Join(JoinKind.INNER, left, one)
        return relation, _kept(conditions, value)
    lifted = lift(node.child)
    keys = _equal_keys(lifted.conditions, set(lifted.relation.columns)) if lifted is not None else None
    if lifted is None or keys is None or free(Aggregate(lifted.relation, keys, node.calls)):
        grouped, on = joined(node, left, c.fresh)
        return Join(JoinKind.LEFT, left, grouped, on=conjunction(on)), _kept(conditions, value)
    there = c.fresh()
    grouped = Project(
        Aggregate(lifted.relation, keys, node.calls),
        (*((n, column(n)) for n in (*keys, *(name for name, _ in node.calls))), (there, exp.true())),
    )
    relation = Join(JoinKind.LEFT, left, grouped, on=conjunction(lifted.conditions))
    missing = exp.Is(this=column(there), expression=exp.Null())
    defaults: dict[Name, Expression] = {}
    for name, call in node.calls:
        nothing = of_nothing(call)
        if nothing is not None:
            defaults[name] = exp.Case().when(missing.copy(), nothing).else_(column(name))
    return relation, _kept([_substituted(k, defaults) for k in conditions], _substituted(value, defaults))


def _kept(conditions: list[Expression], value: Expression) -> Expression:
    whole = conjunction(conditions)
    if whole is None:
        return exp.paren(value) if not isinstance(value, exp.Column) else value
    return exp.paren(exp.Case().when(whole, value))


def of_nothing(call: Expression) -> Expression | None:
    """What an expression of aggregates is over no rows; None if it is NULL anyway, as a missing row would be."""
    counts = ("count", "count_if", "regr_count", "approx_count_distinct")

    def nothing(part: exp.Expr) -> exp.Expr:
        bare = part.this if isinstance(part, exp.Filter | exp.WithinGroup) else part
        if isinstance(part, exp.Filter | exp.WithinGroup) or is_aggregate(part):
            if isinstance(bare, exp.Count) or function_name(bare) in counts:
                return exp.Literal.number(0)
            if function_name(bare) in ("collect_list", "collect_set", "array_agg"):
                return exp.Anonymous(this="array")
            return exp.null()
        for key, inner in list(part.args.items()):
            if isinstance(inner, exp.Expr):
                part.set(key, nothing(inner))
            elif isinstance(inner, list):
                part.set(key, [nothing(v) if isinstance(v, exp.Expr) else v for v in inner])
        return part

    found = nothing(call.copy())
    return None if isinstance(found, exp.Null) else found


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


def beside(c: Context, kind: JoinKind, left: Relation, right: Relation, parts: list[Expression]) -> Relation:
    """LATERAL: each left row beside what the right side is for it."""
    names = {n: n for n in right.columns}
    if not free(right) & set(left.columns):
        return Join(kind, left, right, on=conjunction(parts))
    if _counts_nothing(right):
        relation, on = joined(right, left, c.fresh)
    else:
        lifted = lift(right)
        relation, on = (lifted.relation, lifted.conditions) if lifted is not None else joined(right, left, c.fresh)
    assert set(names) <= set(relation.columns)
    return Join(kind, left, relation, on=conjunction([*on, *parts]))


__all__ = ["beside", "condition", "has_query", "in_condition", "of_nothing", "value"]
