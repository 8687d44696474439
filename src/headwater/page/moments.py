"""What everything waited for at one moment: the way of the change that was shown last, step by step.

The run tells what its newest cuts waited for (`runtime.trails`); the page remembers what it was told. For a view in a
cut, the critical path is

    commit ─▶ numbered ─▶ its batch begins ─▶ computed ─▶ (another view is computed) ─▶ the cut record is written

Each step ends where the next begins, so their times add up to the freshness of the view's oldest change.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from headwater.page.look import Now

KEPT = 5_000
"""So many cuts are remembered."""


class Moments:
    """What the run has told of its cuts since the page began to look, and a little before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, Mapping[str, Any]] = OrderedDict()
        self._heard = 0.0

    def hear(self, now: Now) -> None:
        """Remember what the run tells now; only what is new."""
        with self._lock:
            for moment in now.report.get("moments", ()):
                if moment["at"] > self._heard:
                    self._known[moment["cut"]] = moment
            self._heard = max((m["at"] for m in now.report.get("moments", ())), default=self._heard)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)

    def all(self, now: Now) -> list[Mapping[str, Any]]:
        """Oldest first."""
        self.hear(now)
        with self._lock:
            return list(self._known.values())


Reads = Callable[[str], Collection[str]]
"""The views that a view reads."""


def nothing(view: str) -> Collection[str]:
    return ()


def moment(
    moments: Sequence[Mapping[str, Any]], view: str | None, at: float | None, reads: Reads = nothing
) -> dict[str, Any]:
    """The cut at that time (None: the newest) that showed the view (None: any), and the ones before and after it."""
    own = [m for m in moments if view is None or any(leg["view"] == view for leg in m["legs"])]
    if not own:
        return {"moment": None, "previous": None, "next": None}
    nearest = len(own) - 1 if at is None else min(range(len(own)), key=lambda i: abs(own[i]["at"] - at))
    found = own[nearest]
    return {
        "moment": {"cut": found["cut"], "at": found["at"], "batches": found["batches"], **path(found, view, reads)},
        "previous": own[nearest - 1]["at"] if nearest else None,
        "next": own[nearest + 1]["at"] if nearest + 1 < len(own) else None,
    }


def path(found: Mapping[str, Any], view: str | None, reads: Reads = nothing) -> dict[str, Any]:
    """The steps of the view's way into this cut; where none is named, of the change that waited longest."""
    legs = found["legs"]
    mine = [leg for leg in legs if leg["view"] == view] if view else [leg for leg in legs if leg["first"]] or legs
    leg = min(mine, key=lambda one: one["first"] or one["numbered"])
    last = max(legs, key=lambda one: one["computed"])
    steps: list[dict[str, Any]] = []

    def step(who: str, what: str, begin: float, end: float, note: str = "") -> None:
        steps.append({"who": who, "what": what, "begin": begin, "seconds": max(0.0, end - begin), "note": note})

    if leg["first"]:  # told by the source's clock, which may be ahead of ours
        first = min(leg["first"], leg["numbered"])
        step(leg["source"], "committed; until it was polled and numbered", first, leg["numbered"])
    parents = [one for one in legs if one["view"] in reads(leg["view"]) and leg["numbered"] < one["computed"]]
    first_of_all = max(parents, key=lambda one: one["computed"], default=None)
    after = f"{first_of_all['view']}, which it reads, was computed first" if first_of_all else ""
    step(leg["view"], "waited until its batch began", leg["numbered"], leg["begun"], after)
    asked = f"{leg['questions']} questions, {leg['asking']:.3f} s of asking" if leg["questions"] else "no questions"
    step(leg["view"], f"computed transactions {leg['lo'] + 1} to {leg['hi']}", leg["begun"], leg["computed"], asked)
    if last["computed"] > leg["computed"]:
        behind = f"its batch of {last['lo'] + 1} to {last['hi']} began {_after(last['begun'] - leg['begun'])}"
        step(last["view"], "was waited for: they share transactions", leg["computed"], last["computed"], behind)
    step("warehouse", "tables committed, cut record written", last["computed"], found["at"])
    begin = steps[0]["begin"]
    others = [_other(one, begin) for one in legs if one is not leg]
    return {"view": leg["view"], "begin": begin, "seconds": found["at"] - begin, "steps": steps, "others": others}


def _after(seconds: float) -> str:
    if abs(seconds) < 0.005:
        return "at the same time"
    return f"{seconds:.2f} s later" if seconds > 0 else f"{-seconds:.2f} s earlier"


def _other(leg: Mapping[str, Any], begin: float) -> dict[str, Any]:
    seconds = leg["computed"] - leg["begun"]
    return {"view": leg["view"], "begin": leg["begun"] - begin, "seconds": seconds, "questions": leg["questions"]}
