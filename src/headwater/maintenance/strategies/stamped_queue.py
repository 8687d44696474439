"""Updates of several views, by timestamp (Liang, Yu: Parallel Maintenance on PC Clusters, section 3.1).

An update gets a timestamp when it arrives, and goes to UMQ(V) of every view V whose definition uses its source, itself
or through a view that V reads. All those queues are one list here, in the order of the timestamps: UMQ(V) is what of it
concerns V and V does not show yet.

Invariant: an update stands before another exactly if it arrived before it, and its views stand in topological order. So
the list says what any view is as of any update in it: what it was before the first, and the changes since then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headwater.algebra.bag import Bag
from headwater.maintenance.strategies.contract import Label, Node, StrategySetting, Update
from headwater.maintenance.strategies.views_over_views import topological
from headwater.model.names import view_table


@dataclass(eq=False)
class Evaluation:
    """Of one update for one view: who does it, what came of it, and whether the view shows it."""

    at: Node | None = None
    change: Bag | None = None
    merged: bool = False


@dataclass(eq=False)
class Stamped:
    """An update and what it does to each of its views, in their topological order. `timestamp` counts arrivals."""

    timestamp: int
    update: Update
    views: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def evaluated(self) -> bool:
        return all(evaluation.change is not None for evaluation in self.views.values())

    @property
    def merged(self) -> bool:
        return all(evaluation.merged for evaluation in self.views.values())

    def due(self) -> list[tuple[str, Bag]]:
        """The changes that can be merged, and are from now on: in topological order, up to the first view that is not
        evaluated."""
        found = []
        for view, evaluation in self.views.items():
            if evaluation.change is None:
                break
            if not evaluation.merged:
                found.append((view, evaluation.change))
                evaluation.merged = True
        return found


class StampedQueue:
    """All UMQ(V)."""

    def __init__(self, settings: Sequence[StrategySetting]) -> None:
        ordered = topological(settings)
        self.views = tuple(setting.view.name for setting in ordered)
        self.waiting: deque[Stamped] = deque()
        self._parents = {s.view.name: tuple(map(str, s.view.view.parents)) for s in ordered}
        self._uses: dict[str, set[Node]] = {}
        """The sources of each view, those of the views that it reads included."""
        for setting in ordered:
            own = {home for home, table in zip(setting.homes, setting.view.tables, strict=True) if not table.is_view}
            inherited = (self._uses[parent] for parent in self._parents[setting.view.name])
            self._uses[setting.view.name] = own.union(*inherited)
        read = {parent for parents in self._parents.values() for parent in parents}
        self._before = {s.view.name: s.content() for s in ordered if s.view.name in read}
        """The views that others read, before the first of `waiting`."""
        self._clock = 0

    def arrived(self, update: Update) -> Stamped | None:
        """Its timestamp and its views; None if it concerns none."""
        views = {view: Evaluation() for view in self.views if update.source in self._uses[view]}
        if not views:
            return None
        self._clock += 1
        stamped = Stamped(self._clock, update, views)
        self.waiting.append(stamped)
        return stamped

    def umq(self, view: str) -> list[Stamped]:
        """UMQ(V)."""
        return [s for s in self.waiting if view in s.views and not s.views[view].merged]

    def of(self, label: Label) -> Stamped:
        return next(s for s in self.waiting if s.update.label == label)

    def parents_known(self, view: str, stamped: Stamped) -> bool:
        """Are the changes of all views that this one reads known, up to this update?"""
        return all(
            s.views[parent].change is not None
            for s in self._until(stamped)
            for parent in self._parents[view]
            if parent in s.views
        )

    def with_parents(self, view: str, stamped: Stamped) -> Update:
        """The update, as a view sees it that reads views: their changes beside those of the tables."""
        known = {p: stamped.views[p].change for p in self._parents[view] if p in stamped.views}
        changes = {view_table(p): change for p, change in known.items() if change is not None}
        return stamped.update._replace(changes={**stamped.update.changes, **changes}) if changes else stamped.update

    def content(self, view: str, stamped: Stamped) -> Bag:
        """A view that others read, as of just before this update."""
        held = self._before[view]
        for earlier in self._until(stamped):
            evaluation = earlier.views.get(view)
            if earlier is not stamped and evaluation is not None and evaluation.change is not None:
                held = held + evaluation.change
        return held

    def remove(self, stamped: Stamped) -> None:
        """All its views show it."""
        for view, evaluation in stamped.views.items():
            if view in self._before and evaluation.change is not None:
                self._before[view] = self._before[view] + evaluation.change
        self.waiting.remove(stamped)

    def _until(self, stamped: Stamped) -> Iterator[Stamped]:
        return (s for s in self.waiting if s.timestamp <= stamped.timestamp)
