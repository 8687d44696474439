"""Halting views: what Headwater cannot be sure of, it says and stops for, view by view.

A view is halted for a reason, with what to do about it, and so are the views that read it. Where a source refuses or a
computation fails, a table may have been changed under the view, and that is the better reason: so the source is looked
at first, in the background, and nothing of the view moves meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.model.errors import (
    CaptureMissing,
    HeadwaterError,
    LifeChanged,
    PositionTrimmed,
    PromiseBroken,
    SchemaChanged,
)
from headwater.model.names import SourceName
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.events import Halted
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.intake.schema_watch import SchemaWatch
from headwater.runtime.progress import Meter
from headwater.runtime.scheduling.manager import Failed
from headwater.runtime.scheduling.schedule import Schedule
from headwater.runtime.view import Halt, ManagedView

DOUBT_SECONDS = 10.0
"""So long a source is waited for that may know a better reason; one that hangs must not leave a view neither
maintained nor halted."""


@dataclass(frozen=True)
class _Doubt:
    """A source's past that may be lost, or a view that failed, until its sources have been looked at, or so long."""

    looks: Mapping[SourceName, int]
    until: float
    lost: tuple[SourceName, HeadwaterError] | None = None
    failed: Failed | None = None


class Halting:
    """`step` returns the views that were halted while they were being built: nobody has seen them yet."""

    def __init__(
        self, watch: SchemaWatch, schedule: Schedule, ledger: Ledger, meter: Meter, clock: Clock = SYSTEM
    ) -> None:
        self._watch, self._schedule, self._ledger, self._meter, self._clock = watch, schedule, ledger, meter, clock
        self._doubts: list[_Doubt] = []
        self._unbuilt: list[tuple[ManagedView, Halt]] = []

    def refused(self, source: SourceName, error: HeadwaterError) -> None:
        """A source did not tell what happened."""
        if isinstance(error, LifeChanged):
            self.halt(self._watch.lost(source, error))
        elif isinstance(error, PositionTrimmed):  # asking again for what is forgotten is no use
            self._doubts.append(_Doubt({source: self._watch.ask(source)}, self._patience(), lost=(source, error)))
        elif not error.retry_helps:  # no use in asking a source that is away about its tables
            self._watch.ask(source)

    def failed(self, outcome: Failed) -> None:
        """A batch cannot be computed."""
        looks = {source: self._watch.ask(source) for source in outcome.manager.view.plan.sources}
        self._doubts.append(_Doubt(looks, self._patience(), failed=outcome))

    def _patience(self) -> float:
        return self._clock.monotonic() + DOUBT_SECONDS

    def step(self, reachable: set[SourceName]) -> list[tuple[ManagedView, Halt]]:
        """Halt what was found unfit, and what there is no better reason for."""
        self.halt(self._watch.step(reachable))
        for warning in self._watch.warnings():
            self._meter.note(f"warning: {warning}")
        for doubt in list(self._doubts):
            looked = all(self._watch.looked(source) >= look for source, look in doubt.looks.items())
            if looked or self._clock.monotonic() > doubt.until:
                self._doubts.remove(doubt)
                self._settle(doubt)
        unbuilt, self._unbuilt = self._unbuilt, []
        return unbuilt

    def _settle(self, doubt: _Doubt) -> None:
        if doubt.lost is not None:
            self.halt(self._watch.lost(*doubt.lost))
        if doubt.failed is not None and doubt.failed.manager.key in self._schedule.managers.all:
            view, error = doubt.failed.manager.view, doubt.failed.error
            self._halt(view, self._halt_for(view, error))

    def _halt_for(self, view: ManagedView, error: HeadwaterError) -> Halt:
        """A value or an expression that cannot be computed is no loss: the journal goes on, and so can the view."""
        if isinstance(error, CaptureMissing | SchemaChanged):
            self._watch.broke([view.plan.fingerprint])
            return Halt(error.what, error.fix or "'headwater apply' loads it again")
        if isinstance(error, PromiseBroken):  # one that is mended shows nothing, taken as one state
            return Halt(error.what, error.fix, resumable=True)
        fix = f"correct it at the source, then 'headwater resume {view.name}' goes on from where it stopped"
        return Halt(error.what, fix, resumable=True)

    def halt(self, reasons: Mapping[str, Halt]) -> None:
        """Stop maintaining the views with these fingerprints, and those that read them."""
        if not reasons:
            return
        for manager in list(self._schedule.managers.all.values()):
            why = reasons.get(manager.view.plan.fingerprint)
            if why is not None and manager.key in self._schedule.managers.all:
                self._halt(manager.view, why)
        for name, view in self._ledger.views.items():  # halted before, and now for good
            why = reasons.get(view.plan.fingerprint)
            if why is not None and self._ledger.shown(name).resumable:
                self._ledger.record_shown(Halted(view.key, why))
                self._ledger.show()

    def _halt(self, view: ManagedView, why: Halt) -> None:
        manager = self._schedule.manager(view)
        children = list(self._schedule.managers.children(manager)) if manager is not None else []
        self._ledger.record(Halted(view.key, why))
        self._meter.halted(view.name, why.reason, why.fix)
        self._schedule.remove(view)
        if self._ledger.builds(view):
            self._unbuilt.append((view, why))
        for child in children:
            if child.key in self._schedule.managers.all:
                said = f"view {view.name}, which it reads, is halted: {why.reason}"
                self._halt(child.view, replace(why, reason=said))
        self._ledger.show()
