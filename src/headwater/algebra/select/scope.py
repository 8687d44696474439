"""What names mean at one place of a query: the columns that FROM makes visible there, and those of the queries around.

Every column of the tree has a name of its own (`relations`), so a name that is found in a query around this one is
simply a column that the relation here does not have: the subquery is correlated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from sqlglot import exp

from headwater.algebra.dialect import column_of
from headwater.algebra.names import Names, pick
from headwater.algebra.relations import Name
from headwater.model.errors import UnknownName, ViewSqlError

UNSUPPORTED = ""
"""The name of a column that Headwater cannot represent: it may be there, but not be used."""


@dataclass(frozen=True)
class Seen:
    """A column that FROM makes visible: `alias.called`. One joined by USING has no alias. `declared` is the type of an
    unsupported one, in its source's words."""

    alias: str
    called: str
    name: Name
    declared: str = ""

    @property
    def said(self) -> str:
        return f"{self.alias}.{self.called}" if self.alias else self.called


@dataclass(frozen=True)
class Scope:
    """`columns` in the order `*` lists them; `hidden` are found by alias only (the other sides of USING). `written` is
    how a table without an alias was named."""

    columns: tuple[Seen, ...] = ()
    hidden: tuple[Seen, ...] = ()
    outer: Scope | None = None
    written: dict[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def aliases(self) -> list[str]:
        return list(dict.fromkeys(c.alias for c in (*self.columns, *self.hidden) if c.alias))

    def around(self) -> Iterator[Scope]:
        """This scope, and those around it, the nearest first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def of(self, alias: str) -> list[Seen]:
        return [c for c in (*self.columns, *self.hidden) if c.alias == alias]


class Fresh:
    """Names that no other column of the tree has."""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self) -> Name:
        return f"c{next(self._numbers)}"

    def several(self, n: int) -> tuple[Name, ...]:
        return tuple(self() for _ in range(n))


TREE = "tree"
"""Marks a column that stands under its name in the tree already."""


def column(name: Name) -> exp.Column:
    found = exp.Column(this=exp.to_identifier(name))
    found.meta[TREE] = True
    return found


def null_like(name: Name) -> exp.Case:
    """NULL, of the type of a column."""
    return exp.Case().when(exp.false(), column(name))


def is_null(expression: exp.Expr) -> bool:
    """Whether it is such a NULL."""
    if not isinstance(expression, exp.Case) or expression.args.get("default") is not None:
        return False
    tests = [branch.this for branch in expression.args["ifs"]]
    return all(isinstance(test, exp.Boolean) and not test.this for test in tests)


class Resolver:
    """Finds what a name means, or says why it means nothing."""

    def __init__(self, names: Names) -> None:
        self.names, self.parsed = names, names.parsed

    def name(self, node: exp.Column, scope: Scope) -> Name:
        for around in scope.around():
            found = self._qualified(node, around) if node.table else self._plain(node, around)
            if found is not None:
                if found.name == UNSUPPORTED:
                    raise self._unsupported(found, node)
                return found.name
        raise self._unknown(node, scope)

    def has(self, node: exp.Column, scope: Scope) -> bool:
        """Whether the scope itself knows the name."""
        return (self._qualified(node, scope) if node.table else self._plain(node, scope)) is not None

    def resolved(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        """A copy in which every column stands under its name in the tree. Subqueries are left as they are."""
        return self._walk(node.copy(), scope)

    def _walk(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery | exp.Table):
            return node
        if isinstance(node, exp.Column):
            if TREE in node.meta:
                return node
            if isinstance(node.this, exp.Star):
                raise self.parsed.error("alias.* stands only in the select list", "name the column", node)
            return self._column(node, scope)
        if isinstance(node, exp.Lambda):
            return self._lambda(node, scope)
        if isinstance(node, exp.Dot):
            return self._field(node, scope)
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, self._walk(value, scope))
            elif isinstance(value, list):
                node.set(key, [self._walk(v, scope) if isinstance(v, exp.Expr) else v for v in value])
        return node

    def _column(self, node: exp.Column, scope: Scope) -> exp.Expr:
        try:
            return _placed(column(self.name(node, scope)), node)
        except UnknownName:
            # s.field: a field of a column that is a struct
            parts = node.parts
            if len(parts) == 2 and self._known(parts[0], scope):
                base = column(self.name(exp.Column(this=parts[0].copy()), scope))
                return exp.Dot(this=base, expression=exp.to_identifier(parts[1].name, quoted=True))
            raise

    def _known(self, part: exp.Expr, scope: Scope) -> bool:
        probe = exp.Column(this=part.copy())
        return any(self._plain(probe, around) is not None for around in scope.around())

    def _field(self, node: exp.Dot, scope: Scope) -> exp.Expr:
        node.set("this", self._walk(node.this, scope))
        return node

    def _lambda(self, node: exp.Lambda, scope: Scope) -> exp.Expr:
        """The parameters of x -> … are names of its own."""
        own = {e.name.lower() for e in node.expressions}

        def inside(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and TREE not in part.meta:
                return part if part.parts[0].name.lower() in own else self._column(part, scope)
            return part

        node.set("this", node.this.transform(inside))
        return node

    def _plain(self, node: exp.Column, scope: Scope) -> Seen | None:
        found = pick(scope.columns, node.name, lambda c: c.called)
        if len(found) > 1 and len({c.name for c in found}) > 1:
            raise self.parsed.error(
                f"column {node.name!r} is ambiguous: {' or '.join(c.said for c in found)}",
                f"write {found[0].said} or {found[1].said}",
                node,
            )
        return found[0] if found else None

    def _qualified(self, node: exp.Column, scope: Scope) -> Seen | None:
        parts = tuple(part.name for part in node.parts[:-1])
        alias = parts[0] if len(parts) == 1 else ""
        if len(parts) > 1:
            alias = next((a for w, a in scope.written.items() if _lower(w) == _lower(parts)), "")
        aliases = pick(scope.aliases, alias, str) if alias else []
        if not aliases:
            return None
        found = pick(scope.of(aliases[0]), node.name, lambda c: c.called)
        if not found:
            known = (c.called for c in scope.of(aliases[0]))
            raise UnknownName("column", node.name, known, f"in {aliases[0]} at {self.parsed.place(node)}")
        if len(found) > 1:
            raise self.parsed.error(
                f"column {node.name!r} of {aliases[0]} is ambiguous: {' or '.join(c.called for c in found)}",
                f'write it exactly, in quotes: {aliases[0]}."{found[0].called}"',
                node,
            )
        return found[0]

    def _unknown(self, node: exp.Column, scope: Scope) -> UnknownName:
        where = f"at {self.parsed.place(node)}"
        if node.table:
            said = ".".join(part.name for part in node.parts[:-1])
            return UnknownName("table or alias", said, (a for s in scope.around() for a in s.aliases), where)
        return UnknownName("column", node.name, (c.called for s in scope.around() for c in s.columns), where)

    def _unsupported(self, seen: Seen, node: exp.Expr) -> ViewSqlError:
        return self.parsed.error(
            f"column {seen.said} has type {seen.declared!r}, which Headwater cannot represent",
            "leave the column out (list the columns you need in place of *), or change its type at the source",
            node,
        )


def _placed(new: exp.Column, old: exp.Column) -> exp.Column:
    new.this.update_positions(old.this)
    return new


def _lower(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)


__all__ = ["UNSUPPORTED", "Fresh", "Resolver", "Scope", "Seen", "column", "column_of", "is_null", "null_like"]
