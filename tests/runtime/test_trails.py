"""What a cut waited for: legs with their times, bounded, and every step where the one before ends."""

from __future__ import annotations

from headwater.model.names import Seq, SourceName, ViewName
from headwater.model.written import Tally
from headwater.page.moments import KEPT, Moments, moment
from headwater.runtime.snapshot import MomentNow
from headwater.runtime.trails import LEGS, MOMENTS, TOLD, Leg, Trails
from headwater.storage.records import as_builtins
from headwater.warehouse.cuts import Cut, ViewState
from page.told import now_with

A, B = SourceName("a"), SourceName("b")


def cut(number: int, **seqs: int) -> Cut:
    views = {ViewName(n): ViewState(f"views/{n}", 1, -1, Seq(s), Seq(0), "complete", "f") for n, s in seqs.items()}
    return Cut(number=number, seq=Seq(max(seqs.values())), views=views)


def leg(view: str, lo: int, hi: int, begun: float, sources: tuple[str, ...] = ("a",)) -> Leg:
    return Leg(ViewName(view), sources, Seq(lo), Seq(hi), begun, Tally(questions=2, seconds_asking=0.5))


def two_views() -> Trails:
    trails = Trails()
    trails.took_in(Seq(0), Seq(3), {A: 100.0, B: 90.0}, 101.0)
    trails.took_in(Seq(3), Seq(5), {A: 102.0}, 103.0)
    trails.computed(leg("quick", 0, 5, 103.1), 103.5)
    trails.computed(leg("slow", 0, 5, 103.2, ()), 107.0)
    return trails


def told(trails: Trails) -> list[dict[str, object]]:
    return [as_builtins(one) for one in trails.moments]


def test_a_leg_knows_its_oldest_commit_and_when_that_was_numbered() -> None:
    trails = two_views()
    trails.shown(cut(1, quick=5, slow=5), 107.5)
    (found,) = trails.moments
    slow, quick = found.legs
    assert (slow.view, slow.source, slow.first) == ("slow", "b", 90.0), "it names no source: it reads all of them"
    assert (quick.view, quick.source, quick.first, quick.numbered) == ("quick", "a", 100.0, 101.0)
    assert (quick.begun, quick.computed, quick.questions) == (103.1, 103.5, 2)


def test_what_a_run_before_has_numbered_is_not_known() -> None:
    trails = Trails()
    trails.took_in(Seq(7), Seq(9), {A: 100.0}, 101.0)
    trails.computed(leg("v", 5, 7, 99.0), 100.0)
    trails.shown(cut(1, v=7), 101.5)
    (only,) = trails.moments[0].legs
    assert (only.first, only.source, only.numbered) == (0.0, "", 99.0)


def test_only_what_a_cut_shows_is_its() -> None:
    trails = two_views()
    trails.shown(cut(1, quick=5, slow=0), 104.0)
    trails.shown(cut(2, quick=5, slow=4), 105.0)
    trails.shown(cut(3, quick=5, slow=5), 107.5)
    assert [(m.cut, [leg.view for leg in m.legs]) for m in trails.moments] == [(1, ["quick"]), (3, ["slow"])]


def test_the_path_adds_up_and_names_who_was_waited_for() -> None:
    trails = two_views()
    trails.shown(cut(1, quick=5, slow=5), 107.5)
    found = moment(told(trails), "quick", None)["moment"]
    assert [(s["who"], round(s["seconds"], 3)) for s in found["steps"]] == [
        ("a", 1.0), ("quick", 2.1), ("quick", 0.4), ("slow", 3.5), ("warehouse", 0.5),
    ]  # fmt: skip
    assert abs(sum(s["seconds"] for s in found["steps"]) - found["seconds"]) < 1e-9
    assert found["seconds"] == 7.5
    alone = moment(told(trails), "slow", None)["moment"]
    assert [s["who"] for s in alone["steps"]] == ["b", "slow", "slow", "warehouse"]


def test_a_view_that_reads_another_says_that_it_came_first() -> None:
    trails = Trails()
    trails.took_in(Seq(0), Seq(1), {A: 100.0}, 101.0)
    trails.computed(leg("parent", 0, 1, 101.1), 103.0)
    trails.computed(leg("child", 0, 1, 103.0), 103.5)
    trails.shown(cut(1, parent=1, child=1), 104.0)
    found = moment(told(trails), "child", None, lambda view: ["parent"] if view == "child" else [])["moment"]
    assert found["steps"][1]["note"] == "parent, which it reads, was computed first"
    assert moment(told(trails), "parent", None, lambda view: [])["moment"]["steps"][1]["note"] == ""


def test_a_source_whose_clock_is_ahead_takes_no_time_away() -> None:
    trails = Trails()
    trails.took_in(Seq(0), Seq(1), {A: 500.0}, 101.0)
    trails.computed(leg("v", 0, 1, 102.0), 103.0)
    trails.shown(cut(1, v=1), 104.0)
    found = moment(told(trails), "v", None)["moment"]
    assert found["seconds"] == 3.0
    assert min(s["seconds"] for s in found["steps"]) == 0.0


def test_moments_are_found_by_time_and_stepped_through() -> None:
    trails = Trails()
    for n in range(1, 4):
        trails.took_in(Seq(n - 1), Seq(n), {A: 10.0 * n}, 10.0 * n + 1)
        trails.computed(leg("v", n - 1, n, 10.0 * n + 2), 10.0 * n + 3)
        trails.shown(cut(n, v=n), 10.0 * n + 4)
    found = moment(told(trails), None, 23.0)
    assert (found["moment"]["cut"], found["previous"], found["next"]) == (2, 14.0, 34.0)
    assert moment(told(trails), None, None)["moment"]["cut"] == 3
    assert moment(told(trails), "other", None) == {"moment": None, "previous": None, "next": None}


def test_what_is_kept_is_bounded() -> None:
    trails = Trails()
    for n in range(1, 500):
        trails.took_in(Seq(n - 1), Seq(n), {A: float(n)}, float(n))
        for view in range(20):
            trails.computed(leg(f"v{view}", n - 1, n, float(n)), float(n))
        if n % 3 == 0:
            trails.shown(cut(n, **{f"v{view}": n for view in range(20)}), float(n))
    assert len(trails.moments) == MOMENTS
    assert all(len(m.legs) == TOLD for m in trails.moments)
    assert trails.moments[-1].batches == 60
    for n in range(500, 1000):
        trails.computed(leg("v0", n - 1, n, float(n)), float(n))
    assert len(trails._legs[ViewName("v0")]) == LEGS
    trails.shown(cut(1000, other=1000), 1000.0)
    assert ViewName("v0") not in trails._legs, "a view that is gone is forgotten"


def test_the_page_remembers_what_the_run_told_before() -> None:
    moments = Moments()
    first = [as_builtins(MomentNow(n, n + 1.0, 1, ())) for n in range(3)]
    later = [as_builtins(MomentNow(n, n + 1.0, 1, ())) for n in range(2, 6)]
    assert len(moments.all(now_with(first))) == 3
    assert [m["cut"] for m in moments.all(now_with(later))] == [0, 1, 2, 3, 4, 5]
    many = [as_builtins(MomentNow(n, n + 1.0, 1, ())) for n in range(KEPT + 10)]
    assert len(moments.all(now_with(many))) == KEPT
