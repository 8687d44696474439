"""The laws of bags that maintenance rests on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra import Bag, Relation

values = st.one_of(st.none(), st.integers(0, 2))
bags = st.builds(Bag.summed, st.lists(st.tuples(st.tuples(values, values), st.integers(-2, 2)), max_size=6))


@given(bags, bags, bags)
def test_bags_form_a_group(a: Bag, b: Bag, c: Bag) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a - a == Bag()
    assert a + Bag() == a
    assert hash(a + b) == hash(b + a)


@given(bags, bags, bags)
def test_select_project_and_join_are_linear(a: Bag, change: Bag, b: Bag) -> None:
    def holds(row: tuple[object, ...]) -> bool:
        return row[0] == 1

    def first(row: tuple[object, ...]) -> tuple[object, ...]:
        return row[:1]

    assert (a + change).select(holds) == a.select(holds) + change.select(holds)
    assert (a + change).project(first) == a.project(first) + change.project(first)
    assert (a + change).join(b, [0], [1]) == a.join(b, [0], [1]) + change.join(b, [0], [1])
    assert b.join(a + change, [], []) == b.join(a, [], []) + b.join(change, [], [])


def test_null_joins_nothing_but_groups_with_itself() -> None:
    a = Bag.of([(None, 1), (None, 2), (3, 4)])
    assert a.join(a, [0], [0]) == Bag.of([(3, 4, 3, 4)])
    assert set(a.group(lambda row: row[:1])) == {(None,), (3,)}


def test_counts_multiply_in_joins_and_vanish_in_distinct() -> None:
    a, b = Bag({(1,): 2}), Bag({(1,): 3})
    assert a.join(b, [0], [0]) == Bag({(1, 1): 6})
    assert a.distinct() == Bag({(1,): 1})
    assert (a.count((1,)), a.count((2,)), a.total(), a.rows()) == (2, 0, 2, [(1,), (1,)])
    assert bool(a)
    assert not (a - a)


@pytest.mark.parametrize("use", [Bag.distinct, Bag.rows, lambda bag: bag.group(lambda row: row)])
def test_groups_of_negative_counts_have_no_meaning(use: object) -> None:
    with pytest.raises(ValueError, match="count -1"):
        use(Bag({(1,): -1}))  # type: ignore[operator]


def test_a_relation_names_its_columns() -> None:
    relation = Relation.of(("a", "b"), [(1, 2), (3, 2)])
    assert relation.over(("b",)) == Bag({(2,): 2})
    assert relation.over(("b", "a")) == Bag.of([(2, 1), (2, 3)])
