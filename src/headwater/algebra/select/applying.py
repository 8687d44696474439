"""A subquery as a join: with which rows, and on what.

    semi    the rows for which there is one, or none
    flag    whether there is one, as a column
    scalar  its one value, as a column
    beside  LATERAL: every row beside what the subquery is for it

The subquery is freed of the columns of the query around it first (`correlation`).
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headwater.algebra.dialect import each
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
    Table,
    mentioned,
    substituted,
    walk,
)
from headwater.algebra.select.context import Built, Context
from headwater.algebra.select.correlation import conjunction, filtered, free, joined, lift
from headwater.algebra.select.scope import column, null_like


def semi(c: Context, left: Relation, inside: Built, more: list[Expression], wanted: bool) -> Relation:
    bare = inside.relation
    while isinstance(bare, Project):
        bare = bare.child
    if isinstance(bare, Aggregate) and not bare.keys and bare.calls and not more:  # it has its row, always
        return left if wanted else Filter(left, exp.false())
    right, on = _apart(c, inside.relation, left)
    kind = JoinKind.SEMI if wanted else JoinKind.ANTI
    return Join(kind, left, right, on=conjunction([*on, *more]))


def not_in(c: Context, left: Relation, inside: Built, x: Name, name: Name) -> Relation:
    """x NOT IN q: no row of q equals x, none of them is NULL, and if x is NULL there is none at all. With three anti
    joins each side is asked by key; one, by `x = y OR x IS NULL OR y IS NULL`, would have to look at everything."""
    own = inside.relation
    nothing = c.fresh()
    kept = semi(c, left, inside, [exp.EQ(this=column(x), expression=column(name))], False)
    nulls = Filter(own, exp.Is(this=column(name), expression=exp.Null()))
    kept = semi(c, kept, replace(inside, relation=nulls), [], False)
    some = Project(own, (*((n, column(n)) for n in own.columns), (nothing, null_like(name))))
    same = exp.NullSafeEQ(this=column(x), expression=column(nothing))
    return semi(c, kept, replace(inside, relation=some), [same], False)


def lifts(inside: Relation) -> bool:
    """Whether a subquery can be freed of the query around it without looking at that query's rows."""
    return not free(inside) or (not _counts_nothing(inside) and lift(inside) is not None)


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


def flag(c: Context, left: Relation, inside: Built, more: list[Expression]) -> tuple[Relation, Expression]:
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


def scalar(c: Context, left: Relation, inside: Built, words: str) -> tuple[Relation, Expression]:
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


def _over_groups(relation: Relation, name: Name) -> tuple[Aggregate | Table, list[Expression], Expression] | None:
    """π σ γ without keys: the grouping (or a view that is one), the conditions on it, the value over its results."""
    value: Expression = column(name)
    conditions: list[Expression] = []
    while not isinstance(relation, Aggregate):
        if isinstance(relation, Table) and relation.one_row:
            return relation, conditions, value
        if isinstance(relation, Project):
            made = dict(relation.outputs)
            value = substituted(value, made)
            conditions = [substituted(one, made) for one in conditions]
            relation = relation.child
        elif isinstance(relation, Filter):
            conditions.append(relation.condition)
            relation = relation.child
        else:
            return None
    return None if relation.keys or not relation.calls else (relation, conditions, value)


def _scalar_aggregate(
    c: Context, left: Relation, node: Aggregate | Table, conditions: list[Expression], value: Expression
) -> tuple[Relation, Expression]:
    """A grouping without keys has one row, also of nothing: where the join finds no group, the calls are of nothing."""
    if isinstance(node, Table) or not free(node) & set(left.columns):
        one: Relation = node
        relation: Relation = Join(JoinKind.INNER, left, one)
        return relation, _kept(conditions, value)
    lifted = lift(node.child) if not _counts_nothing(node.child) else None
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
    return relation, _kept([substituted(k, defaults) for k in conditions], substituted(value, defaults))


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
        return each(part, nothing)

    found = nothing(call.copy())
    return None if isinstance(found, exp.Null) else found


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
