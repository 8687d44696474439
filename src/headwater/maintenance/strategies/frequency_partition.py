"""The frequency partition-based algorithm (Liang, Yu: Parallel Maintenance on PC Clusters, section 5).

As the equal partition-based algorithm, but for the groups: they are chosen so that each is updated about equally often
and the auxiliary views are small (Appro_Partition, `tree_partition`). Groups need not be consecutive; they are
connected in the join graph, so no auxiliary view is a product unless V has one.

Complete (lemma 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.maintenance.strategies.contract import Factory, Strategy, StrategySetting
from headwater.maintenance.strategies.equal_partition import partitioned
from headwater.maintenance.strategies.tree_partition import Weights, appro_partition, join_graph
from headwater.model.errors import HeadwaterError


def frequency_partition(k: int, frequencies: Sequence[float], sizes: Weights | None = None) -> Factory:
    """K PCs. `frequencies` say how often each occurrence of V is updated (f, w1), `sizes` how large every two that are
    joined are together (w2); by default that of the initial tables."""

    def factory(setting: StrategySetting) -> Strategy:
        if len(frequencies) != setting.view.n:
            raise HeadwaterError(
                f"{len(frequencies)} update frequencies for the {setting.view.n} relations of {setting.view.name}",
                "give one for each, in the order of the view",
            )
        edges = join_graph(setting.view, setting.tables) if sizes is None else sizes
        return partitioned(setting, appro_partition(frequencies, edges, k))

    return factory
