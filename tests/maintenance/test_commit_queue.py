"""The commit queue of PVM CC: finished in any order, committed in one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.maintenance.commit_queue import CommitQueue
from headwater.model.names import Seq, ViewName

V, W = ViewName("v"), ViewName("w")


def drained(queue: CommitQueue[str]) -> list[tuple[int, dict[ViewName, str]]]:
    out = []
    while (released := queue.released()) is not None:
        out.append(released)
    return out


def test_a_batch_waits_for_the_ones_before_it() -> None:
    queue: CommitQueue[str] = CommitQueue()
    queue.start(Seq(5), [V])
    queue.start(Seq(9), [V])
    queue.finish(Seq(9), V, "second")
    assert queue.released() is None
    assert (len(queue), queue.batches) == (2, [5, 9])
    queue.finish(Seq(5), V, "first")
    assert drained(queue) == [(5, {V: "first"}), (9, {V: "second"})]
    assert (len(queue), queue.batches) == (0, [])


def test_a_batch_waits_for_all_its_views() -> None:
    queue: CommitQueue[str] = CommitQueue()
    queue.start(Seq(1), [V, W])
    queue.finish(Seq(1), V, "v")
    assert queue.released() is None
    queue.finish(Seq(1), W, None)  # dropped out
    assert queue.released() == (1, {V: "v"})


def test_a_batch_that_concerns_nobody_still_waits_its_turn() -> None:
    queue: CommitQueue[str] = CommitQueue()
    queue.start(Seq(1), [V])
    queue.start(Seq(2), [])
    assert queue.released() is None
    queue.finish(Seq(1), V, None)
    assert drained(queue) == [(1, {}), (2, {})]


def test_batches_start_in_order() -> None:
    queue: CommitQueue[str] = CommitQueue()
    queue.start(Seq(4), [V])
    with pytest.raises(AssertionError, match="in order"):
        queue.start(Seq(4), [V])


@given(st.lists(st.sets(st.sampled_from([V, W, ViewName("x")])), max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_whatever_the_order_of_finishing(batches: list[set[ViewName]], random: object) -> None:
    queue: CommitQueue[tuple[int, ViewName]] = CommitQueue()
    jobs = []
    for hi, views in enumerate(batches, 1):
        queue.start(Seq(hi), views)
        jobs += [(hi, view) for view in sorted(views)]
    random.shuffle(jobs)  # type: ignore[attr-defined]
    released: list[int] = []
    done: set[tuple[int, ViewName]] = set()
    for hi, view in [*jobs, (0, V)]:
        if hi:
            queue.finish(Seq(hi), view, (hi, view))
            done.add((hi, view))
        while (ready := queue.released()) is not None:
            assert ready[1] == {v: (ready[0], v) for v in batches[ready[0] - 1]}
            assert {(ready[0], v) for v in batches[ready[0] - 1]} <= done
            released.append(ready[0])
    assert released == list(range(1, len(batches) + 1))
