"""GROUP BY, its grouping sets, aggregates and HAVING.

    SELECT status, SUM(qty) * 2 AS twice … GROUP BY status
    keys    columns of what is grouped; an expression becomes a column first
    calls   each aggregate once, under a name of its own
    after   expressions over keys and calls

Several grouping sets are as many groupings side by side, with NULL for what a set leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from sqlglot import exp

from headwater.algebra.dialect import each, said, spark_sql
from headwater.algebra.functions import function_name, is_aggregate
from headwater.algebra.names import pick
from headwater.algebra.relations import Aggregate, Expression, Name, Project, Relation, Union
from headwater.algebra.select import subqueries
from headwater.algebra.select.aggregates import settled
from headwater.algebra.select.context import Context, Place
from headwater.algebra.select.scope import column

_GROUPING = ("grouping", "grouping_id")


def calls_aggregate(node: exp.Expr | None) -> bool:
    """Whether an aggregate is called, other than over a window or in a subquery."""
    if node is None or (isinstance(node, exp.Query) and not isinstance(node, exp.Table)):
        return False
    if isinstance(node, exp.Window):
        return any(calls_aggregate(part) for part in _inside_window(node))
    if isinstance(node, exp.WithinGroup) or is_aggregate(node) or function_name(node) in _GROUPING:
        return True
    return any(calls_aggregate(part) for part in node.iter_expressions())


def _inside_window(node: exp.Window) -> list[exp.Expr]:
    function = node.this
    while isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        function = function.this
    parts = list(function.iter_expressions())
    return [*parts, *node.args.get("partition_by", []), *([node.args["order"]] if node.args.get("order") else [])]


class Grouping:
    """The grouping of one SELECT. `place` is what WHERE left; `outputs` are the select list, for GROUP BY 1 and
    names."""

    def __init__(self, c: Context, place: Place, select: exp.Select, outputs: Sequence[tuple[str, exp.Expr]]) -> None:
        self._c, self._before = c, place
        self._outputs = outputs
        self._keys: list[tuple[str, Name]] = []
        self._more: list[tuple[Name, Expression]] = []
        self._sets = self._grouping_sets(select.args.get("group"))
        self._calls: dict[str, tuple[Name, Expression]] = {}
        self._groupings: dict[str, tuple[Name, list[Name]]] = {}

    def after(self, node: exp.Expr) -> Expression:
        """An expression of the select list, HAVING or ORDER BY, over keys and calls. Subqueries are left as they
        are."""
        return self._replaced(self._c.resolver.resolved(node, self._before.scope))

    def place(self) -> Place:
        """The groups; to be asked when every expression was seen."""
        child = self._before.relation
        if self._more:
            child = Project(child, (*((n, column(n)) for n in child.columns), *self._more))
        calls = tuple(self._calls.values())
        if not calls and any(not members for members in self._sets):  # a group of everything, of which nothing is said
            calls = ((self._c.fresh(), exp.Count(this=exp.Star())),)
        if len(self._sets) == 1:
            relation: Relation = Aggregate(child, tuple(self._sets[0]), calls)
            constants = [(name, exp.Literal.number(0)) for name, _ in self._groupings.values()]
            return self._before.over(_with(relation, constants))
        return self._before.over(self._side_by_side(child, calls))

    def _side_by_side(self, child: Relation, calls: tuple[tuple[Name, Expression], ...]) -> Relation:
        every = [name for _, name in self._keys]
        parts, columns = [], None
        for members in self._sets:
            missing = {name: self._c.fresh() for name in every if name not in members}
            nulls = [(new, exp.Case().when(exp.false(), column(old))) for old, new in missing.items()]
            padded = Project(child, (*((n, column(n)) for n in child.columns), *nulls)) if nulls else child
            renamed = {name: self._c.fresh() for name, _ in calls}
            own = tuple((renamed[name], call.copy()) for name, call in calls)
            keys = [missing.get(name, name) for name in every]
            part: Relation = Aggregate(padded, tuple(keys), own)
            bits = {name: exp.Literal.number(_bits(of, members)) for name, of in self._groupings.values()}
            fresh = [self._c.fresh() for _ in bits]
            made = (*keys, *renamed.values())
            outputs: list[tuple[Name, Expression]] = [(self._c.fresh(), column(n)) for n in made]
            outputs += [(new, bits[name]) for new, name in zip(fresh, bits, strict=True)]
            parts.append(Project(part, tuple(outputs)))
            columns = (*every, *(name for name, _ in calls), *bits)
        assert columns is not None
        return Union(tuple(parts), columns)

    # keys

    def _grouping_sets(self, group: exp.Group | None) -> list[list[Name]]:
        if group is None:
            return [[]]
        everything = group.args.get("all") and not group.expressions
        if everything:
            plain = [tree for _, tree in self._outputs if not calls_aggregate(tree)]
            return [[self._key(tree) for tree in plain]]
        if group.args.get("totals"):
            raise self._c.parsed.error("cannot maintain WITH TOTALS: Spark SQL has none", "write ROLLUP", group)
        crossed: list[list[list[Name]]] = []
        for item in group.expressions:
            crossed.append(self._sets_of(item))
        for word, make in (("rollup", _rollup), ("cube", _cube), ("grouping_sets", None)):
            for item in group.args.get(word) or []:
                crossed.append(self._sets_of(item) if make is None else make(self._members(item)))
        found = [list(dict.fromkeys(n for part in sets for n in part)) for sets in product(*crossed)]
        return found or [[]]

    def _sets_of(self, item: exp.Expr) -> list[list[Name]]:
        if isinstance(item, exp.Rollup):
            return _rollup(self._members(item))
        if isinstance(item, exp.Cube):
            return _cube(self._members(item))
        if isinstance(item, exp.GroupingSets):
            return [one for member in item.expressions for one in self._set(member)]
        return [self._one_set(item)]

    def _set(self, member: exp.Expr) -> list[list[Name]]:
        if isinstance(member, exp.Rollup | exp.Cube | exp.GroupingSets):
            return self._sets_of(member)
        return [self._one_set(member)]

    def _one_set(self, item: exp.Expr) -> list[Name]:
        if isinstance(item, exp.Tuple):
            return [self._key(part) for part in item.expressions]
        return [self._key(item)]

    def _members(self, item: exp.Expr) -> list[list[Name]]:
        return [self._one_set(part) for part in item.expressions]

    def _key(self, item: exp.Expr) -> Name:
        meant = self._meant(item)
        if calls_aggregate(meant):
            raise self._c.parsed.error(
                "GROUP BY cannot hold an aggregate", "group by columns or plain expressions", item
            )
        resolved = self._c.resolver.resolved(meant.unnest(), self._before.scope)
        text = spark_sql(resolved)
        known = next((name for key, name in self._keys if key == text), None)
        if known is not None:
            return known
        if subqueries.has_query(resolved):
            resolved, self._before = subqueries.value(self._c, resolved, self._before)
        if isinstance(resolved, exp.Column):
            name = resolved.name
            if name not in self._before.relation.columns:  # of a query around: one value for all
                name = self._c.fresh()
                self._more.append((name, resolved))
        else:
            name = self._c.fresh()
            self._more.append((name, resolved))
        self._keys.append((text, name))
        return name

    def _meant(self, item: exp.Expr) -> exp.Expr:
        """A number counts outputs; a plain name is a column if there is one, else an output."""
        if isinstance(item, exp.Literal) and not item.is_string:
            position = int(item.name) if item.name.isdigit() else 0
            if not 1 <= position <= len(self._outputs):
                raise self._c.parsed.error(
                    f"GROUP BY {item.name}: there is no such output",
                    f"use 1 to {len(self._outputs)}, or name the column",
                    item,
                )
            return self._outputs[position - 1][1]
        if isinstance(item, exp.Column) and not item.table and not self._c.resolver.has(item, self._before.scope):
            found = pick(self._outputs, item.name, lambda o: o[0])
            if found:
                return found[0][1]
        return item

    # expressions

    def _replaced(self, node: Expression) -> Expression:
        if isinstance(node, exp.Condition | exp.Query) and not isinstance(node, exp.Literal):
            text = spark_sql(node.unnest())
            known = next((name for key, name in self._keys if key == text), None)
            if known is not None:
                return column(known)
        if isinstance(node, exp.Query) and not isinstance(node, exp.Table):
            return node
        if isinstance(node, exp.Window):
            return self._window(node)
        if function_name(node) in _GROUPING:
            return self._grouping(node)
        if isinstance(node, exp.Filter | exp.WithinGroup) or is_aggregate(node):
            return column(self._call(node))
        if isinstance(node, exp.Column):
            if node.name not in self._before.relation.columns:
                return node  # a value of the query around
            raise self._c.parsed.error(
                f"column {self._said(node.name)} is neither grouped by nor inside an aggregate",
                f"add it to GROUP BY, or use an aggregate of it, such as MAX({self._said(node.name)})",
                node,
            )
        return each(node, self._replaced)

    def _window(self, node: exp.Window) -> Expression:
        holder: exp.Expr = node
        function = node.this
        while isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
            if isinstance(function, exp.Filter):
                function.set("expression", each(function.expression, self._replaced))
            holder, function = function, function.this
        holder.set("this", each(function, self._replaced))
        node.set("partition_by", [self._replaced(p) for p in node.args.get("partition_by") or []])
        if node.args.get("order"):
            node.set("order", each(node.args["order"], self._replaced))
        return node

    def _call(self, node: Expression) -> Name:
        bare = node
        while isinstance(bare, exp.Filter | exp.WithinGroup):
            bare = bare.this
        if any(calls_aggregate(part) for part in bare.iter_expressions()):
            raise self._c.parsed.error("an aggregate inside an aggregate", "aggregate a subquery that has one", node)
        if subqueries.has_query(node):
            node, self._before = subqueries.value(self._c, node, self._before)
        call = settled(self._c, node)
        text = spark_sql(call)
        if text not in self._calls:
            self._calls[text] = (self._c.fresh(), call)
        return self._calls[text][0]

    def _grouping(self, node: Expression) -> Expression:
        asked = [self._key(e) if isinstance(e, exp.Expr) else "" for e in node.expressions]
        of = asked or [name for _, name in self._keys]
        text = ",".join(of)
        if text not in self._groupings:
            self._groupings[text] = (self._c.fresh(), of)
        found = column(self._groupings[text][0])
        return exp.cast(found, "tinyint") if function_name(node) == "grouping" else exp.cast(found, "bigint")

    def _said(self, name: Name) -> str:
        return next((s.said for s in self._before.scope.columns if s.name == name), name)


def _bits(of: Sequence[Name], members: Sequence[Name]) -> int:
    """GROUPING_ID: one bit for each column, set if it is not grouped by."""
    return sum(1 << (len(of) - 1 - i) for i, name in enumerate(of) if name not in members)


def _with(relation: Relation, constants: Sequence[tuple[Name, Expression]]) -> Relation:
    if not constants:
        return relation
    return Project(relation, (*((n, column(n)) for n in relation.columns), *constants))


def _rollup(members: list[list[Name]]) -> list[list[Name]]:
    return [[n for part in members[:k] for n in part] for k in range(len(members), -1, -1)]


def _cube(members: list[list[Name]]) -> list[list[Name]]:
    sizes = range(len(members), -1, -1)
    return [[n for part in chosen for n in part] for k in sizes for chosen in combinations(members, k)]


__all__ = ["Grouping", "calls_aggregate", "said"]
