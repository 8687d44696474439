"""A view's query with every name resolved: a tree that Spark could run as it stands.

The pieces that maintenance works with are taken from this tree, and so is, apart from them, the text that `verify`
recomputes the view with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.algebra.dialect import said
from headwater.algebra.from_clause import resolve_from
from headwater.algebra.functions import has_aggregate
from headwater.algebra.names import Names, Scope, Visible, pick
from headwater.algebra.statements import ParsedView
from headwater.model.errors import UnknownName

_UNFIT = re.compile(r"[\s,;{}()=.`]")
"""Characters that Delta tables or readers of them trip over in column names."""


@dataclass(frozen=True)
class Query:
    """`select` is the tree. `conditions` are the conjuncts' trees, `outputs` the select list by name, `keys` what GROUP
    BY lists (None without GROUP BY); all of them over `alias`.`column`."""

    select: exp.Select
    scope: Scope
    conditions: tuple[exp.Expr, ...]
    outputs: tuple[tuple[str, exp.Expr], ...]
    keys: tuple[exp.Expr, ...] | None
    having: exp.Expr | None
    distinct: bool

    @property
    def aggregates(self) -> bool:
        return self.keys is not None or self.having is not None or any(has_aggregate(tree) for _, tree in self.outputs)


def resolve_query(select: exp.Select, names: Names) -> Query:
    """Resolves `select` in place."""
    scope, conditions = resolve_from(select, names)
    where = select.args.get("where")
    if where is not None:
        names.resolve(where, scope)
        conditions.append(where.this)
    for condition in conditions:
        if has_aggregate(condition):
            raise names.parsed.error("an aggregate cannot stand in ON or WHERE", "move it to HAVING", condition)
    outputs = _Outputs(names, scope).of(select)
    keys = _keys(select, names, scope, outputs)
    having = select.args.get("having")
    if having is not None:
        _resolve_having(having, names, scope, outputs)
    return Query(
        select,
        scope,
        tuple(conditions),
        tuple(outputs),
        keys,
        None if having is None else having.this,
        select.args.get("distinct") is not None,
    )


class _Outputs:
    """The select list: `*` expanded, every column resolved, every output named once."""

    def __init__(self, names: Names, scope: Scope) -> None:
        self.names, self.scope = names, scope
        self.found: list[tuple[str, exp.Expr]] = []

    def of(self, select: exp.Select) -> list[tuple[str, exp.Expr]]:
        for item in select.expressions:
            if isinstance(item, exp.Star):
                self._star(item, self.scope.columns)
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                bound = self.names.occurrence(item, self.scope)
                self._star(item, tuple(Visible(bound, column) for column in bound.schema.columns))
            else:
                self._expression(item)
        select.set(
            "expressions",
            [exp.alias_(tree, exp.to_identifier(name, quoted=True), copy=False) for name, tree in self.found],
        )
        return self.found

    def _star(self, item: exp.Expr, columns: tuple[Visible, ...]) -> None:
        star = item if isinstance(item, exp.Star) else item.this
        if any(star.args.values()):
            raise self.names.parsed.error("* EXCEPT and * REPLACE are not known here", "list the columns", item)
        for meant in columns:
            column = exp.Column(this=exp.to_identifier(meant.column.name, quoted=True).update_positions(star))
            self.names.qualify(column, meant)
            self._add(meant.column.name, column, meant.said)

    def _expression(self, item: exp.Expr) -> None:
        if isinstance(item, exp.Aliases):
            raise self.names.parsed.error("one expression cannot have several names", "give it one: AS name", item)
        words = said(item.this if isinstance(item, exp.Alias) else item)
        self.names.resolve(item, self.scope)
        tree = item.this if isinstance(item, exp.Alias) else item
        plain = tree.unnest()
        if isinstance(item, exp.Alias):
            name = item.alias
        elif isinstance(plain, exp.Column):
            name = plain.name
        else:
            raise self.names.parsed.error(f"{words} has no name", f"add one: {words} AS name", item)
        self._add(name, tree, words)

    def _add(self, name: str, tree: exp.Expr, words: str) -> None:
        parsed = self.names.parsed
        if not name or _UNFIT.search(name):
            raise parsed.error(
                f"{name!r} cannot name a column of a view",
                f"give it a name without spaces or ,;{{}}()=.`: {words} AS name",
                tree,
            )
        if name.startswith("__"):
            raise parsed.error(
                f"column name {name!r} is reserved: it starts with __", f"rename it: {words} AS name", tree
            )
        for earlier, other in self.found:
            if earlier.lower() == name.lower():
                raise parsed.error(
                    f"two columns are called {name!r}: {said(other)} and {said(tree)}",
                    "rename one with AS (list the columns in place of *); names differ by more than case",
                    tree,
                )
        self.found.append((name, tree))


def check_names(parsed: ParsedView, names: Sequence[str]) -> None:
    """That a view can have columns of these names."""
    for i, name in enumerate(names):
        if not name or _UNFIT.search(name):
            raise parsed.error(
                f"{name!r} cannot name a column of a view", "give it a name without spaces or ,;{}()=.`: … AS name"
            )
        if name.startswith("__"):
            raise parsed.error(f"column name {name!r} is reserved: it starts with __", "rename it: … AS name")
        if name.lower() in (other.lower() for other in names[:i]):
            raise parsed.error(
                f"two columns are called {name!r}",
                "rename one with AS (list the columns in place of *); names differ by more than case",
            )


def _keys(
    select: exp.Select, names: Names, scope: Scope, outputs: list[tuple[str, exp.Expr]]
) -> tuple[exp.Expr, ...] | None:
    """GROUP BY: a number counts outputs, a plain name is a column if there is one, else an output."""
    group = select.args.get("group")
    if group is None:
        return None
    keys: list[exp.Expr] = []
    for item in list(group.expressions):
        if isinstance(item, exp.Literal) and not item.is_string:
            position = int(item.name) if item.name.isdigit() else 0
            if not 1 <= position <= len(outputs):
                raise names.parsed.error(
                    f"GROUP BY {item.name}: there is no such output",
                    f"use 1 to {len(outputs)}, or name the column",
                    item,
                )
            key = outputs[position - 1][1]
        else:
            output = _output_of(item, scope, outputs)
            if output is not None:
                item.replace(output.copy())
                key = output
            else:
                names.resolve(item, scope)
                key = item
        if has_aggregate(key):
            raise names.parsed.error("GROUP BY cannot hold an aggregate", "group by columns or plain expressions", item)
        keys.append(key)
    return tuple(keys)


def _output_of(item: exp.Expr, scope: Scope, outputs: list[tuple[str, exp.Expr]]) -> exp.Expr | None:
    if not isinstance(item, exp.Column) or item.table or pick(scope.columns, item.name, lambda v: v.column.name):
        return None
    return next((tree for name, tree in outputs if name.lower() == item.name.lower()), None)


def _resolve_having(having: exp.Expr, names: Names, scope: Scope, outputs: list[tuple[str, exp.Expr]]) -> None:
    """A plain name in HAVING is an output or a column; refused if it could be either and they differ."""
    for column in list(having.find_all(exp.Column)):
        output = None if column.table else next((t for n, t in outputs if n.lower() == column.name.lower()), None)
        if output is None or isinstance(column.this, exp.Star):
            continue
        try:
            meant = names.plain(column.this, scope)
        except UnknownName:
            column.replace(exp.Paren(this=output.copy()))
            continue
        if not isinstance(output, exp.Column) or (output.table, output.name) != (meant.bound.alias, meant.column.name):
            raise names.parsed.error(
                f"{column.name!r} in HAVING is both an output and the column {meant.said}",
                f"write {meant.said}, or repeat the output's expression",
                column,
            )
    names.resolve(having, scope)
