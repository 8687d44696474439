"""Stand-ins for everything that is slow: tables and cut records in memory, threads that run when they are told to, a
clock that moves when it is told to, and a computation that knows the answer.

What a computation writes is right by construction (the truth of its batch). So whatever the coordinator shows that is
wrong, it has made wrong itself: by showing too much, too little, or things that do not belong together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from headwater.algebra.bag import Bag
from headwater.model.errors import HeadwaterError
from headwater.model.names import Seq, TableName
from headwater.model.schema import Identities
from headwater.model.written import DataFile, Tally, Written
from headwater.runtime.change.ports import Loaded, LoadOrder
from headwater.runtime.commit.chores import Fold
from headwater.runtime.commit.events import TableVersions
from headwater.runtime.commit.folding import Rewritten
from headwater.runtime.scheduling.families import Batch
from headwater.runtime.scheduling.foreseen import in_two_parts
from headwater.runtime.scheduling.work import Ahead, BatchWork
from headwater.runtime.view import ManagedView, own_identities
from headwater.warehouse.cuts import Cut, ViewState
from headwater.warehouse.table import LogFile

from .truth import Truth

Rows = Sequence[tuple[tuple[Any, ...], int, int]]
"""(row, count, seq)"""


class Died(HeadwaterError):
    """A process died: trying again helps."""

    retry_helps = True


class Unfit(HeadwaterError):
    """A value that cannot be computed: trying again is no use."""


class VirtualClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1.7e9 + self.now


@dataclass(eq=False)
class Task:
    """Something that a thread would be doing now."""

    pool: str
    future: Future[Any]
    work: Callable[[], Any]

    def run(self, failing: Exception | None = None) -> None:
        """Do it, or fail."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            if failing is not None:
                raise failing
            result = self.work()
        except Exception as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Threads:
    """All pools of a run: nothing happens until somebody chooses a task."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def pool(self, name: str, width: int) -> Executor:
        return _Pool(name, self)


class _Pool(Executor):
    def __init__(self, name: str, threads: Threads) -> None:
        self._name, self._threads = name, threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._threads.tasks.append(Task(self._name, future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...


class MemoryCuts:
    """Cut records that outlive a run, each judged when it is written."""

    def __init__(self, judge: Callable[[Cut], None]) -> None:
        self.all: list[Cut] = []
        self._judge = judge

    def newest(self) -> Cut:
        return self.all[-1] if self.all else Cut()

    def take_over(self) -> Cut:
        return self.newest()

    def append(self, *cuts: Cut) -> Cut:
        for cut in cuts:
            assert cut.number == self.newest().number + 1
            self._judge(cut)
            self.all.append(cut)
        return cuts[-1]

    def tidy(self) -> None: ...


@dataclass
class _Table:
    """Every version of it: the names of its files."""

    versions: list[tuple[DataFile, ...]] = field(default_factory=lambda: [()])


class MemoryTables:
    """Tables that outlive a run; what is pending does not."""

    def __init__(self) -> None:
        self.rows: dict[str, Rows] = {}
        self._tables: dict[str, _Table] = {}
        self._pending: dict[ManagedView, list[Written]] = {}
        self.names = itertools.count(1)

    def write(self, rows: Rows) -> tuple[DataFile, ...]:
        if not rows:
            return ()
        name, seqs = f"file-{next(self.names)}", [seq for _, _, seq in rows]
        self.rows[name] = rows
        return (DataFile(name, 1, len(rows), min(seqs), max(seqs)),)

    def state(self, folder: str, version: int, at: int) -> Bag:
        """What a reader sees."""
        files = self._of(folder).versions[version]
        return Bag.summed((row, count) for f in files for row, count, seq in self.rows[f.name] if seq <= at)

    def ahead(self, view: ManagedView) -> list[LogFile]:
        """What the next batch builds on: what is pending too."""
        files = [*self._of(view.folder).versions[-1], *(f for w in self._pending.get(view, ()) for f in w.log)]
        return [LogFile(f.name, f.rows, f.low, f.high) for f in files]

    def crashed(self) -> None:
        self._pending.clear()

    # ------------------------------------------------------------- the port

    def computed(self, view: ManagedView, written: Written) -> None:
        self._pending.setdefault(view, []).append(written)

    def commit(self, view: ManagedView, written: Written) -> TableVersions:
        table = self._of(view.folder)
        table.versions.append((*table.versions[-1], *written.log))
        self._pending[view] = [w for w in self._pending.get(view, []) if w is not written]
        return self._versions(view, len(table.versions) - 1)

    def rewind(self, view: ManagedView, versions: TableVersions) -> None:
        self._back(view.folder, versions.log)

    def forget(self, view: ManagedView) -> None:
        self._pending.pop(view, None)

    def convert(self, view: ManagedView, seq: Seq) -> bool:
        return False

    def says(self, view: ManagedView) -> None: ...

    def means(self, view: ManagedView, identities: Mapping[TableName, Identities]) -> None:
        pass

    def committed(self, view: ManagedView, auxiliary: bool) -> list[LogFile]:
        files = () if auxiliary else self._of(view.folder).versions[-1]
        return [LogFile(f.name, f.rows, f.low, f.high) for f in files]

    def rewrite(self, view: ManagedView, auxiliary: bool, rewritten: Rewritten) -> TableVersions:
        table = self._of(view.folder)
        kept = [f for f in table.versions[-1] if f.name not in rewritten.removed]
        table.versions.append((*kept, *rewritten.added))
        return TableVersions(len(table.versions) - 1, -1)

    def recover(self, state: ViewState, keep: Sequence[ViewState]) -> None:
        self._back(state.folder, state.version)

    def _back(self, folder: str, version: int) -> None:
        table = self._of(folder)
        if len(table.versions) - 1 > version:
            table.versions.append(table.versions[version])

    def _of(self, folder: str) -> _Table:
        return self._tables.setdefault(folder, _Table())

    @staticmethod
    def _versions(view: ManagedView, version: int) -> TableVersions:
        return TableVersions(version, version if view.plan.auxiliary is not None else -1)


class Counting(Protocol):
    ahead: int
    over_views: int
    dropped: int


@dataclass(frozen=True)
class _Waved:
    """A batch that waits for the groups that it builds on."""

    computed: Computed
    work: BatchWork

    def finished(self) -> Written:
        return self.computed.computed(self.work)

    def dropped(self) -> None:
        self.computed.counts.dropped += 1


class Computed:
    """Computes batches, loads views and folds files, from the truth."""

    def __init__(self, tables: MemoryTables, truth: Truth, counts: Counting) -> None:
        self._tables, self._truth, self.counts = tables, truth, counts
        self.late: Exception | None = None
        """What the next batch fails with, after its files are written."""
        self._through: dict[str, Seq] = {}

    def __call__(self, work: BatchWork) -> Written | Ahead:
        if work.behind:
            assert work.view.plan.auxiliary is not None
            self.counts.ahead += 1
            return _Waved(self, work)
        return self.computed(work)

    def computed(self, work: BatchWork) -> Written:
        view, batch = work.view, work.batch
        if view.plan.auxiliary is not None and not view.periodic:
            self._check_groups(view, batch)
        self.counts.over_views += bool(work.parents) and self._through.get(view.key, batch.lo) < batch.lo
        for parent in work.parents:
            there = self._read(parent, batch.hi, work.unwritten.get(parent.key))
            assert there == self._truth.view(parent.name, batch.hi), f"{view.name} reads {parent.name} at {batch.hi}"
        written = Written(self._tables.write(self._rows(view, batch.lo, batch.hi, batch.whole)), (), Tally())
        late, self.late = self.late, None
        if late is not None:
            raise late
        self._tables.computed(view, written)
        self._through[view.key] = max(batch.hi, self._through.get(view.key, batch.hi))
        return written

    def _check_groups(self, view: ManagedView, batch: Batch) -> None:
        """What an aggregation builds on, committed or not, is its state where the batch begins."""
        rows = [entry for f in self._tables.ahead(view) for entry in self._tables.rows[f.name]]
        groups, wanted = Bag.summed((row, count) for row, count, _ in rows), self._truth.view(view.name, batch.lo)
        assert groups == wanted, f"{view.name} builds on {dict(groups.counts)}, not on its state at {batch.lo}"

    def _read(self, parent: ManagedView, hi: Seq, unwritten: Batch | None) -> Bag:
        """A parent at a batch's end: its files, and the journal where it is a copy that has not written all of it."""
        files, unwritten = in_two_parts(self._tables.ahead(parent), unwritten, hi)
        rows = [entry for f in files for entry in self._tables.rows[f.name] if entry[2] <= hi]
        if unwritten is not None:
            assert parent.copies
            assert unwritten.segments[0].lo <= unwritten.lo
            rows += self._rows(parent, unwritten.lo, hi, False)
        return Bag.summed((row, count) for row, count, _ in rows)

    def _rows(self, view: ManagedView, lo: Seq, hi: Seq, whole: bool) -> Rows:
        """Every state of the view in (lo, hi], as changes: each transaction, every so many, or one for the batch."""
        plan, every = view.plan.view, view.every
        states = [s for s in range(lo + 1, hi + 1) if s % every == 0 or s == hi]
        states = states if plan.level.value == "complete" and not whole else [hi]
        found: list[tuple[tuple[Any, ...], int, int]] = []
        before = int(lo)
        for state in states:
            change = self._truth.view(view.name, state) - self._truth.view(view.name, before)
            found += [(row, count, state) for row, count in change]
            before = state
        return found

    def load(self, load: LoadOrder) -> list[Loaded]:
        built = []
        for plan in load.plans:
            folder = f"views/{plan.view.name}/{plan.fingerprint}-{next(self._tables.names)}"
            view = ManagedView(plan, folder, own_identities(plan, load.point.identities))
            rows = [(row, count, int(load.point.seq)) for row, count in self._truth.view(view.name, load.point.seq)]
            built.append(Loaded(view, self._tables.commit(view, Written(self._tables.write(rows), (), Tally()))))
        return built

    def compact(self, fold: Fold) -> Rewritten:
        rows = [entry for name in fold.names for entry in self._tables.rows[name]]
        folded = Bag.summed((row, count) for row, count, seq in rows if seq <= fold.horizon)
        old = [(row, count, int(fold.horizon)) for row, count in folded]
        new = [entry for entry in rows if entry[2] > fold.horizon]
        return Rewritten((*self._tables.write(old), *self._tables.write(new)), fold.names)
