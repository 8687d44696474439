"""The managers and the merge processes together: a view takes part in both or in neither."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.model.names import FOREVER, Seq, ViewName
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.scheduling.families import Family
from headwater.runtime.scheduling.manager import ViewManager
from headwater.runtime.scheduling.managers import Managers
from headwater.runtime.scheduling.merging import Merging
from headwater.runtime.view import ManagedView


@dataclass(frozen=True)
class Schedule:
    managers: Managers
    merging: Merging

    def manager(self, view: ManagedView) -> ViewManager | None:
        return self.managers.all.get(view.key)

    def join(self, manager: ViewManager, at: Seq) -> None:
        """From the next round on the others wait for this view too; up to `at` it catches up."""
        manager.joins_at = at
        manager.family.stop_at(at)
        self.merging.add(manager.view)

    def joined(self, manager: ViewManager) -> None:
        """It has caught up."""
        manager.joins_at = None

    def remove(self, view: ManagedView) -> None:
        """The view leaves; others may have waited for it."""
        self.managers.remove(view.key)
        self.merging.remove(view)

    def family(self, plan: ViewPlan, new: Mapping[ViewName, Family]) -> Family:
        """The family of a view: its parents' or one of its own. `new` are those of views that come with it. Families
        that have a child in common become one."""
        parents = [(new.get(p) or self._family_of(p)).now for p in plan.view.parents]
        family = self.united(parents) or Family()
        family.step = math.lcm(family.step, plan.view.every)
        return family

    def lacks(self, plans: Iterable[ViewPlan]) -> ViewName | None:
        """A view that these read and that is neither among them nor maintained."""
        plans = list(plans)
        there = {plan.view.name for plan in plans} | {manager.view.name for manager in self.managers.all.values()}
        return next((p for plan in plans for p in plan.view.parents if p not in there), None)

    def parent_families(self, plans: Iterable[ViewPlan]) -> list[Family]:
        """The families of maintained views that new ones read."""
        plans = list(plans)
        new = {plan.view.name for plan in plans}
        names = {p for plan in plans for p in plan.view.parents if p not in new}
        found = [m.family for m in self.managers.all.values() if m.view.name in names and m.joins_at != FOREVER]
        return list({id(f): f for f in found}.values())

    def united(self, families: Iterable[Family]) -> Family | None:
        """Families that become one; None if there are none."""
        first: Family | None = None
        for family in families:
            if first is None:
                first = family.now
            elif family.now is not first:
                self.managers.unite(first, family.now)
        return first

    def _family_of(self, name: ViewName) -> Family:
        return next(m for m in reversed(list(self.managers.all.values())) if m.view.name == name).family
