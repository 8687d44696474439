"""How far sources, views and the warehouse are: what `headwater status` shows. Asks the sources, starts no JVM.

Lag is measured from commit to visible. While something waits, it is the age of the oldest change that was captured and
is not shown yet: first looked for in the journal (numbered, not shown), then at the source itself (not numbered). While
nothing waits, it is what the run measured last. How old the cut is says nothing: a quiet source has an old cut.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from headwater.hub.chain_records import ChainRecord, ChainRecords
from headwater.integrator.journal import Journal
from headwater.model.changelog import SEQ
from headwater.model.errors import (
    CaptureMissing,
    ConfigError,
    HeadwaterError,
    LifeChanged,
    SourceRefused,
    SourceUnavailable,
)
from headwater.model.names import CLOCK, Position, Seq, SourceName, ViewName
from headwater.model.source import Capture, Source
from headwater.runtime.project.about import read_about
from headwater.runtime.reading.health import age_told
from headwater.runtime.report import read_report
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, ViewState
from headwater.warehouse.delta import is_table, table_bytes
from headwater.warehouse.layout import auxiliary_folder, log_folder
from headwater.warehouse.lease import Record
from headwater.warehouse.lock import holder
from headwater.warehouse.reading import Pinned, count_rows

if TYPE_CHECKING:
    from headwater.runtime.project.project import Project

COUNTED = 1_000_000
"""The rows of a view with a longer history are counted only on request."""


@dataclass(frozen=True)
class SourceStatus:
    """`waiting` counts captured changes that no cut shows yet; `lag_seconds` is the age of the oldest of them, or, when
    none waits, the last lag that the run measured. `state` is "ok", "captured, not loaded", "not captured",
    "unreachable" or "failing". Where changes are read from a server's log: `held_bytes` is what it keeps of it for us,
    `held_limit` beyond how much that is given up, `warning` is said from half of that on."""

    name: SourceName
    state: str
    reason: str
    position: str
    waiting: int | None = None
    lag_seconds: float | None = None
    held_bytes: int | None = None
    held_limit: int | None = None
    warning: str = ""
    chain: ChainRecord | None = None
    """Of a chain: what its last window took."""
    chained: bool = False
    """Whether it is asked for nothing but its part in chains."""


@dataclass(frozen=True)
class ViewStatus:
    """`seq` is the transaction up to which it is shown, `computed` how far its manager is; `waits` what keeps the one
    from the other, `since` (seconds since 1970) when. Those three are known while a run goes on. `rows` is None where
    counting them takes long and was not asked for."""

    name: ViewName
    seq: Seq
    rows: int | None
    level: str
    state: str
    reason: str
    horizon: Seq
    fix: str = ""
    every: int = 1
    computed: Seq | None = None
    waits: str = ""
    since: float | None = None
    kept_for: str = ""
    """The view that it is kept for, if nobody wrote it."""
    bytes: int = 0
    """What its files take, those of its groups included."""
    questions: int | None = None
    saved: int | None = None
    """What it asked of sources, and of views instead, since the run began."""
    maintenance: str = ""
    """The algorithm that maintains it, if it is not the wave."""
    lag_seconds: float | None = None
    """The age of the oldest change of its sources that it does not show, or what the last one took; None if nobody
    knows."""
    target: float | None = None
    """How fresh it is wanted ([views.NAME] freshness)."""


@dataclass(frozen=True)
class Status:
    """`running` says who maintains the warehouse right now, None if nobody does; `report` is what it tells."""

    cut: Cut
    sources: Sequence[SourceStatus]
    views: Sequence[ViewStatus]
    running: Record | None
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def troubles(self) -> list[str]:
        """What is not good, one line each; nothing if all is."""
        said = [] if self.cut.number and self.views else ["nothing is maintained yet"]
        said += [f"source {s.name} is {s.state}" for s in self.sources if s.state != "ok"]
        said += [f"view {v.name} is {v.state}" for v in self.views if v.state != "live"]
        return said + [f"view {name} could not be built" for name in self.report.get("not_built", ())]


def take_status(project: Project, rows: bool) -> Status:
    """Look at everything once; `rows` says to count the rows of large views too."""
    cut = project.cut(create=True)
    running = holder(project.storage)
    report = (read_report(project.storage) or {}) if running is not None else {}
    look = _Look(project, cut, report)
    sources = [look.source(SourceName(name)) for name in project.config.sources]
    chains = {source for view in cut.views.values() for source in view.sources} - set(project.config.sources) - {CLOCK}
    sources += [look.chain(source, project.storage) for source in sorted(chains)]
    told = {v["name"]: v for v in report.get("views", ()) if v["shown"]}
    views = [_view(project, name, state, told.get(name, {}), rows) for name, state in cut.views.items()]
    status = Status(cut, sources, views, running, report)
    lags = [replace(v, lag_seconds=lag_of(status, v.name), target=project.config.freshness.get(v.name)) for v in views]
    return replace(status, views=lags)


def told_of(found: Status, view: ViewName) -> Mapping[str, Any]:
    """What the run tells of a view that is shown."""
    views: Iterable[Mapping[str, Any]] = found.report.get("views", ())
    return next((v for v in views if v["name"] == view and v.get("shown")), {})


def lag_of(found: Status, view: ViewName, now: float | None = None) -> float | None:
    """How far a view is behind its sources: what the run tells, and what a source has captured that nobody has numbered
    yet."""
    state, at = found.cut.views[view], time.time() if now is None else now
    told = told_of(found, view)
    sources = [found.report.get("sources", {}).get(source, {}) for source in state.sources]
    ages = [age_told(told, sources, at)] if found.running is not None else []
    ages += [s.lag_seconds for s in found.sources if s.name in state.sources and s.waiting]
    return max((age for age in ages if age is not None), default=None)


def _view(project: Project, name: ViewName, state: ViewState, told: Mapping[str, Any], rows: bool) -> ViewStatus:
    pinned = Pinned(log_folder(state.folder), state.version, state.seq)
    about = read_about(project.storage, state.folder)
    return ViewStatus(
        name=name,
        seq=state.seq,
        rows=count_rows(project.storage, pinned, None if rows else COUNTED),
        level=state.level,
        state=state.state,
        reason=state.reason,
        horizon=state.horizon,
        fix=state.fix,
        every=state.every,
        kept_for=about.kept_for if about is not None else "",
        maintenance=about.maintenance if about is not None else "",
        computed=told.get("computed"),
        waits=told.get("waits", ""),
        since=told.get("since") or None,
        bytes=size_of(project.storage, state),
        questions=told.get("questions"),
        saved=told.get("saved"),
    )


def size_of(storage: Storage, state: ViewState) -> int:
    """The bytes of a view's files, as its tables name them."""
    folders = [log_folder(state.folder), auxiliary_folder(state.folder)]
    return sum(table_bytes(storage, folder) for folder in folders if is_table(storage, folder))


class _Look:
    """One look at the sources, beside the cut, the journal and what the run tells."""

    def __init__(self, project: Project, cut: Cut, report: Mapping[str, Any]) -> None:
        self._catalog, self._cut = project.catalog, cut
        self._told: Mapping[str, Any] = report.get("sources", {})
        self._journal = Journal(project.storage)

    def source(self, name: SourceName) -> SourceStatus:
        source = self._catalog.source(name)  # settings that are not usable are the user's to correct
        try:
            capture = source.capture()
        except HeadwaterError as error:
            return SourceStatus(name, _trouble(error), error.what, self._cut.positions.get(name) or "")
        found = self._captured(source, capture)
        held = capture.held if capture is not None else None
        if held is None:
            return found
        return replace(found, held_bytes=held.bytes, held_limit=held.limit, warning=held.warning)

    def chain(self, name: SourceName, storage: Storage) -> SourceStatus:
        """A chain, as the run and the hub last told of it: agents are asked for nothing."""
        told = self._told.get(name, {})
        state, reason = told.get("state", "ok"), told.get("reason", "")
        position = str(told.get("position") or self._cut.positions.get(name) or "")
        record = ChainRecords(storage).last(name)
        return SourceStatus(name, state, reason, position, chain=record)

    def _captured(self, source: Source, capture: Capture | None) -> SourceStatus:
        name, position = source.name, self._cut.positions.get(source.name)
        if capture is not None and not capture.broken and self._catalog.spec(name).chained:
            return SourceStatus(name, "ok", "", "", chained=True)
        if capture is None or position is None:
            return _not_read(name, capture, position)
        if self._cut.generations.get(name, capture.generation) != capture.generation:
            renewed = "its capture was removed and installed anew; 'headwater run' loads its views anew"
            return SourceStatus(name, "failing", renewed, position)
        try:
            source.check(position, [])
            state, reason = self._state(name, capture)
            return SourceStatus(name, state, reason, position, *self._lag(name, source, capture, position))
        except HeadwaterError as error:
            return SourceStatus(name, _trouble(error), error.what, position)

    def _state(self, name: SourceName, capture: Capture) -> tuple[str, str]:
        if capture.broken:
            return "failing", "; ".join(f"{table}: {why}" for table, why in sorted(capture.broken.items()))
        told = self._told.get(name, {})
        return told.get("state", "ok"), told.get("reason", "")

    def _lag(self, name: SourceName, source: Source, capture: Capture, position: Position) -> tuple[int, float | None]:
        """How many captured changes are not shown, and for how long the oldest of them has been committed."""
        told = self._told.get(name, {})
        shown = min((v.seq for v in self._live() if name in v.sources), default=self._cut.seq)
        numbered = self._first_numbered(name, shown)
        if numbered is not None:
            segment = self._journal.at(shown)
            before = segment.positions.get(name, position) if segment and segment.hi > self._cut.seq else position
            return source.waiting(before), numbered
        newest = self._journal.newest
        # what has a number is shown; the run may know of more that concerned no view
        known = told.get("numbered") or (newest.positions.get(name) if newest and newest.hi > self._cut.seq else None)
        waiting = source.waiting(known or position)
        if not waiting:
            return 0, told.get("lag")
        first = self._first_captured(source, capture, known or position)
        return waiting, first if first is not None else told.get("lag")

    def _live(self) -> Iterable[ViewState]:
        return (state for state in self._cut.views.values() if state.state == "live")

    def _first_numbered(self, name: SourceName, shown: Seq) -> float | None:
        """The age of the oldest numbered transaction of a source that is not shown."""
        newest = self._journal.newest
        if newest is None or newest.hi <= shown:
            return None
        for transactions in self._journal.transactions(shown, newest.hi):
            own = transactions.filter(pc.equal(transactions.column("source"), name))
            if own.num_rows:
                return _age(pc.min(own.sort_by(SEQ).slice(0, 1).column("committed_at")).as_py())
        return None

    def _first_captured(self, source: Source, capture: Capture, after: Position) -> float | None:
        """The age of the oldest captured transaction that has no number yet; None if it is of no interest."""
        schemas = self._catalog.described(source.name)
        tables = {t: (schemas[t].supported()[0].name,) for t in sorted(capture.tables) if t in schemas}
        told = source.poll(after, tables, 1).transactions
        if not told.num_rows:
            return None
        (times,) = source.commit_times([told.column("transaction")[0].as_py()])
        return _age(times[0] if times is not None else told.column("committed_at")[0].as_py())


def _not_read(name: SourceName, capture: Capture | None, position: Position | None) -> SourceStatus:
    if capture is not None:
        return SourceStatus(name, "captured, not loaded", "", "")
    removed = "capture was removed: nothing that happens there is seen; 'headwater setup' installs it"
    return SourceStatus(name, "not captured", removed if position is not None else "", position or "")


def _trouble(error: HeadwaterError) -> str:
    if isinstance(error, SourceUnavailable | SourceRefused | ConfigError):
        return "unreachable"
    return "not captured" if isinstance(error, CaptureMissing) and not isinstance(error, LifeChanged) else "failing"


def _age(committed: Any) -> float | None:
    return None if committed is None else max(0.0, time.time() - committed.timestamp())
