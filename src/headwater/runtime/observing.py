"""Looks at the parts of a run and says what it sees, as a snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable
from heapq import nsmallest

from headwater.merge import Color
from headwater.runtime.change.building import Building
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.intake.integration import Integration
from headwater.runtime.intake.pollers import Poller, Pollers
from headwater.runtime.progress import Meter
from headwater.runtime.scheduling.manager import ViewManager
from headwater.runtime.scheduling.merging import Group
from headwater.runtime.scheduling.schedule import Schedule
from headwater.runtime.snapshot import ChangeNow, GroupNow, ManagerNow, RowNow, RunSnapshot, SourceNow, ViewNow

ROWS = 40
"""So many rows of a view update table are told at most."""

Look = Callable[[], RunSnapshot]


class Observer:
    def __init__(
        self, pollers: Pollers, integration: Integration, schedule: Schedule, ledger: Ledger, building: Building,
        meter: Meter, clock: Clock = SYSTEM,
    ) -> None:  # fmt: skip
        self._pollers, self._integration, self._schedule = pollers, integration, schedule
        self._ledger, self._building, self._meter, self._clock = ledger, building, meter, clock

    def now(self) -> RunSnapshot:
        change, cut = self._building.change, self._ledger.cut
        return RunSnapshot(
            at=self._clock.time(),
            cut=cut.number,
            seq=cut.seq,
            numbered=max(cut.seq, self._schedule.merging.numbered),
            totals=self._meter.totals(),
            load=self._meter.load,
            sources=[self._source(poller) for poller in self._pollers],
            views=self._views(),
            managers=[self._manager(manager) for manager in self._schedule.managers.all.values()],
            groups=[self._group(group) for group in self._schedule.merging.groups],
            building=None
            if change is None
            else ChangeNow([p.view.name for p in change.build], list(change.drop), change.phase),
            not_built={str(name): why for name, why in self._building.trouble.items()},
            missing=[waiting._asdict() for waiting in self._integration.missing()],
            torn=self._integration.torn,
            moments=self._meter.trails.moments,
            merging_seconds=self._schedule.merging.seconds,
        )

    def _source(self, poller: Poller) -> SourceNow:
        state = poller.state
        passed, lag = self._meter.of_source(poller.name)
        return SourceNow(
            poller.name, state.state, state.reason, state.since, poller.position, poller.numbered, passed, lag
        )

    def _views(self) -> list[ViewNow]:
        found = []
        for name in self._ledger.views:
            state, waits = self._ledger.shown(name), self._meter.waiting_for.get(name)
            said = (state.state, state.reason) if waits is None or state.state != "live" else ("waits", waits)
            found.append(ViewNow(name, *said, state.seq, state.level, self._meter.rows_out.get(name, 0)))
        return found

    def _manager(self, manager: ViewManager) -> ManagerNow:
        waits, since = self._waits(manager)
        shown = not self._ledger.builds(manager.view)
        name = manager.view.name
        cost, changed = self._meter.of_view(name), self._meter.rows_out.get(name, 0)
        fresh = self._meter.freshness.of(name) if shown else None
        saved = cost.saved + cost.shared
        return ManagerNow(name, shown, manager.through, waits, since, cost.questions, saved, changed, fresh)

    def _waits(self, manager: ViewManager) -> tuple[str, float]:
        """What keeps a view from being shown further, and since when."""
        merging, view = self._schedule.merging, manager.view
        if manager.trouble:
            return manager.trouble, manager.since
        if manager.catching_up:
            return "catching up after its load", manager.since
        first = merging.first_open(view.key)
        if first is None:
            return "", 0.0
        since, holding = first.since, merging.waits_for(view.key)
        managers = self._schedule.managers.all
        names = sorted({managers[k].view.name for k in holding if k != view.key and k in managers})
        if view.key in holding:
            if view.periodic and manager.schedule is not None and not manager.jobs:
                when = time.strftime("%H:%M:%S", time.localtime(manager.schedule.next(manager.refreshed)))
                return f"its refresh at {when}", since
            if view.every > 1 and not manager.jobs:
                return f"the rest of {view.every} transactions", since
            return "its own computation", since
        return (f"view {', '.join(names)}" if names else "its commit"), since

    def _group(self, group: Group) -> GroupNow:
        updates = self._schedule.merging.updates
        rows = []
        for number in nsmallest(ROWS, group.table.rows):
            row, update = group.table.rows[number], updates.get(number)
            if update is None:
                continue
            entries: dict[str, list[str | int]] = {
                v: [e.color.value, self._state(e.state) if e.color is Color.RED else 0] for v, e in row.entries.items()
            }
            actions = [al.view for al in row.actions]
            rows.append(RowNow(update.row.lo, update.row.hi, update.about, update.since, entries, actions))
        views = {view.key: str(view.name) for view in group.views.values()}
        waiting, committing = len(group.table), len(group.submissions)
        return GroupNow(group.algorithm, sorted(group.sources), views, rows, waiting, committing)

    def _state(self, number: int) -> int:
        update = self._schedule.merging.updates.get(number)
        return update.row.hi if update is not None else 0
