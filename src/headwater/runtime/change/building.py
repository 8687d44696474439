"""Views come and go while the others are maintained.

    waiting     until every source a new view reads has been asked with its tables included
    copying     the tables as of that moment L, in the background
    joining     the copies, view by view, parents first
    catching up what happened after L, in large batches, seen by nobody
    in step     from transaction J on it takes part in the painting; up to J it catches up
    shown       one cut in which new views appear, replaced ones have their new content and dropped ones are gone

Invariant: at J the new views' tables hold exactly what the cut shows of the others, because no row at or before J is
still open and every row after J waits for the new views too.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace

from headwater.model.errors import HeadwaterError, PositionTrimmed
from headwater.model.logged import event
from headwater.model.names import FOREVER, Seq, SourceName, TableName, ViewName
from headwater.model.schema import Identities
from headwater.runtime.change.ports import Loaded, Loader, LoadOrder, NewSources
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.events import Resumed, TableVersions, after
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.commit.tables import Tables, first_state
from headwater.runtime.intake.identifying import Identified
from headwater.runtime.intake.load_point import LoadPoint
from headwater.runtime.progress import Meter
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.scheduling.families import Family
from headwater.runtime.scheduling.manager import ViewManager
from headwater.runtime.scheduling.managers import Joining
from headwater.runtime.scheduling.schedule import Schedule
from headwater.runtime.view import ManagedView
from headwater.warehouse.cuts import ViewState

log = logging.getLogger(__name__)

NEARLY = 20_000
"""A view joins the others when no more changes than these lie between: they wait for it about a second."""
PAUSE_SECONDS = 5.0
SOON_SECONDS = 0.1


@dataclass(eq=False)
class BuildUnderWay:
    """Views to build (parents first), to drop, and to resume (parents first), in one step."""

    build: Sequence[ViewPlan]
    drop: Sequence[ViewName]
    resume: Sequence[ManagedView] = ()
    """Halted views that go on from where they stopped: they need no load."""
    point: LoadPoint | None = None
    identities: Mapping[TableName, Identities] | None = None
    """Which columns the new views are loaded from; None until the sources have said it."""
    phase: str = "waiting for the sources"
    begun: float = 0.0
    asking: Future[Identified] | None = None
    task: Future[list[Loaded]] | None = None
    managers: list[ViewManager] = field(default_factory=list)
    joins_at: Seq | None = None
    retry_at: float = 0.0

    @property
    def fingerprints(self) -> tuple[str, ...]:
        return tuple(sorted(plan.fingerprint for plan in self.build))

    @property
    def sources(self) -> set[SourceName]:
        return {source for plan in self.build for source in plan.sources}

    @property
    def names(self) -> list[ViewName]:
        return [*(plan.view.name for plan in self.build), *(view.name for view in self.resume)]

    def goes_on(self, phase: str) -> None:
        """How far it is, for those who watch."""
        self.phase = phase

    @property
    def held(self) -> Seq | None:
        """The transaction whose state is still needed, while something is loaded."""
        if not self.build:
            return None
        begun = self.point.seq if self.point else Seq(0)
        return Seq(min([m.through for m in self.managers], default=begun))


@dataclass(frozen=True)
class Ended:
    """A change is shown, or could not be made. `folders` are left for nobody."""

    change: BuildUnderWay
    error: HeadwaterError | None = None
    folders: Sequence[str] = ()


class Building:
    """Does one change at a time, the others wait."""

    def __init__(
        self, sources: NewSources, loader: Loader, schedule: Schedule, ledger: Ledger, tables: Tables,
        pool: Executor, meter: Meter, clock: Clock = SYSTEM,
    ) -> None:  # fmt: skip
        self._sources, self._loader, self._schedule, self._ledger = sources, loader, schedule, ledger
        self._tables, self._pool, self._meter, self._clock = tables, pool, meter, clock
        self._change: BuildUnderWay | None = None
        self._trouble: dict[ViewName, str] = {}
        self._waiting: deque[BuildUnderWay] = deque()

    @property
    def change(self) -> BuildUnderWay | None:
        """What is under way."""
        return self._change

    @property
    def trouble(self) -> Mapping[ViewName, str]:
        """Views that could not be built, and why."""
        return self._trouble

    @property
    def busy(self) -> bool:
        return self._change is not None or bool(self._waiting)

    @property
    def joining(self) -> bool:
        """Whether new views wait for all the others."""
        return self._change is not None and self._change.joins_at is not None

    def plans(self) -> list[ViewPlan]:
        """Of the views that are being built or will be."""
        changes = [*([self._change] if self._change is not None else []), *self._waiting]
        return [plan for change in changes for plan in (*change.build, *(v.plan for v in change.resume))]

    def queue(self, change: BuildUnderWay) -> None:
        """Do this change after what is under way."""
        self._waiting.append(change)

    def begin(self, change: BuildUnderWay) -> None:
        """Start a change; `step` takes it on."""
        assert self._change is None
        self._change, change.begun = change, self._clock.monotonic()
        for plan in change.build:
            self._trouble.pop(plan.view.name, None)
        if change.build:
            self._meter.loading([plan.view.name for plan in change.build])

    def step(self) -> Ended | None:
        """Take the change on; what came of it, once it has ended."""
        if self._change is None and self._waiting:
            self.begin(self._waiting.popleft())
        change = self._change
        if change is None:
            return None
        if change.resume and not change.managers:
            return self._resume(change)
        if not (change.build or change.resume) or change.joins_at is not None:
            return self._show_when_in_step(change)
        if change.managers:
            return self._join_when_near(change)
        if change.task is not None:
            return self._manage_when_loaded(change)
        if self._clock.monotonic() >= change.retry_at:
            return self._load_when_known(change)
        return None

    def failed(self, error: HeadwaterError) -> Ended | None:
        """A view that was being built cannot be: the whole change is given up, nobody saw anything of it."""
        change, self._change = self._change, None
        if change is None:
            return None
        log.warning("not built: %s: %s", ", ".join(change.names), error.what, extra=_facts("failed", change))
        folders = [] if change.resume else [manager.view.folder for manager in change.managers]
        for manager in change.managers:
            self._schedule.remove(manager.view)
            self._ledger.give_up(manager.view)
            self._tables.forget(manager.view)
        self._sources.forget_point()
        self._trouble |= {plan.view.name: error.what for plan in change.build}
        self._meter.load_ended()
        return Ended(change, error, folders)

    # ------------------------------------------------------------------ phases

    def _resume(self, change: BuildUnderWay) -> Ended | None:
        """Everything that had happened at the views' sources by the change's beginning must have a number: the
        correction that lets a view go on is part of it."""
        sources = {source for view in change.resume for source in view.plan.sources}
        late = self._clock.monotonic() > change.begun + PAUSE_SECONDS
        if not (late or self._sources.told_since(sources, change.begun)):
            return None
        again = []
        for view in change.resume:
            state = after(self._ledger.state(view.key), Resumed(view.key))
            fresh = ManagedView(view.plan, view.folder, view.identities)
            self._tables.rewind(fresh, TableVersions(state.version, state.auxiliary))
            again.append((fresh, state))
        return self._manage(change, again, whole=True)

    def _load_when_known(self, change: BuildUnderWay) -> Ended | None:
        """Choose L: a moment at which everything that has a number is known, new tables included."""
        if change.identities is None:
            return self._identify(change)
        if change.point is None:
            if not self._sources.told_since(change.sources, change.begun):
                return None
            change.point = self._sources.point(change.fingerprints, change.identities)
        family = self._schedule.united(self._schedule.parent_families(change.build))
        if family is not None:
            family.stop_at(change.point.seq)
        lacking = self._schedule.lacks(change.build)
        if lacking is not None:
            return self.failed(_halted(lacking))
        parents = self._parents(change)
        if any(
            (m := self._schedule.manager(view)) is not None and m.through < change.point.seq
            for view in parents.values()
        ):
            change.phase = "waiting for the views it reads"
            return None
        change.phase = "copying"
        order = LoadOrder(change.build, change.point, parents, change.goes_on, self._meter)
        change.task = self._pool.submit(self._loader.load, order)
        return None

    def _parents(self, change: BuildUnderWay) -> dict[ViewName, ManagedView]:
        """The maintained views that new ones read."""
        new = {plan.view.name for plan in change.build}
        names = {p for plan in change.build for p in plan.view.parents if p not in new}
        return {name: self._ledger.views[name] for name in sorted(names)}

    def _identify(self, change: BuildUnderWay) -> Ended | None:
        """Learn which columns the new views mean; from then on every poll compares."""
        if change.asking is None:
            change.asking = self._pool.submit(
                self._sources.identify, change.build, self._sources.polled(change.sources)
            )
            return None
        if not change.asking.done():
            return None
        asking, change.asking = change.asking, None
        try:
            found = asking.result()
        except PositionTrimmed:  # capture of a table is younger than what was polled last: the next polls pass it
            change.phase, change.retry_at = "waiting for the sources", self._clock.monotonic() + SOON_SECONDS
            return None
        except Exception as error:
            return self._again_or_failed(change, error)
        if change.point is not None and not change.point.means(found.identities):
            change.point = None
        change.identities, change.begun = found.identities, self._clock.monotonic()
        self._sources.adopt(found, change.build)
        return None

    def _manage_when_loaded(self, change: BuildUnderWay) -> Ended | None:
        assert change.task is not None
        if not change.task.done():
            return None
        task, change.task = change.task, None
        try:
            loaded = task.result()
        except Exception as error:
            if isinstance(error, PositionTrimmed):  # it will not come back: load as of a newer one
                change.point = None
            return self._again_or_failed(change, error)
        point = change.point
        assert point is not None
        return self._manage(change, [(one.view, first_state(one.view, one.versions, point.seq)) for one in loaded])

    def _again_or_failed(self, change: BuildUnderWay, error: Exception) -> Ended | None:
        if not isinstance(error, HeadwaterError):  # a defect of ours must not take the other views with it
            log.error("%s: a defect", ", ".join(change.names), exc_info=error, extra=_facts("failed", change))
            error = HeadwaterError(f"unexpected {type(error).__name__}: {error}")
        if not error.retry_helps:
            return self.failed(error)
        log.info("%s: waits: %s", ", ".join(change.names), error.what, extra=_facts("waits", change))
        change.phase, change.retry_at = f"waits: {error.what}", self._clock.monotonic() + PAUSE_SECONDS
        return None

    def _manage(
        self, change: BuildUnderWay, views: Sequence[tuple[ManagedView, ViewState]], whole: bool = False
    ) -> Ended | None:
        """The new views get managers, which catch up with what happened since."""
        lacking = self._schedule.lacks(view.plan for view, _ in views)
        if lacking is not None:
            folders = [] if whole else [view.folder for view, _ in views]
            ended = self.failed(_halted(lacking))
            return ended and replace(ended, folders=folders)
        families: dict[ViewName, Family] = {}
        for view, state in views:
            self._ledger.begin(view, state)
            families[view.name] = family = self._schedule.family(view.plan, families)
            change.managers.append(self._schedule.managers.add(view, family, Joining(state, FOREVER, whole)))
        change.phase = "catching up"
        return self._join_when_near(change)

    def _join_when_near(self, change: BuildUnderWay) -> Ended | None:
        """Choose J: from the next round on, the others wait for the new views too."""
        if any(self._sources.changes_after(manager.through) > NEARLY for manager in change.managers):
            return None
        change.joins_at = Seq(max([self._sources.newest(), *(m.through for m in change.managers)]))
        for manager in change.managers:
            self._schedule.join(manager, change.joins_at)
        self._schedule.merging.reached(change.joins_at)
        change.phase = "in step"
        return self._show_when_in_step(change)

    def _show_when_in_step(self, change: BuildUnderWay) -> Ended | None:
        if any(m.catching_up for m in change.managers):
            return None
        merging, keys = self._schedule.merging, [m.key for m in change.managers]
        if change.joins_at is not None and not merging.settled(change.joins_at, keys):
            return None
        names = (*change.drop, *change.names)
        for manager in change.managers:
            self._schedule.joined(manager)
        for view in [view for name, view in self._ledger.views.items() if name in names]:
            if view.key not in keys:  # else it is the same one, resumed
                self._schedule.remove(view)
            self._tables.forget(view)
        self._change = None
        self._trouble = {name: why for name, why in self._trouble.items() if name not in change.drop}
        self._meter.load_ended()
        folders = self._ledger.replace([manager.view for manager in change.managers], names)
        self._sources.limit_to([*(v.plan for v in self._ledger.views.values()), *self.plans()])
        self._sources.forget_point()
        return Ended(change, None, folders)


def _halted(parent: ViewName) -> HeadwaterError:
    return HeadwaterError(
        f"view {parent}, which it reads, is halted", f"'headwater rebuild {parent}', then 'headwater apply'"
    )


def _facts(what: str, change: BuildUnderWay) -> dict[str, object]:
    return event(f"load.{what}", views=list(change.names))
