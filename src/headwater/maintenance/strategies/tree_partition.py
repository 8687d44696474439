"""Appro_Partition (Liang, Yu: Parallel Maintenance on PC Clusters, section 5.1): which relations go together.

The join graph has the relations as vertices, weighted by how often they are updated (w1), and an edge between any two
that a clause of P joins, weighted by the size of the joined pair (w2). Groups should be small to store and equally
often updated; both at once is NP-hard. So:

1. a minimum spanning tree by w2: groups that are connected in it are joined by small joins
2. the max-min K-partition of that tree by w1: K−1 cuts that make the lightest part as heavy as possible

Step 2 is the shifting algorithm of Perl and Schach (Max-Min Tree Partitioning, JACM 28(1), 1981): root the tree at a
vertex with one edge, put all K−1 cuts on that edge, then shift cuts down, from an edge to an edge below it that has
none. The part right below a cut is its down-component.

Invariant: some best partition has all its cuts at or below the present ones. Of all possible shifts the one with the
heaviest down-component is made; when even that is lighter than the lightest part, the partition is a best one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Spj
from headwater.model.errors import HeadwaterError
from headwater.model.names import TableName

Edge = tuple[int, int]
"""Two vertices, the smaller first."""

Weights = Mapping[Edge, float]
Groups = tuple[tuple[int, ...], ...]


def appro_partition(frequencies: Sequence[float], sizes: Weights, k: int) -> Groups:
    """K groups of the vertices 0 … n−1, each ascending, in the order of their first vertex."""
    tree = minimum_spanning_tree(len(frequencies), sizes)
    return max_min_partition(frequencies, tree, k)


def join_graph(view: Spj, tables: Mapping[TableName, Bag]) -> dict[Edge, float]:
    """w2: the size of every two relations of which some clause speaks and of no other, joined by all such clauses. A
    clause may be any comparison. A view whose join graph is not connected has products in it; they weigh what they
    hold."""
    edges = set(view.pairs)
    parts = components(view.n, edges)
    edges |= {_edge(parts[0][0], part[0]) for part in parts[1:]}
    return {edge: float(view.core(edge, tables).bag.total()) for edge in sorted(edges)}


def minimum_spanning_tree(n: int, sizes: Weights) -> list[Edge]:
    """Kruskal: the lightest edges first, those that close a circle left out. Equal ones in the order of vertices."""
    part = list(range(n))
    tree = []
    for edge in sorted(sizes, key=lambda e: (sizes[e], e)):
        one, other = part[edge[0]], part[edge[1]]
        if one != other:
            part = [one if p == other else p for p in part]
            tree.append(edge)
    if len(tree) != n - 1:
        raise ValueError(f"the graph of {n} relations is not connected: {len(tree)} edges span what can be spanned")
    return tree


def max_min_partition(weights: Sequence[float], tree: Sequence[Edge], k: int) -> Groups:
    """The K parts of a tree, the lightest as heavy as possible: the shifting algorithm."""
    n = len(weights)
    if not 1 <= k <= n:
        raise HeadwaterError(f"{n} relations cannot be put into {k} groups", "choose K between 1 and their number")
    if k == 1:
        return (tuple(range(n)),)
    rooted = _Rooted(weights, tree)
    # An edge is named by the vertex below it; the value is the number of its cuts.
    cuts = {rooted.sons[rooted.root][0]: k - 1}
    while True:
        best: tuple[float, int, int] | None = None
        for edge in sorted(cuts):
            for son in rooted.sons[edge]:
                if son not in cuts:
                    weight = rooted.down(son, cuts)
                    if best is None or weight > best[0]:
                        best = (weight, edge, son)
        if best is None or best[0] < rooted.lightest(cuts):
            cut = {_edge(v, rooted.father[v]) for v in cuts}
            return components(n, [edge for edge in tree if edge not in cut])
        _, edge, son = best
        cuts[edge] -= 1
        if not cuts[edge]:
            del cuts[edge]
        cuts[son] = 1


class _Rooted:
    """The tree, hanging from a vertex with one edge."""

    def __init__(self, weights: Sequence[float], tree: Sequence[Edge]) -> None:
        n = len(weights)
        self.weights = weights
        near: list[list[int]] = [[] for _ in range(n)]
        for a, b in tree:
            near[a].append(b)
            near[b].append(a)
        self.root = next(v for v in range(n) if len(near[v]) == 1)
        self.father = {self.root: -1}
        self.sons: list[list[int]] = [[] for _ in range(n)]
        waiting = [self.root]
        while waiting:
            vertex = waiting.pop()
            self.sons[vertex] = sorted(v for v in near[vertex] if v not in self.father)
            self.father.update(dict.fromkeys(self.sons[vertex], vertex))
            waiting.extend(self.sons[vertex])

    def down(self, vertex: int, cuts: Mapping[int, int]) -> float:
        """The weight of the part whose top is this vertex."""
        return self.weights[vertex] + sum(self.down(son, cuts) for son in self.sons[vertex] if son not in cuts)

    def lightest(self, cuts: Mapping[int, int]) -> float:
        """W_min. Between two cuts of one edge there is nothing, which weighs nothing."""
        if any(several > 1 for several in cuts.values()):
            return 0.0
        return min(self.down(top, cuts) for top in (self.root, *cuts))


def components(n: int, edges: Iterable[Edge]) -> Groups:
    """What hangs together."""
    part = list(range(n))
    for a, b in sorted(edges):
        one, other = part[a], part[b]
        part = [one if p == other else p for p in part]
    return tuple(tuple(v for v in range(n) if part[v] == p) for p in dict.fromkeys(part))


def _edge(a: int, b: int) -> Edge:
    return (a, b) if a < b else (b, a)
