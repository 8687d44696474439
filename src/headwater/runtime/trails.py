"""What a cut waited for: where the time went from commit to visible, step by step, for the newest cuts.

    committed ──poll, number──▶ numbered ──▶ begun ──compute──▶ computed ──others, commit──▶ shown

A *leg* is one batch of one view on this way. A view's change is shown when those that share its transactions are
computed too, so the leg that was computed last in a cut is the one that all waited for.

Invariant: what is kept is bounded (`ROUNDS`, `LEGS`, `MOMENTS`), and a cut costs no more than comparing the views'
numbers with those of the cut before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.model.names import Seq, ViewName
from headwater.model.written import Tally
from headwater.runtime.snapshot import LegNow, MomentNow
from headwater.warehouse.cuts import Cut

ROUNDS = 2_000
LEGS = 64
"""Of each view, that are not shown yet."""
MOMENTS = 60
TOLD = 6
"""So many legs of a cut are told: those that were computed last."""


@dataclass(frozen=True)
class Leg:
    """A batch (lo, hi] of a view over `sources`, begun at `begun` (seconds since 1970), and what it cost."""

    view: ViewName
    sources: Collection[str]
    lo: Seq
    hi: Seq
    begun: float
    tally: Tally


class Trails:
    """Told of rounds, batches and cuts, it knows what the newest cuts waited for."""

    def __init__(self) -> None:
        self._ends: deque[Seq] = deque(maxlen=ROUNDS)
        self._rounds: deque[tuple[Seq, float, Mapping[str, float]]] = deque(maxlen=ROUNDS)
        """Beside `_ends`: after which transaction a round begins, when it was numbered, and the oldest commit of each
        source in it."""
        self._legs: dict[ViewName, deque[LegNow]] = {}
        self._moments: deque[MomentNow] = deque(maxlen=MOMENTS)

    @property
    def moments(self) -> Sequence[MomentNow]:
        """Oldest first."""
        return tuple(self._moments)

    def took_in(self, lo: Seq, hi: Seq, firsts: Mapping[str, float], now: float) -> None:
        """Transactions (lo, hi] have numbers, since now."""
        self._ends.append(hi)
        self._rounds.append((lo, now, firsts))

    def computed(self, leg: Leg, now: float) -> None:
        """A batch was handed on, just now."""
        at, until = bisect_right(self._ends, leg.lo), bisect_left(self._ends, leg.hi)
        near = (self._rounds[i] for i in range(at, min(until + 1, len(self._rounds))))
        rounds = [(numbered, known) for lo, numbered, known in near if lo < leg.hi]  # a run before may have numbered it
        firsts = [(t, s) for _, known in rounds for s, t in known.items() if not leg.sources or s in leg.sources]
        first, source = min(firsts, default=(0.0, ""))
        numbered = rounds[0][0] if rounds else leg.begun
        told = LegNow(
            leg.view, leg.lo, leg.hi, source, first, numbered, leg.begun, now, leg.tally.questions,
            leg.tally.seconds_asking,
        )  # fmt: skip
        self._legs.setdefault(leg.view, deque(maxlen=LEGS)).append(told)

    def shown(self, cut: Cut, now: float) -> None:
        """A cut became visible."""
        legs: list[LegNow] = []
        for name, waiting in self._legs.items():
            state = cut.views.get(name)
            while state is not None and waiting and waiting[0].hi <= state.seq:
                legs.append(waiting.popleft())
        if legs:
            self._moments.append(MomentNow(cut.number, now, len(legs), tuple(_slowest(legs))))
        for name in [n for n in self._legs if n not in cut.views]:
            del self._legs[name]  # dropped, or not shown yet: what it caught up with was waited for by nobody


def _slowest(legs: Iterable[LegNow]) -> list[LegNow]:
    return sorted(legs, key=lambda leg: -leg.computed)[:TOLD]
