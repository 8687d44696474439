"""What readers saw of a recorded run: whether its cuts are consistent, as multiple view consistency has it.

A cut shows each view up to a number of its own. It is a state of the sources if two things hold:

- each view, for itself, goes through states of the sources in order (`verdict`);
- no transaction is shown by one view and withheld by another that it concerns.

For then the transactions that one view shows and another does not yet are no business of that other one, and may as
well come later: an equivalent order of commits (MVC, sections 2.3 and 4). A transaction concerns a view if it changes a
row that meets the view's own conditions on the table, or concerns a view that this one reads (REL, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.algebra.bag import Bag, Row
from headwater.lab.checker.levels import Consistency, strongest
from headwater.lab.checker.verdict import Verdict, check
from headwater.lab.histories.history import CutShown, History, State
from headwater.maintenance.strategies.contract import Label, Update
from headwater.model.conditions import Condition


@dataclass(frozen=True)
class CutsVerdict:
    """`each` view for itself; `torn` says where views do not agree, empty if they always do."""

    each: Mapping[str, Verdict]
    torn: str = ""

    @property
    def holds(self) -> frozenset[Consistency]:
        """What all views have together."""
        held = frozenset.intersection(*(verdict.holds for verdict in self.each.values()))
        return held - _ALIKE if self.torn else held

    @property
    def undecided(self) -> frozenset[Consistency]:
        found = frozenset[Consistency]().union(*(verdict.undecided for verdict in self.each.values()))
        return found - self.holds if not self.torn else frozenset()

    def __str__(self) -> str:
        lines = [strongest(self.holds).value, *([self.torn] if self.torn else [])]
        lines += [f"{view}: {verdict}" for view, verdict in self.each.items() if verdict.witnesses and not self.torn]
        return "\n  ".join(lines)


_ALIKE = frozenset({Consistency.WEAK, Consistency.CONSISTENCY, Consistency.STRONG, Consistency.COMPLETE})
"""What does not hold if views disagree."""


def check_cuts(history: History, budget: int = 300_000) -> CutsVerdict:
    """The verdict on the cuts of a history, of which there must be some."""
    return CutsVerdict({v: check(_alone(history, v), (v,), budget) for v in history.content}, _torn(history))


def _alone(history: History, view: str) -> History:
    """The cuts as one view's states: it begins where the first cut shows it."""
    first, *later = history.cuts
    begin = first.shows[view]
    initial = dict(history.initial)
    for update in history.transactions[:begin]:
        for table, change in update.changes.items():
            initial[table] = initial[table] + change
    numbers: dict[str, int] = {}
    transactions = []
    for update in history.transactions[begin : history.cuts[-1].shows[view]]:
        number = numbers[update.label.source] = numbers.get(update.label.source, 0) + 1
        label = Label(update.label.source, number)
        transactions.append(Update(label, update.changes, update.at, "", update.part_of))
    content = {v: _plus(bag, first, v) for v, bag in history.content.items()}
    alone = History(history.columns, history.views, initial, content, transactions)
    shown = begin
    for cut in later:
        covers = tuple(update.label for update in transactions[shown - begin : max(shown, cut.shows[view]) - begin])
        own = tuple((v, bag) for v, bag in cut.changes if v == view)
        alone.states.append(State(cut.at, own, covers))
        shown = max(shown, cut.shows[view])
    return alone


def _plus(bag: Bag, cut: CutShown, view: str) -> Bag:
    for name, change in cut.changes:
        bag = bag + change if name == view else bag
    return bag


def _torn(history: History) -> str:
    """The first transaction that a cut shows in one view and withholds from another that it concerns."""
    concerns = _concerned(history)
    before: Mapping[str, int] = {}
    for cut in history.cuts:
        for view, shown in cut.shows.items():
            if shown < before.get(view, 0):
                return f"cut {cut.number} shows less of {view} than the one before"
        before = cut.shows
        low, high = min(cut.shows.values()), max(cut.shows.values())
        for number in range(low, high):
            views = [v for v in cut.shows if v in concerns[number]]
            without = [v for v in views if cut.shows[v] <= number]
            if without and len(without) < len(views):
                has = next(v for v in views if v not in without)
                said = history.transactions[number].label
                return f"cut {cut.number} shows {said} in {has}, but not in {without[0]}, which it concerns as well"
    return ""


def _concerned(history: History) -> list[frozenset[str]]:
    """The views that each transaction concerns; a global one has several parts, which concern what any of them does."""
    found = [_views(history, update) for update in history.transactions]
    whole: dict[str, frozenset[str]] = {}
    for update, views in zip(history.transactions, found, strict=True):
        if update.part_of:
            whole[update.part_of] = whole.get(update.part_of, frozenset()) | views
    return [whole[u.part_of] if u.part_of else views for u, views in zip(history.transactions, found, strict=True)]


def _views(history: History, update: Update) -> frozenset[str]:
    found: set[str] = set()
    for view in history.views:  # parents come before their children
        own = [o for o in view.occurrences if o.table in update.changes]
        met = any(_met(update.changes[o.table], o.conditions, history.columns[o.table]) for o in own)
        if met or any(parent in found for parent in view.parents):
            found.add(str(view.name))
    return frozenset(found)


def _met(change: Bag, conditions: tuple[Condition, ...], columns: tuple[str, ...]) -> bool:
    """Whether a changed row meets all conditions."""

    def meets(row: Row) -> bool:
        return all(_holds(c, row[columns.index(c.column)]) for c in conditions)

    return any(meets(row) for row, _ in change)


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "in": lambda a, b: a in b,
}


def _holds(condition: Condition, value: object) -> bool:
    if condition.operator == "is null":
        return value is None
    return value is not None and (condition.value is None or _COMPARE[condition.operator](value, condition.value))
