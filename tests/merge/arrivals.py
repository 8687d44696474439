"""Generated arrivals at the merge process, and what section 2 says about the states that come out.

The model of a view is the sequence of transactions that it shows; the payload of an action list is the part of it that
the list adds. Senders (the integrator, each manager) keep their own order; everything else may happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from headwater.merge import ActionList, View, WarehouseTransaction

Relevant = Mapping[int, frozenset[View]]
Rel = tuple[int, frozenset[View]]
Event = Rel | ActionList[tuple[int, ...]]


@dataclass(frozen=True)
class Arrivals:
    """`relevant[i]` is REL_i; `block` is the managers' common N, if they are complete-N."""

    views: tuple[View, ...]
    relevant: Relevant
    lists: Mapping[View, Sequence[ActionList[tuple[int, ...]]]]
    events: tuple[Event, ...]
    block: int | None = None

    def rows(self, view: View) -> list[int]:
        return [i for i, views in self.relevant.items() if view in views]


@st.composite
def arrivals(draw: st.DrawFn, kinds: Sequence[str], most: int = 9) -> Arrivals:
    """Arrivals with managers of the given kinds: complete, strong, or blocks (complete-N, the same N for all)."""
    views = tuple(f"V{x}" for x in range(1, draw(st.integers(1, 4)) + 1))
    gaps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most))
    numbers = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    relevant = {i: frozenset(draw(st.sets(st.sampled_from(views)))) for i in numbers}
    block = draw(st.integers(1, 4))
    lists = {}
    for view in views:
        rows = [i for i in numbers if view in relevant[i]]
        kind = draw(st.sampled_from(kinds))
        ends = [
            kind == "complete"
            or (kind == "strong" and draw(st.booleans()))
            or (kind == "blocks" and (at + 1 == len(rows) or rows[at + 1] // block > i // block))
            for at, i in enumerate(rows)
        ]
        lists[view] = _cut(view, rows, ends)
    return Arrivals(
        views,
        relevant,
        lists,
        draw(interleaved([list(relevant.items()), *lists.values()])),
        block if set(kinds) == {"blocks"} else None,
    )


@st.composite
def interleaved(draw: st.DrawFn, senders: Sequence[Sequence[Event]]) -> tuple[Event, ...]:
    """Any order in which each sender keeps its own."""
    turns = draw(st.permutations([s for s, sent in enumerate(senders) for _ in sent]))
    left = [iter(sent) for sent in senders]
    return tuple(next(left[s]) for s in turns)


def _cut(view: View, rows: Sequence[int], ends: Sequence[bool]) -> list[ActionList[tuple[int, ...]]]:
    lists, batch = [], []
    for i, end in zip(rows, ends, strict=True):
        batch.append(i)
        if end or i == rows[-1]:
            lists.append(ActionList(view, i, tuple(batch)))
            batch = []
    return lists


class Warehouse:
    """The views' contents, and the check that each state is one the sources could have been in."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.contents: dict[View, list[int]] = {view: [] for view in arrivals.views}
        self.rows: list[int] = []

    def commit(self, transaction: WarehouseTransaction) -> None:
        assert list(transaction.rows) == sorted(transaction.rows)
        assert not set(transaction.rows) & set(self.rows), "a row is applied once"
        self.rows += transaction.rows
        for al in transaction.actions:
            assert al.view in transaction.views
            if al.view in self.contents:
                self.contents[al.view] += al.actions

    def wrong(self) -> str | None:
        """Section 2.3: ws ≡ ss if each view's content is V(ss). The source state is a set P of transactions that can
        come first in a schedule equivalent to the real one: each view shows exactly those of P that concern it, in
        order, and none before which another one is missing."""
        shown = {i for content in self.contents.values() for i in content}
        for view, content in self.contents.items():
            rows = self.arrivals.rows(view)
            expected = [i for i in rows if i in shown]
            if content != expected:
                return f"{view} shows {content}, others show {sorted(shown)}, so it should show {expected}"
            if content != rows[: len(content)]:
                return f"{view} shows {content}, but is concerned by {rows}"
        return None

    def final(self) -> bool:
        return all(content == self.arrivals.rows(view) for view, content in self.contents.items())


def needed(arrivals: Arrivals, row: int, released: Sequence[int]) -> set[int]:
    """All rows that cannot be applied after this one: earlier ones of its views, those in a list with it, and so on."""
    found: set[int] = set()
    left = {row}
    while left:
        i = left.pop()
        found.add(i)
        for view in arrivals.relevant[i]:
            left |= {j for j in arrivals.rows(view) if j < i}
            left |= {j for al in arrivals.lists[view] for j in al.actions if i in al.actions}
        left -= found | set(released)
    return found


def releasable(arrivals: Arrivals, arrived: Sequence[Event], released: Sequence[int]) -> set[int]:
    """By brute force from the definitions: the largest set of waiting rows that could be applied together now."""
    rels = {event[0] for event in arrived if isinstance(event, tuple)}
    came = [event for event in arrived if isinstance(event, ActionList)]
    mates = {(i, al.view): set(al.actions) for al in came for i in al.actions if al.row in rels}
    waiting = {i for i in rels if arrivals.relevant[i] and i not in released}
    found = {i for i in waiting if all((i, view) in mates for view in arrivals.relevant[i])}
    while True:
        out = {
            i
            for i in found
            for view in arrivals.relevant[i]
            if not {j for j in waiting if j < i and view in arrivals.relevant[j]} <= found
            or not mates[i, view] - set(released) <= found
        }
        if not out:
            return found
        found -= out
