"""The tables of the views in a warehouse: what is committed, and what is computed but not committed yet.

Batches of a view are committed in order while the next ones are computed already, and views that read it must see both:
so every question for a view's files includes those that are pending. Used by several threads; one lock per view.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from headwater.model.names import Seq, TableName
from headwater.model.schema import Identities
from headwater.model.written import Written
from headwater.runtime.commit.conversion import converted
from headwater.runtime.commit.events import TableVersions
from headwater.runtime.commit.folding import Rewritten
from headwater.runtime.project.about import ABOUT, About, maintained_by, read_about, statement_of
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.view import ManagedView, own_identities
from headwater.storage import Storage, folder_name
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.layout import auxiliary_folder, log_folder
from headwater.warehouse.table import ChangelogTable, LogFile

FOLDER = "views"


class Tables(Protocol):
    """What the coordinator does with the tables of a view."""

    def computed(self, view: ManagedView, written: Written) -> None:
        """Computed, and not committed yet."""

    def commit(self, view: ManagedView, written: Written) -> TableVersions:
        """Make files part of the view's tables; readers see them when a cut record names the new state."""

    def rewind(self, view: ManagedView, versions: TableVersions) -> None:
        """Undo what no cut mentions, so that the view can go on from there."""

    def forget(self, view: ManagedView) -> None:
        """The view is no longer maintained: nothing builds on what is pending."""

    def committed(self, view: ManagedView, auxiliary: bool) -> list[LogFile]:
        """The files that one of its tables holds, and no others."""

    def rewrite(self, view: ManagedView, auxiliary: bool, rewritten: Rewritten) -> TableVersions:
        """Put files in the place of others; the other table keeps its version."""

    def recover(self, state: ViewState, keep: Sequence[ViewState]) -> None:
        """Undo whatever this state does not name, but for what other states of the same tables still need."""

    def convert(self, view: ManagedView, seq: Seq) -> bool:
        """Whether what its groups keep was written by an earlier version, and is now as this one wants it."""
        ...

    def means(self, view: ManagedView, identities: Mapping[TableName, Identities]) -> None:
        """Its columns were altered harmlessly: these are the ones it means from now on, in the next run too."""

    def says(self, view: ManagedView) -> None:
        """Another algorithm maintains it now, with the same content: so it is in the next run too."""


@dataclass
class _Open:
    """The tables of one view."""

    log: ChangelogTable
    auxiliary: ChangelogTable | None
    pending: tuple[Written, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)


class ViewTables:
    """The tables of all views, opened when they are first used."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._meant: dict[str, Mapping[TableName, Identities]] = {}
        self._open: dict[ManagedView, _Open] = {}
        """By view, not by folder: one that is resumed builds on nothing that it computed before it was halted."""
        self._lock = threading.Lock()

    def computed(self, view: ManagedView, written: Written) -> None:
        tables = self._of(view)
        with tables.lock:
            tables.pending = (*tables.pending, written)

    def commit(self, view: ManagedView, written: Written) -> TableVersions:
        tables = self._of(view)
        with tables.lock:
            version = tables.log.commit(written.log)
            auxiliary = -1 if tables.auxiliary is None else tables.auxiliary.commit(written.auxiliary)
            tables.pending = tuple(w for w in tables.pending if w is not written)
            return TableVersions(version, auxiliary)

    def rewind(self, view: ManagedView, versions: TableVersions) -> None:
        tables = self._of(view)
        with tables.lock:
            tables.pending = ()
            tables.log.rewind(versions.log)
            if tables.auxiliary is not None:
                tables.auxiliary.rewind(versions.auxiliary)

    def forget(self, view: ManagedView) -> None:
        with self._lock:
            tables = self._open.pop(view, None)
        if tables is not None:
            with tables.lock:
                tables.pending = ()

    def recover(self, state: ViewState, keep: Sequence[ViewState]) -> None:
        parts = ((log_folder(state.folder), "version"), (auxiliary_folder(state.folder), "auxiliary"))
        for folder, which in parts:
            version: int = getattr(state, which)
            if version >= 0:
                table = ChangelogTable(self.storage, folder)
                table.rewind(version)
                table.remove_orphans([version, *(getattr(other, which) for other in keep)])

    def convert(self, view: ManagedView, seq: Seq) -> bool:
        return converted(self.storage, view, seq)

    def means(self, view: ManagedView, identities: Mapping[TableName, Identities]) -> None:
        self._meant[view.folder] = identities
        about = read_about(self.storage, view.folder)
        if about is not None:
            self.storage.put(f"{view.folder}/{ABOUT}", replace(about, identities=identities).to_json())

    def says(self, view: ManagedView) -> None:
        about, statement = read_about(self.storage, view.folder), statement_of(view.plan.view)
        who = maintained_by(view.plan.view)
        if about is not None and about.maintenance != who:
            told = replace(about, statement=statement, maintenance=who)
            self.storage.put(f"{view.folder}/{ABOUT}", told.to_json())

    def identities(self, view: ManagedView) -> Mapping[TableName, Identities]:
        """The columns that a view means, as they were last seen."""
        return self._meant.get(view.folder, view.identities)

    def create(self, plan: ViewPlan, identities: Mapping[TableName, Identities]) -> ManagedView:
        """Tables for a view that is about to be loaded; nothing refers to them until its first cut."""
        folder = f"{FOLDER}/{folder_name(plan.view.name)}/{plan.fingerprint}-{uuid.uuid4().hex[:8]}"
        view = ManagedView(plan, folder, own_identities(plan, identities))
        tables = self._of(view)
        tables.log.create(plan.log)
        if tables.auxiliary is not None and plan.auxiliary is not None:
            tables.auxiliary.create(plan.auxiliary)
        definition, statement = plan.view, statement_of(plan.view)
        about = About(
            definition.name,
            definition.text,
            statement,
            definition.file,
            view.identities,
            definition.kept_for or "",
            maintained_by(definition),
        )
        self.storage.put(f"{folder}/{ABOUT}", about.to_json())
        return view

    # ------------------------------------------------------------ their files

    def log_files(self, view: ManagedView) -> list[LogFile]:
        """The files of the view's changelog, those not yet committed included."""
        tables = self._of(view)
        with tables.lock:
            pending = [LogFile(f.name, f.rows, f.low, f.high) for w in tables.pending for f in w.log]
            return [*tables.log.log_files(), *pending]

    def log_paths(self, view: ManagedView) -> list[str]:
        folder = log_folder(view.folder)
        return [self.storage.path(f"{folder}/{file.name}") for file in self.log_files(view)]

    def auxiliary_paths(self, view: ManagedView) -> list[str]:
        """The files of its auxiliary changelog, those not yet committed included."""
        tables, folder = self._of(view), auxiliary_folder(view.folder)
        assert tables.auxiliary is not None
        with tables.lock:
            names = [*tables.auxiliary.files(), *(f.name for w in tables.pending for f in w.auxiliary)]
        return [self.storage.path(f"{folder}/{name}") for name in names]

    # ------------------------------------------------------------- compaction

    def committed(self, view: ManagedView, auxiliary: bool) -> list[LogFile]:
        tables = self._of(view)
        with tables.lock:
            return self._table(tables, auxiliary).log_files()

    def rewrite(self, view: ManagedView, auxiliary: bool, rewritten: Rewritten) -> TableVersions:
        tables = self._of(view)
        with tables.lock:
            version = self._table(tables, auxiliary).commit(rewritten.added, rewritten.removed)
            return TableVersions(-1, version) if auxiliary else TableVersions(version, -1)

    @staticmethod
    def _table(tables: _Open, auxiliary: bool) -> ChangelogTable:
        if auxiliary:
            assert tables.auxiliary is not None
            return tables.auxiliary
        return tables.log

    def _of(self, view: ManagedView) -> _Open:
        with self._lock:
            if view not in self._open:
                log = ChangelogTable(self.storage, log_folder(view.folder))
                kept = ChangelogTable(self.storage, auxiliary_folder(view.folder)) if view.plan.auxiliary else None
                self._open[view] = _Open(log, kept)
            return self._open[view]


def first_state(view: ManagedView, versions: TableVersions, seq: Seq) -> ViewState:
    """The state of a view that was loaded as of `seq`."""
    plan = view.plan
    return ViewState(
        view.folder,
        versions.log,
        versions.auxiliary,
        seq,
        seq,
        plan.view.level.value,
        plan.fingerprint,
        plan.sources,
        through=seq,
        every=plan.view.every,
        order=plan.view.order,
    )
