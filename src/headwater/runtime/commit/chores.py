"""What a run does beside maintaining: trimming captures, compaction, publishing, tidying. Nothing here is urgent, and
nothing here can change what a reader sees at any retained state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.model.errors import HeadwaterError
from headwater.model.names import Seq
from headwater.runtime.commit.folding import Compacted, worth_compacting
from headwater.runtime.compute.compaction import compact_files
from headwater.runtime.steps import Step, reached
from headwater.runtime.threads import pool
from headwater.warehouse.publishing import publish_view
from headwater.warehouse.reading import Pinned
from headwater.warehouse.sessions import pins
from headwater.warehouse.table import ChangelogTable

if TYPE_CHECKING:
    from headwater.runtime.commit.views import ManagedView
    from headwater.runtime.engine import Engine

TRIM_SECONDS = 2.0
COMPACT_SECONDS = 5.0
RETIRE_SECONDS = 600.0
TIDY_CUTS = 100


@dataclass(frozen=True)
class _Compaction:
    view: ManagedView
    table: ChangelogTable
    horizon: Seq
    job: Future[Compacted]


class Chores:
    """Called once every turn of the loop; does at most one thing at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.threads = pool("chores", 1)
        self._compaction: _Compaction | None = None
        self._publishing: Future[None] | None = None
        self._retired: list[tuple[float, str, tuple[str, ...]]] = []
        """When, the folder, and which of its files; without files the whole folder."""
        self._last: dict[str, float] = {}
        self._tidied = 0

    def step(self) -> None:
        if self._due("trim", TRIM_SECONDS):
            self._trim()
        self._finish_compaction()
        if self._compaction is None and self._due("compact", COMPACT_SECONDS):
            self._start_compaction()
        if self._due("retire", RETIRE_SECONDS / 10):
            self._retire()
        publish = self._engine.config.publish_seconds
        if publish and self._due("publish", publish) and (self._publishing is None or self._publishing.done()):
            self._publishing = self.threads.submit(self._publish)
        if self._engine.cut.number - self._tidied >= TIDY_CUTS and self._compaction is None:
            self._tidied = self._engine.cut.number
            self._engine.cuts.tidy()

    def finish(self) -> None:
        """Before a run that caught up ends: let what is under way come to its end, publish if that is wanted."""
        if self._compaction is not None:
            self._compaction.job.exception()
            self._finish_compaction()
        if self._engine.config.publish_seconds:
            self._publish()

    def discard(self, folder: str) -> None:
        """A view's folder that no cut names any more goes, when nobody can be reading it."""
        self._retired.append((time.monotonic(), folder, ()))

    @property
    def horizon(self) -> Seq:
        """The oldest transaction whose state stays readable."""
        engine = self._engine
        oldest = min([pin.seq for pin in pins(engine.storage)] + [engine.cut.seq, *engine.retention.held()])
        return Seq(max(0, min(oldest, engine.cut.seq - engine.config.history)))

    def compact_now(self) -> dict[str, tuple[int, int]]:
        """Compact every view wholly; returns rows before and after."""
        result = {}
        for view in self._engine.views.values():
            before = sum(f.rows for f in view.log.log_files())
            for table, horizon in self._tables(view):
                names = table.files()
                if not names:
                    continue
                done = compact_files(self._engine.spark, self._engine.storage, table, names, horizon)
                self._commit(view, table, horizon, done)
            result[str(view.name)] = (before, sum(f.rows for f in view.log.log_files()))
        return result

    def _trim(self) -> None:
        retention = self._engine.retention
        for name, position in retention.positions().items():
            if name in self._engine.pollers:
                self._engine.pollers[name].trim(position)
        kept = self._engine.journal.at(min(self.horizon, retention.oldest))
        if kept is not None:  # it stays: it tells where the sources were
            self._engine.journal.trim(kept.lo)

    def _tables(self, view: ManagedView) -> list[tuple[ChangelogTable, Seq]]:
        horizon = Seq(max(view.state.horizon, min(self.horizon, view.state.seq)))
        tables = [(view.log, horizon)]
        if view.auxiliary is not None:
            tables.append((view.auxiliary, view.state.seq))  # only its newest state is ever used
        return tables

    def _start_compaction(self) -> None:
        engine = self._engine
        for view in engine.views.values():
            if not view.live:
                continue
            for table, horizon in self._tables(view):
                with view.lock:
                    names = worth_compacting(table.log_files(), horizon)
                if names:
                    job = self.threads.submit(self._compact, table, names, horizon)
                    self._compaction = _Compaction(view, table, horizon, job)
                    return

    def _compact(self, table: ChangelogTable, names: Sequence[str], horizon: Seq) -> Compacted:
        with self._engine.living.using() as spark:
            return compact_files(spark, self._engine.storage, table, names, horizon)

    def _finish_compaction(self) -> None:
        if self._compaction is None or not self._compaction.job.done():
            return
        work, self._compaction = self._compaction, None
        try:
            done = work.job.result()
        except HeadwaterError as error:
            self._engine.meter.note(f"compaction of {work.view.name} will be tried again: {error.what}")
            return
        self._commit(work.view, work.table, work.horizon, done)

    def _commit(self, view: ManagedView, table: ChangelogTable, horizon: Seq, done: Compacted) -> None:
        with view.lock:
            version = table.commit(done.added, done.removed)
        if table is view.log:
            view.state = replace(view.state, version=version, horizon=Seq(max(view.state.horizon, horizon)))
        else:
            view.state = replace(view.state, auxiliary=version)
        reached(Step.COMPACTED)
        self._engine.show_cut()
        self._retired.append((time.monotonic(), table.folder, done.removed))

    def _retire(self) -> None:
        """Delete replaced files once nobody can be reading them any more."""
        if pins(self._engine.storage):
            return
        old = [r for r in self._retired if r[0] < time.monotonic() - RETIRE_SECONDS]
        for _, folder, names in old:
            for name in names:
                self._engine.storage.delete(f"{folder}/{name}")
            if not names:
                self._engine.storage.delete_folder(folder)
        self._retired = [r for r in self._retired if r not in old]

    def _publish(self) -> None:
        cut = self._engine.cut
        for name, state in cut.views.items():
            publish_view(self._engine.storage, name, Pinned(f"{state.folder}/log", state.version, state.seq), cut)

    def _due(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now - self._last.setdefault(what, now) < seconds:
            return False
        self._last[what] = now
        return True
