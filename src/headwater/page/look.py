"""What is known of a project now: the newest cut, who maintains it, what that run tells, what was verified.

It is shared by all who look at the page. Files that never change (a view's definition, a verdict) are read once; what
changes is looked at no more often than every `FRESH_SECONDS`, and a cut is decoded only when there is a new one.

Invariant: a warehouse that was there and is not any more is an error, never an empty one; and nothing that was
remembered of one is told of another that was put in its place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.model.errors import HistoryGone, WarehouseError
from headwater.model.names import SourceName, ViewName
from headwater.runtime.project.about import About, read_about
from headwater.runtime.project.project import Project
from headwater.runtime.report import FILE, parse_report
from headwater.warehouse.cuts import Cut, CutLog, Moment
from headwater.warehouse.format import identity_of
from headwater.warehouse.lease import Record
from headwater.warehouse.lock import holder
from headwater.warehouse.verdicts import Verdict, VerdictLog

FRESH_SECONDS = 0.05
SAME_SECONDS = 5.0
"""What has not changed is looked at anew all the same: some of it grows old."""


@dataclass(frozen=True)
class Now:
    """One look. `report` is empty where nothing runs."""

    at: float
    cut: Cut
    running: Record | None
    report: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    abouts: Mapping[ViewName, About | None] = field(default_factory=dict)

    def told(self, view: str) -> Mapping[str, Any]:
        """What the run tells of a view that is shown."""
        return self.by_view.get(view, {})

    @property
    def by_view(self) -> dict[str, Mapping[str, Any]]:
        return {v["name"]: v for v in self.report.get("views", ()) if v.get("shown")}

    def told_of_source(self, source: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.report.get("sources", {}).get(source)
        return found

    def reads(self, view: ViewName) -> tuple[list[SourceName], list[ViewName]]:
        """The sources and the views that a view reads itself."""
        about = self.abouts.get(view)
        tables = list(about.identities) if about is not None else []
        parents = [ViewName(t.table) for t in tables if t.is_view]
        own = sorted({t.source for t in tables if not t.is_view})
        return (own, parents) if tables else (sorted(self.cut.views[view].sources), [])


class Look:
    """Looks at a project, for any number of threads."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.life = 0
        """Of which warehouse: one more whenever another was found in its place."""
        self._identity = identity_of(project.storage)
        self._lock = threading.Lock()
        self._verdicts = VerdictLog(project.storage)
        self._abouts: dict[str, About | None] = {}
        self._now: Now | None = None
        self._looked, self._whole, self._seen = 0.0, 0.0, tuple[Any, ...]()

    def moved(self) -> bool:
        """Whether there is a newer cut than the one that was seen last, told by one look for a file: cheap enough to be
        asked all the time, where the warehouse is a folder. Elsewhere it is never told so."""
        return self.project.cuts.moved()

    def now(self) -> Now:
        """The same value as before where nothing has happened."""
        with self._lock:
            if self._now is None or time.monotonic() - self._looked > FRESH_SECONDS or self.moved():
                self._now, self._looked = self._take(self._now), time.monotonic()
            return self._now

    def moments(self, most: int) -> list[Moment]:
        with self._lock:  # a table of deltalake serves one thread at a time
            return self.project.cuts.moments(most)

    def cuts_since(self, number: int, most: int) -> list[Cut]:
        with self._lock:
            return self.project.cuts.since(number, most)

    def _take(self, before: Now | None) -> Now:
        storage = self.project.storage
        cut, running, verdicts = self._cut(before), holder(storage), self._verdicts.all()
        told = (storage.get(FILE) or b"") if running is not None else b""
        seen = (cut, running, verdicts, told)
        if before is not None and seen == self._seen and time.time() - before.at < SAME_SECONDS:
            return before
        self._seen = seen
        report = parse_report(told, storage.uri(FILE)) if told else {}
        abouts = {name: self._about(state.folder) for name, state in cut.views.items()}
        return Now(time.time(), cut, running, report, verdicts, abouts)

    def _cut(self, before: Now | None) -> Cut:
        """The newest one. What a glance does not see, a log that was tidied, is seen some seconds later."""
        if before is not None and before.cut.number and time.monotonic() - self._whole <= SAME_SECONDS:
            return self.project.cuts.glance()
        self._whole = 0.0
        self._check_same(before)
        cut = self.project.cut(create=True)
        self._whole = time.monotonic()
        return cut

    def _check_same(self, before: Now | None) -> None:
        found = identity_of(self.project.storage)
        if not found and before is not None and before.cut.number:
            url = self.project.storage.url
            raise WarehouseError(
                f"the warehouse at {url} is gone", "put it back; 'headwater run' would begin a new one"
            )
        if self._identity and found and found != self._identity:
            self.project.cuts = CutLog(self.project.storage)
            self._verdicts, self._abouts, self._now = VerdictLog(self.project.storage), {}, None
            self.life += 1
        self._identity = found or self._identity

    def _about(self, folder: str) -> About | None:
        if folder not in self._abouts:
            self._abouts[folder] = read_about(self.project.storage, folder)
        return self._abouts[folder]


def maintained(now: Now) -> Cut:
    """The newest cut, for parts that need one."""
    if not now.cut.number:
        raise HistoryGone("nothing is maintained yet", "run 'headwater run': it loads the views and keeps them current")
    return now.cut
