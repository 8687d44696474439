"""24 views over the chain's four sources: managers side by side against one after the other, one group against several.

Each pair of cases works on the same loaded views, in turns, so that both meet the same machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import headwater
from chain import Chain
from headwater.model.names import SourceName
from headwater.runtime.compute.machinery import spark_machinery
from headwater.runtime.engine import Engine
from headwater.runtime.scheduling.merging import Group, Merging
from writer import applied

ROUNDS = 4


def shared_views() -> str:
    """Views that tie all four sources together: one group."""
    views = []
    for i in range(1, 5):
        views.append(f"copy{i} AS SELECT a, b FROM s{i}.r{i}")
        views.append(f"some{i} AS SELECT a, b FROM s{i}.r{i} WHERE a > 1000")
        views.append(f"count{i} AS SELECT COUNT(*) AS n, SUM(a) AS total FROM s{i}.r{i}")
    for i in range(1, 4):
        pair = f"s{i}.r{i} x JOIN s{i + 1}.r{i + 1} y ON x.a = y.b"
        views.append(f"pair{i} AS SELECT x.a, y.a AS c FROM {pair}")
        views.append(f"few{i} AS SELECT x.a, y.a AS c FROM {pair} WHERE x.b > 500")
        views.append(f"sum{i} AS SELECT x.b % 100 AS g, COUNT(*) AS n FROM {pair} GROUP BY x.b % 100")
    for i in range(1, 3):
        triple = f"s{i}.r{i} x JOIN s{i + 1}.r{i + 1} y ON x.a = y.b JOIN s{i + 2}.r{i + 2} z ON y.a = z.b"
        views.append(f"triple{i} AS SELECT x.a, y.a AS c, z.a AS d FROM {triple}")
    views.append(
        "chain AS SELECT x.a, y.a AS c, z.a AS d, w.a AS e"
        " FROM s1.r1 x JOIN s2.r2 y ON x.a = y.b JOIN s3.r3 z ON y.a = z.b JOIN s4.r4 w ON z.a = w.b"
    )
    assert len(views) == 24
    return "".join(f"CREATE MATERIALIZED VIEW {view};\n" for view in views)


def separate_views() -> str:
    """Views that each stay inside one source: a group for every source."""
    views = []
    for i in range(1, 5):
        table = f"s{i}.r{i}"
        views.append(f"copy{i} AS SELECT a, b FROM {table}")
        views.append(f"low{i} AS SELECT a, b FROM {table} WHERE a < 50000")
        views.append(f"high{i} AS SELECT a, b FROM {table} WHERE a >= 50000")
        views.append(f"count{i} AS SELECT COUNT(*) AS n, SUM(a) AS total FROM {table}")
        views.append(f"by{i} AS SELECT b % 100 AS g, COUNT(*) AS n FROM {table} GROUP BY b % 100")
        views.append(f"self{i} AS SELECT x.a, y.b FROM {table} x JOIN {table} y ON x.a = y.b")
    assert len(views) == 24
    return "".join(f"CREATE MATERIALIZED VIEW {view};\n" for view in views)


class Bench:
    """A project with many views, and the chain's transactions still to come."""

    def __init__(self, warehouse: headwater.Warehouse, data: Path, chain: Chain, views: str) -> None:
        (warehouse.config.views / "v.sql").write_text(views)
        self.warehouse, self.data, self.chain, self.at = headwater.open(warehouse.config.folder), data, chain, 0
        self.warehouse.setup()
        self.plans = self.warehouse.plans()
        self.seconds: dict[str, float] = {}
        self.merging: dict[str, float] = {}
        self.groups: dict[str, int] = {}
        self.warehouse.run(until_caught_up=True)

        self.turn("warm", 200)
        self.turn("warm", 200, managers=1, parallel=1)

    def turn(self, case: str, transactions: int, **settings: Any) -> None:
        """Some transactions under these settings, after a few to warm up; adds to the case's time."""
        config = replace(self.warehouse.config, **settings)
        machinery = spark_machinery(config, self.warehouse.spark, self.warehouse.catalog)
        with Engine(config, machinery, self.warehouse.catalog) as engine:
            engine.start(self.plans)
            self._apply(200)
            engine.catch_up()
            self._apply(transactions)
            before, begun = engine.look().merging_seconds, time.perf_counter()
            engine.catch_up()
            self.seconds[case] = self.seconds.get(case, 0.0) + time.perf_counter() - begun
            self.merging[case] = self.merging.get(case, 0.0) + engine.look().merging_seconds - before
            self.groups[case] = len(engine.look().groups)

    def _apply(self, transactions: int) -> None:
        applied(self.data, self.chain, self.at, self.at + transactions)
        self.at += transactions


def concurrent(bench: Bench, transactions: int) -> dict[str, Any]:
    """Managers side by side, and one after the other."""
    for _ in range(ROUNDS):
        bench.turn("concurrent", transactions // ROUNDS)
        bench.turn("sequential", transactions // ROUNDS, managers=1, parallel=1)
    seconds = bench.seconds
    return {
        "concurrent_s": seconds["concurrent"],
        "sequential_s": seconds["sequential"],
        "speedup": seconds["sequential"] / seconds["concurrent"],
        "merge_share": bench.merging["concurrent"] / seconds["concurrent"],
        "verified": all(v.ok for v in bench.warehouse.verify(["chain", "sum1", "copy4"])),
    }


def agreement(bench: Bench, transactions: int) -> dict[str, Any]:
    """The same views as groups of their own, and as one group."""
    for _ in range(ROUNDS):
        bench.turn("groups", transactions // ROUNDS)
        with one_group():
            bench.turn("together", transactions // ROUNDS)
    seconds = bench.seconds
    return {
        "groups_s": seconds["groups"],
        "groups": bench.groups["groups"],
        "one_group_s": seconds["together"],
        "overhead": seconds["together"] / seconds["groups"],
    }


@contextmanager
def one_group() -> Iterator[None]:
    """All views agree, whether they share something or not."""
    original = Merging._group_of

    def always(self: Merging, sources: set[SourceName]) -> Group:
        return original(self, sources | {SourceName("everything")})

    with mock.patch.object(Merging, "_group_of", always):
        yield
