"""Blocks: tables of one source that are joined with each other, seen as one relation.

A *block* is a connected component, of two occurrences at least, of a view's equalities between columns of one source
that are `joinable` there. V = T1 ⋈ … ⋈ Tn is then V = B1 ⋈ … ⋈ Bm over blocks and the other occurrences: a view of
fewer relations (`Contracted.view`), which `block_wave` maintains.

Invariant: the joined rows are the same, whatever the blocks. Every condition and equality of the view is in a block's
own view or in the view over blocks; those that a source is not told are checked on its answers (`Block.meets`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.algebra.view import Equality, Occurrence, Output, ViewDefinition, quoted
from headwater.maintenance.graph import steps
from headwater.maintenance.keys import equal
from headwater.model.joins import joinable
from headwater.model.names import CLOCK, TableName
from headwater.model.source import Joined, JoinQuestion

Schemas = Mapping[TableName, pa.Schema]
Leading = Mapping[TableName, frozenset[str]]
"""Per table, the columns some index begins with; a table not mentioned is taken to have what is needed."""


@dataclass(frozen=True)
class Block:
    """`view` is the join of the block's occurrences and carries what the rest of the view needs of it. `at_source` are
    the equalities that the source joins by; what its answers still have to meet is `left_over`."""

    table: TableName
    """What it is called as a relation; no table is called so."""
    view: ViewDefinition
    at_source: tuple[Equality, ...]
    left_over: tuple[Equality, ...]
    leading: Leading

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns: names of the core."""
        return tuple(o.core(c) for o in self.view.occurrences for c in o.columns if o.core(c) in self.view.carried)

    def question(self, key: Sequence[str], keys: pa.Table) -> JoinQuestion:
        """Its rows with these keys, as one question to its source."""
        order = self.order(key)
        assert order is not None, "a block whose tables no index finds is not made"
        occurrences = self.view.occurrences
        place = {number: n for n, number in enumerate(order)}
        read = self._read()
        tables = []
        for n, number in enumerate(order):
            on = [(mine, place[i], other) for mine, i, other in self.ends(number) if place[i] < n]
            o = occurrences[number]
            tables.append(Joined(o.table, tuple(c for c in o.columns if o.core(c) in read), o.conditions, tuple(on)))
        of = {o.core(c): (place[n], c) for n, o in enumerate(occurrences) for c in o.columns}
        names = [occurrences[i].core(c) for i, joined in zip(order, tables, strict=True) for c in joined.columns]
        return JoinQuestion(tuple(tables), tuple(of[name] for name in key), keys, tuple(names))

    def order(self, key: Sequence[str]) -> tuple[int, ...] | None:
        """An order in which an index finds every occurrence by these key columns or by earlier occurrences; None if
        there is none. Those that the keys reach come as early as they can."""
        occurrences = self.view.occurrences
        asked = {n: [c for c in o.columns if o.core(c) in key] for n, o in enumerate(occurrences)}
        order: list[int] = []
        while len(order) < len(occurrences):
            found = [
                (len(asked[n]), -n)
                for n, o in enumerate(occurrences)
                if n not in order
                and (order or asked[n])
                and self._led(o, [*asked[n], *(mine for mine, i, _ in self.ends(n) if i in order)])
            ]
            if not found:
                return None
            order.append(-max(found)[1])
        return tuple(order)

    def meets(self, answer: pa.Table) -> pa.Table:
        """The rows of an answer that meet the equalities which the source was not told."""
        for equality in self.left_over:
            left, right = (self.view.occurrences[i].core(c) for i, c in (equality.left, equality.right))
            answer = answer.filter(equal(answer.column(left), answer.column(right)))
        return answer

    def ends(self, number: int) -> list[tuple[str, int, str]]:
        """(its column, the other occurrence, that one's column) of every equality at the source."""
        sides = [(e.left, e.right) for e in self.at_source] + [(e.right, e.left) for e in self.at_source]
        return [(mine, i, other) for (n, mine), (i, other) in sides if n == number]

    def _led(self, occurrence: Occurrence, columns: Sequence[str]) -> bool:
        known = self.leading.get(occurrence.table)
        return bool(columns) and (known is None or not known.isdisjoint(columns))

    def _read(self) -> frozenset[str]:
        ends = [end for e in self.left_over for end in (e.left, e.right)]
        return frozenset(self.columns) | {self.view.occurrences[i].core(c) for i, c in ends}


@dataclass(frozen=True)
class Contracted:
    """A view over blocks. `view` is what the wave is run over; its core columns are called otherwise than those of
    `original`: `names` says how, in the order in which the original's wave has them."""

    original: ViewDefinition
    view: ViewDefinition
    blocks: Mapping[TableName, Block]
    names: Mapping[str, str]

    @property
    def questions(self) -> int:
        """How many questions a batch asks in which everything changed but the blocks' own tables."""
        return len(steps(self.view))

    @property
    def of_blocks(self) -> int:
        """How many more a batch may ask that changes all of those as well."""
        return sum(len(steps(block.view)) for block in self.blocks.values())


def contracted(view: ViewDefinition, schemas: Schemas, leading: Leading) -> Contracted | None:
    """The view over its blocks; None where that would not save a question: it has no block, or is one. A block that
    some question could only read whole, for want of an index, is left as the tables it is made of."""
    found = components(view, schemas)
    while found:
        made = over_blocks(view, found, schemas, leading)
        if len(made.view.occurrences) == 1:
            return None
        bad = {
            made.view.occurrences[step.target].table
            for step in steps(made.view)
            if (block := made.blocks.get(made.view.occurrences[step.target].table)) and block.order(step.far) is None
        }
        if not bad:
            return made
        found = [c for c, block in zip(found, made.blocks, strict=True) if block not in bad]
    return None


def _at_source(view: ViewDefinition, schemas: Schemas, equality: Equality) -> bool:
    (a, left), (b, right) = ((view.occurrences[i].table, c) for i, c in (equality.left, equality.right))
    if a.source != b.source or a.is_view or a.source == CLOCK:
        return False
    return joinable(schemas[a].field(left).type, schemas[b].field(right).type)


def components(view: ViewDefinition, schemas: Schemas) -> list[tuple[int, ...]]:
    """The occurrences of each block, in order."""
    leader = list(range(len(view.occurrences)))
    for equality in view.equalities:
        if _at_source(view, schemas, equality):
            a, b = sorted((leader[equality.left[0]], leader[equality.right[0]]))
            leader = [a if n == b else n for n in leader]
    groups = [tuple(i for i, n in enumerate(leader) if n == first) for first in sorted(set(leader))]
    return [group for group in groups if len(group) > 1]


def over_blocks(
    view: ViewDefinition, groups: Sequence[tuple[int, ...]], schemas: Schemas, leading: Leading
) -> Contracted:
    """The view with each of these groups of occurrences as one block."""
    blocks = [_block(view, members, schemas, leading) for members in groups]
    home = {i: n for n, members in enumerate(groups) for i in members}
    mark = "⋈"
    while any(o.alias.startswith(mark) for o in view.occurrences):
        mark += "⋈"
    occurrences: list[Occurrence] = []
    place: dict[int, int] = {}
    for i, o in enumerate(view.occurrences):
        if i not in home:
            place[i] = len(occurrences)
            occurrences.append(o)
        elif i == groups[home[i]][0]:
            place |= dict.fromkeys(groups[home[i]], len(occurrences))
            block = blocks[home[i]]
            occurrences.append(Occurrence(f"{mark}{i}", block.table, block.columns))

    def column(i: int, c: str) -> str:
        return view.occurrences[i].core(c) if i in home else c

    ends = [
        [(place[i], column(i, c)) for i, c in (e.left, e.right)]
        for e in view.equalities
        if place[e.left[0]] != place[e.right[0]]
    ]
    carried = view.carried
    names = {
        o.core(c): occurrences[place[i]].core(column(i, c))
        for i, o in enumerate(view.occurrences)
        for c in o.columns
        if o.core(c) in carried
    }
    outer = replace(
        _carrying(view, tuple(names.values())),
        occurrences=tuple(occurrences),
        equalities=tuple(Equality(*sorted(pair)) for pair in ends),
    )
    return Contracted(view, outer, {block.table: block for block in blocks}, names)


def _block(view: ViewDefinition, members: Sequence[int], schemas: Schemas, leading: Leading) -> Block:
    occurrences = tuple(view.occurrences[i] for i in members)
    place = {i: n for n, i in enumerate(members)}
    inside, shown = [], {c for o in occurrences for c in map(o.core, o.columns) if c in view.carried}
    for e in view.equalities:
        ends = [(i, c) for i, c in (e.left, e.right) if i in place]
        if len(ends) == 2:
            inside.append(e)
        else:
            shown |= {view.occurrences[i].core(c) for i, c in ends}
    at_source = [e for e in inside if _at_source(view, schemas, e)]

    def moved(found: Sequence[Equality]) -> tuple[Equality, ...]:
        return tuple(Equality((place[e.left[0]], e.left[1]), (place[e.right[0]], e.right[1])) for e in found)

    inner = replace(_carrying(view, sorted(shown)), occurrences=occurrences, equalities=moved(inside))
    table = TableName(occurrences[0].table.source, f"\0{members[0]}")  # no engine has a name with NUL in it
    return Block(table, inner, moved(at_source), moved([e for e in inside if e not in at_source]), leading)


def _carrying(view: ViewDefinition, columns: Sequence[str]) -> ViewDefinition:
    """A view of these core columns and nothing else."""
    outputs = tuple(Output(name, quoted(name)) for name in columns)
    return replace(view, residual=(), outputs=outputs, aggregation=None, tree=None)
