"""Comparisons with the present: every state of a world in which days pass, against the query with the day in it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from random import Random

import pytest

from headwater.maintenance.operators.program import Asked

from .oracle import Engine, Played, duck, program_of, tree_of
from .worlds import World, schema_from, world_of

SCHEMA = schema_from("r(a int, f date) t(a int, f date, b int)")
CLOCKED = (*SCHEMA, *schema_from("today(day date)"))
BEGIN = dt.date(2024, 1, 1)

QUERIES = [
    "SELECT a, f FROM s.r WHERE f > current_date",
    "SELECT a, f FROM s.r WHERE current_date() <= f AND a > 1",
    "SELECT a, f FROM s.r WHERE f BETWEEN current_date - INTERVAL 2 DAY AND current_date + INTERVAL 1 DAY",
    "SELECT a, f FROM s.r WHERE f BETWEEN DATE '2024-01-02' AND current_date",
    "SELECT a, f FROM s.r WHERE f + INTERVAL 2 DAY < current_date",
    "SELECT a FROM s.r WHERE f = current_date",
    "SELECT a, COUNT(*) AS n FROM s.r WHERE f >= current_date GROUP BY a",
    "SELECT a, MAX(f) AS m FROM s.r GROUP BY a HAVING MAX(f) >= current_date",
    "SELECT r.a, t.b FROM s.r LEFT JOIN (SELECT * FROM s.t WHERE t.f >= current_date) t ON t.a = r.a",
    "SELECT r.a, t.b FROM s.r, s.t WHERE t.a = r.a AND r.f < current_date AND t.f >= current_date",
    "SELECT r.a FROM s.r WHERE NOT EXISTS (SELECT 1 FROM s.t WHERE t.a = r.a AND t.f > current_date)",
    "SELECT a, f, ROW_NUMBER() OVER (PARTITION BY a ORDER BY f, a) AS n FROM (SELECT DISTINCT a, f FROM s.r"
    " WHERE f < current_date) q",
]


def world_in_which_days_pass(seed: int) -> World:
    """Days come between transactions, with them, and several at once."""
    random = Random(seed)
    world = world_of(SCHEMA, random, 6)
    days = [BEGIN]
    for change in world.changes:
        day = days[-1] + dt.timedelta(days=random.choice((0, 1, 1, 2)))
        if random.random() < 0.4:
            for bag in change.values():
                bag.clear()
        change["today"] = Counter({(days[-1],): -1, (day,): 1}) if day != days[-1] else Counter()
        days.append(day)
    states = [dict(world.states[0])]
    for change in world.changes:
        state = {name: bag.copy() for name, bag in states[-1].items()}
        for shape in SCHEMA:
            state[shape.name].update(change[shape.name])
            if any(n < 0 for n in state[shape.name].values()):  # what it changed was changed by one that was cleared
                state[shape.name] = states[-1][shape.name].copy()
                change[shape.name] = Counter()
            state[shape.name] = +state[shape.name]
        states.append(state)
    for state, day in zip(states, days, strict=True):
        state["today"] = Counter({(day,): 1})
    moved = _near(states, world.changes)
    return World(CLOCKED, moved, world.changes)


def _near(states: list[dict[str, Counter]], changes: list[dict[str, Counter]]) -> list[dict[str, Counter]]:
    """Worlds have two dates; here they are days that pass."""
    days = {dt.date(2024, 1, 1): BEGIN + dt.timedelta(days=2), dt.date(2024, 2, 29): BEGIN + dt.timedelta(days=5)}
    for bags in (*states, *changes):
        for name in ("r", "t"):
            bags[name] = Counter({tuple(days.get(v, v) for v in row): n for row, n in bags[name].items()})  # type: ignore[call-overload]
    return states


@pytest.mark.parametrize("query", QUERIES)
def test_rows_come_and_go_as_days_pass(query: str) -> None:
    for seed in range(4):
        world = world_in_which_days_pass(seed)
        engine = Engine(world)
        text = duck(query.replace("current_date()", "current_date")).replace(
            "CURRENT_DATE", "(SELECT day FROM s.today)"
        )
        wanted = [engine.rows(text, at) for at in range(len(world.states))]
        for tree in (tree_of(query, SCHEMA).optimized, tree_of(query, SCHEMA).built):
            played = Played(program_of(tree, CLOCKED), world, engine, crowded=seed % 4 == 3)
            batches = ((6,), (5, 1), (4, 2), (1, 1, 1, 1, 1, 1))[seed % 4]
            states = played.states(tree.columns, batches, wanted[0])
            assert states == wanted, f"seed {seed}"


def test_a_tick_asks_for_the_rows_that_it_changes() -> None:
    program = program_of(tree_of(QUERIES[0], SCHEMA).optimized, CLOCKED)
    asked = [step for step in program.steps if isinstance(step, Asked) and step.table.table.table == "r"]
    assert [step.between for step in asked] == [True]
