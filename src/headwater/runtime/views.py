"""A view at work: its plan, its tables in the warehouse, and the steps that change them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from urllib.parse import quote

from headwater.model.consistency import Level
from headwater.model.names import Seq, ViewName
from headwater.runtime.jobs import Written
from headwater.runtime.plans import ViewPlan
from headwater.runtime.tasks import AggregateWork, Target
from headwater.storage import Storage
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.table import ChangelogTable, DataFile

FOLDER = "views"


def view_folder(name: ViewName) -> str:
    return f"{FOLDER}/{quote(name, safe='')}"


@dataclass
class ManagedView:
    """`pending` are auxiliary files of batches computed but not yet committed: the next batch builds on them."""

    plan: ViewPlan
    storage: Storage
    state: ViewState
    pending: tuple[DataFile, ...] = ()

    def __post_init__(self) -> None:
        self.log = ChangelogTable(self.storage, f"{self.state.folder}/log")
        self.auxiliary = ChangelogTable(self.storage, f"{self.state.folder}/auxiliary") if self.plan.auxiliary else None

    @property
    def name(self) -> ViewName:
        return self.plan.view.name

    @property
    def live(self) -> bool:
        return self.state.state == "live"

    def target(self, label: str) -> Target:
        return Target(self.storage, self.log.folder, label, self.plan.log)

    def aggregation(self, hi: Seq, first: bool = False) -> AggregateWork | None:
        """The aggregation of a batch that ends at `hi`, on top of everything computed so far."""
        if self.auxiliary is None or self.plan.view.aggregation is None or self.plan.auxiliary is None:
            return None
        target = Target(self.storage, self.auxiliary.folder, str(hi), self.plan.auxiliary, "auxiliary")
        names = [] if first else [*self.auxiliary.files(), *(f.name for f in self.pending)]
        files = tuple(self.storage.path(f"{self.auxiliary.folder}/{n}") for n in names)
        return AggregateWork(self.plan.view.aggregation, self.plan.types, files, target, hi, first)

    def commit(self, written: Written, seq: Seq) -> None:
        """Make files part of the view's tables; readers see them when a cut record names the new state."""
        version = self.log.commit(written.log)
        auxiliary = -1
        if self.auxiliary is not None:
            auxiliary = self.auxiliary.commit(written.auxiliary)
            done = {f.name for f in written.auxiliary}
            self.pending = tuple(f for f in self.pending if f.name not in done)
        self.state = replace(self.state, version=version, auxiliary=auxiliary, seq=seq)

    @property
    def in_order(self) -> bool:
        """Whether batches must be committed in order. Convergence does not ask for it, but an aggregation builds every
        batch on the one before."""
        return self.plan.view.level is not Level.CONVERGENT or self.auxiliary is not None

    def commit_ahead(self, written: Written, lo: Seq, hi: Seq) -> None:
        """Commit a batch whenever it is done; `seq` moves on when everything before it is there too."""
        version = self.log.commit(written.log)
        done = sorted([*self.state.ahead, (lo, hi)])
        seq = self.state.seq
        while done and done[0][0] <= seq:
            seq = Seq(max(seq, done.pop(0)[1]))
        self.state = replace(self.state, version=version, seq=seq, ahead=tuple(done))

    def holds(self, lo: Seq, hi: Seq) -> bool:
        """Whether the transactions (lo, hi] are in the view already."""
        return hi <= self.state.seq or any(low <= lo and hi <= high for low, high in self.state.ahead)

    def halt(self, reason: str) -> None:
        self.state = replace(self.state, state="halted", reason=reason)
        self.pending = ()


def new_view(storage: Storage, plan: ViewPlan) -> ManagedView:
    """Tables for a view that is about to be loaded; nothing refers to them until its first cut."""
    folder = f"{view_folder(plan.view.name)}/{plan.fingerprint}-{uuid.uuid4().hex[:8]}"
    sources = tuple(sorted({table.source for table in plan.view.tables}))
    state = ViewState(folder, -1, -1, Seq(0), Seq(0), plan.view.level.value, plan.fingerprint, sources)
    view = ManagedView(plan, storage, state)
    view.log.create(plan.log)
    if view.auxiliary is not None and plan.auxiliary is not None:
        view.auxiliary.create(plan.auxiliary)
    about = {"name": plan.view.name, "sql": plan.view.text, "level": plan.view.level.value, "file": plan.view.file}
    storage.put(f"{folder}/view.json", json.dumps(about, ensure_ascii=False, indent=1).encode())
    return view
