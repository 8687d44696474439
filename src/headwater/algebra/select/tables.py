"""FROM: tables, views, subqueries, VALUES, joins, LATERAL and UNNEST.

Joins associate to the left and a comma binds as JOIN does, as in Spark. RIGHT JOIN is LEFT JOIN the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.dialect import said
from headwater.algebra.functions import GENERATORS, function_name
from headwater.algebra.relations import (
    Generate,
    Join,
    JoinKind,
    Name,
    Project,
    Relation,
    Table,
    Values,
)
from headwater.algebra.select import recursion, subqueries
from headwater.algebra.select.context import Built, Context, Cte, Place
from headwater.algebra.select.correlation import conjunction, conjuncts, free
from headwater.algebra.select.scope import UNSUPPORTED, Scope, Seen, column
from headwater.algebra.view import is_total
from headwater.model.names import ViewName

_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.LEFT,
    ("RIGHT", "OUTER"): JoinKind.LEFT,
    ("FULL", ""): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "ANTI"): JoinKind.ANTI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
}


def nothing(c: Context) -> Values:
    """What SELECT without FROM selects from: one row, of which nobody knows the column."""
    return Values((c.fresh(),), ((exp.Literal.number(1),),))


def from_clause(c: Context, select: exp.Select, outer: Scope | None, ctes: Mapping[str, Cte]) -> Place:
    clause = select.args.get("from_")
    if clause is None:
        place = Place(nothing(c), Scope(outer=outer), ctes)
        for lateral in select.args.get("laterals") or []:
            place = _lateral_view(c, place, lateral)
        return place
    place = _joined(c, _item(c, clause.this, outer, ctes), select.args.get("joins"))
    for lateral in select.args.get("laterals") or []:
        place = _lateral_view(c, place, lateral)
    return place


def _joined(c: Context, place: Place, joins: list[exp.Join] | None) -> Place:
    for join in joins or []:
        place = _join(c, place, join)
    return place


def _item(c: Context, node: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]) -> Place:
    """One item of FROM, with the joins inside its parentheses."""
    if isinstance(node, exp.Table):
        if node.args.get("sample") or node.args.get("pivots"):
            word = "TABLESAMPLE" if node.args.get("sample") else "PIVOT"
            raise c.parsed.error(f"cannot maintain {word}: a view is a function of its sources", "remove it", node)
        return _joined(c, _table(c, node, outer, ctes), node.args.get("joins"))
    if isinstance(node, exp.Subquery):
        if isinstance(node.this, exp.Table | exp.Subquery) and not node.alias:
            return _joined(c, _item(c, node.this, outer, ctes), node.args.get("joins"))
        return _joined(c, _derived(c, node, node.this, outer, ctes), node.args.get("joins"))
    if isinstance(node, exp.Values):
        return _values(c, node, outer)
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
        return _derived(c, node, node.this.this, outer, ctes)
    if isinstance(node, exp.Unnest | exp.Lateral):
        return _unnested(c, Place(nothing(c), Scope(outer=outer), ctes), node, outer=False)
    raise c.parsed.error(
        f"FROM holds {said(node)}, which is no table", "name tables as source.table, views by their names", node
    )


def _table(c: Context, node: exp.Table, outer: Scope | None, ctes: Mapping[str, Cte]) -> Place:
    if isinstance(node.this, exp.Func):
        if function_name(node.this) in GENERATORS:
            return _unnested(c, Place(nothing(c), Scope(outer=outer), ctes), node, outer=False)
        raise c.parsed.error(
            f"cannot maintain the table function {said(node.this)}: a view reads tables", "name a table", node
        )
    if len(node.parts) == 1:
        cte = next((q for name, q in ctes.items() if name.lower() == node.name.lower()), None)
        if cte is not None:
            relation, built = _mentioned(c, cte)
            called = [name for name, _ in built.outputs]
            called = [new or old for new, old in zip(_padded(cte.columns, len(called)), called, strict=True)]
            return _visible(c, node, relation, called, list(relation.columns), outer, ctes)
    schema = c.names.table(node)
    columns = [(one.name, c.fresh() if one.type is not None else UNSUPPORTED, one) for one in schema.columns]
    known = [(called, name) for called, name, _ in columns if name != UNSUPPORTED]
    if not known:
        raise c.parsed.error(
            f"table {schema.name} has no column that Headwater can represent", "leave the table out", node
        )
    c.types.update({name: one.type for _, name, one in columns if one.type is not None})
    relation = Table(
        schema.name,
        tuple(called for called, _ in known),
        tuple(name for _, name in known),
        one_row=schema.name.is_view and is_total(c.names.views.defined[ViewName(schema.name.table)]),
    )
    place = _visible(
        c, node, relation, [called for called, _, _ in columns], [name for _, name, _ in columns], outer, ctes
    )
    declared = {called: one.declared for called, name, one in columns if name == UNSUPPORTED}
    if declared:
        seen = tuple(replace(s, declared=declared.get(s.called, "")) for s in place.scope.columns)
        place = replace(place, scope=replace(place.scope, columns=seen))
    return place


def _mentioned(c: Context, cte: Cte) -> tuple[Relation, Built]:
    """A query by name is built once, and has other column names wherever it is mentioned: what its mentions do alike
    is done once. One that speaks of the query around it is built wherever it is mentioned, as if it stood there."""
    from headwater.algebra.select.query import build_query

    built = c.built.get(id(cte.query))
    if built is None:
        built = recursion.build(c, cte) if cte.recursive else build_query(c, cte.query, cte.outer, cte.known)
        if not free(built.relation):
            c.built[id(cte.query)] = built
    outputs = tuple((c.fresh(), column(name)) for _, name in built.outputs)
    return Project(built.relation, outputs), built


def _padded(columns: tuple[str, ...], width: int) -> list[str]:
    return [*columns, *[""] * (width - len(columns))]


def _visible(
    c: Context,
    node: exp.Expr,
    relation: Relation,
    called: list[str],
    names: list[Name],
    outer: Scope | None,
    ctes: Mapping[str, Cte],
) -> Place:
    """A relation under its alias, with the names that the alias gives its columns."""
    given = node.args.get("alias")
    renamed = [i.name for i in given.args.get("columns") or []] if isinstance(given, exp.TableAlias) else []
    if len(renamed) > len(called):
        raise c.parsed.error(
            f"{node.alias} names {len(renamed)} columns, and there are {len(called)}", "name as many as there are", node
        )
    called = [*renamed, *called[len(renamed) :]]
    alias = node.alias_or_name
    if alias and ("." in alias or not alias.strip()):
        raise c.parsed.error(f"{alias!r} cannot be an alias", "choose one without a dot: source.table AS t", node)
    written = {}
    if isinstance(node, exp.Table) and not node.alias:
        written = {tuple(part.name for part in node.parts): alias}
    seen = tuple(Seen(alias, one, name) for one, name in zip(called, names, strict=True))
    return Place(relation, Scope(seen, (), outer, written), ctes)


def _derived(c: Context, node: exp.Expr, query: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]) -> Place:
    from headwater.algebra.select.query import build_query

    if isinstance(query, exp.Values):
        return _values(c, query, outer, node)
    built = build_query(c, query, outer, ctes)
    called, names = [name for name, _ in built.outputs], [n for _, n in built.outputs]
    return _visible(c, node, built.relation, called, names, outer, ctes)


def _values(c: Context, node: exp.Values, outer: Scope | None, alias: exp.Expr | None = None) -> Place:
    rows = [tuple(row.expressions) if isinstance(row, exp.Tuple) else (row.unnest(),) for row in node.expressions]
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise c.parsed.error("the rows of VALUES have different lengths", "give each row as many values", node)
    if subqueries.has_query(exp.Tuple(expressions=[e.copy() for row in rows for e in row])):
        return _computed_values(c, node, rows, outer, alias)
    resolved = tuple(tuple(c.resolver.resolved(e, Scope(outer=outer)) for e in row) for row in rows)
    columns = c.fresh.several(widths.pop())
    called = [f"col{i + 1}" for i in range(len(columns))]
    named = alias if alias is not None and alias.alias else node
    return _visible(c, named, Values(columns, resolved), called, list(columns), outer, {})


def _computed_values(
    c: Context, node: exp.Values, rows: list[tuple[exp.Expr, ...]], outer: Scope | None, alias: exp.Expr | None
) -> Place:
    """VALUES with queries in it: SELECT … UNION ALL SELECT …"""
    from headwater.algebra.select.query import build_query

    parts: list[exp.Query] = [exp.select(*(e.copy() for e in row)) for row in rows]
    query = parts[0]
    for part in parts[1:]:
        query = exp.union(query, part, distinct=False)
    built = build_query(c, query, outer, {})
    called = [f"col{i + 1}" for i in range(len(built.outputs))]
    named = alias if alias is not None and alias.alias else node
    return _visible(c, named, built.relation, called, [n for _, n in built.outputs], outer, {})


def generated(c: Context, select: exp.Select) -> exp.Select:
    """SELECT explode(x) AS y, … FROM t: the same as FROM t LATERAL VIEW explode(x) … AS y, where nothing is grouped."""
    for item in select.expressions:
        call = item.this if isinstance(item, exp.Alias) else item
        word = function_name(call) if isinstance(call, exp.Func) else ""
        if word.removesuffix("_outer") != "explode":
            continue
        if select.args.get("group") or select.args.get("having") or select.find(exp.Window):
            raise c.parsed.error(
                f"{word}() beside groups or windows", f"write it in FROM: LATERAL VIEW {word}(…)", item
            )
        table, name = f"{word}_{len(select.args.get('laterals') or [])}_", item.alias or "col"
        alias = exp.TableAlias(this=exp.to_identifier(table), columns=[exp.to_identifier(name)])
        select.append("laterals", exp.Lateral(this=call.copy(), view=True, outer=word.endswith("_outer"), alias=alias))
        made = exp.column(name, table=table, quoted=True)
        item.replace(exp.alias_(made, name, quoted=True))
    return select


def values_query(c: Context, node: exp.Values, outer: Scope | None) -> Built:
    place = _values(c, node, outer)
    return Built(place.relation, tuple((s.called, s.name) for s in place.scope.columns))


def _join(c: Context, left: Place, join: exp.Join) -> Place:
    odd = [k for k, v in join.args.items() if v and k not in ("this", "on", "using", "kind", "side", "method")]
    kind = _KINDS.get((join.side, join.kind))
    words = " ".join(w for w in (join.method, join.side, join.kind) if w)
    if kind is None or odd or join.method:
        raise c.parsed.error(
            f"cannot maintain {words or odd[0].upper()} JOIN: it is no join of Spark SQL",
            "write INNER, LEFT, RIGHT, FULL, SEMI, ANTI or CROSS JOIN",
            join,
        )
    node = join.this
    if isinstance(node, exp.Lateral | exp.Unnest) or (isinstance(node, exp.Table) and isinstance(node.this, exp.Func)):
        return _lateral(c, left, join, kind)
    right = _item(c, node, left.scope.outer, left.ctes)
    _check_aliases(c, left.scope, right.scope, node)
    using = join.args.get("using") or []
    if join.side == "RIGHT":
        return _placed_join(c, join, kind, right, left, using, turned=True)
    return _placed_join(c, join, kind, left, right, using)


def _placed_join(
    c: Context, join: exp.Join, kind: JoinKind, left: Place, right: Place, using: list[exp.Expr], turned: bool = False
) -> Place:
    first, second = (right, left) if turned else (left, right)
    both = _side_by_side(first.scope, second.scope)
    relation: Relation
    on = join.args.get("on")
    if on is not None:
        condition, sides = subqueries.in_condition(c, on, left, right, both)
        relation = Join(kind, sides[0], sides[1], on=condition)
        scope = both
    elif using:
        relation, scope = _using(c, kind, left, right, using, first, second)
    else:
        relation, scope = Join(kind, left.relation, right.relation), both
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return replace(left, relation=relation)
    return Place(relation, scope, left.ctes)


def _side_by_side(left: Scope, right: Scope) -> Scope:
    written = {**left.written, **right.written}
    return Scope(left.columns + right.columns, left.hidden + right.hidden, left.outer, written)


def _using(
    c: Context, kind: JoinKind, left: Place, right: Place, using: list[exp.Expr], first: Place, second: Place
) -> tuple[Relation, Scope]:
    """USING: the columns stand once, as the side that is never padded has them."""
    pairs = []
    for name in using:
        probe = exp.Column(this=exp.to_identifier(name.name, quoted=True).update_positions(name))
        pairs.append((_only(c, probe, left.scope), _only(c, probe, right.scope)))
    on = conjunction(exp.EQ(this=column(a.name), expression=column(b.name)) for a, b in pairs)
    relation: Relation = Join(kind, left.relation, right.relation, on=on)
    merged = []
    for a, b in pairs:
        shown = a.name
        if kind is JoinKind.FULL:
            shown = c.fresh()
            one = exp.func("COALESCE", column(a.name), column(b.name))
            relation = Project(relation, (*((n, column(n)) for n in relation.columns), (shown, one)))
        merged.append(Seen("", a.called, shown))
    gone = {s for pair in pairs for s in pair}
    rest = tuple(s for s in first.scope.columns + second.scope.columns if s not in gone)
    both = _side_by_side(first.scope, second.scope)
    return relation, replace(both, columns=(*merged, *rest), hidden=(*both.hidden, *gone))


def _only(c: Context, probe: exp.Column, scope: Scope) -> Seen:
    name = c.resolver.name(probe, replace(scope, outer=None))
    return next(s for s in scope.columns if s.name == name)


def _check_aliases(c: Context, left: Scope, right: Scope, node: exp.Expr) -> None:
    for alias in right.aliases:
        twin = next((a for a in left.aliases if a.lower() == alias.lower()), None)
        if twin is not None:
            raise c.parsed.error(f"{alias!r} names two tables of FROM", f"give each its own alias: … AS {alias}2", node)


def _lateral(c: Context, left: Place, join: exp.Join, kind: JoinKind) -> Place:
    """A subquery or a generator that sees what stands to its left."""
    node = join.this
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
        right = _derived(c, node, node.this.this, left.scope, left.ctes)
        _check_aliases(c, left.scope, right.scope, node)
        both = replace(_side_by_side(left.scope, right.scope), outer=left.scope.outer)
        on = join.args.get("on")
        parts = conjuncts(c.resolver.resolved(on, both)) if on is not None else []
        relation = subqueries.beside(c, kind, left.relation, right.relation, parts)
        return Place(relation, both, left.ctes)
    on = join.args.get("on")
    if on is not None and not (isinstance(on, exp.Boolean) and on.this):
        raise c.parsed.error("UNNEST is joined with ON TRUE only", "move the condition to WHERE", join)
    return _unnested(c, left, node, outer=kind is JoinKind.LEFT)


def _lateral_view(c: Context, place: Place, lateral: exp.Lateral) -> Place:
    return _unnested(c, place, lateral, outer=bool(lateral.args.get("outer")))


def _unnested(c: Context, place: Place, node: exp.Expr, outer: bool) -> Place:
    """EXPLODE, POSEXPLODE, INLINE, UNNEST …: rows made of values in a row."""
    if isinstance(node, exp.Unnest):
        if len(node.expressions) != 1:
            raise c.parsed.error("UNNEST of several arrays", "unnest one: arrays_zip(a, b) makes one of them", node)
        call: exp.Expr = exp.Anonymous(this="EXPLODE", expressions=[node.expressions[0].copy()])
        if node.args.get("offset"):
            call = exp.Anonymous(this="POSEXPLODE", expressions=[node.expressions[0].copy()])
    else:
        call = node.this
    word = function_name(call)
    if word.endswith("_outer"):
        word, outer = word[: -len("_outer")], True
        call = exp.Anonymous(this=word, expressions=[e.copy() for e in call.expressions])
    if word == "unnest":
        call = exp.Anonymous(this="EXPLODE", expressions=[e.copy() for e in call.expressions])
        word = "explode"
    made = {"explode": ["col"], "posexplode": ["pos", "col"]}.get(word)
    given = node.args.get("alias")
    named = [i.name for i in given.args.get("columns") or []] if isinstance(given, exp.TableAlias) else []
    if made is None and not named:
        raise c.parsed.error(
            f"{word}() makes columns without names", f"name them: LATERAL VIEW {word}(…) t AS a, b", node
        )
    if word == "explode" and len(named) == 2:
        made = ["key", "value"]
    called = named or made or []
    if made is not None and len(named) not in (0, len(made)):
        raise c.parsed.error(f"{word}() makes {len(made)} columns", "name as many as there are", node)
    names = c.fresh.several(len(called))
    resolved = c.resolver.resolved(call, place.scope)
    if subqueries.has_query(resolved):
        resolved, place = subqueries.value(c, resolved, place)
    relation = Generate(place.relation, resolved, names, outer)
    alias = node.alias_or_name if isinstance(node, exp.Table | exp.Lateral | exp.Unnest) else ""
    seen = tuple(Seen(alias, one, name) for one, name in zip(called, names, strict=True))
    return replace(place, relation=relation, scope=replace(place.scope, columns=(*place.scope.columns, *seen)))
