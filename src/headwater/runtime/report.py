"""What a run tells those who ask `headwater status`: a small file, written about once a second while it runs.

It is a courtesy, never read by the run itself: how each source is doing, where each view is, what it waits for and
since when, the view update tables, what is being built, which global transactions lack parts.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from headwater.merge import Color
from headwater.runtime.project.secrets import without_secrets
from headwater.storage import Storage

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine
    from headwater.runtime.intake.pollers import Poller
    from headwater.runtime.scheduling.managers import ViewManager
    from headwater.runtime.scheduling.merging import Group

FILE = "run.json"
SECONDS = 1.0
ROWS = 40


def read_report(storage: Storage) -> dict[str, Any] | None:
    """The newest report, None if nothing runs or has run."""
    text = storage.get(FILE)
    return None if text is None else json.loads(text)


class Report:
    """Writes the report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next = 0.0

    def step(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS
            self._engine.storage.put(FILE, json.dumps(self.now(), ensure_ascii=False).encode())

    def close(self) -> None:
        self._engine.storage.delete(FILE)

    def now(self) -> dict[str, Any]:
        engine = self._engine
        change = engine.building.change
        return {
            "at": time.time(),
            "numbered": engine.merging.numbered,
            "sources": {name: self._source(poller) for name, poller in engine.pollers.items()},
            "views": [self._view(m) for m in engine.managers.all.values()],
            "groups": [self._group(g) for g in engine.merging.groups],
            "building": None
            if change is None
            else {"views": [p.view.name for p in change.build], "drop": list(change.drop), "phase": change.phase},
            "not_built": {name: without_secrets(why) for name, why in engine.building.trouble.items()},
            "global": [w._asdict() for w in engine.integration.assembly.waiting()],
            "torn": list(engine.integration.torn),
        }

    def _source(self, poller: Poller) -> dict[str, Any]:
        """How polling goes, up to where everything has a number, and how long the last transactions took to show."""
        return {
            "state": poller.state.state,
            "reason": without_secrets(poller.state.reason),
            "since": poller.state.since,
            "numbered": poller.numbered,
            "lag": self._engine.meter.source_lags.get(poller.name),
        }

    def _view(self, manager: ViewManager) -> dict[str, Any]:
        view = manager.view
        waits, since = self._waits(manager)
        return {
            "name": view.name,
            "shown": self._engine.views.get(view.name) is view,
            "computed": manager.through,
            "waits": waits,
            "since": since,
        }

    def _waits(self, manager: ViewManager) -> tuple[str, float]:
        """What keeps a view from being shown further, and since when."""
        merging, view = self._engine.merging, manager.view
        if manager.trouble:
            return manager.trouble, manager.since
        if manager.catching_up:
            return "catching up after its load", manager.since
        rows = merging.open_rows(view.key)
        if not rows:
            return "", 0.0
        since = merging.updates[rows[0]].since
        others = [k for k in merging.waits_for(view.key) if k != view.key]
        names = sorted({self._engine.managers.all[k].view.name for k in others if k in self._engine.managers.all})
        if view.key in merging.waits_for(view.key):
            if view.periodic and manager.schedule is not None and not manager.jobs:
                when = time.strftime("%H:%M:%S", time.localtime(manager.schedule.next(manager.refreshed)))
                return f"its refresh at {when}", since
            if view.plan.view.every > 1 and not manager.jobs:
                return f"the rest of {view.plan.view.every} transactions", since
            return "its own computation", since
        return (f"view {', '.join(names)}" if names else "its commit"), since

    def _group(self, group: Group) -> dict[str, Any]:
        updates = self._engine.merging.updates
        rows = []
        for number in sorted(group.table.rows)[:ROWS]:
            row, update = group.table.rows[number], updates.get(number)
            if update is None:
                continue
            entries = {
                v: [e.color.value, self._state(e.state) if e.color is Color.RED else 0] for v, e in row.entries.items()
            }
            rows.append(
                {
                    "lo": update.row.lo,
                    "hi": update.row.hi,
                    "about": list(update.about),
                    "since": update.since,
                    "entries": entries,
                    "actions": [al.view for al in row.actions],
                }
            )
        return {
            "algorithm": group.algorithm,
            "sources": sorted(group.sources),
            "views": {view.key: view.name for view in group.views.values()},
            "rows": rows,
            "waiting": len(group.table),
            "committing": len(group.submissions),
        }

    def _state(self, number: int) -> int:
        update = self._engine.merging.updates.get(number)
        return update.row.hi if update is not None else 0
