"""Compiled views against the reference, and what a partial holds: P(over), whichever way it was put together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest

from headwater.algebra import Relation
from headwater.algebra.bag import Bag, Row
from headwater.algebra.evaluate import evaluate
from headwater.algebra.spj import Partial, Spj
from headwater.lab.worlds.world import World
from headwater.model.names import TableName

TABLES = {f"S{i}.T{i}": ("a", "b", "c") for i in range(4)}
CLAUSES = (
    "T0.a < T1.b",
    "T1.a <> T2.b",
    "T0.c <= T3.c",
    "T2.a + T2.b > T3.a",
    "T1.c * 2 < T1.a + 3",
    "T0.b + T1.b + T2.b < 5",
    "(T2.c > T3.b OR T2.c < 2)",
    "T3.a IS NOT NULL",
)
EQUALITIES = ("T0.b = T1.a", "T1.c = T2.a", "T2.b = T3.b", "T0.a = T3.a")


def world(seed: int) -> World:
    random = Random(seed)
    said = [*random.sample(CLAUSES, random.randint(1, 4)), *random.sample(EQUALITIES, random.randint(0, 2))]
    select = f"SELECT T0.a, T1.b, T3.c FROM {', '.join(TABLES)} WHERE {' AND '.join(said)}"
    values = (0, 1, 2, 3, None)
    rows: dict[str, list[Row]] = {
        t: [tuple(random.choice(values) for _ in "abc") for _ in range(random.randint(0, 5))] for t in TABLES
    }
    return World.of(TABLES, {"V": select}, rows)


def joined(view: Spj, over: Sequence[int], world: World, random: Random) -> Partial:
    """The join of these occurrences, put together in an order and in pieces of its own."""
    if len(over) == 1 or random.random() < 0.5:
        return view.core(random.sample(over, len(over)), world.initial)
    left = random.sample(over, random.randint(1, len(over) - 1))
    right = [i for i in over if i not in left]
    return view.merge(joined(view, left, world, random), joined(view, right, world, random))


def part(world: World, over: Sequence[int]) -> Bag:
    """π σ_P(over) of the product of these tables, by the reference: the view of the clauses that speak of them only."""
    view = world.views[0]
    alias = [o.alias for o in view.occurrences]
    said = view.text.split(" WHERE ")[1].split(" AND ")
    inside = [c for c in said if not any(f"{alias[i]}." in c for i in range(len(alias)) if i not in over)]
    columns = [f"{alias[i]}.{c} AS {alias[i]}_{c}" for i in over for c in view.occurrences[i].columns]
    tables = [str(view.occurrences[i].table) for i in over]
    where = f" WHERE {' AND '.join(inside)}" if inside else ""
    smaller = World.of(TABLES, {"AV": f"SELECT {', '.join(columns)} FROM {', '.join(tables)}{where}"}, {})
    return evaluate(smaller.views[0], relations(world))


def relations(world: World) -> dict[TableName, Relation]:
    return {t: Relation(world.columns[t], bag) for t, bag in world.initial.items()}


@pytest.mark.parametrize("seed", range(60))
def test_it_computes_what_the_reference_does(seed: int) -> None:
    here = world(seed)
    assert here.compiled[0].evaluate(here.initial) == evaluate(here.views[0], relations(here))


@pytest.mark.parametrize("seed", range(60))
def test_a_partial_holds_what_the_clauses_of_its_occurrences_leave(seed: int) -> None:
    """P(k) of equations 2 and 3 is maximal: each clause as soon as a partial has all that it speaks of."""
    here, random = world(seed), Random(seed)
    view = here.compiled[0]
    for size in range(1, 5):
        for over in combinations(range(4), size):
            found = joined(view, over, here, random)
            assert found.over == over
            assert found.bag == part(here, over), f"{over} of {here.views[0].text}"


def test_a_clause_that_can_fail_waits_for_the_whole_row() -> None:
    """12 / R.a fails for a row of R that joins with nothing: as in SQL over the join, nobody is told."""
    tables = {"S1.R": ("a", "k"), "S2.S": ("k", "b")}
    select = "SELECT R.a FROM S1.R JOIN S2.S ON R.k = S.k WHERE 12 / R.a > 5 AND R.a < S.b"
    here = World.of(tables, {"V": select}, {"S1.R": [(0, 9), (2, 1), (4, 1)], "S2.S": [(1, 7)]})
    view = here.compiled[0]
    assert view.core([0], here.initial).bag.total() == 3
    assert view.pairs == {(0, 1)}
    assert view.evaluate(here.initial) == Bag.of([(2,)])
