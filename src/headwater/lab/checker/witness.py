"""Why a level does not hold: one state, what is wrong with it, and a sentence that says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headwater.algebra.bag import Bag
from headwater.lab.checker.following import Apart
from headwater.lab.checker.lattice import Vector
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.source_states import Contents, SourceStates
from headwater.maintenance.strategies.contract import Label, Update

EXHAUSTIVE = 300
"""In lattices up to this size the nearest source state is the nearest of all; in others, of those around."""
SHOWN = 3
"""So many rows a sentence names."""
NAMED = 8
"""And so many transactions."""
EMPTY = Bag()


@dataclass(frozen=True)
class Witness:
    """`level` fails because of warehouse state `state` (0 is the initial one), at this time.

    `extra` and `missing` are rows of `view` that the state has too many of, or too few, compared with the source state
    `nearest` (how many transactions of each source), whose last transactions are `last`. `transactions` are those that
    the sentence speaks of: brought in at once, or taken back.
    """

    level: Consistency
    sentence: str
    state: int
    at: float
    view: str = ""
    extra: Bag = EMPTY
    missing: Bag = EMPTY
    nearest: Vector = ()
    last: tuple[Label, ...] = ()
    transactions: tuple[Label, ...] = ()

    def __str__(self) -> str:
        return self.sentence


class Moment(NamedTuple):
    """A warehouse state: its number and time, for people."""

    state: int
    at: float

    def __str__(self) -> str:
        return f"state {self.state} at {self.at:g}"


def skipped(moment: Moment, brought: Sequence[Update], until: Sequence[Update], *, elsewhere: bool) -> Witness:
    """Strong, not complete: a state brings in several transactions, and the source state `until` some of them was no
    warehouse state; or one that came at another time."""
    left_out = f"the source state after {names(until)}" if until else "the initial source state"
    was = "was not shown on the way" if elsewhere else "was no warehouse state"
    sentence = f"{moment} brings in {names(brought)} at once; {left_out} {was}"
    return Witness(
        Consistency.COMPLETE, sentence, moment.state, moment.at, transactions=tuple(u.label for u in brought)
    )


def goes_back(moment: Moment, before: Moment, taken: Sequence[Update]) -> Witness:
    """Weak, not consistent: a state is without transactions that the one before had."""
    sentence = f"{moment} goes back: it is without {names(taken)}, which {before} had"
    return Witness(
        Consistency.CONSISTENCY, sentence, moment.state, moment.at, transactions=tuple(u.label for u in taken)
    )


def stuck(moment: Moment) -> Witness:
    """Perhaps not consistent: the search for a way came as far as this, and no further."""
    sentence = f"no way was found that passes all states up to {moment} in order, before the budget was spent"
    return Witness(Consistency.CONSISTENCY, sentence, moment.state, moment.at)


def diverged(states: SourceStates, moment: Moment, contents: Contents) -> Witness:
    """Not convergent: the last state is not the views over everything."""
    top = states.lattice.top
    view, extra, missing = differing(contents, states.contents(top))
    sentence = f"at the end, {_wrong(view, extra, missing)} against all transactions ({moment} is the last)"
    return Witness(
        Consistency.CONVERGENCE,
        sentence,
        moment.state,
        moment.at,
        view,
        extra,
        missing,
        states.lattice.numbers(top),
        states.lattice.last(top),
    )


def hidden(states: SourceStates, moment: Moment, negative: Contents) -> Witness:
    """Not convergent: readers see the views over everything, but rows are left with counts below zero."""
    view, rows = next(iter(negative.items()))
    top = states.lattice.top
    sentence = f"at the end, {view} hides {_rows(rows)}, which counts below zero ({moment} is the last)"
    numbers, last = states.lattice.numbers(top), states.lattice.last(top)
    return Witness(Consistency.CONVERGENCE, sentence, moment.state, moment.at, view, Bag(), -rows, numbers, last)


def unreal(states: SourceStates, moment: Moment, contents: Contents, near: Sequence[Vector], decided: bool) -> Witness:
    """Not weakly consistent: a state is no source state, or none was found."""
    at = nearest(states, contents, near)
    lattice = states.lattice
    which = "the nearest" if lattice.size <= EXHAUSTIVE else "the nearest that was found"
    view, extra, missing = differing(contents, states.contents(at))
    last = lattice.last(at)
    after = f"after {listed(map(str, last))}" if last else "the initial one"
    is_none = "is no source state" if decided else "is no source state that was found"
    sentence = f"{moment} {is_none}: {_wrong(view, extra, missing)} against {which}, {after}"
    if not view:
        sentence = f"{moment} was not reached before the budget was spent"
    return Witness(Consistency.WEAK, sentence, moment.state, moment.at, view, extra, missing, lattice.numbers(at), last)


def nearest(states: SourceStates, contents: Contents, near: Sequence[Vector]) -> Vector:
    """The source state whose views differ least from these contents: of all in a small lattice, otherwise downhill from
    the nearest of some."""
    lattice = states.lattice
    at, apart = near[0], Apart()
    apart.add(states.contents(at))
    apart.add(contents, -1)

    def distance(vector: Vector) -> tuple[int, int, Vector]:
        nonlocal at
        apart.add(states.difference(at, vector))
        at = vector
        return apart.distance, sum(abs(a - b) for a, b in zip(vector, near[0], strict=True)), vector

    if lattice.size <= EXHAUSTIVE:
        return min(map(distance, lattice.all()))[2]
    best = min(map(distance, near))
    for _ in range(EXHAUSTIVE):
        around = [distance(v) for v in (*lattice.downs(best[2]), *lattice.steps(best[2]))]
        closer = min(around, default=best)
        if closer[0] >= best[0]:
            break
        best = closer
    return best[2]


def differing(shown: Contents, real: Contents) -> tuple[str, Bag, Bag]:
    """The first view that differs, what it shows too much, and what it misses."""
    for view in shown:
        difference = shown[view] - real[view]
        if difference:
            extra = Bag({row: n for row, n in difference if n > 0})
            missing = Bag({row: -n for row, n in difference if n < 0})
            return view, extra, missing
    return "", EMPTY, EMPTY


def names(updates: Iterable[Update]) -> str:
    """Transactions by their labels; those over several sources by their own name, with their parts."""
    wholes: dict[str, list[str]] = {}
    for update in updates:
        wholes.setdefault(update.part_of or str(update.label), []).append(str(update.label))
    said = [name if parts == [name] else f"{name} ({', '.join(parts)})" for name, parts in wholes.items()]
    return listed([*said[:NAMED], f"{len(said) - NAMED} more"] if len(said) > NAMED else said)


def listed(words: Iterable[str]) -> str:
    known = list(words)
    return " and ".join([", ".join(known[:-1]), known[-1]] if len(known) > 1 else known)


def _wrong(view: str, extra: Bag, missing: Bag) -> str:
    parts = [f"has {_rows(extra)} too many" if extra else "", f"misses {_rows(missing)}" if missing else ""]
    return f"{view} " + " and ".join(p for p in parts if p)


def _rows(bag: Bag) -> str:
    rows = sorted(bag, key=lambda pair: repr(pair[0]))
    said = [f"{row}" if n == 1 else f"{row} × {n}" for row, n in rows[:SHOWN]]
    more = [f"{len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
    return listed(said + more)
