"""How fresh views are: every round is measured once for each view that reads one of its sources."""

from __future__ import annotations

from headwater.model.names import Seq, SourceName, ViewName
from headwater.runtime.freshness import BOUNDS, Freshness
from headwater.warehouse.cuts import Cut, ViewState

A, B = SourceName("a"), SourceName("b")
FAST, SLOW, BOTH = ViewName("fast"), ViewName("slow"), ViewName("both")


def state(seq: int, *sources: SourceName, how: str = "live") -> ViewState:
    return ViewState("f", 1, -1, Seq(seq), Seq(0), "complete", "x", sources, how)


def cut(**seqs: int) -> Cut:
    reads = {"fast": (A,), "slow": (B,), "both": (A, B)}
    return Cut(1, Seq(0), views={ViewName(n): state(seq, *reads[n]) for n, seq in seqs.items()})


def test_a_view_is_measured_when_a_cut_shows_it_what_it_reads() -> None:
    fresh = Freshness()
    fresh.shown(cut(fast=0, slow=0, both=0), now=0.0)
    fresh.took_in(Seq(3), {A: 100.0})
    fresh.took_in(Seq(5), {A: 103.0, B: 101.0})
    fresh.shown(cut(fast=3, slow=3, both=0), now=104.0)
    assert (fresh.of(FAST).last, fresh.of(FAST).since) == (4.0, 103.0)  # type: ignore[union-attr]
    assert (fresh.of(SLOW).last, fresh.of(SLOW).since) == (None, 101.0)  # type: ignore[union-attr] # nothing of its own
    assert (fresh.of(BOTH).last, fresh.of(BOTH).since) == (None, 100.0)  # type: ignore[union-attr]
    fresh.shown(cut(fast=5, slow=5, both=5), now=110.0)
    both = fresh.of(BOTH)
    assert both is not None
    assert (both.last, both.since, both.seconds, sum(both.buckets)) == (9.0, None, 19.0, 2)
    assert both.buckets[BOUNDS.index(10.0)] == 2


def test_a_cut_that_is_shown_again_measures_nothing_twice() -> None:
    fresh = Freshness()
    fresh.shown(cut(fast=0), now=0.0)
    fresh.took_in(Seq(1), {A: 1.0})
    for _ in range(3):
        fresh.shown(cut(fast=1), now=2.0)
    assert sum(fresh.of(FAST).buckets) == 1  # type: ignore[union-attr]


def test_a_new_view_did_not_wait_for_what_it_was_loaded_with() -> None:
    fresh = Freshness()
    fresh.shown(cut(slow=0), now=0.0)
    fresh.took_in(Seq(7), {A: 1.0, B: 1.0})
    fresh.shown(cut(slow=0, fast=7), now=50.0)
    assert fresh.of(FAST).last is None  # type: ignore[union-attr]
    assert fresh.of(SLOW).since == 1.0  # type: ignore[union-attr]


def test_what_happened_while_nothing_ran_has_waited() -> None:
    fresh = Freshness()
    fresh.begin(cut(fast=3))
    fresh.took_in(Seq(9), {A: 100.0})
    assert fresh.of(FAST).since == 100.0  # type: ignore[union-attr]
    fresh.shown(cut(fast=9), now=700.0)
    assert fresh.of(FAST).last == 600.0  # type: ignore[union-attr]


def test_a_halted_view_holds_nothing_back() -> None:
    fresh = Freshness()
    fresh.shown(cut(fast=0, slow=0), now=0.0)
    for n in range(1, 100):
        fresh.took_in(Seq(n), {A: 1.0, B: 1.0})
        halted = Cut(1, Seq(0), views={FAST: state(n, A), SLOW: state(0, B, how="halted")})
        fresh.shown(halted, now=2.0)
    assert fresh.of(SLOW) is None
    assert not fresh._rounds
