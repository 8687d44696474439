"""How long source transactions take until each view shows them, from commit to visible.

A round of numbered transactions is remembered by its last number and, for each source in it, by its oldest commit. The
first cut that shows a view up to that number gives one measurement of the view: the age of the oldest commit, of the
sources it reads, at that moment. What a view does not show yet has been waiting since the oldest such commit.

Invariant: every round is measured once for each live view that reads one of its sources.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.names import Seq, SourceName, ViewName
from headwater.runtime.snapshot import FreshnessNow
from headwater.warehouse.cuts import Cut, ViewState

BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of the histogram's buckets, in seconds; what takes longer is in one more."""
ROUNDS = 10_000
"""So many rounds are remembered; a view that is further behind has been waiting since the oldest of them."""


@dataclass(frozen=True)
class _Round:
    hi: Seq
    firsts: Mapping[str, float]
    """The oldest commit of each source in it, seconds since 1970."""


@dataclass
class _Measured:
    """What is known of one view; `next` is the first round that it does not show, counted from the beginning."""

    next: int
    sources: frozenset[SourceName]
    last: float | None = None
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def oldest(self, one: _Round) -> float | None:
        """The oldest commit in a round that concerns the view. A view that names no source reads what others show."""
        return min(
            (at for source, at in one.firsts.items() if not self.sources or source in self.sources), default=None
        )


class Freshness:
    """Told of rounds and of cuts, it knows how fresh every view is."""

    def __init__(self) -> None:
        self._rounds: deque[_Round] = deque()
        self._gone = 0
        """How many rounds are forgotten: every view shows them."""
        self._views: dict[ViewName, _Measured] = {}

    def took_in(self, hi: Seq, firsts: Mapping[str, float]) -> None:
        """Transactions up to `hi` have numbers now."""
        self._rounds.append(_Round(hi, firsts))
        while len(self._rounds) > ROUNDS:
            self._rounds.popleft()
            self._gone += 1

    def begin(self, cut: Cut) -> dict[ViewName, ViewState]:
        """What a cut shows; a run begins with the last one of the run before."""
        live = {name: state for name, state in cut.views.items() if state.state == "live"}
        self._views = {name: self._views.get(name) or self._new(state) for name, state in live.items()}
        return live

    def shown(self, cut: Cut, now: float) -> None:
        """A cut became visible."""
        live = self.begin(cut)
        for name, state in live.items():
            self._advance(self._views[name], state.seq, now)
        done = min((view.next for view in self._views.values()), default=self._gone + len(self._rounds))
        while self._gone < done and self._rounds:
            self._rounds.popleft()
            self._gone += 1

    def of(self, view: ViewName) -> FreshnessNow | None:
        """None before the view was shown."""
        known = self._views.get(view)
        if known is None:
            return None
        waiting = (self._rounds[at] for at in range(max(0, known.next - self._gone), len(self._rounds)))
        since = next((at for one in waiting if (at := known.oldest(one)) is not None), None)
        return FreshnessNow(known.last, since, known.seconds, tuple(known.buckets))

    def _new(self, state: ViewState) -> _Measured:
        """A view that was just loaded did not wait for what it was loaded with."""
        behind = sum(1 for one in self._rounds if one.hi > state.seq)
        return _Measured(self._gone + len(self._rounds) - behind, frozenset(state.sources))

    def _advance(self, view: _Measured, seq: Seq, now: float) -> None:
        view.next = max(view.next, self._gone)
        while view.next - self._gone < len(self._rounds):
            one = self._rounds[view.next - self._gone]
            if one.hi > seq:
                return
            view.next += 1
            oldest = view.oldest(one)
            if oldest is not None:
                view.last = max(0.0, now - oldest)
                view.seconds += view.last
                view.buckets[bisect_left(BOUNDS, view.last)] += 1
