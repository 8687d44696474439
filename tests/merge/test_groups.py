"""Sections 6.1 and 6.2: which views need a common merge process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.merge import groups


def test_views_that_share_a_relation_belong_together() -> None:
    # Example 3's views: V3 is disjoint with V1 and V2.
    assert groups({"V1": {"R", "S"}, "V2": {"S", "T"}, "V3": {"Q"}}) == [("V1", "V2"), ("V3",)]


def test_they_may_be_connected_by_a_view_that_comes_last() -> None:
    reads = {"V1": ["R"], "V2": ["Q"], "V3": ["S"], "V4": ["R", "S"]}
    assert groups(reads) == [("V1", "V3", "V4"), ("V2",)]


def test_a_transaction_that_writes_two_tables_connects_their_views() -> None:
    # Section 6.2: V1 = R and V2 = S share no table, but a transaction of their source can write both.
    assert groups({"V1": {"R"}, "V2": {"S"}}) == [("V1",), ("V2",)]
    assert groups({"V1": {"shop"}, "V2": {"shop"}}) == [("V1", "V2")]


def test_a_view_of_nothing_is_alone() -> None:
    assert groups({}) == []
    assert groups({"V1": (), "V2": ()}) == [("V1",), ("V2",)]


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.integers(0, 8)), max_size=8))
def test_groups_are_the_finest_partition_that_shares_nothing(reads: dict[str, set[int]]) -> None:
    found = groups(reads)
    assert sorted(view for group in found for view in group) == sorted(reads)
    assert [group[0] for group in found] == sorted((group[0] for group in found), key=list(reads).index)
    things = [set().union(*(reads[view] for view in group)) for group in found]
    assert sum(map(len, things)) == len(set().union(*things))
    for group in found:
        assert list(group) == sorted(group, key=list(reads).index)
        reached = {group[0]}
        for _ in group:
            reached |= {v for v in group if any(reads[v] & reads[r] for r in reached)}
        assert reached == set(group)
