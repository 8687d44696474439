"""What a warehouse showed, and whether a way up through the source states leads through it: with real rows, exactly.

Along the way the difference between what the views should be and what is shown is kept up to date, by what each
transaction changes in the views and by what each state changes. A state is right where the difference is empty. This
takes time linear in the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headwater.algebra.bag import Bag, Row
from headwater.lab.checker.lattice import Vector
from headwater.lab.checker.source_states import MASK, Contents, SourceStates
from headwater.lab.histories.history import History


class ShownStates:
    """The states of some of a history's views, as a reader sees them: 0 is the initial one."""

    def __init__(self, history: History, views: Sequence[str]) -> None:
        self.views = tuple(views)
        self.times = [0.0, *(state.at for state in history.states)]
        self.covers = [(), *(state.covers for state in history.states)]
        self.changes = list(_visible(history, self.views))
        """What a reader sees change in each state; the first is the initial content, from nothing."""
        self.runs = [k for k, change in enumerate(self.changes) if change or k == 0]
        """The states that differ from the one before: consecutive equal ones count as one."""
        final = history.final()
        self.hidden = {v: bag for v in self.views if (bag := Bag({r: n for r, n in final[v] if n < 0}))}
        """Rows that end with counts below zero: nobody sees them, but the next insert of one would be lost."""

    def content(self, k: int) -> dict[str, Bag]:
        """What state k shows."""
        pairs: dict[str, list[tuple[Row, int]]] = {v: [] for v in self.views}
        for change in self.changes[: k + 1]:
            for view, bag in change.items():
                pairs[view].extend(bag)
        return {view: Bag.summed(found) for view, found in pairs.items()}

    def contents(self) -> Iterator[dict[str, Bag]]:
        """What each run of equal states shows."""
        held = {view: Bag() for view in self.views}
        for k in self.runs:
            held = held | {view: held[view] + bag for view, bag in self.changes[k].items()}
            yield held

    def hashes(self, states: SourceStates) -> list[int]:
        """The hash of each run of equal states."""
        total, found = 0, []
        for k in self.runs:
            total = (total + states.marks.all(self.changes[k])) & MASK
            found.append(total)
        return found

    def expanded(self, places: Sequence[Vector]) -> list[Vector]:
        """From one vector for each run of equal states to one for each state."""
        starts = set(self.runs)
        found: list[Vector] = []
        run = -1
        for k in range(len(self.changes)):
            run += k in starts
            found.append(places[run])
        return found


def _visible(history: History, views: Sequence[str]) -> Iterator[dict[str, Bag]]:
    """Rows with counts below one are there, but not seen."""
    held: dict[str, dict[Row, int]] = {v: {} for v in views}
    initial = tuple((v, history.content[v]) for v in views)
    for changes in (initial, *(state.changes for state in history.states)):
        seen: dict[str, dict[Row, int]] = {}
        for view, change in changes:
            if view in held:
                counts, visible = held[view], seen.setdefault(view, {})
                for row, n in change.counts.items():
                    old = counts.get(row, 0)
                    counts[row] = old + n
                    visible[row] = visible.get(row, 0) + max(old + n, 0) - max(old, 0)
        bags = {view: Bag({row: n for row, n in visible.items() if n}) for view, visible in seen.items()}
        yield {view: bag for view, bag in bags.items() if bag}


@dataclass(frozen=True)
class Skip:
    """State `state` brings in more than one change: between these vectors. On the way, `left_out` was not shown: it is
    the first that is no warehouse state, or (`elsewhere`) one that is, but not there."""

    state: int
    low: Vector
    high: Vector
    left_out: Vector
    elsewhere: bool


@dataclass
class Followed:
    """A way: its vector in each state, and what it proves. `bad` are the states that it does not match, `skip` is the
    first that leaves something out."""

    vectors: list[Vector] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)
    skip: Skip | None = None
    converges: bool = False
    steps: int = 0


class Apart:
    """The difference between two contents, and how many rows that is, counts included."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Row], int] = {}
        self.distance = 0

    def add(self, contents: Contents, sign: int = 1) -> None:
        counts = self._counts
        for view, bag in contents.items():
            for row, n in bag.counts.items():
                old = counts.get((view, row), 0)
                total = old + sign * n
                self.distance += abs(total) - abs(old)
                if total:
                    counts[view, row] = total
                else:
                    del counts[view, row]

    def __bool__(self) -> bool:
        return bool(self._counts)


@dataclass
class Follower:
    """Follows ways through the source states of one history."""

    states: SourceStates
    warehouse: ShownStates

    @cached_property
    def claims(self) -> list[Vector]:
        """The way that the states themselves claim: what they say they cover, and what came before it."""
        at = self.states.lattice.bottom
        return [at := self.states.lattice.holding(at, covers) for covers in self.warehouse.covers]

    def follow(self, vectors: Iterable[Vector]) -> Followed:
        """Go up as these say, one for each state, in the order of the commits; then to the top."""
        result, apart = Followed(), Apart()
        at = self.states.lattice.bottom
        apart.add(self.states.contents(at))
        for k, target in enumerate(vectors):
            self._up(at, target, k, apart, result)
            apart.add(self.warehouse.changes[k], -1)
            at = target
            result.vectors.append(at)
            if apart:
                result.bad.add(k)
        self._up(at, self.states.lattice.top, len(self.warehouse.changes), apart, result)
        result.converges = not apart and not self.warehouse.hidden
        return result

    def _up(self, low: Vector, high: Vector, k: int, apart: Apart, result: Followed) -> None:
        """From one vector to another. More than one change on the way, or any before the first state or after the last,
        is a skip."""
        at, changed = low, []
        for up in self.states.lattice.way(low, high):
            difference = self.states.difference(at, up)
            at = up
            result.steps += 1
            if difference:
                apart.add(difference)
                if result.skip is None:
                    changed.append((up, self.states.marks.all(difference)))
        last = len(self.warehouse.changes) - 1
        if len(changed) > 1 or (changed and (k == 0 or k > last)):
            left_out, elsewhere = self._left_out(k, low, changed)
            result.skip = Skip(min(k, last), low, high, left_out, elsewhere)

    def _left_out(self, k: int, low: Vector, changed: Sequence[tuple[Vector, int]]) -> tuple[Vector, bool]:
        """On the way to state k: best what is shown nowhere; otherwise what is not what is shown next, though it is
        shown elsewhere."""
        total = self.states.marks.all(self.states.contents(low))
        passed = [(low, total), *((v, total := (total + more) & MASK) for v, more in changed)]
        between = passed[0 if k == 0 else 1 : -1]
        shown = set(self.warehouse.hashes(self.states))
        nowhere = next((v for v, content in between if content not in shown), None)
        if nowhere is not None:
            return nowhere, False
        return next((v for v, content in between if content != total), low), True

    def real(self, places: Iterable[Vector]) -> bool:
        """Is each run of equal states the views over the vector given for it?"""
        apart = Apart()
        at: Vector | None = None
        for k, vector in zip(self.warehouse.runs, places, strict=True):
            apart.add(self.states.contents(vector) if at is None else self.states.difference(at, vector))
            apart.add(self.warehouse.changes[k], -1)
            if apart:
                return False
            at = vector
        return True

    def complete(self, chain: Sequence[Vector]) -> Followed | None:
        """A way given step by step from the bottom to the top: is every change along it the next state?"""
        runs, changes = self.warehouse.runs, self.warehouse.changes
        apart = Apart()
        apart.add(self.states.contents(chain[0]))
        apart.add(changes[0], -1)
        at, places = chain[0], [chain[0]]
        for up in chain[1:]:
            difference = self.states.difference(at, up)
            at = up
            if difference:
                if apart or len(places) == len(runs):
                    return None
                apart.add(difference)
                apart.add(changes[runs[len(places)]], -1)
                places.append(at)
        if apart or len(places) != len(runs):
            return None
        places[-1] = at
        return Followed(self.warehouse.expanded(places), converges=True, steps=len(chain) - 1)
