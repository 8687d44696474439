"""TPC-DS's 99 queries as views: every one is built and is, as a tree, what it is as written; those whose programs are
short are maintained over a short history. No JVM. `python -m tpcds.status` maintains them all."""

from __future__ import annotations

import pytest

from headwater.algebra.relations import tables
from tpch.maintained import View, check_rendered, check_states
from tpch.world import World

from .data import SCHEMA, VIEWS, Transactions, tiny

SEED = 1
MAINTAINED = ("q02", "q09", "q16", "q35", "q36", "q49", "q51", "q70", "q76", "q78", "q87", "q93", "q97")
"""One for each construct: unions, scalar subqueries, EXISTS with <>, EXISTS or EXISTS, ROLLUP and its ranks, running
sums over a full join, EXCEPT, chains of outer joins."""


@pytest.fixture(scope="module")
def world() -> World:
    return World(SCHEMA, tiny(SEED))


@pytest.mark.parametrize("name", VIEWS)
def test_a_tree_is_its_query(name: str, world: World) -> None:
    check_rendered(View(VIEWS[name], SCHEMA), world)


@pytest.mark.parametrize("name", MAINTAINED)
def test_every_state_is_exact(name: str) -> None:
    view = View(VIEWS[name], SCHEMA)
    read = {table.table for table in tables(view.tree)}
    world = World({t: SCHEMA[t] for t in read}, {t: rows for t, rows in tiny(SEED).items() if t in read})
    assert check_states(view, world, Transactions(world, SEED, read).next, (3, 3))


def test_all_queries_are_there() -> None:
    assert list(VIEWS) == [f"q{n:02}" for n in range(1, 100)]
