"""Which tables of a view go together (Liang, Yu: Parallel Maintenance on PC Clusters, sections 4.1 and 5.1).

    equal       p = ⌈n/K⌉ tables each, as FROM lists them
    frequency   the minimum spanning tree of the join graph by the sizes of joined pairs, cut into the K parts of which
                the lightest is as heavy as possible (Appro_Partition)

The weight of a table is not how often it changes but the *work* that its changes make: changed rows, times the rows
that one of them meets on its way through the tree. The paper balances frequencies alone; equal frequencies are not
equal work where one table joins a thousand rows and another one.

A group that no clause holds together would be kept as a product. Its connected parts are kept instead, each as a
group: equation 4 holds for any partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from headwater.maintenance.strategies.tree_partition import (
    Edge,
    Groups,
    components,
    max_min_partition,
    minimum_spanning_tree,
)

UNKNOWN_ROWS = 1_000_000
THETA = 3
"""A clause that is no equality is taken to let every third pair through."""


@dataclass(frozen=True)
class Clause:
    """A condition that speaks of these tables. `unique` are those of them of which it finds one row at most: an
    equality with all of a key."""

    over: frozenset[int]
    equality: bool = False
    unique: frozenset[int] = frozenset()


@dataclass(frozen=True)
class JoinGraph:
    """`rows` and `changes` of each table, in the order of FROM."""

    rows: Sequence[int | None]
    changes: Sequence[int]
    clauses: Sequence[Clause]

    @property
    def n(self) -> int:
        return len(self.rows)

    def size(self, table: int) -> int:
        found = self.rows[table]
        return UNKNOWN_ROWS if found is None else max(found, 1)

    def edges(self) -> dict[Edge, float]:
        """w2: about how many rows every two tables have that a clause joins, joined; products where the graph would
        fall apart."""
        found: dict[Edge, float] = {}
        for clause in self.clauses:
            if len(clause.over) == 2:
                a, b = sorted(clause.over)
                found[a, b] = min(self._joined(a, b, clause), found.get((a, b), float("inf")))
        parts = components(self.n, found)
        return found | {
            (parts[0][0], part[0]): float(self.size(parts[0][0]) * self.size(part[0])) for part in parts[1:]
        }

    def _joined(self, a: int, b: int, clause: Clause) -> float:
        if not clause.equality:
            return self.size(a) * self.size(b) / THETA
        if clause.unique == {a, b}:
            return float(min(self.size(a), self.size(b)))
        one = next(iter(clause.unique), None)
        return float(self.size(b if one == a else a)) if one is not None else float(max(self.size(a), self.size(b)))

    def work(self) -> list[float]:
        """w1: what the changes of each table cost, in rows met. Where nothing is known of changes, tables are taken to
        change alike."""
        edges = self.edges()
        tree = minimum_spanning_tree(self.n, edges)
        changes = self.changes if any(self.changes) else [1] * self.n
        return [changes[t] * self._met(t, tree, edges) for t in range(self.n)]

    def _met(self, origin: int, tree: Sequence[Edge], edges: dict[Edge, float]) -> float:
        """How many rows one row of a table becomes, summed over the tables it meets."""
        total, waiting = 1.0, [(origin, -1, 1.0)]
        while waiting:
            here, before, rows = waiting.pop()
            for a, b in tree:
                there = b if a == here else a if b == here else -1
                if there in (-1, before):
                    continue
                joined = rows * edges[a, b] / self.size(here)
                total += joined
                waiting.append((there, here, joined))
        return total


def equal_groups(graph: JoinGraph, k: int) -> Groups:
    p = ceil(graph.n / k)
    return connected(graph, tuple(tuple(range(i, min(i + p, graph.n))) for i in range(0, graph.n, p)))


def frequency_groups(graph: JoinGraph, k: int) -> Groups:
    edges = graph.edges()
    groups = max_min_partition(graph.work(), minimum_spanning_tree(graph.n, edges), k)
    return connected(graph, groups)


def connected(graph: JoinGraph, groups: Groups) -> Groups:
    """The groups, those that fall apart as their parts."""
    found: list[tuple[int, ...]] = []
    for group in groups:
        place = {table: i for i, table in enumerate(group)}
        edges = [
            (place[a], place[b])
            for clause in graph.clauses
            if len(clause.over) > 1 and clause.over <= set(group)
            for a, b in [(min(clause.over), other) for other in clause.over if other != min(clause.over)]
        ]
        found += [tuple(group[i] for i in part) for part in components(len(group), edges)]
    return tuple(found)
