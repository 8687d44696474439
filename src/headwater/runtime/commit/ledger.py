"""What is shown, and the one writer of it.

The ledger knows the state of every view, those being built included, and writes the cut records. Parts of a run send it
events; `show` folds them in and makes the next cut visible. Nobody else changes a state, and nobody else writes a cut.

Invariant: a live view that takes part in merging is shown up to its frontier, the transaction before its first row that
is not committed yet; so each transaction is in all of its views or in none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from headwater.integrator.journal import Journal
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.events import Advanced, Event, after
from headwater.runtime.steps import Step, reached
from headwater.runtime.view import ManagedView
from headwater.warehouse.cuts import Cut, ViewState


class Frontier(Protocol):
    """How far views may be shown (`merging`)."""

    @property
    def numbered(self) -> Seq: ...

    def frontier(self, key: str) -> Seq | None:
        """The transaction up to which a view may be shown; None if it does not take part."""


class Cuts(Protocol):
    """Where cut records are kept."""

    def append(self, *cuts: Cut) -> Cut:
        """Make cuts visible, all in one step; returns the last."""


class Ledger:
    """Shown, others, being built: every view is one of these. `guard` is called before anything is written."""

    def __init__(
        self, cuts: Cuts, journal: Journal, frontier: Frontier, identity: str,
        guard: Callable[[], None] = lambda: None, clock: Clock = SYSTEM,
    ) -> None:  # fmt: skip
        self._cuts, self._journal, self._frontier = cuts, journal, frontier
        self._identity, self._guard, self._clock = identity, guard, clock
        self._cut = Cut()
        self._views: dict[ViewName, ManagedView] = {}
        self._shown: dict[str, ViewState] = {}
        self._building: dict[str, ViewState] = {}
        """Of views that nobody sees yet. One that is resumed is here too, while its halted state is still shown."""
        self._others: dict[ViewName, ViewState] = {}
        self._generations: dict[SourceName, str] = {}
        self._shown_at = 0.0
        self._unwritten: list[Cut] = []
        self._watchers: list[Callable[[Cut], None]] = []

    # ---------------------------------------------------------------- reading

    @property
    def cut(self) -> Cut:
        """The newest cut."""
        return self._cut

    @property
    def views(self) -> Mapping[ViewName, ManagedView]:
        """The views that are maintained, or were until they were halted, and shown."""
        return self._views

    @property
    def others(self) -> Mapping[ViewName, ViewState]:
        """Views of the last cut that are shown as they were, until they are built anew or dropped."""
        return self._others

    @property
    def generations(self) -> Mapping[SourceName, str]:
        return self._generations

    @property
    def shown_at(self) -> float:
        """When a cut was last written, or found to say everything already."""
        return self._shown_at

    def state(self, key: str) -> ViewState:
        """Where a view is, whether somebody sees it or not."""
        return self._building.get(key) or self._shown[key]

    def shown(self, name: ViewName) -> ViewState:
        """A view as it is shown."""
        return self._shown[self._views[name].key]

    def builds(self, view: ManagedView) -> bool:
        """Whether it is a view that nobody sees yet."""
        return view.key in self._building

    def live_views(self) -> list[ManagedView]:
        """The views that are shown and maintained."""
        return [view for view in self._views.values() if self._shown[view.key].state == "live"]

    def watched_by(self, watcher: Callable[[Cut], None]) -> None:
        """Tell this one of every cut that is written."""
        self._watchers.append(watcher)

    # ---------------------------------------------------------------- writing

    def recovered(self, cut: Cut, own: Mapping[SourceName, Position], generations: Mapping[SourceName, str]) -> None:
        """Go on from this cut. `own` are the positions of sources that it does not mention."""
        self._generations = dict(generations)
        self._cut = replace(cut, positions={**own, **cut.positions}, generations=self._generations)

    def renewed(self, generations: Mapping[SourceName, str]) -> None:
        """These sources' captures are others than those known so far."""
        self._generations = {**self._generations, **generations}

    def keep(self, view: ManagedView, state: ViewState) -> None:
        """Go on with a view of the last cut."""
        self._views[view.name], self._shown[view.key] = view, state

    def set_aside(self, others: Mapping[ViewName, ViewState]) -> None:
        """Show these views of the last cut as they were."""
        self._others = dict(others)

    def begin(self, view: ManagedView, state: ViewState) -> None:
        """A view that nobody sees yet."""
        self._building[view.key] = state

    def give_up(self, view: ManagedView) -> None:
        """A view that was being built will not be."""
        self._building.pop(view.key, None)

    def record(self, *events: Event) -> None:
        """Fold in what happened; the next cut shows it."""
        for event in events:
            states = self._building if event.view in self._building else self._shown
            if event.view in states:  # a commit may end after its view is gone
                states[event.view] = after(states[event.view], event)

    def record_shown(self, *events: Event) -> None:
        """Fold in what happened to views as they are shown, those that are being resumed included."""
        for event in events:
            self._shown[event.view] = after(self._shown[event.view], event)

    def replace(self, new: Sequence[ManagedView], gone: Sequence[ViewName]) -> list[str]:
        """One cut in which these views appear, and those of these names are gone or have their new content. Returns the
        folders that nobody maintains any more."""
        names, again = {*gone, *(view.name for view in new)}, {view.key for view in new}
        left = [view.key for name, view in self._views.items() if name in names and view.key not in again]
        left += [state.folder for name, state in self._others.items() if name in names]
        self._views = {name: view for name, view in self._views.items() if name not in names}
        self._others = {name: state for name, state in self._others.items() if name not in names}
        self._views |= {view.name: view for view in new}
        for key in left:
            self._shown.pop(key, None)
        self._shown |= {view.key: self._building.pop(view.key) for view in new}
        self.show()
        return left

    def show(self, *events: Event) -> Cut:
        """Fold in what happened and write a cut record that shows the views as they are now."""
        self.stage(*events)
        return self.write()

    def stage(self, *events: Event) -> None:
        """Fold in what happened: the views as they are now are a cut, which `write` makes visible with the others."""
        self.record(*events)
        for view in self.live_views():
            frontier = self._frontier.frontier(view.key) if view.merged else None
            if frontier is not None:
                self.record_shown(Advanced(view.key, frontier))
        self._cut = self._next()
        self._unwritten.append(self._cut)

    def write(self) -> Cut:
        """Make every staged cut visible."""
        if self._unwritten:
            self._guard()
            self._cut, self._unwritten = self._cuts.append(*self._unwritten), []
            self._shown_at = self._clock.monotonic()
            reached(Step.SHOWN)
            for watcher in self._watchers:
                watcher(self._cut)
        return self._cut

    def show_quiet(self) -> None:
        """Show that transactions which concern nobody are behind us too."""
        live = self.live_views()
        behind = [v for v in live if v.merged and (self._frontier.frontier(v.key) or 0) > self.shown(v.name).seq]
        loose = [v for v in live if not v.merged and self.shown(v.name).seq > self._cut.views[v.name].seq]
        if behind or loose or (not self._views and self._frontier.numbered > self._cut.seq):
            self.show()
        self._shown_at = self._clock.monotonic()

    def _next(self) -> Cut:
        """The cut that follows: pure, but for the journal's knowledge of where the sources were."""
        live = [self.shown(view.name).seq for view in self.live_views()]
        seq = Seq(max(self._cut.seq, min(live, default=self._frontier.numbered)))
        segment = self._journal.at(seq)
        known = segment is not None and segment.hi >= self._cut.seq
        positions = segment.positions if known and segment is not None else self._cut.positions
        views = {**self._others, **{name: self.shown(name) for name in self._views}}
        return Cut(self._cut.number + 1, seq, dict(positions), dict(self._generations), views, warehouse=self._identity)
