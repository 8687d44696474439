"""Strobe (Zhuge, Garcia-Molina, Wiener, PDIS 1996; PVM, sections 1.1 and 8, which describe it in words).

Assumption: the view has the key of every relation. Then a deleted tuple can be taken out of the view, and out of any
answer, without asking anybody, and a row that is there already is the same row: it is not added twice.

    delete U    key_delete(MV, U) goes to AL; U goes to pending(Q) of every Q under way
    insert U    Q = V⟨U⟩ asks the other sources one after the other; of its answer, key_delete for all in pending(Q);
                insert(MV, answer) goes to AL
    UQS = ∅     AL is applied to MV as one transaction

Invariant: MV with AL applied lacks only what the queries under way will bring. Two inserts that see each other bring
the same row twice, which the keys reveal; a delete that a query has not seen is in its pending list, if channels keep
their order. Strong: a state covers everything received. No state at all while queries never cease (quiescence).

PVM (section 1.1) has Strobe ask all sources at the same time; here it asks one after the other, each with what it knows
so far, and several queries are under way at once. A transaction of several tuples is taken tuple by tuple, deletes
first. An insert that the conditions on its table rule out asks nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Partial, Spj
from headwater.algebra.view import quoted
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Commit,
    Effect,
    Effects,
    Factory,
    Label,
    Node,
    Probe,
    Strategy,
    StrategySetting,
    Update,
)
from headwater.maintenance.strategies.threads import ThreadQuery, Threads, ViewChange
from headwater.model.errors import HeadwaterError
from headwater.model.names import TableName

Keys = Mapping[TableName, tuple[str, ...]]
"""The key columns of each table."""


def strobe(keys: Keys) -> Factory:
    return lambda setting: Strategy({WAREHOUSE: Strobe(setting, Keyed(setting.view, keys))})


class StrobeChange(NamedTuple):
    """One tuple inserted into, or deleted from, the relation of occurrence i."""

    label: Label
    i: int
    row: Row
    key: Row
    inserted: bool

    def origin(self, view: Spj) -> Partial:
        return view.origin(self.i, Bag({self.row: 1}))


class Keyed:
    """The keys of a view's relations: in tuples of the tables, in rows of the view, in rows of its core."""

    def __init__(self, view: Spj, keys: Keys) -> None:
        if len(set(view.tables)) < view.n:
            raise HeadwaterError(f"{view.name} has a table twice", "Strobe knows relations that occur once")
        self.view = view
        outputs = {output.expression: place for place, output in enumerate(view.view.outputs)}
        self._tuple: list[tuple[int, ...]] = []
        self._row: list[tuple[int, ...]] = []
        self._core: list[tuple[int, ...]] = []
        for i, occurrence in enumerate(view.view.occurrences):
            columns = keys.get(occurrence.table, ())
            missing = [c for c in columns if quoted(occurrence.core(c)) not in outputs]
            if missing or not columns:
                raise HeadwaterError(
                    f"{view.name} does not show the key of {occurrence.table}: {', '.join(missing) or 'none given'}",
                    "Strobe and C-Strobe need the key of every relation among the view's columns",
                )
            start = view.span(range(view.n), i).start
            places = tuple(occurrence.columns.index(c) for c in columns)
            self._tuple.append(view.raw_positions(i, places))
            self._row.append(tuple(outputs[quoted(occurrence.core(c))] for c in columns))
            self._core.append(tuple(start + place for place in places))

    def changes(self, update: Update) -> Iterator[StrobeChange]:
        """A transaction as single changes; deletes first, so that a key may be used again."""
        for inserted in (False, True):
            for i, table in enumerate(self.view.tables):
                for row, count in update.changes.get(table, Bag()):
                    if abs(count) != 1:
                        raise HeadwaterError(f"{update.label} has {row} {count} times in {table}", "tables have keys")
                    if (count > 0) is inserted:
                        yield StrobeChange(update.label, i, row, _at(self._tuple[i], row), inserted)

    def in_row(self, i: int, row: Row) -> Row:
        """The key of relation i in a row of the view."""
        return _at(self._row[i], row)

    def in_core(self, i: int, row: Row) -> Row:
        """The key of relation i in a row of the join of all."""
        return _at(self._core[i], row)

    def key_delete(self, rows: Iterable[Row], deleted: Collection[StrobeChange]) -> set[Row]:
        """key_delete: the rows of the view without those that hold the key of a deleted tuple."""
        gone = {(change.i, change.key) for change in deleted}
        relations = sorted({change.i for change in deleted})
        return {row for row in rows if not any((i, self.in_row(i, row)) in gone for i in relations)}


def _at(places: tuple[int, ...], row: Row) -> Row:
    return tuple(row[place] for place in places)


class Strobe:
    """The warehouse."""

    def __init__(self, setting: StrategySetting, keyed: Keyed) -> None:
        self.setting = setting
        self.keyed = keyed
        self.mv: set[Row] = set(setting.content().counts)
        self.al: list[StrobeChange | Bag] = []
        """The action list: a Change stands for key_delete, a bag for insert."""
        self.pending: dict[int, list[StrobeChange]] = {}
        """By query of UQS: the deletes received while it runs."""
        self._threads = Threads()
        self._queries = 0
        self._covers: list[Label] = []

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Answer):
            return [*self._threads.answer(body), *self._apply()]
        self._covers.append(body.label)
        effects: list[Effect] = []
        for change in self.keyed.changes(body):
            effects += self._insert(change) if change.inserted else self._delete(change)
        return [*effects, *self._apply()]

    def _delete(self, change: StrobeChange) -> list[Effect]:
        for pending in self.pending.values():
            pending.append(change)
        self.al.append(change)
        return []

    def _insert(self, change: StrobeChange) -> list[Effect]:
        origin = change.origin(self.setting.view)
        if not origin.bag:
            return []
        self._queries += 1
        self.pending[self._queries] = []
        evaluated = source_evaluate(self.setting, origin)
        return self._threads.start(evaluated, (change.label,), partial(self._answered, self._queries))

    def _answered(self, query: int, answer: Bag) -> Effects:
        self.al.append(Bag.of(self.keyed.key_delete(answer.counts, self.pending.pop(query))))
        return ()

    def _apply(self) -> list[Effect]:
        """AL to MV, if UQS is empty."""
        if self.pending or not self._covers:
            return []
        before = self.mv
        for action in self.al:
            if isinstance(action, StrobeChange):
                self.mv = self.keyed.key_delete(self.mv, [action])
            else:
                self.mv = self.mv | set(action.counts)  # a row that is there already is not added again
        changed = Bag({**dict.fromkeys(before - self.mv, -1), **dict.fromkeys(self.mv - before, 1)})
        commit = Commit(((self.setting.view.name, changed),), tuple(self._covers))
        self.al, self._covers = [], []
        return [commit]


def source_evaluate(setting: StrategySetting, origin: Partial) -> ViewChange:
    """V⟨U⟩, source by source, whatever is there when each gets to it; returns rows of V."""
    view, (i,) = setting.view, origin.over
    for j in [*range(i - 1, -1, -1), *range(i + 1, view.n)]:
        origin = yield ThreadQuery(setting.homes[j], Probe(view, origin, j))
    return view.finish(origin)
