"""TPC-H's 22 queries as views of the real engine, over a PostgreSQL and two SQLite files that change meanwhile; what
readers see of sampled states is compared with DuckDB's answer to the queries as written.

    TPCH_ROUNDS=2,20,200 TPCH_SAMPLED=50 TPCH_VIEWS=q01,q22 pytest tests/tpch/test_engine.py

plays so many transactions in each round, compares so many states, of these views only.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

import headwater
from postgres_server import PostgresServer

from .data import QUERIES, SCHEMA, tiny
from .databases import Databases
from .maintained import View
from .shown import Committed, check_state, states
from .standard import read_views
from .transactions import Transactions
from .world import World

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.soak]

SEED = 12
"""One with which every query has something to say in the few states that are compared, and changes its mind."""
ROUNDS = tuple(map(int, os.environ.get("TPCH_ROUNDS", "4,12").split(",")))
SAMPLED = int(os.environ.get("TPCH_SAMPLED", "6"))
NAMES = os.environ.get("TPCH_VIEWS", "")
VIEWS = {
    name: View(view, SCHEMA) for name, view in read_views(QUERIES).items() if not NAMES or name in NAMES.split(",")
}


class Business:
    """The world, and the databases in which it happens too."""

    def __init__(self, folder: Path, sales: str) -> None:
        self.world = World(SCHEMA, tiny(SEED))
        self.databases = Databases(folder, sales, SCHEMA)
        self.committed = Committed()
        self._transactions = Transactions(self.world, SEED)

    def act(self, times: int) -> None:
        for _ in range(times):
            number = self.world.commit(self._transactions.next())
            edits = [edit for _, edit in self.world.batch()]
            self.committed.add(self.databases.commit(edits, f"t{number}"), edits)


def test_sampled_states_are_what_the_queries_say(tmp_path: Path, postgres: PostgresServer, spark: SparkSession) -> None:
    folder = tmp_path / "project"
    (folder / "views").mkdir(parents=True)
    for name in VIEWS:
        (folder / "views" / f"{name}.sql").write_text((QUERIES / f"{name}.sql").read_text())
    business = Business(folder, postgres.create_database("tpch"))
    business.databases.create(tiny(SEED))
    (folder / "headwater.toml").write_text(f"{business.databases.settings()}[run]\npoll_seconds = 0.05\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    since = maintained(warehouse, business)
    seen = sampled(warehouse, business.committed, since)
    assert not warehouse.halted()
    quiet = [name for name in VIEWS if len(seen[name]) < 2]
    assert not quiet, f"these show the same in all sampled states: {quiet}"


def maintained(warehouse: headwater.Warehouse, business: Business) -> int:
    """Loads the views and maintains them through all rounds; the transaction as of which they were loaded. In the last
    round the engine works while the sources are still changing."""
    plans = warehouse.plans()
    with warehouse.engine() as engine:
        engine.start(plans)
        engine.catch_up()
        since = engine.cut.seq
        for times in ROUNDS[:-1]:
            business.act(times)
            engine.catch_up()
        writer = Thread(target=business.act, args=(ROUNDS[-1],))
        writer.start()
        while writer.is_alive():
            engine.step()
        engine.catch_up()
    return since


def sampled(warehouse: headwater.Warehouse, committed: Committed, since: int) -> dict[str, set[object]]:
    """The different states that were seen of each view."""
    seen: dict[str, set[object]] = {name: set() for name in VIEWS}
    last = warehouse.cut().seq
    wanted = {since + (last - since) * k // SAMPLED for k in range(SAMPLED + 1)}
    for seq, world in states(warehouse, World(SCHEMA, tiny(SEED)), committed, since):
        if seq in wanted:
            for name, rows in check_state(warehouse, VIEWS, world, seq).items():
                seen[name].add(frozenset(rows.items()))
            wanted.discard(seq)
    assert not wanted, f"no transactions have the numbers {wanted}"
    return seen
