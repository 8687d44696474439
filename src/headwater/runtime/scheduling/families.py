"""Where batches end.

A view alone takes whatever is waiting. Views that read each other are a *family*: a child is computed from its parents'
states, and a parent that skips states has one only where its batches end. So the batches of a family end at the same
transactions, its *bounds*; each member goes from bound to bound at its own pace, children behind their parents. Who has
no children, or a state after every transaction, may skip bounds; a parent that skips states must not.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headwater.integrator.journal import Segment
from headwater.model.names import Seq


@dataclass(frozen=True)
class Batch:
    """The transactions (lo, hi]. The last of `segments` may reach beyond `hi`; questions are asked as of its end."""

    lo: Seq
    hi: Seq
    segments: tuple[Segment, ...]
    whole: bool = False
    """All of it is one state: how a view that was halted takes what has happened since."""

    def __str__(self) -> str:
        return f"{self.lo}-{self.hi}"


@dataclass
class Family:
    """`step`: bounds are multiples of it where possible, because some member shows every N-th transaction."""

    step: int = 1
    bounds: list[Seq] = field(default_factory=list)
    stops: list[Seq] = field(default_factory=list)
    """Bounds that somebody asked for: no batch crosses them."""
    became: Family | None = field(default=None, repr=False)
    """The family that it joined: whoever still knows it by itself means that one."""

    @property
    def now(self) -> Family:
        return self if self.became is None else self.became.now

    def stop_at(self, seq: Seq) -> None:
        """Let no batch cross this transaction."""
        if seq not in self.stops:
            insort(self.stops, seq)

    def known(
        self, after: Seq, reach: Seq, skip: bool = True, usable: Callable[[Seq], bool] = lambda bound: True
    ) -> Seq | None:
        """The farthest usable bound after `after` that lies within `reach`, short of the next stop; the next one if no
        bound may be skipped."""
        stop = self._stop(after)
        limit = reach if stop is None else min(reach, stop)
        within = self.bounds[bisect_right(self.bounds, after) : bisect_right(self.bounds, limit)]
        return next((bound for bound in (reversed(within) if skip else within) if usable(bound)), None)

    def bound_at(self, seq: Seq) -> None:
        """Every member has a state here, or will have one."""
        if seq not in self.bounds:
            insort(self.bounds, seq)

    def plan(self, after: Seq, waiting: Sequence[Segment], most: int, hurry: bool) -> Seq | None:
        """A new bound after the last one: about `most` changes further, at a multiple of the step. In a hurry what is
        there will do."""
        stop = self._stop(after)
        taken = list(some(waiting, most))
        if not taken:
            return None
        end = taken[-1].hi
        if stop is not None and end >= stop:
            end = stop
        elif self.step > 1:
            whole = Seq(end // self.step * self.step)
            if whole > after:
                end = whole
            elif not hurry:
                return None
        self.bound_at(end)
        return end

    def forget(self, below: Seq) -> None:
        """Nobody will ask for bounds at or before this."""
        self.bounds = self.bounds[bisect_right(self.bounds, below) :]
        self.stops = self.stops[bisect_right(self.stops, below) :]

    def join(self, other: Family) -> None:
        """Two families become one. What was a bound of one of them only may be no state of the other's members: each
        child looks at what its parents have."""
        self.step = math.lcm(self.step, other.step)
        self.bounds = sorted({*self.bounds, *other.bounds})
        self.stops = sorted({*self.stops, *other.stops})
        other.became = self

    def _stop(self, after: Seq) -> Seq | None:
        at = bisect_right(self.stops, after)
        return self.stops[at] if at < len(self.stops) else None


def some(segments: Iterable[Segment], most: int) -> Iterable[Segment]:
    """The first segments, about `most` changes of them, at least one."""
    rows = 0
    for number, segment in enumerate(segments):
        rows += segment.rows
        if number and rows > most:
            return
        yield segment
