"""What the groups of an aggregation keep: an *auxiliary view*, itself a changelog.

    part 0   (key…, rows, per argument: how many, sum, how many distinct ones, their sum)     one row per group
    part i   (key…, value)              the values of the i-th argument of which each must be known: MIN, MAX, DISTINCT,
                                        percentiles

Where sums are enough there is no other part than 0, and no column to tell parts apart.

Invariant: folding the auxiliary changelog up to hi gives the accumulators and the values of the core's state at hi,
exactly (see `exact`: sums are whole numbers, so what was added can be taken back without a trace). A batch looks up the
groups and values that it touches, so its work does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.aggregates import Held, Keeps
from headwater.algebra.view import AggregateCall, Aggregation
from headwater.kept.contract import BELOW, KEY, Kept
from headwater.kept.engine import matched
from headwater.kept.runs import Index
from headwater.maintenance.extremes import Values
from headwater.maintenance.keys import Ints
from headwater.model.changelog import COUNT, SEQ, consolidate

ROWS, PART = "rows", "part"

Types = Mapping[str, pa.DataType]
"""Arrow types of key…, arg… and agg… columns."""


def present(argument: str) -> str:
    return f"n_{argument}"


def total(argument: str) -> str:
    return f"sum_{argument}"


def distinct(argument: str) -> str:
    return f"distinct_{argument}"


def distinct_sum(argument: str) -> str:
    return f"distinct_sum_{argument}"


@dataclass(frozen=True)
class Valued:
    """An argument of which every value is kept: whether its distinct values are counted, and summed, whether the
    smallest and largest are shown, and whether some are shown by their place among the others."""

    argument: str
    part: int
    distinct: bool
    summed: bool
    ends: bool
    placed: bool


def keeps_values(aggregation: Aggregation) -> bool:
    """Whether the auxiliary view must keep values, not only sums."""
    return bool(valued(aggregation))


def valued(aggregation: Aggregation) -> dict[str, Valued]:
    """A smallest value that goes brings back the next, and one that is there twice is still there once."""
    found: dict[str, Valued] = {}
    for argument in arguments(aggregation):
        calls = [c for c in aggregation.calls if c.argument == argument and _over_values(c)]
        if calls:
            once = [c for c in calls if c.distinct]
            found[argument] = Valued(
                argument,
                len(found) + 1,
                bool(once),
                any(c.aggregate.keeps is Keeps.SUM for c in once),
                any(c.aggregate.keeps is Keeps.VALUES for c in calls),
                any(c.aggregate.keeps is Keeps.ORDER for c in calls),
            )
    return found


def _over_values(call: AggregateCall) -> bool:
    return call.distinct or call.aggregate.keeps in (Keeps.VALUES, Keeps.ORDER)


def arguments(aggregation: Aggregation) -> list[str]:
    return sorted({c.argument for c in aggregation.calls if c.argument is not None})


def summed(aggregation: Aggregation) -> list[str]:
    wanted = {c.argument for c in aggregation.calls if c.aggregate.keeps is Keeps.SUM and not c.distinct}
    return sorted(a for a in wanted if a is not None)


def auxiliary_schema(aggregation: Aggregation, types: Types) -> pa.Schema:
    each = valued(aggregation).values()
    fields = [pa.field(PART, pa.int64())] if each else []
    fields += [pa.field(k.name, types[k.name]) for k in aggregation.keys]
    fields.append(pa.field(ROWS, pa.int64()))
    fields += [pa.field(present(a), pa.int64()) for a in arguments(aggregation)]
    fields += [pa.field(total(a), pa.string()) for a in summed(aggregation)]
    fields += [pa.field(distinct(v.argument), pa.int64()) for v in each if v.distinct]
    fields += [pa.field(distinct_sum(v.argument), pa.string()) for v in each if v.summed]
    fields += [pa.field(v.argument, types[v.argument]) for v in each]
    return pa.schema([*fields, pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])


def looked_up(aggregation: Aggregation) -> tuple[Index, ...]:
    """How batches find what is kept of groups (`Before`): the indexes that they need."""
    names = [k.name for k in aggregation.keys]
    by = (PART, *names) if keeps_values(aggregation) else tuple(names)
    found = [Index(by)]
    for one in valued(aggregation).values():
        found.append(Index((*by, one.argument)))
        found += [Index(by, one.argument)] * one.ends + [Index(by, one.argument, ranked=True)] * one.placed
    return tuple(found)


class Before:
    """What is kept of the groups that a batch touches, before it. Groups have the numbers of their rows in `groups`."""

    def __init__(self, aggregation: Aggregation, types: Types, kept: Kept, groups: pa.Table, nothing: bool) -> None:
        self._kept, self.nothing = kept, nothing
        self._keys = groups
        self._names = [k.name for k in aggregation.keys]
        self._parts = keeps_values(aggregation)
        self._schema = pa.schema([f for f in auxiliary_schema(aggregation, types) if f.name != SEQ])
        self._number = max(1, groups.num_rows)

    @cached_property
    def _groups(self) -> tuple[pa.Table, Ints]:
        """Their rows of accumulators, and the number of each."""
        if self.nothing:
            return self._schema.empty_table(), np.zeros(0, np.int64)
        found = self._kept.found(self._by, self._keyed(0)).select(self._schema.names)
        return found, self._numbers(found)

    @property
    def _by(self) -> list[str]:
        return [PART, *self._names] if self._parts else self._names

    def _keyed(self, part: int) -> pa.Table:
        keys = self._keys
        if not self._parts:
            return keys
        parts = pa.array(np.full(self._number, part))
        return keys.add_column(0, PART, parts) if keys.num_columns else pa.table({PART: parts})

    def _numbers(self, rows: pa.Table) -> Ints:
        if not self._names:
            return np.zeros(rows.num_rows, np.int64)
        return np.asarray(matched(rows.select(self._names), self._keys)[1].to_numpy(), np.int64)

    def numbers(self, column: str) -> Ints:
        """A whole number of every group, 0 where there was none."""
        rows, group = self._groups
        found = np.zeros(self._number, np.int64)
        np.add.at(found, group, rows.column(column).to_numpy())
        return found

    def sums(self, column: str) -> npt.NDArray[np.object_]:
        rows, group = self._groups
        found = np.zeros(self._number, object)
        np.add.at(found, group, np.array([int(v, 16) for v in rows.column(column).to_pylist()], dtype=object))
        return found

    def as_groups(self, rows: pa.Table) -> pa.Table:
        """Rows of accumulators as the auxiliary view has them."""
        if self._parts:
            rows = rows.append_column(PART, pa.array(np.zeros(rows.num_rows, np.int64)))
        return _padded(rows, self._schema)

    def taken_back(self) -> pa.Table:
        rows, _ = self._groups
        return rows.set_column(rows.schema.get_field_index(COUNT), COUNT, pc.negate(rows.column(COUNT)))

    def held(self, one: Valued) -> list[Held]:
        """How many distinct values every group has, and their sum, where that is kept."""
        counts = self.numbers(distinct(one.argument)) if one.distinct else np.zeros(self._number, np.int64)
        sums = self.sums(distinct_sum(one.argument)) if one.summed else np.zeros(self._number, object)
        return [Held(int(n), int(t)) for n, t in zip(counts, sums, strict=True)]

    def values(self, one: Valued, group: Ints, column: pa.ChunkedArray) -> tuple[Values, Values]:
        """Of the values that the batch touches, `column` by `group`, how often each was there. And the smallest and
        largest ones of each group, if they are shown: so many that one is among them that the batch does not touch, if
        there is one."""
        argument, kind = one.argument, self._schema.field(one.argument).type
        none = Values(np.zeros(0, np.int64), pa.chunked_array([], kind), np.zeros(0, np.int64))
        if self.nothing:
            return none, none
        touched = pa.table({KEY: group, argument: column}).filter(pc.is_valid(column))
        pairs = touched.group_by([KEY, argument]).aggregate([])
        numbers = pairs.column(KEY).to_numpy()
        keys = self._keyed(one.part).take(pairs.column(KEY)).append_column(argument, pairs.column(argument))
        found = self._kept.found([*self._by, argument], keys, [*self._names, argument])
        counts = Values(self._numbers(found), found.column(argument), found.column(COUNT).to_numpy())
        if not one.ends:
            return counts, none
        wanted, groups = np.bincount(numbers, minlength=self._number) + 1, self._keyed(one.part)
        rows = pa.concat_tables([self._kept.first(self._by, groups, argument, wanted, last) for last in (False, True)])
        return counts, Values(rows.column(KEY).to_numpy(), rows.column(argument), rows.column(COUNT).to_numpy())

    def placed(self, one: Valued, low: Ints, high: Ints) -> tuple[Values, Ints]:
        """The values of each group at the places from `low` to `high`, in order, and how many lie below each."""
        argument = one.argument
        if self.nothing:
            none = np.zeros(0, np.int64)
            return Values(none, pa.chunked_array([], self._schema.field(argument).type), none), none
        rows = self._kept.ranked(self._by, self._keyed(one.part), argument, low, high)
        of, count, below = (rows.column(name).to_numpy() for name in (KEY, COUNT, BELOW))
        return Values(of, rows.column(argument), count), below


def value_changes(one: Valued, aggregation: Aggregation, types: Types, delta: pa.Table) -> pa.Table:
    """The changes of the values that are kept of an argument."""
    schema = pa.schema([f for f in auxiliary_schema(aggregation, types) if f.name != SEQ])
    rows = delta.select([*(k.name for k in aggregation.keys), one.argument, COUNT])
    rows = consolidate(rows.filter(pc.is_valid(rows.column(one.argument))))
    return _padded(rows.append_column(PART, pa.array(np.full(rows.num_rows, one.part))), schema)


def _padded(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With NULLs for the columns that these rows do not have."""
    columns = [
        rows.column(f.name).cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)
