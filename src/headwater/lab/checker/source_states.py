"""The views over every source state: exactly for one of them, as differences between two, as sums of terms for all.

Views of σ, π and ⋈ over tables of sources are linear, so with ΔR[i] what the ith transaction changed (ΔR[0] what was
there at the beginning)

    V(p1, …, pk) = Σ over i1 ≤ p1, …, ik ≤ pk of ΔR1[i1] ⋈ … ⋈ ΔRk[ik]

and most of these terms are empty. Views that group have a linear core. Those that read views are recomputed.

A hash of a content is Σ count × mark(row), where each row of each view has a random mark of 64 bits: sums of bags are
sums of hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from random import Random

from headwater.algebra import Bag, Relation, Row, ViewDefinition, evaluate_all
from headwater.algebra.spj import Key, Partial, Spj, key_of
from headwater.lab.checker.grouped import Grouped
from headwater.lab.checker.lattice import Lattice, Vector
from headwater.lab.checker.versions import Versions
from headwater.maintenance.strategies.contract import Update
from headwater.model.errors import UsageError
from headwater.model.names import TableName, ViewName

Contents = Mapping[str, Bag]
"""The views' rows, by name."""
MASK = (1 << 64) - 1


class Spent(Exception):
    """The budget is."""


class Marks:
    """A random number for each row of each view, drawn when it is first seen; not `hash`, for which −1 is −2."""

    def __init__(self) -> None:
        self._random = Random(15)
        self._marks: dict[tuple[str, Row], int] = {}

    def of(self, view: str, bag: Bag) -> int:
        total = 0
        marks = self._marks
        for row, count in bag.counts.items():
            mark = marks.get((view, row))
            if mark is None:
                mark = marks[view, row] = self._random.getrandbits(64)
            total += count * mark
        return total & MASK

    def all(self, contents: Contents) -> int:
        return sum(self.of(view, bag) for view, bag in contents.items()) & MASK


class SourceStates:
    """The `chosen` views over the vectors of a lattice. `views` are all there are: some may be read by others."""

    def __init__(
        self,
        views: Sequence[ViewDefinition],
        chosen: Sequence[str],
        columns: Mapping[TableName, Sequence[str]],
        initial: Mapping[TableName, Bag],
        transactions: Sequence[Update],
    ) -> None:
        self.chosen = tuple(chosen)
        self.marks = Marks()
        self.handled = 0
        """How many rows all differences took so far: what they cost."""
        self.linear = [Spj(v, columns) for v in views if v.name in chosen and linear(v)]
        self.grouped = [Grouped(v, columns) for v in views if v.name in chosen and v.aggregation and not v.parents]
        self._others = needed(views, [v.name for v in views if v.name in chosen and v.parents])
        self._read = tuple(sorted({t for v in self._others for t in v.base_tables}))
        self._columns = columns
        self._cores = [*self.linear, *(g.core for g in self.grouped)]
        self.lattice = Lattice(u for u in transactions if u.part_of or self.touches(u))
        if self.recomputes:
            _refuse_overdrawn(initial, transactions, {t for g in self.grouped for t in g.core.tables} | {*self._read})
        tables = {t for spj in self._cores for t in spj.tables} | set(self._read)
        chains = self.lattice.by_source
        self.versions = {t: Versions(initial[t], chains.get(t.source, ()), t) for t in tables}
        self._place = {t: self.lattice.sources.index(t.source) if t.source in chains else None for t in self.versions}
        self._recomputed = lru_cache(maxsize=1024)(self._recompute)

    def touches(self, update: Update) -> bool:
        """Can it change a view in some state?"""
        for spj in self._cores:
            for i, table in enumerate(spj.tables):
                change = update.changes.get(table)
                if change and spj.reduced(i, change):
                    return True
        return any(update.changes.get(t) for t in self._read)

    @property
    def recomputes(self) -> bool:
        """Is there a view that is not linear?"""
        return self.groups or self.reads_views

    @property
    def groups(self) -> bool:
        """Is there a view that groups rows of sources?"""
        return bool(self.grouped)

    @property
    def reads_views(self) -> bool:
        """Is there a view that reads views, and is recomputed?"""
        return bool(self._others)

    @cached_property
    def rows(self) -> int:
        """How many rows the tables have: what visiting a source state costs, if a view is recomputed there."""
        return sum(len(versions.changes[0][1].counts) for versions in self.versions.values())

    def contents(self, vector: Vector) -> dict[str, Bag]:
        """The views over one source state, from scratch."""
        found = {spj.name: self._evaluated(spj, vector) for spj in self.linear}
        found |= {g.name: g.content(self._evaluated(g.core, vector)) for g in self.grouped}
        return found | dict(self._others_at(vector))

    def difference(self, low: Vector, high: Vector) -> dict[str, Bag]:
        """V(high) − V(low), of any two vectors; views that do not differ are left out."""
        found = {spj.name: self._change(spj, low, high) for spj in self.linear}
        for g in self.grouped:
            self._bring(g, low)
            found[g.name] = g.difference(high, self._change(g.core, low, high))
        if self._others:
            old, new = self._others_at(low), self._others_at(high)
            found |= {v: new[v] - old[v] for v in new if new[v] is not old[v]}
        return {v: bag for v, bag in found.items() if bag}

    def terms(self, most: int) -> Iterator[tuple[str, Vector, Bag]]:
        """The terms of linear views: whose, the least vector that holds the transactions, and the rows. Raises `Spent`
        if there are too many."""
        assert not self.recomputes, "these are recomputed, one vector at a time"
        for spj in self.linear:
            for cell, partial in self._terms(spj, most).items():
                yield spj.name, cell, spj.finish(partial)

    def _bring(self, grouped: Grouped, vector: Vector) -> None:
        """Its groups to this vector: from where they are if that is near, otherwise from nothing."""
        at = grouped.at
        if at is None or sum(abs(a - b) for a, b in zip(at, vector, strict=True)) > self.rows:
            grouped.start(vector, self._evaluated(grouped.core, vector))
        elif at != vector:
            grouped.difference(vector, self._change(grouped.core, at, vector))

    def _change(self, spj: Spj, low: Vector, high: Vector) -> Bag:
        """Σ over occurrences i of  T0' ⋈ … ⋈ T(i−1)' ⋈ ΔTi ⋈ T(i+1) ⋈ …   where ' is at `high`."""
        total: Bag | None = None
        for i, table in enumerate(spj.tables):
            start, end = self._at(table, low), self._at(table, high)
            change = self.versions[table].change(start, end) if start != end else None
            if not change:
                continue
            partial = spj.origin(i, change)
            for j in [*range(i - 1, -1, -1), *range(i + 1, spj.n)]:
                if not partial.bag:
                    break
                far = spj.raw_positions(j, spj.join(partial.over, j).far)
                n = self._at(spj.tables[j], high if j < i else low)
                find = self.versions[spj.tables[j]].find(far, n)
                partial = spj.extend(partial, j, spj.as_occurrence(j, find))
                self.handled += len(partial.bag.counts)
            else:
                found = spj.finish(partial)
                total = found if total is None else total + found
        return total if total is not None else Bag()

    def _terms(self, spj: Spj, most: int) -> dict[Vector, Partial]:
        """The join of what single transactions changed, by the least vector that holds them all."""
        terms: dict[Vector, dict[Row, int]] = {}
        for n, rows in self._pieces(spj, 0):
            terms.setdefault(self._cell(spj.tables[0], n, self.lattice.bottom), {}).update(rows.counts)
        over: tuple[int, ...] = (0,)
        for j in range(1, spj.n):
            plan = spj.join(over, j)
            near, far, cut = key_of(plan.near), key_of(plan.far), plan.cut
            several = len(plan.near) > 1
            index: dict[Key, list[tuple[int, Row, int]]] = {}
            for n, rows in self._pieces(spj, j):
                for row, count in rows.counts.items():
                    index.setdefault(far(row), []).append((n, row, count))
            longer: dict[Vector, dict[Row, int]] = {}
            size = 0
            for cell, held in terms.items():
                for row, count in held.items():
                    key = near(row)
                    if key is None or (several and None in key):
                        continue
                    matches = index.get(key, ())
                    size += len(matches)
                    if size > most:
                        raise Spent
                    for n, match, times in matches:
                        into = longer.setdefault(self._cell(spj.tables[j], n, cell), {})
                        joined = row[:cut] + match + row[cut:]
                        into[joined] = into.get(joined, 0) + count * times
            terms, over = longer, plan.over
        return {cell: Partial(over, Bag({r: c for r, c in rows.items() if c})) for cell, rows in terms.items()}

    def _pieces(self, spj: Spj, j: int) -> Iterable[tuple[int, Bag]]:
        return [(n, spj.reduced(j, bag)) for n, bag in self.versions[spj.tables[j]].changes]

    def _cell(self, table: TableName, n: int, cell: Vector) -> Vector:
        s = self._place[table]
        if s is None or n <= cell[s]:
            return cell
        return (*cell[:s], n, *cell[s + 1 :])

    def _evaluated(self, spj: Spj, vector: Vector) -> Bag:
        return spj.evaluate({t: self.versions[t].rows(self._at(t, vector)) for t in spj.tables})

    def _at(self, table: TableName, vector: Vector) -> int:
        s = self._place[table]
        return 0 if s is None else vector[s]

    def _others_at(self, vector: Vector) -> Contents:
        return self._recomputed(tuple(self._at(t, vector) for t in self._read)) if self._others else {}

    def _recompute(self, at: tuple[int, ...]) -> Contents:
        tables = {
            t: Relation(tuple(self._columns[t]), self.versions[t].rows(n)) for t, n in zip(self._read, at, strict=True)
        }
        found = evaluate_all(self._others, tables)
        names = {spj.name for spj in self.linear} | {g.name for g in self.grouped}
        return {str(v): bag for v, bag in found.items() if v in self.chosen and v not in names}


def linear(view: ViewDefinition) -> bool:
    """σ, π and ⋈ over tables of sources."""
    return view.aggregation is None and not view.parents


def needed(views: Sequence[ViewDefinition], names: Iterable[str]) -> list[ViewDefinition]:
    """These views and those that they read, each after what it reads."""
    wanted = set(map(ViewName, names))
    for view in reversed(views):
        if view.name in wanted:
            wanted.update(view.parents)
    return [v for v in views if v.name in wanted]


def _refuse_overdrawn(initial: Mapping[TableName, Bag], transactions: Sequence[Update], tables: Set[TableName]) -> None:
    """Groups are defined for rows that are there."""
    held = {table: dict(initial[table].counts) for table in tables}
    for update in transactions:
        for table in tables & update.changes.keys():
            for row, count in update.changes[table].counts.items():
                left = held[table][row] = held[table].get(row, 0) + count
                if left < 0:
                    raise UsageError(f"{update.label} takes {row} from {table}, where it is not", "no source does that")
