"""Partitions of tables that the log tells: which table each belongs to.

The log tells a row with the partition that holds it, so that what it says of old rows is that partition's own. Which
table that is a part of is known from what setup noted, and from what is there now; a partition that is neither was made
and taken away meanwhile, and nobody can say of which table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headwater.sources.postgres.connection import Connection

_ROOTS = """
SELECT 'headwater.parts'::regclass::oid::bigint,
       ARRAY(SELECT oid::bigint FROM pg_catalog.pg_class WHERE relkind = 'p' AND oid = ANY (%s::oid[]))
"""
_NOTED = """
SELECT l.oid::bigint, l.root::bigint, (g.since - '0/0')::bigint FROM headwater.leaves AS l
LEFT JOIN headwater.logged_leaves AS g ON g.oid = l.oid WHERE l.root = ANY (%s::oid[])
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = l.oid AND c.relkind = 'p')
"""
_NOW = """
SELECT t.oid::bigint, r.root::bigint FROM unnest(%s::oid[]) AS r (root) CROSS JOIN headwater.tree(r.root) AS t
JOIN pg_catalog.pg_class AS c ON c.oid = t.oid AND c.relkind = 'r'
"""


@dataclass
class Partitions:
    """Of the tables `roots`. `apart` is what tells parts of global transactions, and no partition. `_since` says from
    where of the log on a partition's TRUNCATE is told by its trigger."""

    _connection: Connection
    roots: Collection[int]
    apart: int
    _of: dict[int, int] = field(default_factory=dict)
    _since: Mapping[int, int] = field(default_factory=dict)
    _looked: bool = False

    @classmethod
    def read(cls, connection: Connection, tables: Collection[int]) -> Partitions:
        row = connection.execute(_ROOTS, [list(tables)]).fetchone()
        assert row is not None
        apart, roots = row
        if not roots:
            return cls(connection, [], apart)
        noted = connection.execute(_NOTED, [roots]).fetchall()
        since = {oid: place for oid, _, place in noted if place is not None}
        return cls(connection, roots, apart, {oid: root for oid, root, _ in noted}, since)

    def root(self, oid: int) -> int | None:
        """The table that this is a partition of, if that is known."""
        if oid not in self._of and self.roots and not self._looked:  # one that came since
            self._of |= dict(self._connection.execute(_NOW, [list(self.roots)]).fetchall())
            self._looked = True
        return self._of.get(oid)

    def untold(self, truncated: Collection[int], end: int) -> set[int]:
        """The tables that have a partition among these that was emptied when no trigger told it, by a transaction that
        ended there in the log."""
        found = set[int]()
        for oid in truncated if self.roots else ():
            root = self.root(oid)
            if root is not None and self._since.get(oid, end + 1) > end > self.begun(root):
                found.add(root)
        return found

    def begun(self, root: int) -> int:
        """Where the log was when capture of this table began; 0 where that is not known."""
        return min((place for oid, place in self._since.items() if self._of.get(oid) == root), default=0)
