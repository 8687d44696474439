"""SQL about one captured table that all its triggers share: which row is which, what collides, how a row is logged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headwater.sources.sqlite.files import quote
from headwater.sources.sqlite.tables import LiveColumn, LiveTable

Key = tuple[tuple[str, str], ...]
"""Columns with their collations."""

NOW = "julianday('now')"
"""The same in all of one statement of the application, its triggers included."""
_LITERAL = re.compile(
    r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?0[xX][\da-fA-F]+|[xX]?'([^']|'')*'|TRUE|FALSE", re.IGNORECASE
)


@dataclass(frozen=True)
class Words:
    """Column n of `columns` is kept in c<n>."""

    table: LiveTable
    number: int
    columns: Sequence[str]

    @property
    def name(self) -> str:
        return quote(self.table.name)

    @cached_property
    def slot(self) -> dict[str, str]:
        return {c: f"c{n}" for n, c in enumerate(self.columns)}

    @property
    def slots(self) -> str:
        return ", ".join(self.slot.values())

    @cached_property
    def identity(self) -> Key:
        """What tells a row from all others: the rowid, or the primary key of a table without."""
        if self.table.rowid:
            return ((self.table.rowid, "BINARY"),)
        primary = next(i for i in self.table.indexes if i.covers(self.table.key))
        return tuple((c or "", collation) for c, collation in primary.columns)

    @cached_property
    def uniques(self) -> tuple[Key, ...]:
        found = [self.identity]
        for index in self.table.indexes:
            key = tuple((c or "", collation) for c, collation in index.columns)
            if index.unique and key not in found:
                found.append(key)
        return tuple(found)

    @property
    def partial(self) -> bool:
        return any(index.unique and index.partial for index in self.table.indexes)

    def kept(self, column: str) -> str:
        """Where a stash keeps a column of the identity."""
        return "rid" if self.table.rowid and column == self.table.rowid else self.slot[column]

    def values(self, row: str) -> str:
        return ", ".join(f"{row}.{quote(c)}" for c in self.columns)

    def rid(self, row: str) -> str:
        return f"{row}.{quote(self.table.rowid)}" if self.table.rowid else "NULL"

    def log(self, count: int, values: str, tail: str = "") -> str:
        """Everything a change says of itself. `salt` makes it another one than any change of another life."""
        return (
            f"INSERT INTO _headwater_changes (tx, tbl, at, salt, count, {self.slots})"
            f" SELECT (SELECT tx FROM _headwater_meta), {self.number}, {NOW}, random(), {count}, {values}{tail};"
        )

    def same(self, left: str, right: str) -> str:
        """Two rows as the table has them are one and the same."""
        return _and(f"{left}.{quote(c)} = {right}.{quote(c)} COLLATE {quote(k)}" for c, k in self.identity)

    def same_stashed(self, stash: str, row: str) -> str:
        """`+` takes the column's affinity away: only then does SQLite use an index over the stash's plain slots."""
        return _and(f"{stash}.{self.kept(c)} = +{row}.{quote(c)} COLLATE {quote(k)}" for c, k in self.identity)

    # ── what may be replaced ─────────────────────────────────────────────────────────────────────────────────────

    def colliding(self) -> list[str]:
        """Conditions on the table's rows, together: those that NEW may replace. Each begins with what must hold for it
        to be looked at at all.

        A NULL for a NOT NULL column becomes its default after BEFORE triggers have seen NEW, if the statement says OR
        REPLACE. A default that is more than a literal, or a generated column that depends on one, cannot be known in
        advance: then every row may be the one."""
        plain = _or(f"({_and(self._equal(c, f'NEW.{quote(c)}', k) for c, k in key)})" for key in self.uniques)
        unsure = [c for c in self._defaulted() if not _LITERAL.fullmatch(c.default or "")]
        if any(c.generated and c.name in self._unique_columns for c in self.table.columns):
            unsure = self._defaulted(anywhere=True)
        sure = [c for c in self._defaulted() if c not in unsure]
        if not unsure and not sure:
            return [plain]
        nulls = _or(f"NEW.{quote(c.name)} IS NULL" for c in [*sure, *unsure])
        found = [f"NOT ({nulls}) AND ({plain})"]
        every = _or(f"NEW.{quote(c.name)} IS NULL" for c in unsure)
        if sure:
            substituted = _or(
                f"({_and(self._equal(c, self.substituted(c), k) for c, k in key)})" for key in self.uniques
            )
            only = f" AND NOT ({every})" if unsure else ""
            found.append(f"({_or(f'NEW.{quote(c.name)} IS NULL' for c in sure)}){only} AND ({substituted})")
        if unsure:
            found.append(f"({every})")
        return found

    def moved(self) -> str:
        """WHEN an update may collide at all. A partial index may also be entered by a change of a column that only its
        WHERE names."""
        if self.partial:
            return ""
        changed = [f"OLD.{quote(c)} IS NOT NEW.{quote(c)}" for c in self._unique_columns]
        nulls = [f"NEW.{quote(c.name)} IS NULL" for c in self._defaulted(anywhere=True)]
        return f"WHEN {_or(dict.fromkeys([*changed, *nulls]))} "

    def substituted(self, column: str) -> str:
        """NEW's value of a column, as it will be stored if the default takes NULL's place."""
        default = next((c.default for c in self._defaulted() if c.name == column), None)
        known = default is not None and _LITERAL.fullmatch(default)
        return f"coalesce(NEW.{quote(column)}, {default})" if known else f"NEW.{quote(column)}"

    def _equal(self, column: str, value: str, collation: str) -> str:
        return f"{self.name}.{quote(column)} = {value} COLLATE {quote(collation)}"

    @cached_property
    def _unique_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for key in self.uniques for c, _ in key))

    def _defaulted(self, anywhere: bool = False) -> list[LiveColumn]:
        """NOT NULL columns with a default, of unique keys or of the whole table."""
        return [
            c
            for c in self.table.columns
            if not c.nullable
            and c.default is not None
            and c.name != self.table.rowid
            and (anywhere or c.name in self._unique_columns)
        ]


def _and(terms: Iterable[str]) -> str:
    return " AND ".join(terms)


def _or(terms: Iterable[str]) -> str:
    return " OR ".join(terms)
