"""Where batches end: alone, at multiples, at stops, and in a family."""

from __future__ import annotations

from headwater.integrator.journal import Segment
from headwater.model.names import Seq, SourceName, TableName
from headwater.runtime.scheduling.families import Family, some

TABLE = TableName(SourceName("s"), "t")


def segments(*ends: int, start: int = 0, rows: int = 10) -> list[Segment]:
    found, lo = [], start
    for number, hi in enumerate(ends):
        found.append(Segment(number, Seq(lo), Seq(hi), {}, {TABLE: ("file", rows)}))
        lo = hi
    return found


def test_alone_a_view_takes_what_is_waiting() -> None:
    assert Family().plan(Seq(0), segments(3, 7, 9), 1000, hurry=False) == 9


def test_but_not_more_than_a_batch() -> None:
    assert Family().plan(Seq(0), segments(3, 7, 9), 20, hurry=False) == 7
    assert [s.hi for s in some(segments(3, 7, rows=50), 20)] == [3]  # at least one


def test_every_n_ends_at_a_multiple_unless_in_a_hurry() -> None:
    assert Family(step=4).plan(Seq(0), segments(3, 7, 9), 1000, hurry=False) == 8
    assert Family(step=100).plan(Seq(0), segments(3, 7), 1000, hurry=False) is None
    assert Family(step=100).plan(Seq(0), segments(3, 7), 1000, hurry=True) == 7


def test_no_batch_crosses_a_stop() -> None:
    family = Family()
    family.stop_at(Seq(7))
    assert family.plan(Seq(0), segments(3, 7, 9), 1000, hurry=False) == 7
    assert family.plan(Seq(7), segments(9, start=7), 1000, hurry=False) == 9
    assert family.known(Seq(0), Seq(100)) == 7
    assert family.known(Seq(7), Seq(100)) == 9


def test_a_child_goes_to_the_farthest_end_its_parents_have_passed() -> None:
    family = Family(bounds=[Seq(3), Seq(7), Seq(9)])
    assert family.known(Seq(0), Seq(8)) == 7
    assert family.known(Seq(7), Seq(8)) is None
    assert family.known(Seq(7), Seq(9)) == 9


def test_families_that_become_one_keep_all_their_ends() -> None:
    one, other = Family(2, [Seq(3), Seq(7)]), Family(3, [Seq(5), Seq(7)], [Seq(9)])
    one.join(other)
    assert (one.step, one.bounds, one.stops) == (6, [3, 5, 7], [9])


def test_a_child_ends_only_where_its_parents_have_states() -> None:
    """After a restart one parent is at 7, the other at 5 on its way there: 5 is no state of the first."""
    family, states = Family(bounds=[Seq(3), Seq(5), Seq(7)]), [{Seq(3), Seq(7)}, {Seq(3), Seq(5)}]

    def usable(bound: Seq) -> bool:
        return all(bound in have for have in states)

    assert family.known(Seq(3), Seq(5), usable=usable) is None
    states[1].add(Seq(7))
    assert family.known(Seq(3), Seq(7), usable=usable) == 7
    assert family.known(Seq(3), Seq(7), skip=False, usable=usable) == 7


def test_what_nobody_asks_for_is_forgotten() -> None:
    family = Family(bounds=[Seq(3), Seq(7), Seq(9)], stops=[Seq(7)])
    family.forget(Seq(7))
    assert (family.bounds, family.stops) == ([9], [])


def test_a_family_that_joined_another_is_that_one() -> None:
    """A third view may come by a parent whose family has become its sibling's: it must hear of the same ends."""
    one, other, third = Family(), Family(), Family()
    one.join(other)
    third.join(one)
    assert other.now is third
    assert third.now is third
