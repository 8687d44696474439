"""Cluster, section 5.1: the max-min K-partition of trees, and how well Appro_Partition balances a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.maintenance.strategies.tree_partition import (
    Edge,
    Groups,
    appro_partition,
    components,
    max_min_partition,
)

TREES = 600
GRAPHS = 40
VERTICES = range(4, 10)
GRAPH = 8
DENSITIES = (0.0, 0.25, 0.5, 1.0)
"""Share of the other pairs of vertices that a graph joins, besides those of a tree."""


def random_tree(n: int, random: Random) -> list[Edge]:
    names = random.sample(range(n), n)
    pairs = [(names[random.randrange(v)], names[v]) for v in range(1, n)]
    return [(min(pair), max(pair)) for pair in pairs]


def lightest(weights: Sequence[float], groups: Groups) -> float:
    return min(sum(weights[v] for v in group) for group in groups)


def best_of_tree(weights: Sequence[float], tree: Sequence[Edge], k: int) -> float:
    """All (n−1 choose K−1) ways to cut."""
    return max(
        lightest(weights, components(len(weights), [e for e in tree if e not in cut]))
        for cut in combinations(tree, k - 1)
    )


def best_of_graph(weights: Sequence[float], edges: Sequence[Edge], k: int) -> float:
    """All partitions into K groups that are connected in the graph."""
    n = len(weights)
    return max(
        lightest(weights, groups)
        for groups in _partitions(n, k)
        if all(len(components(n, [e for e in edges if e[0] in g and e[1] in g])) == n - len(g) + 1 for g in groups)
    )


def _partitions(n: int, k: int) -> Iterator[Groups]:
    def grow(v: int, groups: list[list[int]]) -> Iterator[Groups]:
        if v == n:
            if len(groups) == k:
                yield tuple(tuple(g) for g in groups)
            return
        for group in groups:
            group.append(v)
            yield from grow(v + 1, groups)
            group.pop()
        if len(groups) < k:
            groups.append([v])
            yield from grow(v + 1, groups)
            groups.pop()

    yield from grow(0, [])


def run(run: Run) -> Findings:
    random = Random(run.seed)
    rows: list[dict[str, float | str]] = []
    for n in run.each(VERTICES):
        ratios = []
        for _ in range(TREES // len(VERTICES)):
            tree, k = random_tree(n, random), random.randint(2, n - 1)
            weights = [random.random() for _ in range(n)]
            found = lightest(weights, max_min_partition(weights, tree, k))
            ratios.append(found / best_of_tree(weights, tree, k))
        rows.append(_row("tree", n, ratios, []))
    for density in run.each(DENSITIES):
        ratios, balances = [], []
        for _ in range(GRAPHS):
            k = random.randint(2, 4)
            weights, sizes = _graph(density, random)
            found = lightest(weights, appro_partition(weights, sizes, k))
            ratios.append(found / best_of_graph(weights, list(sizes), k))
            balances.append(found * k / sum(weights))
        rows.append(_row(f"graph, density {density:g}", GRAPH, ratios, balances))
    trees = [row for row in rows if row["what"] == "tree"]
    graphs = [row for row in rows if row["what"] != "tree"]
    panels = [
        Panel(
            "Trees: lightest group found / best",
            "vertices, n",
            "ratio",
            {what: [(row["n"], float(row[what])) for row in trees] for what in ("mean", "worst")},
        ),
        Panel(
            f"Graphs of {GRAPH} vertices",
            "pairs that are joined besides a tree",
            "ratio",
            {
                "lightest group / best of the graph": [
                    (f"{d:.0%}", float(r["mean"])) for d, r in zip(DENSITIES, graphs, strict=True)
                ],
                "lightest group / average group": [
                    (f"{d:.0%}", float(r["balance"])) for d, r in zip(DENSITIES, graphs, strict=True)
                ],
            },
            kind="bars",
        ),
    ]
    return Findings(rows, panels, _claims(trees, graphs))


def _graph(density: float, random: Random) -> tuple[list[float], dict[Edge, float]]:
    edges = set(random_tree(GRAPH, random))
    others = [pair for pair in combinations(range(GRAPH), 2) if pair not in edges]
    edges |= set(random.sample(others, round(density * len(others))))
    weights = [1.0 / (rank + 1) for rank in random.sample(range(GRAPH), GRAPH)]
    return weights, {edge: random.random() for edge in sorted(edges)}


def _row(what: str, n: int, ratios: list[float], balances: list[float]) -> dict[str, float | str]:
    return {
        "what": what,
        "n": n,
        "cases": len(ratios),
        "mean": sum(ratios) / len(ratios),
        "worst": min(ratios),
        "balance": sum(balances) / len(balances) if balances else "",
    }


def _claims(trees: list[dict[str, float | str]], graphs: list[dict[str, float | str]]) -> list[Claim]:
    count = sum(int(row["cases"]) for row in trees)
    worst = min(float(row["worst"]) for row in trees)
    return [
        Claim(
            "the approach of Perl and Schach finds a max-min K-partition of a tree",
            f"{count} random trees of {VERTICES[0]} to {VERTICES[-1]} vertices: lightest group / best of all cuts, "
            f"worst case {worst:.6f}",
            worst > 1 - 1e-9,
        ),
        Claim(
            "each auxiliary view obtained has equal update frequency aggregately",
            "lightest group / average group: "
            + ", ".join(f"{float(row['balance']):.2f} ({row['what']})" for row in graphs)
            + "; lightest group / best of the whole graph: "
            + ", ".join(f"{float(row['mean']):.2f}" for row in graphs),
            all(float(row["balance"]) > 0.9 for row in graphs),
            "The paper itself calls it roughly equal, and the problem NP-hard. A spanning tree leaves out most ways to "
            "divide a graph; and it is chosen by size, which the second step does not look at.",
        ),
    ]


EXPERIMENT = Experiment(
    name="cluster-partition",
    paper="Cluster",
    shows="section 5.1, Appro_Partition",
    title="Dividing relations into groups",
    did="Appro_Partition takes a minimum spanning tree of the join graph, by the sizes of joined pairs, and divides it "
    "into K parts, the least often updated part as often updated as possible, with the algorithm of Perl and Schach.",
    found="Groups of equal aggregate update frequency; no measurements.",
    here=f"The shifting algorithm against all ways to cut, on {TREES} random trees. Appro_Partition against all "
    f"partitions into connected groups, on random graphs of {GRAPH} vertices with frequencies 1, 1/2, 1/3 ….",
    run=run,
)
