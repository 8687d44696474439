"""The integrator at work: polls in, numbered and journaled rounds out, relevance sets to the merge processes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.integrator.global_transactions import Assembly
from headwater.integrator.journal import Segment, read_changes
from headwater.integrator.numbering import number
from headwater.integrator.relevance import Seqs, rows, touching
from headwater.model.conditions import Condition
from headwater.model.errors import HeadwaterError, LifeChanged, PositionTrimmed
from headwater.model.names import Seq, SourceName, TableName
from headwater.model.source import Poll
from headwater.runtime.steps import Step, reached
from headwater.warehouse.format import check_same

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine

GATHER_SECONDS = 0.3
"""So long the first poll of a round waits for the others."""


class Integration:
    """Polls every source at its pace, and gives each round the next numbers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.assembly = Assembly(engine.config.parts_seconds)
        self.torn: deque[str] = deque(maxlen=5)
        """The last global transactions whose parts were numbered separately, and why."""
        self._polls: dict[SourceName, Poll] = {}
        self._arrived = 0.0

    def holds(self, source: SourceName) -> bool:
        """Whether transactions of this source have arrived and have no number yet."""
        return source in self._polls

    def step(self) -> None:
        """Start polls, take in the answers that are there, number and journal them."""
        engine, config = self._engine, self._engine.config
        backlog = engine.managers.backlog(self._readers())
        for poller in engine.pollers.values():
            behind = backlog.get(poller.name, 0) >= 4 * config.batch_changes
            if poller.due and not behind and poller.name not in self._polls:
                watch = engine.watch
                poller.start(watch.columns(poller.name), config.batch_changes, watch.expected(poller.name))
        for poller in engine.pollers.values():
            answer = poller.finish(config.poll_seconds)
            if isinstance(answer, HeadwaterError):
                if isinstance(answer, LifeChanged):
                    engine.halt(engine.watch.lost(poller.name, answer))
                elif isinstance(answer, PositionTrimmed):  # asking again for what is forgotten is no use
                    engine.halt(engine.watch.check(poller.name) or engine.watch.lost(poller.name, answer))
                elif not answer.retry_helps:  # no use in asking a source that is away about its tables
                    engine.halt(engine.watch.check(poller.name))
            elif answer is not None and answer.transactions.num_rows:
                self._arrived = self._arrived if self._polls else time.monotonic()
                self._polls[poller.name] = answer
            elif answer is not None:
                poller.numbered = poller.position
        self._journal_polls()
        engine.halt(engine.watch.due({name for name, poller in engine.pollers.items() if poller.state.state == "ok"}))

    def _readers(self) -> dict[str, list[str]]:
        readers: dict[str, list[str]] = {}
        for key, manager in self._engine.managers.all.items():
            for source in manager.view.plan.sources:
                readers.setdefault(source, []).append(key)
        return readers

    def _journal_polls(self) -> None:
        """Number what has arrived. Polls that are nearly there are waited for: one segment for all of them means one
        cut at which every source is asked about the present, not about a past that must be undone."""
        engine = self._engine
        if not self._polls:
            return
        busy = any(p.busy for p in engine.pollers.values())
        if busy and time.monotonic() - self._arrived < GATHER_SECONDS:
            return
        ready = self.assembly.ready(self._polls, time.monotonic())
        for report in ready.reports:
            self.torn.append(report.text)
            engine.meter.note(f"global transaction {report.text}")
        if not ready.polls:
            return
        reached(Step.POLLED)
        check_same(engine.storage, engine.identity)
        positions = {name: poller.numbered for name, poller in engine.pollers.items()}
        last = engine.journal.newest
        lo = max(last.hi if last else Seq(0), engine.cut.seq)
        numbered = number(lo, {**engine.cut.positions, **positions}, ready.polls, ready.alone)
        self._polls = dict(ready.held)
        segment = engine.journal.append(numbered)
        for name in ready.polls:
            engine.pollers[name].numbered = numbered.positions[name]
        engine.managers.news_at = time.monotonic()
        reached(Step.JOURNALED)
        engine.meter.took_in(numbered)
        self.tell(segment, numbered.changes)

    def replay(self, segment: Segment) -> None:
        """Tell the merge processes of a round that was journaled before this run."""
        tables = {t for view in self._engine.merging.members for t in view.plan.view.base_tables}
        read = {t: read_changes(self._engine.storage, [segment], t, segment.lo, segment.hi) for t in tables}
        self.tell(segment, {t: changes for t, changes in read.items() if changes is not None})

    def tell(self, segment: Segment, changes: Mapping[TableName, pa.Table]) -> None:
        """REL: which transactions of a round are relevant to which view."""
        engine = self._engine
        known: dict[tuple[TableName, tuple[Condition, ...]], Seqs] = {}
        found: dict[str, Seqs] = {}
        relevant: dict[str, Seqs] = {}
        about: dict[str, list[str]] = {}
        members = {view.key: view for view in engine.merging.members}
        for key, manager in engine.managers.all.items():  # parents come before their children
            if key not in members:
                continue
            view = members[key]
            touched = [_touched(o.table, o.conditions, changes, known) for o in view.plan.view.occurrences]
            touched += [found[p.key] for p in manager.parents if p.key in found]
            seqs = found[key] = np.unique(np.concatenate(touched))
            relevant[key] = seqs[seqs > view.state.seq]
            about[key] = [str(t) for t in view.plan.view.base_tables if t in changes]
        every = {view.plan.view.every for view in members.values() if view.plan.view.every > 1}
        engine.merging.relevance(rows(segment.lo, segment.hi, relevant, every), about)
        engine.merging.reached(segment.hi)


def _touched(
    table: TableName,
    conditions: tuple[Condition, ...],
    changes: Mapping[TableName, pa.Table],
    known: dict[tuple[TableName, tuple[Condition, ...]], Seqs],
) -> Seqs:
    """The transactions that change a row of the table which meets the conditions; many views ask the same."""
    if table not in changes:
        return np.empty(0, np.int64)
    if (table, conditions) not in known:
        known[table, conditions] = touching(changes[table], conditions)
    return known[table, conditions]
