"""One query: WITH, set operations, and a SELECT from FROM to LIMIT, in the order in which SQL evaluates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from headwater.algebra.dialect import each, said
from headwater.algebra.names import pick
from headwater.algebra.relations import Aggregate, Expression, Name, Project, Relation, SetKind, SetOperation, Union
from headwater.algebra.select import ranking, recursion, subqueries
from headwater.algebra.select.context import Built, Context, Cte
from headwater.algebra.select.correlation import filtered
from headwater.algebra.select.grouping import Grouping, calls_aggregate
from headwater.algebra.select.scope import Scope, Seen, column
from headwater.algebra.select.tables import from_clause, generated, values_query
from headwater.model.errors import UnknownName

_MOST = 10**9


def build_query(c: Context, query: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte], root: bool = False) -> Built:
    ctes = _with(c, query, outer, ctes)
    if isinstance(query, exp.Subquery):
        built = build_query(c, query.this, outer, ctes, root)
        return _ordered(c, query, built, root)
    if isinstance(query, exp.SetOperation):
        return _ordered(c, query, _set_operation(c, query, outer, ctes), root)
    if isinstance(query, exp.Select):
        return _Select(c, query, outer, ctes, root).built()
    if isinstance(query, exp.Values):
        return values_query(c, query, outer)
    if isinstance(query, exp.Table):  # TABLE t, or parentheses around a name
        star = exp.select("*").from_(query.copy())
        return build_query(c, star, outer, ctes, root)
    raise c.parsed.error(f"{said(query)} is no query", "write SELECT …", query)


def _with(c: Context, query: exp.Expr, outer: Scope | None, ctes: Mapping[str, Cte]) -> Mapping[str, Cte]:
    clause = query.args.get("with_")
    if clause is None:
        return ctes
    known, recursive = dict(ctes), bool(clause.args.get("recursive"))
    for one in clause.expressions:
        alias = one.args["alias"]
        name = alias.name
        if any(name.lower() == other.alias.lower() for other in clause.expressions if other is not one):
            raise c.parsed.error(f"WITH names {name!r} twice", "give each query its own name", one, name)
        columns = tuple(i.name for i in alias.args.get("columns") or [])
        known = {n: q for n, q in known.items() if n.lower() != name.lower()} | {
            name: Cte(one.this, columns, dict(known), recursive and recursion.mentions(one.this, name), alias, outer)
        }
    return known


def _set_operation(c: Context, query: exp.SetOperation, outer: Scope | None, ctes: Mapping[str, Cte]) -> Built:
    left = build_query(c, query.this, outer, ctes)
    right = build_query(c, query.expression, outer, ctes)
    if query.args.get("by_name") or query.args.get("on"):
        raise c.parsed.error("cannot maintain BY NAME", "list the columns of both sides in the same order", query)
    word = type(query).__name__.upper()
    if len(left.outputs) != len(right.outputs):
        raise c.parsed.error(
            f"{word} of {len(left.outputs)} and of {len(right.outputs)} columns", "select as many on both sides", query
        )
    columns = c.fresh.several(len(left.outputs))
    sides = [_only(one) for one in (left, right)]
    names = tuple((name, new) for (name, _), new in zip(left.outputs, columns, strict=True))
    distinct = bool(query.args.get("distinct"))
    if isinstance(query, exp.Union) and not distinct:
        return Built(Union((sides[0], sides[1]), columns), names)
    kinds = {
        (exp.Union, True): SetKind.UNION,
        (exp.Intersect, True): SetKind.INTERSECT,
        (exp.Intersect, False): SetKind.INTERSECT_ALL,
        (exp.Except, True): SetKind.EXCEPT,
        (exp.Except, False): SetKind.EXCEPT_ALL,
    }
    return Built(SetOperation(kinds[type(query), distinct], sides[0], sides[1], columns), names)


def _only(built: Built) -> Relation:
    """The rows, with the outputs as columns, in their order."""
    names = tuple(name for _, name in built.outputs)
    if built.relation.columns == names:
        return built.relation
    return (
        Project(built.relation, tuple((n, column(n)) for n in names))
        if len(set(names)) == len(names)
        else (_apart(built))
    )


def _apart(built: Built) -> Relation:
    """The same column selected twice has two names; only a set operation's sides must not share them."""
    taken: set[Name] = set()
    outputs = []
    for i, (_, name) in enumerate(built.outputs):
        outputs.append((f"{name}_{i}" if name in taken else name, column(name)))
        taken.add(name)
    return Project(built.relation, tuple(outputs))


def _ordered(c: Context, query: exp.Expr, built: Built, root: bool) -> Built:
    """ORDER BY and LIMIT around a query that has its outputs already."""
    scope = Scope(tuple(Seen("", name, n) for name, n in built.outputs))
    items = [
        _item(c, one, scope, built) for one in (query.args["order"].expressions if query.args.get("order") else [])
    ]
    limit, offset = _count(c, query, "limit"), _count(c, query, "offset")
    if limit is None and not offset:
        return replace(built, order=_shown(items, built) if root else ())
    relation = ranking.first_rows(c, _only(built), [o for o, _ in items], limit, offset or 0)
    return Built(relation, built.outputs, _shown(items, built) if root else ())


def _item(c: Context, item: exp.Expr, scope: Scope, built: Built) -> tuple[Expression, exp.Expr]:
    ordered = item.copy()
    ordered.set(
        "this",
        _output(c, item.this, [(n, column(x)) for n, x in built.outputs]) or c.resolver.resolved(item.this, scope),
    )
    return ordered, item


def _output(c: Context, node: exp.Expr, outputs: Sequence[tuple[str, Expression]]) -> Expression | None:
    """The output that a number or a name in ORDER BY means."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        if not 1 <= int(node.name) <= len(outputs):
            raise c.parsed.error(f"ORDER BY {node.name}: there is no such output", f"use 1 to {len(outputs)}", node)
        return outputs[int(node.name) - 1][1].copy()
    if isinstance(node, exp.Column) and not node.table:
        found = pick(outputs, node.name, lambda o: o[0])
        if found:
            return found[0][1].copy()
    return None


def _shown(items: Sequence[tuple[Expression, exp.Expr]], built: Built) -> tuple[tuple[str, bool, bool], ...]:
    """ORDER BY as far as it speaks of outputs."""
    by_name = {name: called for called, name in built.outputs}
    found = []
    for ordered, _ in items:
        if not isinstance(ordered.this, exp.Column) or ordered.this.name not in by_name:
            break
        down = bool(ordered.args.get("desc"))
        first = ordered.args.get("nulls_first")
        found.append((by_name[ordered.this.name], down, bool(first)))
    return tuple(found)


def _count(c: Context, query: exp.Expr, word: str) -> int | None:
    clause = query.args.get(word)
    if clause is None:
        return None
    node = clause.expression if clause.expression is not None else clause.args.get("count")
    node = node.unnest() if node is not None else node
    if isinstance(clause, exp.Fetch) and clause.args.get("limit_options"):
        raise c.parsed.error("cannot maintain FETCH … WITH TIES", "write RANK() OVER (…) and QUALIFY", query, "FETCH")
    if word == "limit" and isinstance(node, exp.Column) and node.name.lower() == "all":
        return None
    while isinstance(node, exp.Cast | exp.Paren):
        node = node.this
    if isinstance(node, exp.Binary):
        node = simplify(node.copy())
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) > _MOST:
        return None if word == "limit" else _MOST
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        raise c.parsed.error(f"{word.upper()} wants a whole number", f"write {word.upper()} 10", query, word.upper())
    return int(node.name)


_REFUSED = {
    "sort": ("SORT BY", "write ORDER BY"),
    "cluster": ("CLUSTER BY", "remove it"),
    "distribute": ("DISTRIBUTE BY", "remove it"),
    "pivots": ("PIVOT", "write SUM(CASE WHEN … THEN x END) AS …"),
    "sample": ("TABLESAMPLE", "remove it"),
    "locks": ("FOR UPDATE", "remove it"),
    "into": ("INTO", "remove it"),
    "hint": ("a planner hint", "remove the /*+ … */"),
    "connect": ("CONNECT BY", "write the joins"),
    "prewhere": ("PREWHERE", "write WHERE"),
}


class _Select:
    """One SELECT."""

    def __init__(
        self, c: Context, select: exp.Select, outer: Scope | None, ctes: Mapping[str, Cte], root: bool
    ) -> None:
        select = generated(c, ranking.spelled_out(c, select))
        self.c, self.select, self.root = c, select, root
        for clause, (word, instead) in _REFUSED.items():
            if select.args.get(clause):
                raise c.parsed.error(f"cannot maintain {word}: a view is a bag of rows", instead, None, word.split()[0])
        self.place = from_clause(c, select, outer, ctes)
        where = select.args.get("where")
        if where is not None:
            if calls_aggregate(where.this):
                raise c.parsed.error("an aggregate cannot stand in WHERE", "move it to HAVING", where)
            self.place = subqueries.condition(c, where.this, self.place)
        self.listed = self._outputs()

    def built(self) -> Built:
        select = self.select
        having, qualify = (select.args[k].this if select.args.get(k) else None for k in ("having", "qualify"))
        order = list(select.args["order"].expressions) if select.args.get("order") else []
        limit, offset = _count(self.c, select, "limit"), _count(self.c, select, "offset")
        qualify = self._by_output(qualify)
        expressions = [tree for _, tree in self.listed]
        sorts, places = self._sorts(order)
        on = self._distinct_on()
        if (
            select.args.get("group")
            or having is not None
            or any(calls_aggregate(e) for e in (*expressions, qualify, *sorts, *on))
        ):
            more = [*sorts, *on]
            expressions, more, qualify = self._grouped(expressions, more, having, qualify)
            sorts, on = more[: len(sorts)], more[len(sorts) :]
        expressions = [self._value(e) for e in expressions]
        sorts = [self._value(e) for e in sorts]
        qualify = self._value(qualify) if qualify is not None else None
        on = [self._value(e) for e in on]
        found = [*expressions, *sorts, *on, *([qualify] if qualify is not None else [])]
        relation, found = ranking.windows(self.c, self.place.relation, found)
        if qualify is not None:
            relation = filtered(relation, [found.pop()])
        return self._finished(relation, found, places, limit, offset, bool(on))

    def _finished(
        self,
        relation: Relation,
        found: list[Expression],
        places: list[tuple[int | None, exp.Expr]],
        limit: int | None,
        offset: int | None,
        on: bool,
    ) -> Built:
        width = len(self.listed)
        names = [self.c.fresh() for _ in range(width)]
        outputs = list(zip(names, found[:width], strict=True))
        extra = [(self.c.fresh(), e) for e in found[width:]]
        relation = Project(relation, (*outputs, *extra))
        rest = [name for name, _ in extra]
        sorts: list[Expression] = []
        for position, item in places:
            name = names[position] if position is not None else rest.pop(0)
            ordered = item.copy()
            ordered.set("this", column(name))
            sorts.append(ordered)
        built = Built(relation, tuple((called, n) for (called, _), n in zip(self.listed, names, strict=True)))
        distinct = self.select.args.get("distinct")
        if distinct is not None and not on:
            if rest or any(p is None for p, _ in places):
                raise self.c.parsed.error(
                    "ORDER BY speaks of what SELECT DISTINCT does not show",
                    "select it, or order by an output",
                    distinct,
                )
            built = replace(built, relation=Aggregate(_only(built), tuple(names)))
        elif on:
            relation = ranking.first_of_each(self.c, relation, tuple(rest), sorts)
            built = replace(built, relation=relation)
        shown = _shown([(s, s) for s in sorts], built) if self.root else ()
        if limit is not None or offset:
            ranked = ranking.first_rows(self.c, built.relation, sorts, limit, offset or 0)
            built = replace(built, relation=ranked)
        return replace(built, relation=_only(built), order=shown)

    def _outputs(self) -> list[tuple[str, exp.Expr]]:
        found: list[tuple[str, exp.Expr]] = []
        for i, item in enumerate(self.select.expressions):
            if isinstance(item, exp.Star):
                self._star(item, None, found)
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                self._star(item, item, found)
            else:
                tree = item.this if isinstance(item, exp.Alias) else item
                plain = tree.unnest()
                if isinstance(item, exp.Aliases):
                    raise self.c.parsed.error("one expression cannot have several names", "give it one: AS name", item)
                name = (
                    item.alias if isinstance(item, exp.Alias) else plain.name if isinstance(plain, exp.Column) else ""
                )
                if not name and self.root:
                    raise self.c.parsed.error(f"{said(tree)} has no name", f"add one: {said(tree)} AS name", item)
                found.append((name or f"_c{i}", tree))
        if not found:
            raise self.c.parsed.error(
                "SELECT lists nothing", "name the columns that the view has, or write *", self.select
            )
        return found

    def _star(self, item: exp.Expr, of: exp.Column | None, found: list[tuple[str, exp.Expr]]) -> None:
        star = item if isinstance(item, exp.Star) else item.this
        scope = self.place.scope
        columns = scope.columns
        if of is not None:
            parts = [part.name for part in of.parts[:-1]]
            written = next(
                (a for w, a in scope.written.items() if [p.lower() for p in w] == [p.lower() for p in parts]), ""
            )
            aliases = pick(scope.aliases, parts[-1] if len(parts) == 1 else written, str)
            if not aliases:
                raise UnknownName("table or alias", ".".join(parts), scope.aliases, f"at {self.c.parsed.place(of)}")
            columns = tuple(scope.of(aliases[0]))
        left_out = {e.name.lower() for e in star.args.get("except_") or star.args.get("except") or []}
        for one in columns:
            if one.called.lower() in left_out:
                continue
            probe = exp.Column(this=exp.to_identifier(one.called, quoted=True).update_positions(star))
            if not one.name:
                self.c.resolver.name(_qualified(probe, one.alias), scope)
            tree = column(one.name)
            tree.this.update_positions(star)
            found.append((one.called, tree))

    def _by_output(self, node: exp.Expr | None) -> exp.Expr | None:
        """QUALIFY may speak of outputs."""
        if node is None:
            return None

        def put(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Query) and not isinstance(part, exp.Table):
                return part  # its names are its own
            if isinstance(part, exp.Column) and not part.table and not self.c.resolver.has(part, self.place.scope):
                found = pick(self.listed, part.name, lambda o: o[0])
                if found:
                    return exp.paren(found[0][1].copy())
            return each(part, put)

        return put(node.copy())

    def _sorts(self, order: list[exp.Expr]) -> tuple[list[exp.Expr], list[tuple[int | None, exp.Expr]]]:
        """What ORDER BY speaks of that is no output, and for each of its items which output it is."""
        others: list[exp.Expr] = []
        places: list[tuple[int | None, exp.Expr]] = []
        for item in order:
            node = item.this.unnest()
            position: int | None = None
            if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
                position = int(node.name) - 1
                if not 0 <= position < len(self.listed):
                    raise self.c.parsed.error(
                        f"ORDER BY {node.name}: there is no such output", f"use 1 to {len(self.listed)}", node
                    )
            elif isinstance(node, exp.Column) and not node.table:
                names = [name.lower() for name, _ in self.listed]
                position = names.index(node.name.lower()) if node.name.lower() in names else None
            if position is None:
                trees = [t.unnest().sql() for _, t in self.listed]
                position = trees.index(node.sql()) if node.sql() in trees else None
            if position is None:
                inside = self._by_output(item.this)
                assert inside is not None
                others.append(inside)
            places.append((position, item))
        return others, places

    def _grouped(
        self, expressions: list[exp.Expr], sorts: list[exp.Expr], having: exp.Expr | None, qualify: exp.Expr | None
    ) -> tuple[list[exp.Expr], list[exp.Expr], exp.Expr | None]:
        grouping = Grouping(self.c, self.place, self.select, self.listed)
        kept = grouping.after(self._by_output(having)) if having is not None else None  # type: ignore[arg-type]
        expressions = [grouping.after(e) for e in expressions]
        sorts = [grouping.after(e) for e in sorts]
        qualify = grouping.after(qualify) if qualify is not None else None
        self.place = grouping.place()
        if kept is not None:
            self.place = subqueries.condition(self.c, kept, self.place)
        return expressions, sorts, qualify

    def _value(self, node: exp.Expr) -> Expression:
        expression, self.place = subqueries.value(self.c, node, self.place)
        return expression

    def _distinct_on(self) -> list[exp.Expr]:
        """What DISTINCT ON speaks of."""
        distinct = self.select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return []
        items = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
        return [_output(self.c, i, self.listed) or i for i in items]


def _qualified(probe: exp.Column, alias: str) -> exp.Column:
    if alias:
        probe.set("table", exp.to_identifier(alias, quoted=True))
    return probe
