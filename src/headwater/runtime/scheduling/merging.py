"""The merge processes at work: relevance sets and action lists in, warehouse transactions out, groups kept apart
(multiple view consistency, section 6.1: views that share a source, because its transactions can touch both).

    integrator ──REL──▶ ┌──────────────┐
    managers ────AL───▶ │ one per group │──▶ warehouse transactions, in an order that keeps dependencies
                        └──────────────┘

A row stands for transactions that concern the same views (`integrator.relevance.rows`), and its number is that of the
last of them. A complete manager computes many rows at once and still sends one action list for each: its changelog
tells transactions apart, so the files come with the first and the others only move the mark up to which the view is
shown.

Invariant: a view is shown up to the transaction before its first row that is not yet part of a cut. So in every cut
each transaction is in all of its views or in none of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.integrator.relevance import TiedRow
from headwater.merge import (
    ActionList,
    Color,
    MergeProcess,
    Sequencing,
    SimplePainting,
    Submissions,
    ViewUpdateTable,
    WarehouseTransaction,
    painting_for,
)
from headwater.model.names import Seq, SourceName
from headwater.model.written import Written
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.view import ManagedView


@dataclass(frozen=True)
class Actions:
    """What an action list does: files for the view's tables, which then hold everything up to `through`."""

    written: Written
    through: Seq


@dataclass(frozen=True)
class OpenRow:
    """What a row of the table stands for. `about` are the tables that changed."""

    row: TiedRow
    about: tuple[str, ...]
    since: float


@dataclass(eq=False)
class Group:
    """Views whose transactions can touch each other, and their merge process."""

    sources: set[SourceName]
    table: ViewUpdateTable
    painting: MergeProcess
    submissions: Submissions
    views: dict[str, ManagedView] = field(default_factory=dict)
    meeting: Seq = field(default=Seq(0))
    """The transaction that no batch of a manager which skips states may cross."""
    into: Group | None = None
    """The group that this one has become part of."""

    @property
    def algorithm(self) -> str:
        return "Simple Painting" if isinstance(self.painting, SimplePainting) else "Painting"


class Merging:
    """All groups of a warehouse."""

    def __init__(self, sequencing: Sequencing, clock: Clock = SYSTEM) -> None:
        self._sequencing, self._clock = sequencing, clock
        self._groups: list[Group] = []
        self._updates: dict[int, OpenRow] = {}
        self._numbered = Seq(0)
        self._seconds = 0.0
        self._open: dict[str, dict[int, None]] = {}
        """Per view its rows that are not yet part of a cut, in order."""
        self._unsent: dict[str, deque[int]] = {}
        """Those that no action list has come for."""
        self._left: dict[int, int] = {}

    @property
    def groups(self) -> Sequence[Group]:
        return self._groups

    @property
    def updates(self) -> Mapping[int, OpenRow]:
        """The rows that are not yet part of a cut."""
        return self._updates

    @property
    def numbered(self) -> Seq:
        """The newest transaction the merge processes know of."""
        return self._numbered

    @property
    def seconds(self) -> float:
        """Time spent deciding."""
        return self._seconds

    # ------------------------------------------------------------------ views

    def add(self, view: ManagedView) -> None:
        """From the next round on, this view takes part."""
        if not view.merged:
            return
        group = self._group_of(set(view.plan.sources))
        group.views[view.key] = view
        group.table.add_view(view.key)
        self._open.setdefault(view.key, {})
        self._unsent.setdefault(view.key, deque())
        self._repaint(group)

    def remove(self, view: ManagedView) -> None:
        """The view leaves; others may have waited for it."""
        group = self.group(view.key)
        if group is None:
            return
        released = group.painting.withdraw(view.key)
        del group.views[view.key]
        for number in self._open.pop(view.key):
            self._close(number)
        self._unsent.pop(view.key, None)
        group.submissions.add(released)
        self._repaint(group)
        if not group.views and not len(group.submissions):
            self._groups.remove(group)

    def group(self, key: str) -> Group | None:
        return next((g for g in self._groups if key in g.views), None)

    @property
    def members(self) -> list[ManagedView]:
        return [view for group in self._groups for view in group.views.values()]

    # ----------------------------------------------------------------- events

    def relevance(self, rows: Sequence[TiedRow], about: Mapping[str, Iterable[str]]) -> None:
        """REL: these rows are to come. `about` says of each view which of its tables changed."""
        started = time.perf_counter()
        for row in rows:
            groups = [g for g in self._groups if not row.views.isdisjoint(g.views)]
            group = self._joined(groups)  # a transaction over several sources can tie groups together
            number = int(row.hi)
            tables = dict.fromkeys(t for v in sorted(row.views) for t in about.get(v, ()))
            self._updates[number] = OpenRow(row, tuple(tables), self._clock.time())
            self._left[number] = len(row.views)
            for view in row.views:
                self._open[view][number] = None
                self._unsent[view].append(number)
            group.submissions.add(group.painting.relevance(number, row.views))
        self._seconds += time.perf_counter() - started

    def reached(self, seq: Seq) -> None:
        """Every transaction up to this one has been told of."""
        self._numbered = seq

    def actions(self, view: ManagedView, hi: Seq, written: Written | None) -> None:
        """AL: the view's change up to `hi` is computed."""
        started = time.perf_counter()
        group = self.group(view.key)
        assert group is not None
        unsent, rows = self._unsent[view.key], []
        while unsent and unsent[0] <= hi:
            rows.append(unsent.popleft())
        if rows:
            payload = None if written is None else Actions(written, hi)
            for number in rows if view.complete else rows[-1:]:
                group.submissions.add(group.painting.action_list(ActionList(view.key, number, payload)))
                payload = None
        else:
            assert written is None or not (written.log or written.auxiliary), "a change that no transaction made"
        self._seconds += time.perf_counter() - started

    def expects(self, view: ManagedView, lo: Seq, hi: Seq) -> bool:
        """Whether some transaction of (lo, hi] is relevant to the view."""
        for number in self._unsent[view.key]:
            row = self._updates[number].row
            if row.lo >= hi:
                return False
            if row.hi > lo:
                return True
        return False

    # ----------------------------------------------------------------- commit

    def ready(self) -> list[tuple[Group, WarehouseTransaction]]:
        """Warehouse transactions to commit now, each told once."""
        started = time.perf_counter()
        found = [(g, t) for g in self._groups for t in g.submissions.ready()]
        self._seconds += time.perf_counter() - started
        return found

    def committed(self, group: Group, transaction: WarehouseTransaction) -> None:
        """The tables hold it: its views may be shown further."""
        started = time.perf_counter()
        while group.into is not None:
            group = group.into
        group.submissions.committed(transaction)
        for view in transaction.views:
            for number in transaction.rows if view in self._open else ():
                self._open[view].pop(number, None)
        for number in transaction.rows:
            self._updates.pop(number, None)
            self._left.pop(number, None)
        self._seconds += time.perf_counter() - started

    def frontier(self, key: str) -> Seq | None:
        """The transaction up to which a view may be shown; None if it does not take part."""
        waiting = self._open.get(key)
        if waiting is None:
            return None
        return self._updates[next(iter(waiting))].row.lo if waiting else self._numbered

    def first_open(self, key: str) -> OpenRow | None:
        """What a view waits for first: its oldest row that is not yet part of a cut."""
        number = next(iter(self._open.get(key, ())), None)
        return None if number is None else self._updates[number]

    def settled(self, seq: Seq, keys: Iterable[str]) -> bool:
        """Whether everything up to `seq` that concerns the groups of these views is part of a cut."""
        groups = [g for g in self._groups if any(k in g.views for k in keys)]
        return all((self.frontier(v) or 0) >= seq for g in groups for v in g.views)

    def waits_for(self, key: str) -> list[str]:
        """The views whose action lists keep this one from being shown further."""
        group, waiting = self.group(key), self._open.get(key)
        if group is None or not waiting:
            return []
        seen: set[int] = set()
        todo, found = [next(iter(waiting))], []
        while todo:
            number = todo.pop()
            if number in seen or number not in group.table.rows:
                continue
            seen.add(number)
            for view, entry in group.table.rows[number].entries.items():
                if entry.color is Color.WHITE:
                    found.append(view)
                elif entry.state > number:
                    todo.append(entry.state)
                first = group.table.first_pending(view)
                if first is not None and first < number:
                    todo.append(first)
        return list(dict.fromkeys(found))

    # ---------------------------------------------------------------- private

    def _close(self, number: int) -> None:
        """One view less waits for this row."""
        if number in self._left:
            self._left[number] -= 1
            if not self._left[number]:
                del self._left[number], self._updates[number]

    def _group_of(self, sources: set[SourceName]) -> Group:
        groups = [g for g in self._groups if g.sources & sources]
        if not groups:
            table = ViewUpdateTable()
            groups = [Group(set(), table, painting_for(table, complete=True), Submissions(self._sequencing))]
            self._groups += groups
        group = self._joined(groups)
        group.sources |= sources
        return group

    def _joined(self, groups: Sequence[Group]) -> Group:
        """Several groups become one."""
        first, *others = groups
        for other in others:
            first.table.absorb(other.table)
            first.submissions.absorb(other.submissions)
            first.views |= other.views
            first.sources |= other.sources
            first.meeting = Seq(max(first.meeting, other.meeting))
            other.into = first
            self._groups.remove(other)
        if others:
            self._repaint(first)
        return first

    def _repaint(self, group: Group) -> None:
        """Simple Painting while all managers are complete, Painting as soon as one is not."""
        complete = all(v.complete for v in group.views.values())
        simple = isinstance(group.painting, SimplePainting)
        if (simple and not complete) or (not simple and complete and not len(group.table)):  # it cannot take over rows
            group.painting = painting_for(group.table, complete=complete)
