"""What a run does beside maintaining: trimming captures, compaction, publishing, tidying. Nothing here is urgent, and
nothing here can change what a reader sees at any retained state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Protocol

from headwater.model.errors import HeadwaterError, WarehouseError
from headwater.model.logged import event
from headwater.model.names import Seq
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.events import Compacted
from headwater.runtime.commit.folding import Rewritten, worth_compacting, worth_merging
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.commit.retention import Retention
from headwater.runtime.commit.tables import Tables
from headwater.runtime.progress import Meter
from headwater.runtime.steps import Step, reached
from headwater.runtime.view import ManagedView
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.layout import auxiliary_folder, log_folder
from headwater.warehouse.publishing import publish_view
from headwater.warehouse.reading import Pinned
from headwater.warehouse.sessions import pins

log = logging.getLogger(__name__)

TRIM_SECONDS = 2.0
COMPACT_SECONDS = 5.0
RETIRE_SECONDS = 600.0
TIDY_CUTS = 100


@dataclass(frozen=True)
class Fold:
    """Files of one of a view's tables to rewrite, folding what lies at or before the horizon."""

    view: ManagedView
    auxiliary: bool
    names: tuple[str, ...]
    horizon: Seq

    @property
    def folder(self) -> str:
        return auxiliary_folder(self.view.folder) if self.auxiliary else log_folder(self.view.folder)


class Compactor(Protocol):
    """Rewrites files. Called in a thread of its own."""

    def compact(self, fold: Fold) -> Rewritten: ...


@dataclass(frozen=True)
class _Table:
    """One of a view's tables, and how far it may be folded."""

    view: ManagedView
    auxiliary: bool
    horizon: Seq


@dataclass(frozen=True)
class _Compaction:
    table: _Table
    job: Future[Rewritten]


class Compaction:
    """Folds history, one table at a time, beside maintenance."""

    def __init__(
        self, tables: Tables, ledger: Ledger, retention: Retention, compactor: Compactor, pool: Executor
    ) -> None:
        self._tables, self._ledger, self._retention = tables, ledger, retention
        self._compactor, self._pool = compactor, pool
        self._under_way: _Compaction | None = None

    @property
    def busy(self) -> bool:
        return self._under_way is not None

    def start(self, loading: Seq | None) -> None:
        """Begin with the first table that is worth it."""
        for table in self._all(loading, self._ledger.live_views()):
            files = self._tables.committed(table.view, table.auxiliary)
            names = worth_merging(files) if table.auxiliary else worth_compacting(files, table.horizon)
            if names:
                self._under_way = _Compaction(
                    table, self._pool.submit(self._compactor.compact, self._fold(table, names))
                )
                return

    def finish(self, wait: bool = False) -> tuple[str, tuple[str, ...]] | None:
        """Commit what is rewritten; the folder and the files that were replaced. Raises what kept it from happening."""
        work = self._under_way
        if work is None or not (wait or work.job.done()):
            return None
        self._under_way = None
        return self._commit(work.table, work.job.result())

    def whole(self) -> None:
        """Compact every table now."""
        for table in list(self._all(None, self._ledger.views.values())):
            names = [file.name for file in self._tables.committed(table.view, table.auxiliary)]
            if names:
                self._commit(table, self._compactor.compact(self._fold(table, names)))

    def _all(self, loading: Seq | None, views: Iterable[ManagedView]) -> Iterator[_Table]:
        kept = self._retention.horizon(loading)
        for view in views:
            state = self._ledger.shown(view.name)
            yield _Table(view, False, Seq(max(state.horizon, min(kept, state.seq))))
            if view.plan.auxiliary is not None:
                yield _Table(view, True, state.seq)  # only its newest state is ever used

    def _fold(self, table: _Table, names: list[str]) -> Fold:
        return Fold(table.view, table.auxiliary, tuple(names), table.horizon)

    def _commit(self, table: _Table, done: Rewritten) -> tuple[str, tuple[str, ...]]:
        versions = self._tables.rewrite(table.view, table.auxiliary, done)
        reached(Step.COMPACTED)
        horizon = Seq(0) if table.auxiliary else table.horizon
        self._ledger.show(Compacted(table.view.key, versions, horizon))
        return self._fold(table, []).folder, done.removed


class Chores:
    """Called once every turn of the loop; does at most one thing at a time."""

    def __init__(
        self, trim: Callable[[Seq | None], None], compaction: Compaction, ledger: Ledger, storage: Storage,
        cuts: CutLog, pool: Executor, meter: Meter, publish_seconds: float, clock: Clock = SYSTEM,
    ) -> None:  # fmt: skip
        self._trim, self._compaction, self._ledger = trim, compaction, ledger
        self._storage, self._cuts, self._pool = storage, cuts, pool
        self._meter, self._publish_seconds, self._clock = meter, publish_seconds, clock
        self._publishing: Future[None] | None = None
        self._retired: list[tuple[float, str, tuple[str, ...]]] = []
        """When, the folder, and which of its files; without files the whole folder."""
        self._last: dict[str, float] = {}
        self._tidied = 0

    def step(self, loading: Seq | None) -> None:
        """`loading` is the transaction whose state a load still needs."""
        if self._due("trim", TRIM_SECONDS):
            self._trim(loading)
        self._finish_compaction()
        if not self._compaction.busy and self._due("compact", COMPACT_SECONDS):
            self._compaction.start(loading)
        if self._due("retire", RETIRE_SECONDS / 10):
            self._retire()
        if self._publish_seconds and self._due("publish", self._publish_seconds) and self._published():
            self._publishing = self._pool.submit(self._publish)
        if self._ledger.cut.number - self._tidied >= TIDY_CUTS and not self._compaction.busy:
            self._tidied = self._ledger.cut.number
            self._cuts.tidy()

    def finish(self) -> None:
        """Before a run that caught up ends: let what is under way come to its end, publish if that is wanted."""
        self._finish_compaction(wait=True)
        if self._publish_seconds:
            self._publish()

    def discard(self, folder: str) -> None:
        """A view's folder that no cut names any more goes, when nobody can be reading it."""
        self._retired.append((self._clock.monotonic(), folder, ()))

    def _finish_compaction(self, wait: bool = False) -> None:
        try:
            replaced = self._compaction.finish(wait)
        except WarehouseError:
            raise  # no space, or another maintainer: nothing can go on
        except Exception as error:  # nothing depends on it
            log.warning("a compaction failed", exc_info=True, extra=event("compaction.failed"))
            self._meter.note(f"a compaction will be tried again: {_said(error)}")
            return
        if replaced is not None:
            self._retired.append((self._clock.monotonic(), *replaced))

    def _published(self) -> bool:
        """Whether the last publishing has ended; says how, if not well."""
        if self._publishing is None:
            return True
        if not self._publishing.done():
            return False
        failure = self._publishing.exception()
        if failure is not None:
            log.warning("publishing failed", exc_info=failure, extra=event("publishing.failed"))
            self._meter.note(f"publishing will be tried again: {_said(failure)}")
        return True

    def _retire(self) -> None:
        """Delete replaced files once nobody can be reading them any more."""
        if pins(self._storage):
            return
        old = [r for r in self._retired if r[0] < self._clock.monotonic() - RETIRE_SECONDS]
        for _, folder, names in old:
            for name in names:
                self._storage.delete(f"{folder}/{name}")
            if not names:
                self._storage.delete_folder(folder)
        self._retired = [r for r in self._retired if r not in old]

    def _publish(self) -> None:
        cut = self._ledger.cut
        for name, state in cut.views.items():
            publish_view(self._storage, name, Pinned(log_folder(state.folder), state.version, state.seq), cut)

    def _due(self, what: str, seconds: float) -> bool:
        now = self._clock.monotonic()
        if now - self._last.setdefault(what, now) < seconds:
            return False
        self._last[what] = now
        return True


def _said(error: BaseException) -> str:
    return error.what if isinstance(error, HeadwaterError) else f"unexpected {type(error).__name__}: {error}"
