"""FROM: which tables, joined on what.

Joins associate to the left and a comma binds as JOIN does, as in Spark. A condition sees the tables joined so far.
All joins are inner joins, so every ON, USING and WHERE is a condition on the product of all tables.
"""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.names import Names, Scope, Visible


def resolve_from(select: exp.Select, names: Names) -> tuple[Scope, list[exp.Expr]]:
    """What FROM makes visible, and the join conditions. The tree then names each table by its full name, as one
    identifier, with its alias, and says ON for USING."""
    return _From(names).query(select)


class _From:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.occurrences = 0
        self.conditions: list[exp.Expr] = []

    def query(self, select: exp.Select) -> tuple[Scope, list[exp.Expr]]:
        scope = self._joined(self._relation(select.args["from_"].this), select.args.get("joins"))
        return scope, self.conditions

    def _joined(self, scope: Scope, joins: list[exp.Join] | None) -> Scope:
        for join in joins or []:
            scope = self._join(scope, join)
        return scope

    def _relation(self, node: exp.Expr) -> Scope:
        if isinstance(node, exp.Subquery):
            if node.alias:
                raise self.names.parsed.error(
                    "parentheses in FROM cannot have an alias", "give each table its own alias", node
                )
            return self._joined(self._relation(node.this), node.args.get("joins"))
        if not isinstance(node, exp.Table):
            raise self.names.parsed.error(
                "FROM holds something that is not a table", "name tables as source.table, views by their names", node
            )
        bound = self.names.bind(node, self.occurrences)
        self.occurrences += 1
        scope = Scope((bound,), tuple(Visible(bound, column) for column in bound.schema.columns))
        node.set("this", exp.to_identifier(str(bound.schema.name), quoted=True).update_positions(node.this))
        node.set("db", None)
        node.set("catalog", None)
        node.set("alias", exp.TableAlias(this=exp.to_identifier(bound.alias, quoted=True)))
        return self._joined(scope, node.args.get("joins"))

    def _join(self, left: Scope, join: exp.Join) -> Scope:
        right = self._relation(join.this)
        both = self.names.join(left, right, join.this)
        on = join.args.get("on")
        if on is not None:
            self.names.resolve(on, both)
            self.conditions.append(on)
        using = join.args.get("using")
        return self._using(join, using, left, right) if using else both

    def _using(self, join: exp.Join, using: list[exp.Expr], left: Scope, right: Scope) -> Scope:
        pairs = [(self.names.plain(name, left), self.names.plain(name, right), name) for name in using]
        equal = [exp.EQ(this=self._column(a, name), expression=self._column(b, name)) for a, b, name in pairs]
        join.set("using", None)
        join.set("on", exp.and_(*equal, copy=False))
        self.conditions.append(join.args["on"])
        merged = tuple(a for a, _, _ in pairs)
        gone = {*merged, *(b for _, b, _ in pairs)}
        rest = tuple(v for v in left.columns + right.columns if v not in gone)
        return Scope(left.bounds + right.bounds, merged + rest)

    def _column(self, meant: Visible, name: exp.Expr) -> exp.Column:
        column = exp.Column(this=exp.to_identifier(name.name, quoted=True).update_positions(name))
        self.names.qualify(column, meant)
        return column
