"""Where all views of a group meet.

Painting releases a row together with everything it is intertwined with. Two managers that both skip states intertwine
whatever their batches overlap on, and if the batches of one always end inside those of the other, the chain never ends:
under a steady load nothing would be shown, ever. The paper leaves that to the managers. Ours *meet*: no batch of a
manager that skips states crosses a meeting, so a chain ends there.

    the next meeting is the newest transaction, chosen when every such manager has begun what leads to the last one

Nobody waits at a meeting, and a slow manager still takes everything between two meetings as one batch; so each row is
shown after at most about two batches of the slowest manager. A periodic view calls a meeting when it is due.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headwater.model.names import Seq
from headwater.runtime.scheduling.managers import ViewManager

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine
    from headwater.runtime.scheduling.merging import Group


class Pacing:
    """Calls the meetings of all groups."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def step(self) -> None:
        newest = self._engine.journal.newest
        if newest is None:
            return
        for group in self._engine.merging.groups:
            self._meet(group, newest.hi)
        for manager in self._engine.managers.all.values():
            if manager.view.periodic and manager.view.live and not manager.jobs and manager.calls <= manager.taken:
                self._call(manager, newest.hi)
        if not self._engine.building.busy:  # a view being built may need older ones
            self._forget()

    def _meet(self, group: Group, newest: Seq) -> None:
        skipping = self._skipping(group)
        if len({id(m.family) for m in skipping}) < 2 or newest <= group.meeting:
            return
        if all(m.taken >= group.meeting for m in skipping):
            group.meeting = newest
            for manager in skipping:
                manager.family.stop_at(newest)

    def _call(self, manager: ViewManager, newest: Seq) -> None:
        """A periodic view that is due is recomputed as of now, and the others end a batch there."""
        group, change = self._engine.merging.group(manager.key), self._engine.building.change
        joining = change is not None and change.joins_at is not None  # new views wait for all the others
        wanted = manager.due(time.time()) or self._engine.managers.hurry or manager.catching_up or joining
        if newest <= manager.taken or not wanted:
            return
        if manager.catching_up and manager.joins_at is not None:
            newest = Seq(min(newest, manager.joins_at))
        manager.calls = newest
        for other in [manager, *(self._skipping(group) if group is not None else ())]:
            other.family.stop_at(newest)

    def _skipping(self, group: Group) -> list[ViewManager]:
        """The managers that skip states, those on a schedule left out."""
        found = [self._engine.managers.all[key] for key in group.views if key in self._engine.managers.all]
        return [m for m in found if not m.view.complete and not m.view.periodic and not m.catching_up]

    def _forget(self) -> None:
        families = {id(m.family): m.family for m in self._engine.managers.all.values()}
        for key, family in families.items():
            family.forget(Seq(min(m.taken for m in self._engine.managers.all.values() if id(m.family) == key)))
