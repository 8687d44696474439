"""The naive cluster (Liang, Yu: Parallel Maintenance on PC Clusters, section 3): every view has a home, nobody waits.

Each view is stored entirely at one PC, its home, which keeps UMQ(V) and runs SWEEP for it. The homes do not talk to
each other, and each commits when it is done.

Each view is complete; all together converge, no more. An update that concerns two views is finished at one home before
the other, and what readers then see of both is a state that the sources never had. The paper's example, a later update
that is finished first at another home, is harmless if the two are of different sources: another serial order explains
it. If they are of one source, it is such a state.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.maintenance.strategies.contract import WAREHOUSE, Node, Strategy, StrategySetting
from headwater.maintenance.strategies.sweep import Sweep
from headwater.model.errors import HeadwaterError


def cluster_naive(settings: Sequence[StrategySetting]) -> Strategy:
    """The i-th view is at home at PC i. A source tells every home whose view it is in."""
    for setting in settings:
        if setting.view.view.parents:
            raise HeadwaterError(
                f"{setting.view.name} reads {setting.view.view.parents[0]}, which is at home elsewhere",
                "homes that do not talk to each other cannot maintain a view over views: use simple_parallel_views",
            )
    homes = {pc(i): setting for i, setting in enumerate(settings)}

    def notified(source: Node) -> tuple[Node, ...]:
        return tuple(home for home, setting in homes.items() if source in setting.sources)

    return Strategy({home: Sweep(setting) for home, setting in homes.items()}, notified)


def pc(i: int) -> Node:
    """The i-th machine of a cluster; the first is where V is at home."""
    return f"PC{i}" if i else WAREHOUSE
