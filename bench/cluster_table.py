"""The table of the cluster paper, accesses, space and time over K, from the engine beside the lab's.

The paper argues ⌈n/K⌉ accesses an update in place of n, at the price of auxiliary views; it has no numbers. The lab
plays its equal partition on a chain of as many relations in virtual time, update by update: an update asks the others
of its group, ⌈n/K⌉ − 1. The engine asks for a batch at a time, the others of a group twice: 2(|g| − 1) for every group
g. Space is that of the auxiliary views, times copies of all tables (K = n); with K = 1 the only one would be the view
itself. Time is that of the same updates, times that with K = 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from chain import RELATIONS
from headwater.lab.settings.cluster import DOMAIN, EVEN, UPDATES, line
from headwater.lab.simulation.simulator import simulate
from headwater.lab.worlds.workload import Mix, every, in_turn, updates
from headwater.maintenance.strategies.auxiliary import equal_groups, materialized
from headwater.maintenance.strategies.equal_partition import equal_partition

SEED = 1


def partitions() -> Iterator[int]:
    """Every K that makes other groups than a smaller one."""
    seen = set[Any]()
    for k in range(1, RELATIONS + 1):
        if (groups := equal_groups(RELATIONS, k)) not in seen:
            seen.add(groups)
            yield k


def asked(k: int) -> int:
    """Questions of a batch that changes all tables."""
    return sum(2 * (len(group) - 1) for group in equal_groups(RELATIONS, k))


def mode(k: int) -> str:
    """What bench/auxiliary.py calls it."""
    return "none" if k == 1 else f"equal, {k} groups"


def lab(k: int) -> dict[str, float]:
    world = updates(line(RELATIONS, SEED), UPDATES, in_turn(line(RELATIONS, SEED).sources), every(0.0), SEED,
                    Mix(0.5, 1, DOMAIN))  # fmt: skip
    history, setting = simulate(world, equal_partition(k), EVEN, SEED), world.setting()
    held = [materialized(setting, group) for group in equal_groups(RELATIONS, k)] if k > 1 else []
    space = sum(len(row) * count for av in held for row, count in av.bag)
    return {"accesses": history.questions / UPDATES, "space": space, "time": history.finished}


def table(measured: Mapping[str, Mapping[str, Any]], delay: int) -> Table | None:
    """The table, of what the engine did with this delay; None if it was not asked for all of it."""
    every_k = list(partitions())
    if any(mode(k) not in measured for k in every_k):
        return None
    title = f"the cluster paper's table, n = {RELATIONS}: engine (batches of 1,000, {delay} ms) | lab (virtual time)"
    shown = Table(title=title, title_justify="left")
    for name in (
        "K",
        "questions a batch",
        "predicted",
        "space",
        "time",
        "│ accesses an update",
        "⌈n/K⌉−1",
        "space",
        "time",
    ):
        shown.add_column(name, justify="right")
    of_lab = {k: lab(k) for k in every_k}
    first, full = measured[mode(1)], measured[mode(every_k[-1])]
    for k in every_k:
        row, other = measured[mode(k)], of_lab[k]
        shown.add_row(
            str(k), str(row["to_sources"]), str(asked(k)), f"{row['kept_bytes'] / full['kept_bytes']:.2f}",
            f"{row['small_s'] / first['small_s']:.2f}", f"│ {other['accesses']:.2f}",
            str(-(-RELATIONS // k) - 1), f"{other['space'] / of_lab[every_k[-1]]['space']:.2f}",
            f"{other['time'] / of_lab[1]['time']:.2f}",
        )  # fmt: skip
    return shown
