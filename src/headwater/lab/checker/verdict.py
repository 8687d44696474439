"""Which consistency a history has, and if it has no more, why: the judge of every algorithm.

Levels are those of `levels`: PVM section 4.1, MVC section 2.3, Cluster section 2.2. Three steps, each only if the one
before left something open:

1. *Follow the claims.* Each state says which updates it covers. Going up through the source states as they say takes
   time linear in the history. It settles convergence either way, and every level that holds in the way the strategy
   meant it to.
2. *Search step by step* for completeness, which a strategy may have by another way than it claims.
3. *Search for any way* that passes all states in order, and for a source state for each of them.

The ways that searches find are followed again with real rows. Each search visits at most `budget` source states, fewer
where they cost more. A level that they could not decide is undecided, never false.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from headwater.algebra.evaluate import DIGITS
from headwater.lab.checker import witness
from headwater.lab.checker.boxes import Boxes
from headwater.lab.checker.following import Followed, Follower, ShownStates
from headwater.lab.checker.lattice import Vector, below
from headwater.lab.checker.levels import Consistency, strongest
from headwater.lab.checker.search import Found, Hashes, best_first, by_boxes, each_by_boxes, step_by_step
from headwater.lab.checker.source_states import SourceStates, Spent
from headwater.lab.checker.witness import Moment, Witness
from headwater.lab.histories.history import History
from headwater.maintenance.strategies.contract import Node
from headwater.model.errors import UnknownName

BOX, GROUPED, RECOMPUTED = 10, 5, 60
"""A box of source states costs about so much more to look at than a single one, and a source state so much more if a
view groups, or has to be recomputed for it."""
HANDLED = 10
"""And once more for each so many rows that a step handles."""


@dataclass(frozen=True)
class Verdict:
    """`level` is the strongest that holds. `path` has a vector for each warehouse state, the initial one first, if
    consistency holds: how many transactions of each of `sources` it shows. `witness` says why the next stronger level
    fails, `witnesses` has one for each way to be stronger. `visited` is how many source states were looked at."""

    level: Consistency
    holds: frozenset[Consistency]
    undecided: frozenset[Consistency] = frozenset()
    path: tuple[Vector, ...] = ()
    sources: tuple[Node, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    visited: int = 0

    @property
    def witness(self) -> Witness | None:
        return self.witnesses[0] if self.witnesses else None

    def __str__(self) -> str:
        lines = []
        for found in self.witnesses:
            sure = "perhaps not" if found.level in self.undecided else "not"
            lines.append(f"({sure} {found.level.adjective}): {found.sentence}")
        if self.undecided:
            still = ", ".join(level.value for level in Consistency if level in self.undecided)
            lines.append(f"(undecided after {self.visited} source states: {still})")
        return f"{self.level.value} " + "\n  ".join(lines) if lines else f"{self.level.value}"


def check(history: History, views: Sequence[str] | None = None, budget: int = 300_000) -> Verdict:
    """The verdict on these views together; on all of them if none are named."""
    chosen = tuple(history.content) if views is None else tuple(dict.fromkeys(views))
    for view in chosen:
        if view not in history.content:
            raise UnknownName("view", view, history.content)
    with decimal.localcontext(prec=DIGITS):
        return _Case(history, chosen, budget).verdict()


def check_each(history: History, budget: int = 300_000) -> dict[str, Verdict]:
    """The verdict on each view for itself."""
    return {view: check(history, (view,), budget) for view in history.content}


class _Case:
    """A history, some of its views, and what is known of them so far."""

    def __init__(self, history: History, views: tuple[str, ...], budget: int) -> None:
        self.states = SourceStates(history.views, views, history.columns, history.initial, history.transactions)
        self.lattice = self.states.lattice
        self.warehouse = ShownStates(history, views)
        self.follower = Follower(self.states, self.warehouse)
        self.hashes = self.warehouse.hashes(self.states)
        self.budget = budget
        self.claimed = self.follower.follow(self.follower.claims)
        self.visited = self.claimed.steps
        self.undecided: set[Consistency] = set()

    def verdict(self) -> Verdict:
        converges = self.claimed.converges
        way: Followed | None = None if self.claimed.bad else self.claimed
        if converges:
            complete = way if way and not way.skip else self._complete()
            if complete:
                return self._conclude(Consistency.COMPLETE.implies, complete, ())
        holds = Consistency.CONVERGENCE.implies if converges else Consistency.NONE.implies
        found: Found | None = None
        if way is None:
            found = self._any_way()
            way = self._confirmed(found)
        if way is not None and way.converges and way.skip is None:  # the search for one did not come so far
            return self._conclude(Consistency.COMPLETE.implies, way, ())
        if way is not None:
            holds |= (Consistency.STRONG if converges else Consistency.CONSISTENCY).implies
        elif found is not None:
            holds |= self._without_way(found)
        witnesses = tuple(self._witnesses(holds, way, found))
        return self._conclude(holds, way, witnesses)

    def _complete(self) -> Followed | None:
        """A complete way, if there is one."""
        found = step_by_step(Hashes(self.states), self.hashes, self._budget)
        self.visited += found.visited
        way = self.follower.complete(found.way) if found.way else None
        if way is None and (found.way or not found.decided):
            self.undecided.add(Consistency.COMPLETE)
        return way

    def _any_way(self) -> Found:
        """A way that passes all states in order, or as many of them as possible."""
        bad = self.claimed.bad
        known = {i: self.claimed.vectors[k] for i, k in enumerate(self.warehouse.runs) if k not in bad}
        changes = [self.warehouse.changes[k] for k in self.warehouse.runs]
        boxes = self._boxes()
        if boxes and 2 * len(known) > len(changes):  # a state that is wrong among others that are not
            found = each_by_boxes(boxes, changes, known)
            self.visited += found.visited
            if found.unreal is not None and found.unreal_decided:
                return found
        found = best_first(Hashes(self.states), self.hashes, known, min(self._budget, self.budget // BOX))
        self.visited += found.visited
        if boxes and not found.decided:
            found = by_boxes(boxes, changes, {i: at[0] for i, at in found.places.items() if at})
            self.visited += found.visited
        return found

    def _boxes(self) -> Boxes | None:
        """None if the views are not linear, or have too many terms."""
        try:
            return None if self.states.recomputes else Boxes(self.states, self.budget // BOX)
        except Spent:
            return None

    @property
    def _budget(self) -> int:
        return self.budget // self._cost

    @cached_property
    def _cost(self) -> int:
        """Of a step, as following the claims has shown."""
        cost = 1 + self.states.handled // (HANDLED * max(1, self.claimed.steps))
        if self.states.groups:
            cost *= GROUPED
        if self.states.reads_views:
            cost = max(RECOMPUTED, self.states.rows // 20, cost)
        return cost

    def _confirmed(self, found: Found) -> Followed | None:
        """The way that was found, if it passes everything. If the warehouse converges, its end is the top."""
        if found.met < len(self.hashes):
            return None
        end = self.lattice.top if self.claimed.converges else found.way[-1]
        way = self.follower.follow(self.warehouse.expanded([*found.way[:-1], end]))
        return None if way.bad else way

    def _without_way(self, found: Found) -> frozenset[Consistency]:
        """What holds if no way was found, and what is undecided."""
        weak = found.unreal is None and self.follower.real(found.places[i][0] for i in range(len(self.hashes)))
        if found.decided and found.met < len(self.hashes):
            self.undecided.clear()
        else:
            self.undecided.add(Consistency.CONSISTENCY)
            if self.claimed.converges:
                self.undecided.add(Consistency.STRONG)
        if not weak and (found.unreal is None or not found.unreal_decided):
            self.undecided.add(Consistency.WEAK)
        elif not weak:
            self.undecided.clear()
        return Consistency.WEAK.implies if weak else frozenset()

    def _conclude(self, holds: frozenset[Consistency], way: Followed | None, witnesses: tuple[Witness, ...]) -> Verdict:
        path = tuple(self.lattice.numbers(v) for v in way.vectors) if way else ()
        undecided = frozenset(self.undecided) - holds
        return Verdict(strongest(holds), holds, undecided, path, self.lattice.sources, witnesses, self.visited)

    # Why not

    def _witnesses(self, holds: frozenset[Consistency], way: Followed | None, found: Found | None) -> Iterator[Witness]:
        """That of the next stronger level first."""
        if found is not None and way is None and Consistency.WEAK in holds:
            yield self._goes_back(found)
        if Consistency.CONVERGENCE not in holds:
            last = len(self.warehouse.changes) - 1
            shown = self.warehouse.content(last)
            if shown == self.states.contents(self.lattice.top):
                yield witness.hidden(self.states, self._moment(last), self.warehouse.hidden)
            else:
                yield witness.diverged(self.states, self._moment(last), shown)
        elif way is not None and way.skip is not None:
            skip, between = way.skip, self.lattice.between
            brought, until = between(skip.low, skip.high), between(skip.low, skip.left_out)
            yield witness.skipped(self._moment(skip.state), brought, until, elsewhere=skip.elsewhere)
        if found is not None and found.unreal is not None and way is None:
            k = self.warehouse.runs[found.unreal]
            near = [self.follower.claims[k], *found.places.get(found.unreal - 1, ())[:1]]
            decided = Consistency.WEAK not in self.undecided
            yield witness.unreal(self.states, self._moment(k), self.warehouse.content(k), near, decided)

    def _goes_back(self, found: Found) -> Witness:
        """The first state that no way reaches that passes those before it."""
        runs = self.warehouse.runs
        if not found.decided or found.met == len(runs):
            return witness.stuck(self._moment(runs[min(found.met, len(runs) - 1)]))
        before = found.way[-1]

        def lost(vector: Vector) -> int:
            return sum(max(a - b, 0) for a, b in zip(before, vector, strict=True))

        back = min(found.places[found.met], key=lost)
        back = self._raised(back, tuple(map(max, before, back)))
        taken = self.lattice.between(tuple(map(min, before, back)), before)
        return witness.goes_back(self._moment(runs[found.met]), self._moment(runs[found.met - 1]), taken)

    def _raised(self, vector: Vector, most: Vector) -> Vector:
        """The vector and whatever does not change the views, up to another one."""
        steps = self.lattice.steps
        while True:
            same = (up for up in steps(vector) if below(up, most) and not self.states.difference(vector, up))
            higher = next(same, None)
            if higher is None:
                return vector
            vector = higher

    def _moment(self, k: int) -> Moment:
        return Moment(k, self.warehouse.times[k])
