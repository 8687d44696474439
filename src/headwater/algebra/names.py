"""What the names in a view mean: tables of sources, other views, and columns of what is in FROM.

A name of one part in FROM is a view; `source.table` and `source.schema.table` are tables. A name is taken as written if
it exists so, else whatever it matches alone when case is ignored. A *scope* is what FROM makes visible: the
occurrences, and the columns in the order `*` lists them, where columns joined by USING stand once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from sqlglot import exp

from headwater.algebra.statements import ParsedView
from headwater.algebra.view import ViewDefinition, as_table
from headwater.model.errors import UnknownName, ViewSqlError
from headwater.model.names import ViewName
from headwater.model.schema import Column, TableSchema

Named = TypeVar("Named")


class Catalog(Protocol):
    """What is known of the sources."""

    def sources(self) -> Sequence[str]: ...

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        """The table that `source.table` (empty schema) or `source.schema.table` means; raises UnknownName."""
        ...

    def tables(self, source: str) -> Sequence[str]:
        """The tables of a source, as a view may name them after the source."""
        ...


@dataclass(frozen=True)
class Bound:
    """An occurrence: its index in the view, its alias, its table. `written` is how an unaliased table was named."""

    index: int
    alias: str
    schema: TableSchema
    written: tuple[str, ...]


@dataclass(frozen=True)
class Visible:
    """A column that FROM makes visible under a plain name. One joined by USING stands for its left side."""

    bound: Bound
    column: Column

    @property
    def said(self) -> str:
        return f"{self.bound.alias}.{self.column.name}"


@dataclass(frozen=True)
class Scope:
    """Part of FROM: its occurrences and its plain columns."""

    bounds: tuple[Bound, ...]
    columns: tuple[Visible, ...]


def pick(items: Iterable[Named], name: str, called: Callable[[Named], str]) -> list[Named]:
    """The items of that name exactly, else those of that name in any case."""
    items = list(items)
    exact = [i for i in items if called(i) == name]
    return exact or [i for i in items if called(i).lower() == name.lower()]


@dataclass(frozen=True)
class Views:
    """The other views: those `defined`, which a view may read, and the `names` of all there are."""

    defined: Mapping[ViewName, ViewDefinition] = field(default_factory=dict)
    names: frozenset[str] = frozenset()


class Names:
    """Looks names up for one view, and says where it failed. `parents` are the views found so far, each with its first
    mention."""

    def __init__(self, parsed: ParsedView, catalog: Catalog, views: Views) -> None:
        self.parsed, self.catalog, self.views = parsed, catalog, views
        self.parents: dict[ViewName, exp.Table] = {}

    def view(self, table: exp.Table) -> TableSchema:
        """The view that a name of one part means."""
        others = sorted({*self.views.defined, *self.views.names} - {self.parsed.name})
        found = pick(others, table.name, str)
        if not found:
            raise self._homeless(table, others)
        if len(found) > 1:
            raise self.parsed.error(
                f"view {table.name!r} is ambiguous: {' or '.join(found)}", "rename one of them", table
            )
        name = ViewName(found[0])
        if name not in self.views.defined:
            raise self.parsed.error(f"it reads view {name}, which is not usable", f"correct view {name} first", table)
        self.parents.setdefault(name, table)
        return as_table(self.views.defined[name])

    def _homeless(self, table: exp.Table, others: Sequence[str]) -> ViewSqlError:
        name = table.name
        homes = [f"{s}.{t}" for s in self.catalog.sources() for t in pick(self.catalog.tables(s), name, str)]
        hint = " or ".join(homes) if homes else f"source.{name}, where source is one of headwater.toml's"
        if others:
            near = difflib.get_close_matches(name, others, n=3, cutoff=0.5) or others[:12]
            hint += f"; or a view: {', '.join(near)}"
        return self.parsed.error(f"table {name!r} does not say which source it is of", f"write {hint}", table)

    def table(self, table: exp.Table) -> TableSchema:
        parts = [part.name for part in table.parts]
        where = f"at {self.parsed.place(table)}"
        if len(parts) == 1:
            return self.view(table)
        source, schema, name = parts[0], "".join(parts[1:-1]), parts[-1]
        found = pick(self.catalog.sources(), source, str)
        if len(found) != 1:
            raise UnknownName("source", source, self.catalog.sources(), where)
        try:
            return self.catalog.resolve(found[0], schema, name)
        except UnknownName as error:
            error.what = f"{error.what} {where}"
            raise

    def bind(self, table: exp.Table, index: int) -> Bound:
        schema = self.table(table)
        alias = table.alias or table.name
        if "." in alias or not alias.strip():
            raise self.parsed.error(
                f"{alias!r} cannot be an alias", "choose one without a dot: source.table AS t", table
            )
        return Bound(index, alias, schema, () if table.alias else tuple(part.name for part in table.parts))

    def join(self, left: Scope, right: Scope, node: exp.Expr) -> Scope:
        for bound in right.bounds:
            for other in left.bounds:
                if bound.alias.lower() == other.alias.lower():
                    raise self.parsed.error(
                        f"{bound.alias!r} names two tables of FROM: {other.schema.name} and {bound.schema.name}",
                        f"give each its own alias: {bound.schema.name} AS …",
                        node,
                    )
        return Scope(left.bounds + right.bounds, left.columns + right.columns)

    def plain(self, identifier: exp.Expr, scope: Scope) -> Visible:
        """The one column of that name, of whatever occurrence."""
        found = pick(scope.columns, identifier.name, lambda v: v.column.name)
        if not found:
            raise UnknownName(
                "column", identifier.name, (v.column.name for v in scope.columns), f"at {self.parsed.place(identifier)}"
            )
        if len(found) > 1:
            raise self.parsed.error(
                f"column {identifier.name!r} is ambiguous: {' or '.join(v.said for v in found)}",
                f"write {found[0].said} or {found[1].said}",
                identifier,
            )
        return found[0]

    def occurrence(self, column: exp.Column, scope: Scope) -> Bound:
        """The occurrence that `alias.column`, `source.table.column` or `source.schema.table.column` speaks of."""
        parts = tuple(part.name for part in column.parts[:-1])
        if len(parts) == 1:
            found = pick(scope.bounds, parts[0], lambda b: b.alias)
        else:
            found = [b for b in scope.bounds if tuple(p.lower() for p in b.written) == tuple(p.lower() for p in parts)]
        if not found:
            known = [b.alias for b in scope.bounds]
            raise UnknownName("table or alias", ".".join(parts), known, f"at {self.parsed.place(column)}")
        return found[0]

    def column(self, column: exp.Column, scope: Scope) -> Visible:
        if not column.table:
            return self.plain(column.this, scope)
        bound = self.occurrence(column, scope)
        found = pick(bound.schema.columns, column.name, lambda c: c.name)
        where = f"in {bound.alias} ({bound.schema.name}) at {self.parsed.place(column)}"
        if not found:
            raise UnknownName("column", column.name, (c.name for c in bound.schema.columns), where)
        if len(found) > 1:
            raise self.parsed.error(
                f"column {column.name!r} of {bound.alias} is ambiguous: {' or '.join(c.name for c in found)}",
                f'write it exactly, in quotes: {bound.alias}."{found[0].name}"',
                column,
            )
        return Visible(bound, found[0])

    def resolve(self, node: exp.Expr, scope: Scope) -> None:
        """Make every column in `node` say its occurrence and its exact name."""
        for column in list(node.find_all(exp.Column)):
            if isinstance(column.this, exp.Star):
                raise self.parsed.error("alias.* stands only in the select list", "name the column", column)
            self.qualify(column, self.column(column, scope))

    def qualify(self, column: exp.Column, meant: Visible) -> None:
        self.supported(meant, column)
        this = exp.to_identifier(meant.column.name, quoted=True).update_positions(column.this)
        column.set("this", this)
        column.set("table", exp.to_identifier(meant.bound.alias, quoted=True))
        column.set("db", None)
        column.set("catalog", None)

    def supported(self, meant: Visible, node: exp.Expr) -> None:
        if meant.column.type is None:
            raise self.unsupported(meant, node)

    def unsupported(self, meant: Visible, node: exp.Expr) -> ViewSqlError:
        return self.parsed.error(
            f"column {meant.said} has type {meant.column.declared!r}, which Headwater cannot represent",
            "leave the column out (list the columns you need in place of *), or change its type at the source",
            node,
        )
