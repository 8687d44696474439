"""Watching the sources' tables: a view whose columns are no longer those it was loaded from is halted, with the reason.

The adapters compare in every snapshot they read, so nothing is told or answered across such a change; here it is found
out which views it concerns. Looked at when a source refuses, and from time to time, in a thread of its own: a source
that does not answer holds up nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.model.errors import HeadwaterError, PositionTrimmed, SchemaChanged
from headwater.model.logged import event
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Identities, Identity, TableSchema
from headwater.model.source import Capture, Source
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.view import Halt

log = logging.getLogger(__name__)

SECONDS = 5.0
LOAD_AGAIN = "'headwater apply' loads it again"
MEND = "change it back or change the view, then 'headwater apply' loads it again"
SETUP = "run 'headwater setup', then 'headwater apply', which loads it again"


@dataclass(frozen=True)
class Watched:
    plan: ViewPlan
    identities: Mapping[TableName, Identities]
    """Empty for a view that is yet to be loaded."""


@dataclass(frozen=True)
class _Seen:
    """What a look found: views that cannot go on, and what the columns of others have become."""

    halts: Mapping[str, Halt]
    moved: Mapping[str, tuple[Watched, Mapping[TableName, Identities]]]
    warning: str = ""
    """What a person should know of the source meanwhile."""


Look = Callable[[SourceName], "Present"]
"""Asks a source what it is now. Called in the watch's thread."""


class SchemaWatch:
    """Knows which views rely on which columns, and names views to halt. Views are known by their fingerprints: one that
    is being replaced has two."""

    def __init__(self, look: Look, pool: Executor, clock: Clock = SYSTEM) -> None:
        self._look, self._pool, self._clock = look, pool, clock
        self._watched: dict[str, Watched] = {}
        self._broken: set[str] = set()
        self._last: dict[SourceName, float] = {}
        self._looking: dict[SourceName, Future[_Seen]] = {}
        self._moved: dict[str, Mapping[TableName, Identities]] = {}
        self._again: set[SourceName] = set()
        self._looks: dict[SourceName, int] = {}
        self._warned: dict[SourceName, str] = {}
        self._warnings: list[str] = []

    def add(self, plan: ViewPlan, identities: Mapping[TableName, Identities]) -> None:
        """Watch the tables of this view too."""
        self._watched[plan.fingerprint] = Watched(plan, identities)
        self._broken.discard(plan.fingerprint)

    def limit_to(self, plans: Iterable[ViewPlan]) -> None:
        """Watch the tables of these views only."""
        wanted = {plan.fingerprint for plan in plans}
        self._watched = {mark: one for mark, one in self._watched.items() if mark in wanted}

    def broke(self, marks: Iterable[str]) -> None:
        """These views cannot go on from where they are: what happens at their tables need not be told for them."""
        self._broken |= set(marks)

    @property
    def sources(self) -> set[SourceName]:
        """The sources that views rely on: what they tell must not be interrupted."""
        return {source for one in self._whole() for source in one.plan.sources}

    def columns(self, source: SourceName) -> dict[TableName, tuple[str, ...]]:
        """The tables to poll at a source, with the columns that some view uses."""
        used: dict[TableName, dict[str, None]] = {}
        for one in self._whole():
            for table in one.plan.view.base_tables:
                if table.source == source:
                    used.setdefault(table, {}).update(dict.fromkeys(one.plan.schemas[table].names))
        return {table: tuple(used[table]) for table in sorted(used)}

    def expected(self, source: SourceName) -> dict[TableName, Identities]:
        """Which columns the views mean."""
        found: dict[TableName, dict[str, Identity]] = {}
        for one in self._whole():
            for table, columns in one.identities.items():
                if table.source == source:
                    found.setdefault(table, {}).update(columns)
        return dict(found)

    def ask(self, source: SourceName) -> int:
        """Have the source looked at, from now on: a look under way may have seen it before. Returns which look it will
        be; `looked` says when it is over."""
        if source in self._looking:
            self._again.add(source)
            return self._looks.get(source, 0) + 2
        self._begin(source)
        return self._looks.get(source, 0) + 1

    @property
    def busy(self) -> bool:
        """Whether a source is being looked at."""
        return any(not look.done() for look in self._looking.values())

    def looked(self, source: SourceName) -> int:
        """How often the source has been looked at."""
        return self._looks.get(source, 0)

    def step(self, reachable: Collection[SourceName]) -> dict[str, Halt]:
        """Take in what was seen: newly unfit views and why. Look at a reachable source, if it is time."""
        found: dict[str, Halt] = {}
        for source, look in [(s, f) for s, f in self._looking.items() if f.done()]:
            del self._looking[source]
            self._looks[source] = self._looks.get(source, 0) + 1
            try:
                seen = look.result()
                found |= {mark: halt for mark, halt in seen.halts.items() if mark not in self._broken}
                self._remember(seen.moved)
                self._warn(source, seen.warning)
            except HeadwaterError as error:  # not now: the poller reports that the source is away
                log.info("source %s could not be looked at: %s", source, error.what, extra=_facts("not_seen", source))
            except Exception:  # a defect of ours, or a driver's: it is looked at again
                log.exception("source %s could not be looked at: a defect", source, extra=_facts("not_seen", source))
            if source in self._again:
                self._again.discard(source)
                self._begin(source)
        self.broke(found)
        now = self._clock.monotonic()
        # also those whose views all are halted: what the source keeps for them is looked at (`Capture.held`)
        sources = {t.source for one in self._watched.values() for t in one.plan.view.base_tables}
        for source in sorted((sources & set(reachable)) - set(self._looking)):
            if now - self._last.setdefault(source, now) > SECONDS:
                self._begin(source)
        return found

    def moved(self, marks: Collection[str]) -> dict[str, Mapping[TableName, Identities]]:
        """Those of these views whose columns were altered harmlessly since the last call, and what they mean from now
        on. A change is judged against what was seen last: a table written anew today and a default set tomorrow are no
        rewrite."""
        return {mark: self._moved.pop(mark) for mark in marks if mark in self._moved}

    def _remember(self, moved: Mapping[str, tuple[Watched, Mapping[TableName, Identities]]]) -> None:
        for mark, (one, identities) in moved.items():
            if self._watched.get(mark) is one and mark not in self._broken:
                self._watched[mark] = Watched(one.plan, identities)
                self._moved[mark] = identities

    def warnings(self) -> list[str]:
        """What was found since the last call that a person should know."""
        found, self._warnings = self._warnings, []
        return found

    def _warn(self, source: SourceName, warning: str) -> None:
        if warning and not self._warned.get(source):  # once, until it is over: its numbers change all the time
            log.warning("source %s: %s", source, warning, extra=_facts("warning", source))
            self._warnings.append(f"source {source}: {warning}")
        self._warned[source] = warning

    def _begin(self, source: SourceName) -> None:
        self._last[source] = self._clock.monotonic()
        watched = {mark: one for mark, one in self._watched.items() if mark not in self._broken}
        self._looking[source] = self._pool.submit(self._compare, source, watched)

    def _compare(self, source: SourceName, watched: Mapping[str, Watched]) -> _Seen:
        """In the background: what the views rely on beside what the source has now."""
        now = self._look(source)
        found = {mark: broken_by(one, now) for mark, one in watched.items()}
        whole = {mark: one for mark, one in watched.items() if found[mark] is None}
        present = {mark: (one, _as_now(one, now)) for mark, one in whole.items()}
        return _Seen(
            {mark: halt for mark, halt in found.items() if halt is not None},
            {mark: (one, identities) for mark, (one, identities) in present.items() if identities != one.identities},
            now.capture.held.warning if now.capture is not None and now.capture.held is not None else "",
        )

    def lost(self, source: SourceName, error: HeadwaterError) -> dict[str, Halt]:
        """The source's past is another one: every view that reads it halts."""
        found = {
            mark: halt_by(error)
            for mark, one in self._watched.items()
            if mark not in self._broken and source in one.plan.sources
        }
        self.broke(found)
        return found

    def _whole(self) -> list[Watched]:
        return [one for mark, one in self._watched.items() if mark not in self._broken]


def halt_by(error: HeadwaterError) -> Halt:
    """Halted by what a source said. That a position is forgotten helps an adapter's caller, not a person."""
    fix = "" if isinstance(error, PositionTrimmed) else error.fix
    return Halt(error.what, fix or LOAD_AGAIN)


@dataclass(frozen=True)
class Present:
    """A source as it is now, asked once however many views read it."""

    adapter: Source
    tables: Mapping[TableName, TableSchema]
    capture: Capture | None
    _known: dict[TableName, Identities] = field(default_factory=dict)

    def identities(self, table: TableName, columns: Collection[str]) -> Identities:
        """Which columns these names of a table stand for. All of the table are asked for at once; one that is gone
        since the tables were listed is no concern of views that do not use it."""
        if table not in self._known:
            supported = [c.name for c in self.tables[table].supported()]
            with suppress(SchemaChanged):
                self._known[table] = self.adapter.identities({table: supported})[table]
        known = self._known.get(table, {})
        return known if set(columns) <= set(known) else self.adapter.identities({table: list(columns)})[table]


def broken_by(view: Watched, now: Present) -> Halt | None:
    """Why a view cannot go on with what this source has now."""
    source, capture = now.adapter.name, now.capture
    for table in view.plan.view.base_tables:
        if table.source != source:
            continue
        gone = _unfit(view.plan, table, now.tables.get(table))
        if gone:
            return Halt(gone, MEND)
        if capture is None:
            return Halt(f"the capture at {source} was removed", SETUP)
        if table not in capture.tables:
            return Halt(f"{table}: {capture.broken.get(table, 'its capture was removed')}", SETUP)
        another = _another(view, table, now)
        if another is not None:
            return another
    return None


def _unfit(plan: ViewPlan, table: TableName, now: TableSchema | None) -> str:
    if now is None:
        return f"table {table} is gone"
    for needed in plan.schemas[table]:
        column = now.column(needed.name)
        if column is None:
            return f"column {needed.name} of {table} was dropped or renamed"
        if column.type != needed.type:
            return f"column {needed.name} of {table} is now of type {column.declared}"
    return ""


def _another(view: Watched, table: TableName, present: Present) -> Halt | None:
    """Whether a column is another one than the view was loaded from."""
    known = view.identities.get(table, {})
    try:
        now = present.identities(table, known) if known else {}
    except HeadwaterError as error:
        return None if error.retry_helps else halt_by(error)
    for column, identity in known.items():
        became = identity.became(now[column])
        if became:
            return Halt(f"column {column} of {table} {became}")
    return None


def _as_now(view: Watched, present: Present) -> Mapping[TableName, Identities]:
    """What a view that can go on means by its columns, as this source has them now."""
    found = dict(view.identities)
    for table, known in view.identities.items():
        if table.source == present.adapter.name and known:
            try:
                now = present.identities(table, known)
            except HeadwaterError:  # another time
                continue
            found[table] = {column: now[column] for column in known}
    return found


def _facts(what: str, source: SourceName) -> dict[str, object]:
    return event(f"source.{what}", source=source)
