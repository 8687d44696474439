"""The wave, as a strategy: Headwater's own (docs/decisions/0003), the very generator that the engine runs on Spark.

A batch is whatever the sources have committed since the last one. Each source is polled for it once; the positions
where the polls end are the cut P. Then 2(n−1) questions bring every change of the batch past all other occurrences,
each question *as of P*: a source answers about that moment, however much has happened since. What the batch itself
changed is compensated here, transaction by transaction, so every transaction becomes a state of its own.

Invariant: the numbers that a batch gives its transactions extend each source's own order, and its changes are exact
for these numbers. Nothing depends on when a message arrives: a notification only says that polling is worthwhile.
Complete, at a number of messages that does not depend on the size of the batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Key
from headwater.maintenance.commit_queue import CommitQueue
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Database,
    Effect,
    Effects,
    Factory,
    Node,
    Strategy,
    StrategySetting,
    Update,
    Wake,
    Work,
)
from headwater.maintenance.strategies.threads import ThreadQuery, Threads, ViewChange, Yielded
from headwater.maintenance.strategies.wave_tables import WaveTables
from headwater.maintenance.wave import wave as wave_of
from headwater.model.names import Seq, TableName


def wave(every: float | None = None, p: int = 1) -> Factory:
    """`every`: poll so often, whatever is notified; None: when a notification says so. `p` batches may be under way
    at once; they become visible in order."""
    return lambda setting: Strategy({WAREHOUSE: Waves(setting, every, p)})


class Polled(NamedTuple):
    """What a source committed after the position it was polled for, and where it is now."""

    position: int
    updates: tuple[Update, ...]

    @property
    def weight(self) -> int:
        return 1 + sum(u.weight for u in self.updates)


@dataclass(frozen=True, slots=True)
class WavePoll:
    """What happened after this position?"""

    after: int
    weight: int = 1

    def evaluate(self, database: Database) -> Polled:
        return Polled(database.position, tuple(database.log(self.after)))


class Rows(NamedTuple):
    """Rows that match the keys of a question, each with the key's number and its count."""

    rows: tuple[tuple[int, Row, int], ...]

    @property
    def weight(self) -> int:
        return sum(len(row) + 2 for _, row, _ in self.rows)


@dataclass(frozen=True, slots=True)
class AsOf:
    """Which rows of a table match these keys, after its source's first `position` transactions?"""

    table: TableName
    positions: tuple[int, ...]
    keys: tuple[Key, ...]
    position: int

    @property
    def weight(self) -> int:
        return 1 + len(self.keys) * max(1, len(self.positions))

    def evaluate(self, database: Database) -> Rows:
        find = database.as_of(self.table, self.positions, self.position)
        return Rows(tuple((n, row, count) for n, key in enumerate(self.keys) for row, count in find(key)))


class _Due(NamedTuple):
    """It is time to poll."""


class Waves:
    """The warehouse."""

    def __init__(self, setting: StrategySetting, every: float | None, p: int) -> None:
        self.setting = setting
        self._every = every
        self._p = p
        self._threads = Threads()
        self._name = setting.view.view.name
        self._queue: CommitQueue[list[Commit]] = CommitQueue()
        self._begun = 0
        self._polling = False
        self._reached = dict.fromkeys(setting.sources, 0)
        self._hinted = dict.fromkeys(setting.sources, 0)
        self._tables = WaveTables(setting)

    def start(self) -> Effects:
        return [Wake(self._every, _Due())] if self._every else []

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Answer):
            return self._threads.answer(body)
        if isinstance(body, _Due):
            assert self._every
            return [*self._begin(self.setting.sources), Wake(self._every, body)]
        self._hinted[body.source] = max(self._hinted[body.source], body.number)
        return self._hints()

    def _hints(self) -> list[Effect]:
        return self._begin([s for s in self.setting.sources if self._hinted[s] > self._reached[s]])

    def _begin(self, sources: Sequence[Node]) -> list[Effect]:
        """A new batch, unless p are under way or another is still being polled for."""
        if not sources or self._polling or len(self._queue) >= self._p:
            return []
        self._polling = True
        self._begun += 1
        number = Seq(self._begun)
        self._queue.start(number, [self._name])

        def done(commits: list[Commit]) -> Effects:
            self._queue.finish(number, self._name, commits)
            return [*self._released(), *self._hints()]

        return self._threads.start(self._batch(sources), (), done)

    def _released(self) -> Iterator[Effect]:
        """Batches become visible in their order."""
        while (released := self._queue.released()) is not None:
            yield from released[1][self._name]

    def _batch(self, sources: Sequence[Node]) -> ViewChange:
        before = dict(self._reached)
        polls: list[Polled] = yield [ThreadQuery(s, WavePoll(before[s])) for s in sources]
        self._polling = False
        for source, polled in zip(sources, polls, strict=True):
            self._reached[source] = polled.position
        cut = dict(self._reached)
        updates = sorted((u for polled in polls for u in polled.updates), key=lambda u: (u.at, u.source, u.number))
        if not updates:
            return []
        changes = yield from self._computed(updates, cut)
        return [Commit(((self._name, changes.get(n, Bag())),), (u.label,)) for n, u in enumerate(updates, 1)]

    def _computed(self, updates: Sequence[Update], cut: Mapping[Node, int]) -> Generator[Yielded, Any, dict[int, Bag]]:
        """The batch's changes of V by transaction: the engine's wave, asked through the simulated sources."""
        journal = self._tables.journal(updates)
        running = wave_of(self.setting.view.view, journal, journal)
        answer: pa.Table | None = None
        while True:
            try:
                wanted = running.send(answer)
            except StopIteration as end:
                return self._tables.outputs(end.value)
            question = wanted.question
            source = str(question.table.source)
            found: Rows = yield ThreadQuery(source, AsOf(question.table, *self._tables.keys(question), cut[source]))
            answer = self._tables.answer(question, found.rows)
            yield Work()
