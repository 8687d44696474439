"""What happened in a run: every transaction, every message, every question, every state of the warehouse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.strategies.contract import Label, Node, Update
from headwater.model.names import TableName

HEADER = 16
VALUE = 8
"""Bytes: of a message without content, and of each value in it."""


class Message(NamedTuple):
    """A message, or one try of it. `arrived` is None if it was lost."""

    sent: float
    arrived: float | None
    sender: Node
    receiver: Node
    kind: str
    weight: int
    about: tuple[Label, ...]

    @property
    def bytes(self) -> int:
        return HEADER + VALUE * self.weight


class Service(NamedTuple):
    """A source worked on a question, in [start, end)."""

    source: Node
    start: float
    end: float
    asker: Node
    about: tuple[Label, ...]


class State(NamedTuple):
    """The warehouse changed: by what, view by view, all at once. `covers` is what the strategy says it brought in."""

    at: float
    changes: tuple[tuple[str, Bag], ...]
    covers: tuple[Label, ...]


class CutShown(NamedTuple):
    """What a reader saw who asked for no particular state: each view as of its own number of transactions, the first so
    many of the history's, and what changed since the cut before."""

    number: int
    at: float
    shows: Mapping[str, int]
    changes: tuple[tuple[str, Bag], ...]


@dataclass
class History:
    """`transactions` stand in the order of their commits, `states` in that of the warehouse's."""

    columns: Mapping[TableName, tuple[str, ...]]
    views: tuple[ViewDefinition, ...]
    initial: Mapping[TableName, Bag]
    content: Mapping[str, Bag]
    """The views at the beginning, before the first of `states`."""
    transactions: list[Update] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    cuts: list[CutShown] = field(default_factory=list)
    """Of a recorded run; the first begins at `content`."""
    messages: list[Message] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    local_joins: int = 0
    events: int = 0
    end: float = 0.0

    def contents(self) -> Iterator[dict[str, Bag]]:
        """The views in each state, the initial one first; what a reader sees, so without counts below one."""
        held: dict[str, dict[tuple[object, ...], int]] = {v: dict(bag.counts) for v, bag in self.content.items()}
        yield {v: _visible(counts) for v, counts in held.items()}
        for state in self.states:
            for view, change in state.changes:
                counts = held[view]
                for row, count in change.counts.items():
                    total = counts.get(row, 0) + count
                    if total:
                        counts[row] = total
                    else:
                        del counts[row]
            yield {v: _visible(counts) for v, counts in held.items()}

    def final(self) -> dict[str, Bag]:
        """The views at the end, negative counts included."""
        held = dict(self.content)
        for state in self.states:
            for view, change in state.changes:
                held[view] = held[view] + change
        return held

    def kinds(self) -> Counter[str]:
        """How many messages of each kind were sent, lost ones included."""
        return Counter(m.kind for m in self.messages)

    @property
    def questions(self) -> int:
        return sum(1 for m in self.messages if m.kind == "question")

    @property
    def bytes(self) -> int:
        return sum(m.bytes for m in self.messages)

    @property
    def last_commit(self) -> float:
        """When the last transaction was committed at its source."""
        return self.transactions[-1].at if self.transactions else 0.0

    @property
    def finished(self) -> float:
        """When the warehouse changed last: the time it took to handle everything."""
        return self.states[-1].at if self.states else 0.0

    def staleness(self) -> list[float]:
        """For each update that a state covers: how long after its commit the warehouse showed it."""
        committed = {u.label: u.at for u in self.transactions}
        return [s.at - committed[label] for s in self.states for label in s.covers if label in committed]

    @property
    def states_before_last_commit(self) -> int:
        """States that the warehouse reached while the sources were still changing."""
        return sum(1 for state in self.states if state.at <= self.last_commit)


def _visible(counts: Mapping[tuple[object, ...], int]) -> Bag:
    return Bag({row: count for row, count in counts.items() if count > 0})
