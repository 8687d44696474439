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

from dataclasses import dataclass

from headwater.model.names import Seq
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.scheduling.manager import ViewManager
from headwater.runtime.scheduling.managers import Managers
from headwater.runtime.scheduling.merging import Group, Merging


@dataclass(frozen=True)
class Pace:
    """`hurry`: somebody waits for everything to be shown, so periodic views do not wait for their time; neither do they
    when new views are `joining`. While views are `building`, old bounds may still be needed."""

    hurry: bool = False
    joining: bool = False
    building: bool = False


class Pacing:
    """Calls the meetings of all groups."""

    def __init__(self, managers: Managers, merging: Merging, clock: Clock = SYSTEM) -> None:
        self._managers, self._merging, self._clock = managers, merging, clock

    def step(self, newest: Seq, pace: Pace) -> None:
        for group in self._merging.groups:
            self._meet(group, newest)
        for manager in self._managers.all.values():
            if manager.view.periodic and not manager.jobs and manager.calls <= manager.taken:
                self._call(manager, newest, pace)
        if not pace.building:
            self._forget()

    def _meet(self, group: Group, newest: Seq) -> None:
        skipping = self._skipping(group)
        if len({id(m.family) for m in skipping}) < 2 or newest <= group.meeting:
            return
        if all(m.taken >= group.meeting for m in skipping):
            group.meeting = newest
            for manager in skipping:
                manager.family.stop_at(newest)

    def _call(self, manager: ViewManager, newest: Seq, pace: Pace) -> None:
        """A periodic view that is due is recomputed as of now, and the others end a batch there."""
        group = self._merging.group(manager.key)
        wanted = manager.due(self._clock.time()) or pace.hurry or manager.catching_up or pace.joining
        if newest <= manager.taken or not wanted:
            return
        if manager.catching_up and manager.joins_at is not None:
            newest = Seq(min(newest, manager.joins_at))
        manager.calls = newest
        for other in [manager, *(self._skipping(group) if group is not None else ())]:
            other.family.stop_at(newest)

    def _skipping(self, group: Group) -> list[ViewManager]:
        """The managers that skip states, those on a schedule left out."""
        found = [self._managers.all[key] for key in group.views if key in self._managers.all]
        return [m for m in found if not m.view.complete and not m.view.periodic and not m.catching_up]

    def _forget(self) -> None:
        families = {id(m.family): m.family for m in self._managers.all.values()}
        for key, family in families.items():
            members = [m for m in self._managers.all.values() if id(m.family) == key]
            below = Seq(min(m.taken for m in members))
            family.forget(below)
            for manager in members:
                manager.forget(below)
