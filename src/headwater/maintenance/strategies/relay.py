"""The home of V between the other PCs of a cluster and the sources (Liang, Yu: Parallel Maintenance on PC Clusters).

The paper does not say how its PCs reach the sources. Updates come to the home of V, which hands them on; an answer that
came another way could overtake them. So questions and answers go through the home too.

Invariant: the channels to the sources and to the PCs keep their order, so what a source said first is heard first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headwater.maintenance.strategies.contract import WAREHOUSE, Answer, Ask, Effect, Node, Send, weight_of


class Relayed(NamedTuple):
    """A question on its way to a source, by way of the home of V."""

    ask: Ask

    @property
    def weight(self) -> int:
        return self.ask.question.weight


class Replied(NamedTuple):
    """Its answer."""

    answer: Answer

    @property
    def weight(self) -> int:
        return weight_of(self.answer.value)


class Relay:
    """What the home keeps of the questions that it has passed on."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Node, int]] = {}
        self._next = 0

    def ask(self, sender: Node, relayed: Relayed) -> Effect:
        self._next += 1
        self._asked[self._next] = (sender, relayed.ask.ticket)
        return relayed.ask._replace(ticket=self._next)

    def answer(self, answer: Answer) -> Effect:
        asker, ticket = self._asked.pop(answer.ticket)
        return Send(asker, Replied(answer._replace(ticket=ticket)))


def relayed(effects: Iterable[Effect]) -> list[Effect]:
    """The same effects, questions by way of the home."""
    return [Send(WAREHOUSE, Relayed(e)) if isinstance(e, Ask) else e for e in effects]
