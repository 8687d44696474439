"""The wave over parents that only grow, which it counts on (`keeping/relying`): every state is one that was, nobody is
asked for what refers to them, and a row without its parent is noticed in the batch that brings it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra import ViewDefinition
from headwater.algebra.view import Reliance, Relied
from headwater.maintenance.keeping.copies import asked_tables
from headwater.model.changelog import fold
from headwater.model.errors import PromiseBroken
from headwater.model.names import TableName
from headwater.runtime.compute.promises import check_promises

from .histories import Row, Scenario, Table, Transaction
from .oracle import Played, Run, bag_of, changelog, evaluated, maintain, played

SALE = Table("shop", "sale", (("id", "bigint"), ("customer", "bigint"), ("n", "int")))
CUSTOMER = Table("shop", "customer", (("id", "bigint"), ("region", "bigint"), ("name", "text"), ("note", "text")))
REGION = Table("crm", "region", (("id", "bigint"), ("name", "text")))
QUERIES = [
    "SELECT s.id, s.n, c.name, r.name AS region FROM {} WHERE s.customer = c.id AND c.region = r.id",
    "SELECT c.name, COUNT(*) AS k, SUM(s.n) AS n FROM {} WHERE s.customer = c.id AND c.region = r.id GROUP BY c.name",
]
FROM = ("shop.sale AS s", "shop.customer AS c", "crm.region AS r")
RUNS = st.builds(
    Run,
    st.lists(st.integers(1, 30), max_size=4).map(tuple),
    parts=st.integers(1, 2),
    every=st.sampled_from([1, 1, 0, 3]),
    scan=st.booleans(),
    beyond=st.sampled_from([0, 0, 2]),
)


def grown(seed: int, orphan: bool = False) -> Scenario:
    """A history that keeps its promises: whoever refers to a row comes with it or after it. With an `orphan`, the last
    transaction does not."""
    chance = Random(seed)
    order = chance.sample(FROM, 3)
    sales: list[Row] = [(1, 1, 5), (2, None, 6)]
    before = [
        Transaction("crm", (("region", (1, "north"), 1),)),
        Transaction("shop", (("customer", (1, 1, "a", ""), 1), ("customer", (2, None, "b", ""), 1))),
        Transaction("shop", tuple(("sale", sale, 1) for sale in sales)),
    ]
    history, known, regions = [], [1, 2, None], [1, None]
    for new in range(3, chance.randint(6, 24)):
        changes: list[tuple[str, Row, int]] = []
        if chance.random() < 0.3:
            history.append(Transaction("crm", (("region", (new, "s"), 1),)))
            regions.append(new)
            continue
        if chance.random() < 0.4:
            changes.append(("customer", (new, chance.choice(regions), chance.choice("ab"), ""), 1))
            known.append(new)
        for _ in range(chance.randint(0, 3)):
            if sales and chance.random() < 0.5:
                changes.append(("sale", sales.pop(chance.randrange(len(sales))), -1))
            else:
                sales.append((new, chance.choice(known[-3:]), chance.randint(0, 3)))
                changes.append(("sale", sales[-1], 1))
        if all(count > 0 for _, _, count in changes):  # a row that comes and goes has its order
            chance.shuffle(changes)
        history.append(Transaction("shop", tuple(changes)))
    if orphan:
        history.append(Transaction("shop", (("sale", (99, 99, 1), 1),)))
    sql = chance.choice(QUERIES).format(", ".join(order))
    return Scenario((SALE, CUSTOMER, REGION), sql, tuple(before), tuple(history))


def counting(world: Played) -> ViewDefinition:
    view = world.view()
    relied = [Relied(i, Reliance.PARENT, str(o.table)) for i, o in enumerate(view.occurrences) if o.alias != "s"]
    return replace(view, relies=tuple(relied))


def agree(scenario: Scenario, run: Run) -> None:
    with played(scenario) as world:
        view = counting(world)
        assert "sale" not in {table.table for table in asked_tables(view)}
        done = maintain(world, view, run)
        log, states = changelog(world, view, done, run), world.states()
        load = evaluated(view, states[0])
        ends = {min(max(1, e), world.last) for e in run.ends} | {world.last}
        for seq in range(1, world.last + 1):
            if run.promises(seq, ends):
                found = bag_of(fold(log, seq))
                actual = load + found if view.aggregation is None else found
                assert actual == evaluated(view, states[seq]), f"state {seq}\n{scenario}"
    assert all(questions <= 2 for questions in done.questions), "what refers to them is asked for nothing"


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), run=RUNS)
def test_every_state_is_one_that_was(seed: int, run: Run) -> None:
    agree(grown(seed), run)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), run=RUNS)
def test_a_row_without_its_parent_is_noticed(seed: int, run: Run) -> None:
    with pytest.raises(PromiseBroken, match=r"s.customer = 99 refers to no row of shop.customer"):
        agree(grown(seed, orphan=True), run)


@pytest.mark.parametrize(
    ("on", "change", "said"),
    [
        (Reliance.PARENT, ("customer", (1, 1, "a", ""), -1), "had a row changed or deleted in transaction 1"),
        (Reliance.NEVER, ("customer", (7, 1, "z", ""), 1), "shop.customer changed in transaction 1"),
        (Reliance.PARENT, ("customer", (7, 1, "z", ""), 1), ""),
        (Reliance.NEVER, ("sale", (1, 1, 5), -1), ""),
    ],
)
def test_a_table_that_does_what_it_never_does_is_noticed(on: Reliance, change: tuple[str, Row, int], said: str) -> None:
    scenario = replace(grown(1), history=(Transaction("shop", (change,)),))
    with played(scenario) as world:
        view = counting(world)
        view = replace(view, relies=tuple(replace(r, on=on) for r in view.relies))
        journal = world.changes(view, 0, 1)
        check = partial(_check_all, view, journal)
        if not said:
            check()
            return
        with pytest.raises(PromiseBroken, match=said) as raised:
            check()
        assert "headwater apply" in raised.value.fix


def _check_all(view: ViewDefinition, journal: Mapping[TableName, pa.Table]) -> None:
    for table, rows in journal.items():
        check_promises(view, table, rows)
