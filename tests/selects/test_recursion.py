"""WITH RECURSIVE over data that never ends: it is noticed, named, and nothing else fails of it."""

from __future__ import annotations

from collections import Counter

import pytest

from headwater.model.errors import EndlessRecursion, NoRoom, ViewSqlError

from .oracle import Engine, Played, program_of, tree_of
from .worlds import Bag, World, schema_from

SCHEMA = schema_from("e(a int, b int)")
REACHED = (
    "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM s.e WHERE a = 1"
    " UNION ALL SELECT r.a, e.b FROM r JOIN s.e ON e.a = r.b) SELECT a, b FROM r"
)


def played(query: str, *changes: Bag, batches: tuple[int, ...]) -> list[Bag]:
    """The view after each transaction; the world begins empty."""
    world = World(SCHEMA, [{"e": Counter()}])
    for change in changes:
        state = world.states[-1]["e"].copy()
        state.update(change)
        world.states.append({"e": +state})
        world.changes.append({"e": change})
    tree = tree_of(query, SCHEMA).optimized
    return Played(program_of(tree, SCHEMA), world, Engine(world), crowded=False).states(
        tree.columns, batches, Counter()
    )


def test_a_cycle_that_never_ends_is_an_error_that_names_transaction_and_row() -> None:
    steps = [Counter({(1, 2): 1}), Counter({(2, 3): 1}), Counter({(3, 2): 1})]
    with pytest.raises(EndlessRecursion, match=r"deeper than 100 levels with transaction 3: it comes to \(1, [23]\)"):
        played(REACHED, *steps, batches=(3,))


def test_a_cycle_that_nothing_leads_to_does_no_harm() -> None:
    steps = [Counter({(7, 8): 1, (8, 7): 1}), Counter({(1, 2): 1}), Counter({(8, 9): 1})]
    assert played(REACHED, *steps, batches=(2, 1))[-1] == Counter({(1, 2): 1})


def test_a_cycle_that_closes_when_nothing_leads_there_any_more_is_not_followed() -> None:
    """1→2 goes in the transaction before 2→3→2 closes: no state has rows without end, though the batch has both."""
    steps = [Counter({(1, 2): 1, (2, 3): 1}), Counter({(1, 2): -1}), Counter({(3, 2): 1}), Counter({(1, 9): 1})]
    states = played(REACHED, *steps, batches=(1, 3))
    assert states[1:] == [Counter({(1, 2): 1, (1, 3): 1}), Counter(), Counter(), Counter({(1, 9): 1})]


def test_a_limit_counts_levels_as_spark_does() -> None:
    """MAX RECURSION LEVEL 3 is where it begins and two levels more."""
    three = REACHED.replace(" AS (SELECT", " MAX RECURSION LEVEL 3 AS (SELECT", 1)
    chain = [Counter({(1, 2): 1, (2, 3): 1, (3, 4): 1})]
    assert played(three, *chain, batches=(1,))[-1] == Counter({(1, 2): 1, (1, 3): 1, (1, 4): 1})
    with pytest.raises(EndlessRecursion, match="deeper than 3 levels"):
        played(three, *chain, Counter({(4, 5): 1}), batches=(2,))


def test_what_only_spark_computes_is_refused_inside() -> None:
    made = "SELECT e.b DIV r.a FROM r JOIN s.e ON e.a = r.a"
    query = f"WITH RECURSIVE r(a) AS (SELECT a FROM s.e UNION ALL {made}) SELECT a FROM r"
    with pytest.raises(ViewSqlError, match="only Spark can"):
        program_of(tree_of(query, SCHEMA).optimized, SCHEMA)


def test_a_number_without_room_is_an_error() -> None:
    made = "SELECT e.b, r.n * 1000000 FROM r JOIN s.e ON e.a = r.a"
    query = f"WITH RECURSIVE r(a, n) AS (SELECT a, 1 FROM s.e WHERE a = 1 UNION ALL {made}) SELECT a, n FROM r"
    with pytest.raises(NoRoom, match="without room: Overflow"):
        played(query, Counter({(1, 2): 1, (2, 3): 1, (3, 4): 1}), batches=(1,))
