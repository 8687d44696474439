"""Processes in the papers' sense, as generators: `answer = yield Probe…` waits for a source, `return` ends it.

A *view change* is written as one straight piece of code, as the papers write it; `Threads` keeps those that wait, by
the ticket of the question they wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.maintenance.strategies.contract import Answer, Ask, Effect, Effects, Label, Node, Question, Work


class ThreadQuery(NamedTuple):
    """What a view change yields to question a source."""

    source: Node
    question: Question


Yielded = ThreadQuery | Work | list[ThreadQuery]
ViewChange = Generator[Yielded, Any, Any]
"""Yields a Query and is sent the answer's value; yields Work and is sent None; yields a list of queries, asked at the
same time, and is sent their values in that order when the last is there. Whoever compensates by order of arrival must
do so answer by answer, so it cannot use a list: by then more has arrived."""

Done = Callable[[Any], Effects]


@dataclass
class _Waiting:
    change: ViewChange
    about: tuple[Label, ...]
    done: Done
    tickets: dict[int, int]
    values: list[Any]
    single: bool


class Threads:
    """View changes under way. `done` gets what a view change returns, and says what to do then."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, _Waiting] = {}
        self.running = 0

    @property
    def under_way(self) -> tuple[tuple[Label, ...], ...]:
        """Which updates those that wait for an answer are about, each once."""
        return tuple(dict.fromkeys(waiting.about for waiting in self._waiting.values()))

    def start(self, change: ViewChange, about: tuple[Label, ...], done: Done) -> list[Effect]:
        self.running += 1
        return self._resume(change, None, about, done)

    def answer(self, answer: Answer) -> list[Effect]:
        waiting = self._waiting.pop(answer.ticket, None)
        if waiting is None:
            return []  # the same answer twice
        waiting.values[waiting.tickets.pop(answer.ticket)] = answer.value
        if waiting.tickets:
            return []
        value = waiting.values[0] if waiting.single else waiting.values
        return self._resume(waiting.change, value, waiting.about, waiting.done)

    def _resume(self, change: ViewChange, value: Any, about: tuple[Label, ...], done: Done) -> list[Effect]:
        effects: list[Effect] = []
        while True:
            try:
                wanted = change.send(value)
            except StopIteration as end:
                self.running -= 1
                effects.extend(done(end.value))
                return effects
            if isinstance(wanted, Work):
                effects.append(wanted)
                value = None
                continue
            single = isinstance(wanted, ThreadQuery)
            queries = [wanted] if isinstance(wanted, ThreadQuery) else wanted
            if not queries:
                value = []
                continue
            waiting = _Waiting(change, about, done, {}, [None] * len(queries), single)
            for place, query in enumerate(queries):
                ticket = self._next
                self._next += 1
                waiting.tickets[ticket] = place
                self._waiting[ticket] = waiting
                effects.append(Ask(query.source, query.question, ticket, about))
            return effects
