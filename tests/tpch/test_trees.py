"""TPC-H's 22 queries as views: built, optimized, rendered, and maintained over random transactions; every state of
each is compared with DuckDB's answer to the query as written. No JVM."""

from __future__ import annotations

import pytest

from .data import QUERIES, SCHEMA, tiny
from .maintained import View, check_rendered, check_states
from .standard import read_views
from .transactions import Transactions
from .world import Row, World

VIEWS = read_views(QUERIES)
SEED = 7
"""One with which every query has something to say, and changes its mind."""


@pytest.mark.parametrize("name", VIEWS)
def test_every_state_is_exact(name: str) -> None:
    seen = check(name, SEED)
    assert len(seen) > 1, f"{name} says nothing: its parameters do not fit the data"


def check(name: str, seed: int) -> set[Row]:
    view, world = View(VIEWS[name], SCHEMA), World(SCHEMA, tiny(seed))
    check_rendered(view, world)
    return check_states(view, world, Transactions(world, seed).next, (6, 6, 6))


def test_all_queries_are_there() -> None:
    assert list(VIEWS) == [f"q{n:02}" for n in range(1, 23)]
