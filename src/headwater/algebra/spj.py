"""Select-project-join views, compiled for bags: what the published algorithms compute with, row by row.

    V = π_X σ_P (T0 ⋈ T1 ⋈ … ⋈ T(n−1))

A *partial* is the join of some of the occurrences, its rows side by side in the order of the view. A partial grows by
one occurrence at a time (`extend`, `local`), whichever is next; when all are there, `finish` turns it into rows of V.
Everything is linear, so a partial of a change is the change of the partial.

Invariant: a partial that was made here holds no row that a clause of P refuses which speaks of its occurrences only
(`clauses`). Each clause is evaluated when a partial first has all that it speaks of.

Keys are what an index is looked up by: the value itself for one column, a tuple for several, () for none. NULL (None)
joins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag, Row
from headwater.algebra.clauses import Clause, early_clauses
from headwater.algebra.evaluate import meets
from headwater.algebra.expressions import compiled
from headwater.algebra.view import Occurrence, ViewDefinition
from headwater.model.errors import ViewSqlError
from headwater.model.names import TableName

Key = Any
Find = Callable[[Key], Iterable[tuple[Row, int]]]
"""Rows of an occurrence (its columns, in its order) with their counts, by key."""


class Partial(NamedTuple):
    """The join of the occurrences `over` (ascending). Rows hold their columns side by side."""

    over: tuple[int, ...]
    bag: Bag

    @property
    def weight(self) -> int:
        """How many values it holds: what it weighs as a message."""
        return weight(self.bag)


def weight(bag: Bag) -> int:
    """How many values a bag holds; each row's count travels with it."""
    counts = bag.counts
    if not counts:
        return 0
    return len(counts) * (len(next(iter(counts))) + 1)


@cache
def key_of(positions: tuple[int, ...]) -> Callable[[Row], Key]:
    """The key of a row at these positions."""
    if not positions:
        return lambda row: ()
    return itemgetter(*positions)


def row_of(positions: Sequence[int]) -> Callable[[Row], Row]:
    """The row at these positions: like a key, but a tuple even of one."""
    if len(positions) == 1:
        only = positions[0]
        return lambda row: (row[only],)
    return itemgetter(*positions) if positions else lambda row: ()


class _Join(NamedTuple):
    """How partials over some occurrences meet another: by `near` of their rows and `far` of its columns; its rows go
    in at `cut`. `clauses` are those that can be evaluated from then on."""

    over: tuple[int, ...]
    near: tuple[int, ...]
    far: tuple[int, ...]
    cut: int
    clauses: tuple[Clause, ...]


@dataclass(frozen=True)
class _Table:
    """An occurrence, as rows of its table see it."""

    occurrence: Occurrence
    take: Callable[[Row], Row] | None
    """From the table's columns to the occurrence's; None if they are the same."""
    holds: Callable[[Row], bool] | None
    """Its conditions, over the table's columns."""


class Spj:
    """One view. `columns` says which columns the rows of each table have."""

    def __init__(self, view: ViewDefinition, columns: Mapping[TableName, Sequence[str]]) -> None:
        if view.tree is not None:
            raise ViewSqlError(
                f"view {view.name} is more than a join of tables",
                "the published algorithms maintain select-project-join views",
            )
        if view.aggregation is not None:
            raise ViewSqlError(
                f"view {view.name} groups or says DISTINCT",
                "the published algorithms maintain select-project-join views",
            )
        self.view = view
        self.n = len(view.occurrences)
        self.tables: tuple[TableName, ...] = tuple(o.table for o in view.occurrences)
        self._tables = tuple(_table(o, tuple(columns[o.table])) for o in view.occurrences)
        self.columns = {o.table: tuple(columns[o.table]) for o in view.occurrences}
        self._raw = tuple(tuple(columns[o.table]) for o in view.occurrences)
        self._widths = tuple(len(o.columns) for o in view.occurrences)
        self._near: list[set[int]] = [set() for _ in view.occurrences]
        for equality in view.equalities:
            self._near[equality.left[0]].add(equality.right[0])
            self._near[equality.right[0]].add(equality.left[0])
        self._joins: dict[tuple[tuple[int, ...], int], _Join] = {}
        self._raw_far: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        self._clauses = early_clauses(view)
        names = self._names(range(self.n))
        self._output = _outputs(view, names)
        self._residual = [compiled(text, names) for text in view.residual]

    @property
    def name(self) -> str:
        return str(self.view.name)

    def occurrences_of(self, table: TableName) -> tuple[int, ...]:
        return tuple(i for i, t in enumerate(self.tables) if t == table)

    @property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """Every two occurrences, the smaller first, of which some clause of P speaks and of no other: equalities, and
        any other comparison."""
        spoken = [{e.left[0], e.right[0]} for e in self.view.equalities] + [set(c.over) for c in self._clauses]
        return frozenset((min(pair), max(pair)) for pair in spoken if len(pair) == 2)

    def reduced(self, i: int, rows: Bag) -> Bag:
        """Rows of the table, as occurrence i has them: the conditions that its source knows, and π, pushed down."""
        table = self._tables[i]
        if table.holds is not None:
            rows = rows.select(table.holds)
        return rows if table.take is None else rows.project(table.take)

    def origin(self, i: int, change: Bag) -> Partial:
        """A change of the table of occurrence i, as the partial that a maintenance starts with."""
        alone = [clause for clause in self._clauses if clause.over <= {i}]
        return self._selected(Partial((i,), self.reduced(i, change)), alone)

    def join(self, over: tuple[int, ...], j: int) -> _Join:
        """How partials over `over` are joined with occurrence j."""
        found = self._joins.get((over, j))
        if found is None:
            found = self._joins[over, j] = self._planned(over, j)
        return found

    def extend(self, partial: Partial, j: int, find: Find) -> Partial:
        """partial ⋈ Tj, where `find` knows the rows of Tj by `join(partial.over, j).far`."""
        plan = self.join(partial.over, j)
        near, cut, several = key_of(plan.near), plan.cut, len(plan.near) > 1
        out: dict[Row, int] = {}
        had = out.get
        for row, count in partial.bag.counts.items():
            key = near(row)
            if key is None or (several and None in key):
                continue
            left, right = row[:cut], row[cut:]
            for match, times in find(key):
                joined = left + match + right
                out[joined] = had(joined, 0) + count * times
        grown = Partial(plan.over, Bag(out) if 0 not in out.values() else Bag({r: c for r, c in out.items() if c}))
        return self._selected(grown, plan.clauses)

    def keys(self, partial: Partial, j: int) -> list[Key]:
        """What `extend` looks up in Tj: each key once, none with a NULL."""
        near = self.join(partial.over, j).near
        found = dict.fromkeys(map(key_of(near), partial.bag.counts))
        return [k for k in found if k is not None and not (len(near) > 1 and None in k)]

    def order(self, i: int, over: Sequence[int]) -> list[int]:
        """How a change of Ti meets the others of `over`: to the left and then to the right, as the papers have it for
        a chain, but none before one of those that it is joined with."""
        met, left = {i}, [*(j for j in reversed(over) if j < i), *(j for j in over if j > i)]
        found: list[int] = []
        while left:
            j = next((j for j in left if self._near[j] & met), left[0])
            left.remove(j)
            met.add(j)
            found.append(j)
        return found

    def local(self, partial: Partial, j: int, rows: Bag) -> Partial:
        """partial ⋈ rows, where `rows` are of the table of occurrence j and are here: SWEEP's local join."""
        return self.extend(partial, j, index(self.reduced(j, rows), self.join(partial.over, j).far))

    def raw_positions(self, j: int, far: tuple[int, ...]) -> tuple[int, ...]:
        """Positions among the columns of the table instead of those of occurrence j."""
        found = self._raw_far.get((j, far))
        if found is None:
            columns = self.view.occurrences[j].columns
            found = self._raw_far[j, far] = tuple(self._raw[j].index(columns[i]) for i in far)
        return found

    def as_occurrence(self, j: int, find: Find) -> Find:
        """The same lookup, from rows of the table to rows of occurrence j."""
        table = self._tables[j]
        if table.holds is None and table.take is None:
            return find
        holds, take = table.holds, table.take or (lambda row: row)
        if holds is None:
            return lambda key: [(take(row), count) for row, count in find(key)]
        return lambda key: [(take(row), count) for row, count in find(key) if holds(row)]

    def merge(self, left: Partial, right: Partial) -> Partial:
        """left ⋈ right, over disjoint occurrences: by the clauses between them."""
        a, b = [], []
        for equality in self.view.equalities:
            for (i, mine), (j, theirs) in ((equality.left, equality.right), (equality.right, equality.left)):
                if i in left.over and j in right.over:
                    a.append(self._position(left.over, i, mine))
                    b.append(self._position(right.over, j, theirs))
        over = tuple(sorted(left.over + right.over))
        order = self._order(left.over, right.over, over)
        joined = left.bag.join(right.bag, a, b)
        whole = Partial(over, joined if order is None else joined.project(order))
        return self._selected(whole, self._met(over, left.over, right.over))

    def finish(self, partial: Partial) -> Bag:
        """Rows of V from a partial over all occurrences. All of P is evaluated, once more if it was joined here: some
        algorithms put rows together themselves, and some clauses wait for the whole row."""
        assert len(partial.over) == self.n, f"{partial.over} is not all of {self.n} occurrences"
        bag = partial.bag
        for holds in self._residual:
            bag = bag.select(lambda row, holds=holds: holds(row) is True)  # type: ignore[misc]  # mypy and defaults
        return bag.project(self._output)

    def evaluate(self, rows: Mapping[TableName, Bag]) -> Bag:
        """V over these tables, from scratch."""
        return self.finish(self.core(tuple(range(self.n)), rows))

    def core(self, over: Sequence[int], rows: Mapping[TableName, Bag]) -> Partial:
        """The join of these occurrences over these tables, from scratch."""
        partial = self.origin(over[0], rows[self.tables[over[0]]])
        for j in over[1:]:
            partial = self.local(partial, j, rows[self.tables[j]])
        return partial

    def span(self, over: Sequence[int], occurrence: int) -> slice:
        """Where the columns of an occurrence lie in the rows of a partial."""
        start = sum(self._widths[i] for i in over if i < occurrence)
        return slice(start, start + self._widths[occurrence])

    def _position(self, over: Sequence[int], i: int, column: str) -> int:
        start: int = self.span(over, i).start
        return start + self.view.occurrences[i].columns.index(column)

    def _planned(self, over: tuple[int, ...], j: int) -> _Join:
        near, far = [], []
        for equality in self.view.equalities:
            for (i, mine), (other, theirs) in ((equality.left, equality.right), (equality.right, equality.left)):
                if other == j and i in over:
                    near.append(self._position(over, i, mine))
                    far.append(self.view.occurrences[j].columns.index(theirs))
        assert j not in over, f"occurrence {j} is in {over} already"
        grown = tuple(sorted((*over, j)))
        return _Join(grown, tuple(near), tuple(far), self.span(over, j).start, self._met(grown, over))

    def _met(self, over: tuple[int, ...], *parts: tuple[int, ...]) -> tuple[Clause, ...]:
        """The clauses that speak of `over` only, and of more than any of these parts."""
        return tuple(c for c in self._clauses if c.over <= set(over) and not any(c.over <= set(p) for p in parts))

    def _selected(self, partial: Partial, clauses: Sequence[Clause]) -> Partial:
        over, bag = partial
        for clause in clauses:
            bag = clause.select(bag, self._names(over))
        return Partial(over, bag)

    def _names(self, over: Iterable[int]) -> list[str]:
        """The core's columns that rows of a partial have."""
        return [o.core(c) for o in (self.view.occurrences[i] for i in over) for c in o.columns]

    def _order(
        self, left: tuple[int, ...], right: tuple[int, ...], over: tuple[int, ...]
    ) -> Callable[[Row], Row] | None:
        if not right or not left or left[-1] < right[0]:
            return None
        width = sum(self._widths[i] for i in left)
        places: list[int] = []
        for i in over:
            inside = self.span(left, i) if i in left else self.span(right, i)
            offset = 0 if i in left else width
            places.extend(range(inside.start + offset, inside.stop + offset))
        return row_of(places)


def index(rows: Bag, positions: tuple[int, ...]) -> Find:
    """A lookup into a bag that is here."""
    if not positions:
        items = list(rows.counts.items())
        return lambda key: items
    key = key_of(positions)
    found: dict[Key, list[tuple[Row, int]]] = {}
    for row, count in rows.counts.items():
        found.setdefault(key(row), []).append((row, count))
    return lambda k: found.get(k, ())


def _table(occurrence: Occurrence, columns: tuple[str, ...]) -> _Table:
    places = [columns.index(c) for c in occurrence.columns]
    tests = [(columns.index(c.column), c) for c in occurrence.conditions]
    return _Table(
        occurrence,
        None if occurrence.columns == columns else row_of(places),
        None if not tests else lambda row: all(meets(row[p], condition) for p, condition in tests),
    )


def _outputs(view: ViewDefinition, names: Sequence[str]) -> Callable[[Row], Row]:
    """π_X; plain columns, which almost all are, without an interpreter."""
    plain = {f"`{name}`": i for i, name in enumerate(names)}
    if all(o.expression in plain for o in view.outputs):
        return row_of([plain[o.expression] for o in view.outputs])
    functions = [compiled(o.expression, list(names)) for o in view.outputs]
    return lambda row: tuple(function(row) for function in functions)
