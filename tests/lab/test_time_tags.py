"""Time tags against a log that forgets nothing."""

from __future__ import annotations

from random import Random

import pytest

from headwater.algebra.bag import Bag
from headwater.maintenance.strategies.time_tags import ALWAYS, NEVER, TaggedRelation
from headwater.model.errors import HeadwaterError

Commits = list[tuple[float, Bag]]


def naive(initial: Bag, commits: Commits, t: float) -> Bag:
    """The state at t: everything up to t, summed."""
    return sum((change for at, change in commits if at <= t), initial)


def generated(seed: int, n: int = 30) -> tuple[Bag, Commits]:
    """Commits over a small domain, so that rows come, go and come twice; some at the same time."""
    random = Random(seed)
    initial = Bag.of([(random.randrange(3), random.randrange(3)) for _ in range(6)])
    held, commits, now = initial, [], 0.0
    for _ in range(n):
        now += random.choice((0.0, 0.5, 1.0))
        pairs = []
        for _ in range(random.randrange(1, 4)):
            if held and random.random() < 0.5:
                row = random.choice(held.rows())
                if held.count(row) + sum(c for r, c in pairs if r == row) > 0:
                    pairs.append((row, -1))
            else:
                pairs.append(((random.randrange(3), random.randrange(3)), 1))
        change = Bag.summed(pairs)
        held = held + change
        commits.append((now, change))
    return initial, commits


def tagged(initial: Bag, commits: Commits) -> TaggedRelation:
    relation = TaggedRelation(initial)
    for at, change in commits:
        relation.apply(change, at)
    return relation


@pytest.mark.parametrize("seed", range(12))
def test_states_updates_and_lookups_are_those_of_a_log(seed: int) -> None:
    initial, commits = generated(seed)
    relation = tagged(initial, commits)
    times = [ALWAYS, *dict.fromkeys(at for at, _ in commits), commits[-1][0] + 1]
    for t in times:
        assert relation.state(t) == naive(initial, commits, t)
        for key in range(3):
            expected = {row: c for row, c in naive(initial, commits, t) if row[1] == key}
            assert dict(relation.find((1,), t)(key)) == expected
        assert dict(relation.find((), t)(())) == naive(initial, commits, t).counts
    random = Random(seed)
    for _ in range(30):
        t_k, t_k1 = sorted(random.sample(times, 2))
        updates = relation.updates(t_k, t_k1)
        assert updates.change == naive(initial, commits, t_k1) - naive(initial, commits, t_k)
        assert all(c > 0 for _, c in (*updates.inserted, *updates.deleted))
        assert not set(updates.inserted.counts) & set(updates.deleted.counts)
        by_tags = relation.tagged_updates(t_k, t_k1)
        assert sum(by_tags.values(), Bag()) == updates.change
        assert all(t_k < tags.at <= t_k1 for tags in by_tags)
        assert all((tags.dr == NEVER) == (count > 0) for tags, bag in by_tags.items() for _, count in bag)


@pytest.mark.parametrize("seed", range(6))
def test_truncating_keeps_every_state_from_there_on(seed: int) -> None:
    initial, commits = generated(seed)
    relation = tagged(initial, commits)
    relation.find((0,), commits[-1][0])  # an index that truncation has to keep in order
    for t_v in sorted({at for at, _ in commits}):
        relation.truncate(t_v)
        for at in [t_v, *(at for at, _ in commits if at > t_v)]:
            assert relation.state(at) == naive(initial, commits, at)
            assert relation.updates(t_v, at).change == naive(initial, commits, at) - naive(initial, commits, t_v)
            for key in range(3):
                expected = {row: c for row, c in naive(initial, commits, at) if row[0] == key}
                assert dict(relation.find((0,), at)(key)) == expected
    assert len(relation) == 0


def test_what_came_and_went_inside_is_in_neither_part() -> None:
    relation = TaggedRelation(Bag.of([(1,)]))
    relation.insert((2,), 1.0)
    relation.delete((2,), 2.0)
    relation.delete((1,), 3.0)
    relation.insert((1,), 4.0)
    assert relation.updates(0.0, 5.0) == (Bag(), Bag())
    assert relation.updates(0.0, 1.5) == (Bag.of([(2,)]), Bag())
    assert relation.updates(1.5, 3.5) == (Bag(), Bag.of([(1,), (2,)]))


def test_a_row_created_inside_and_deleted_later_is_an_insertion() -> None:
    """The paper's formula looks into R only, where the row is no longer."""
    relation = TaggedRelation(Bag())
    relation.insert((7,), 1.0)
    relation.delete((7,), 3.0)
    assert relation.updates(0.0, 2.0) == (Bag.of([(7,)]), Bag())


def test_the_interval_is_open_at_its_beginning_and_closed_at_its_end() -> None:
    relation = TaggedRelation(Bag())
    relation.insert((1,), 1.0)
    relation.insert((2,), 2.0)
    assert relation.updates(1.0, 2.0) == (Bag.of([(2,)]), Bag())


def test_older_than_the_log_is_an_error() -> None:
    relation = TaggedRelation(Bag.of([(1,)]))
    relation.delete((1,), 1.0)
    relation.truncate(1.0)
    assert relation.state(1.0) == Bag()
    for ask in (lambda: relation.state(0.5), lambda: relation.find((0,), 0.5), lambda: relation.updates(0.5, 2.0)):
        with pytest.raises(HeadwaterError, match=r"emptied up to 1\.0"):
            ask()


def test_a_commit_in_a_time_that_was_read_is_an_error() -> None:
    relation = TaggedRelation(Bag())
    relation.updates(0.0, 2.0)
    with pytest.raises(HeadwaterError, match="was read"):
        relation.insert((1,), 2.0)


def test_deleting_what_is_not_there_is_an_error() -> None:
    with pytest.raises(HeadwaterError, match="is not there"):
        TaggedRelation(Bag.of([(1,)])).delete((1,), 1.0, count=2)
