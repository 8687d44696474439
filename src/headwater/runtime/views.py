"""A view at work: its plan, its tables in the warehouse, and the steps that change them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.model.consistency import Level
from headwater.model.names import Seq, TableName, ViewName
from headwater.model.schema import Identities
from headwater.runtime.about import ABOUT, About, statement_of
from headwater.runtime.jobs import Written
from headwater.runtime.plans import ViewPlan
from headwater.runtime.tasks import AggregateWork, Target
from headwater.storage import Storage, folder_name
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.table import ChangelogTable

FOLDER = "views"


def view_folder(name: ViewName) -> str:
    return f"{FOLDER}/{folder_name(name)}"


@dataclass(frozen=True)
class Committed:
    """The versions of a view's tables that hold a change."""

    version: int
    auxiliary: int


@dataclass
class ManagedView:
    """`pending` are files of batches computed but not yet committed: the next batch, and views that read this one,
    build on them."""

    plan: ViewPlan
    storage: Storage
    state: ViewState
    identities: Mapping[TableName, Identities] = field(default_factory=dict)
    """Which columns it was loaded from."""
    pending: tuple[Written, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while its tables change: warehouse transactions and compaction come from different threads."""

    def __post_init__(self) -> None:
        self.log = ChangelogTable(self.storage, f"{self.state.folder}/log")
        self.auxiliary = ChangelogTable(self.storage, f"{self.state.folder}/auxiliary") if self.plan.auxiliary else None

    @property
    def name(self) -> ViewName:
        return self.plan.view.name

    @property
    def key(self) -> str:
        """Tells a view from another one of the same name, built to replace it."""
        return self.state.folder

    @property
    def live(self) -> bool:
        return self.state.state == "live"

    @property
    def complete(self) -> bool:
        """Whether each of its transactions can be shown by itself."""
        return self.plan.view.level is Level.COMPLETE and self.plan.view.every == 1

    @property
    def merged(self) -> bool:
        """Whether it agrees with the other views: convergence promises nothing, so such a view goes its own way."""
        return self.plan.view.level is not Level.CONVERGENT

    @property
    def periodic(self) -> bool:
        return self.plan.view.level is Level.PERIODIC

    def target(self, label: str) -> Target:
        return Target(self.storage, self.log.folder, label, self.plan.log)

    def aggregation(self, hi: Seq, first: bool = False) -> AggregateWork | None:
        """The aggregation of a batch that ends at `hi`, on top of everything computed so far."""
        if self.auxiliary is None or self.plan.view.aggregation is None or self.plan.auxiliary is None:
            return None
        target = Target(self.storage, self.auxiliary.folder, str(hi), self.plan.auxiliary, "auxiliary")
        with self.lock:
            names = [] if first else [*self.auxiliary.files(), *(f.name for w in self.pending for f in w.auxiliary)]
        files = tuple(self.storage.path(f"{self.auxiliary.folder}/{n}") for n in names)
        return AggregateWork(self.plan.view.aggregation, self.plan.types, files, target, hi, first)

    def compute_ahead(self, written: Written) -> None:
        """Computed, and not committed yet."""
        with self.lock:
            self.pending = (*self.pending, written)

    def commit(self, written: Written) -> Committed:
        """Make files part of the view's tables; readers see them when a cut record names the new state."""
        with self.lock:
            version = self.log.commit(written.log)
            auxiliary = -1 if self.auxiliary is None else self.auxiliary.commit(written.auxiliary)
            self.pending = tuple(w for w in self.pending if w is not written)
            return Committed(version, auxiliary)

    def settle(self, done: Committed, through: Seq) -> None:
        """The tables hold everything up to `through` now."""
        newest = max(done.version, self.state.version)
        self.state = replace(
            self.state,
            version=newest,
            auxiliary=max(done.auxiliary, self.state.auxiliary),
            through=Seq(max(through, self.state.through)),
            refreshed=time.time() if self.periodic else 0.0,
        )

    @property
    def in_order(self) -> bool:
        """Whether batches must be committed in order. Convergence does not ask for it, but an aggregation builds every
        batch on the one before, and so does a view over views."""
        return self.merged or self.auxiliary is not None or bool(self.plan.view.parents)

    def settle_ahead(self, done: Committed, lo: Seq, hi: Seq) -> None:
        """A batch of a convergent view is there; `seq` moves on when everything before it is there too."""
        self.settle(done, self.state.through)
        ahead = sorted([*self.state.ahead, (lo, hi)])
        seq = self.state.seq
        while ahead and ahead[0][0] <= seq:
            seq = Seq(max(seq, ahead.pop(0)[1]))
        self.state = replace(self.state, seq=seq, through=seq, ahead=tuple(ahead))

    def holds(self, lo: Seq, hi: Seq) -> bool:
        """Whether the transactions (lo, hi] are in the view already."""
        return hi <= self.state.seq or any(low <= lo and hi <= high for low, high in self.state.ahead)

    def halt(self, halt: Halt) -> None:
        self.state = replace(self.state, state="halted", reason=halt.reason, fix=halt.fix, resumable=halt.resumable)
        self.pending = ()

    def skipped(self, lo: Seq, hi: Seq) -> None:
        """What lies between was taken as one state."""
        if self.complete and hi - lo > 1:
            self.state = replace(self.state, gaps=(*self.state.gaps, (lo, hi)))

    def revived(self) -> ManagedView:
        """The halted view as one that can be maintained again, from what its cut names."""
        state = replace(self.state, state="live", reason="", fix="", resumable=False)
        view = ManagedView(self.plan, self.storage, state, self.identities)
        view.log.rewind(state.version)
        if view.auxiliary is not None:
            view.auxiliary.rewind(state.auxiliary)
        return view


@dataclass(frozen=True)
class Halt:
    """Why a view is no longer maintained, and what to do. `resumable`: what happens at its sources is still journaled,
    so it can go on from where it stopped."""

    reason: str
    fix: str = "'headwater apply' loads it again"
    resumable: bool = False


def own_identities(plan: ViewPlan, known: Mapping[TableName, Identities]) -> dict[TableName, Identities]:
    """Of the columns that this view uses: what becomes of others is no concern of it."""
    return {
        table: {c: known[table][c] for c in plan.schemas[table].names}
        for table in plan.view.base_tables
        if table in known
    }


def new_view(storage: Storage, plan: ViewPlan, identities: Mapping[TableName, Identities]) -> ManagedView:
    """Tables for a view that is about to be loaded; nothing refers to them until its first cut."""
    view = plan.view
    folder = f"{view_folder(view.name)}/{plan.fingerprint}-{uuid.uuid4().hex[:8]}"
    state = ViewState(
        folder, -1, -1, Seq(0), Seq(0), view.level.value, plan.fingerprint, plan.sources, every=view.every
    )
    own = own_identities(plan, identities)
    managed = ManagedView(plan, storage, state, own)
    managed.log.create(plan.log)
    if managed.auxiliary is not None and plan.auxiliary is not None:
        managed.auxiliary.create(plan.auxiliary)
    about = About(view.name, view.text, statement_of(view), view.file, own)
    storage.put(f"{folder}/{ABOUT}", about.to_json())
    return managed
