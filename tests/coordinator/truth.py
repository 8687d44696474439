"""What every view holds after every transaction, by recomputation: the judge's and the computation's only source.

The integrator says which transactions of which source have which numbers; what they did, the databases know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.algebra.bag import Bag, Relation
from headwater.algebra.evaluate import evaluate
from headwater.algebra.view import ViewDefinition
from headwater.integrator.journal import Journal, Segment
from headwater.model.changelog import SEQ
from headwater.model.names import SourceName, TableName, ViewName, view_table
from headwater.sources.memory import MemoryDatabase


class Truth:
    """Tables and views at every number that the integrator has given."""

    def __init__(
        self, views: Mapping[ViewName, ViewDefinition], databases: Mapping[SourceName, MemoryDatabase]
    ) -> None:
        self._definitions, self._databases = views, databases
        self._at: list[dict[SourceName, int]] = [dict.fromkeys(databases, 0)]
        """Per number, how many transactions of each source are in."""
        self._tables: dict[TableName, list[Bag]] = {}
        self._views: dict[tuple[ViewName, int], tuple[tuple[int, ...], Bag]] = {}
        self._known = 0
        self._told: dict[int, list[tuple[SourceName, int]]] = {}

    @property
    def newest(self) -> int:
        return len(self._at) - 1

    def learn(self, journal: Journal, segments: Sequence[Segment]) -> None:
        """Take in rounds that are journaled."""
        for segment in segments:
            if segment.number <= self._known:
                continue
            self._known = segment.number
            assert segment.lo == self.newest, "numbers follow each other"
            told: dict[int, dict[SourceName, int]] = {}
            if segment.hi > segment.lo:
                for transactions in journal.transactions(segment.lo, segment.hi):
                    for row in transactions.to_pylist():
                        told.setdefault(row[SEQ], {})[row["source"]] = int(row["transaction"])
            for seq in range(segment.lo + 1, segment.hi + 1):
                assert told.get(seq), f"nothing has number {seq}"
                self._at.append({**self._at[-1], **told[seq]})
                self._told[seq] = list(told[seq].items())
            for source, position in segment.positions.items():  # a source that nobody relied on moves on by itself
                assert int(position) >= self._at[-1][source]
                self._at[-1] = {**self._at[-1], source: int(position)}

    def at(self, seq: int) -> Mapping[SourceName, int]:
        return self._at[seq]

    def transactions(self, lo: int, hi: int) -> list[tuple[int, SourceName, int]]:
        """(number, source, its own number) of everything in (lo, hi]."""
        return [(seq, source, n) for seq in range(lo + 1, hi + 1) for source, n in self._told[seq]]

    def changes(self, source: SourceName, transaction: int) -> dict[TableName, Bag]:
        found: dict[TableName, list[tuple[tuple[object, ...], int]]] = {}
        for table, row, count in self._databases[source].log[transaction - 1].changes:
            found.setdefault(TableName(source, table), []).append((row, count))
        return {table: Bag.summed(rows) for table, rows in found.items()}

    def table(self, table: TableName, at: int) -> Bag:
        """After so many transactions of its source."""
        states = self._tables.setdefault(table, [Bag()])
        while len(states) <= at:
            states.append(states[-1] + self.changes(table.source, len(states)).get(table, Bag()))
        return states[at]

    def view(self, name: ViewName, seq: int) -> Bag:
        view, at = self._definitions[name], self._at[seq]
        sources = tuple(at[s] for s in self._sources(name))
        known = self._views.get((name, seq))
        if known is None or known[0] != sources:
            tables = {t: Relation(self.columns(t), self.table(t, at[t.source])) for t in view.base_tables}
            above = {view_table(p): Relation(self._definitions[p].columns, self.view(p, seq)) for p in view.parents}
            before = self._views.get((name, seq - 1))
            same = before is not None and before[0] == sources
            found = before[1] if before is not None and same else evaluate(view, {**tables, **above})
            known = self._views[name, seq] = (sources, found)
        return known[1]

    def columns(self, table: TableName) -> tuple[str, ...]:
        return tuple(self._databases[table.source].tables[table.table].columns)

    def concerns(self, name: ViewName, seq: int) -> bool:
        """Whether a transaction changes a table that the view reads, by itself or through others."""
        return any(
            any(table in self._base(name) for table in self.changes(source, n))
            for _, source, n in self.transactions(seq - 1, seq)
        )

    def _base(self, name: ViewName) -> set[TableName]:
        view = self._definitions[name]
        return set(view.base_tables).union(*(self._base(p) for p in view.parents))

    def _sources(self, name: ViewName) -> list[SourceName]:
        return sorted({table.source for table in self._base(name)})
