"""From the core's changelog to the changelog of an aggregation over it: γ, incrementally and per transaction.

For every group g that a batch touches, in every transaction s that touches it:

    ΔV(s) = − row(g, s−1) + row(g, s)           where row(g, s) is absent if the group is empty at s

What a group needs to be continued later is kept (`groups`), and found by key: the accumulators of the groups that the
batch touches, the counts of the values that it touches, beside those the smallest and the largest value, and those
around percentiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.aggregates import Held, Keeps, Quantile
from headwater.algebra.view import AggregateCall, Aggregation
from headwater.kept.contract import Kept
from headwater.maintenance.exact import Sum, sum_of
from headwater.maintenance.extremes import Values, ascending, extremes, loaded
from headwater.maintenance.groups import (
    ROWS,
    Before,
    Types,
    Valued,
    arguments,
    auxiliary_schema,
    distinct,
    distinct_sum,
    present,
    summed,
    total,
    value_changes,
    valued,
)
from headwater.maintenance.keys import Ints
from headwater.maintenance.percentiles import Counts, loaded_places, places
from headwater.model.changelog import COUNT, SEQ, consolidate, one_zero
from headwater.model.errors import ValueUnfit

_ROOM = 2**62


def result_schema(aggregation: Aggregation, types: Types) -> pa.Schema:
    names = [k.name for k in aggregation.keys] + [c.name for c in aggregation.calls]
    return pa.schema([pa.field(n, types[n]) for n in names] + [pa.field(n, pa.int64()) for n in (COUNT, SEQ)])


@dataclass(frozen=True)
class GroupedDelta:
    """`delta` are the core's changes (key…, arg…, COUNT, SEQ), `kept` what the groups keep, `hi` the batch's last
    transaction. `first` marks the load, before which there is no view at all."""

    delta: pa.Table
    kept: Kept
    hi: int
    first: bool = False


def aggregate(aggregation: Aggregation, types: Types, batch: GroupedDelta) -> tuple[pa.Table, pa.Table]:
    """The changelog of (key…, agg…), and the auxiliary view's changelog, labelled `hi`."""
    keys = [k.name for k in aggregation.keys]
    everywhere = not keys  # without GROUP BY there is one group, and it never disappears
    delta = one_zero(batch.delta)
    if delta.num_rows == 0 and not (everywhere and batch.first):
        return result_schema(aggregation, types).empty_table(), auxiliary_schema(aggregation, types).empty_table()
    groups, delta_group = numbered(keys, delta)
    order = np.lexsort((delta.column(SEQ).to_numpy(), delta_group))
    delta, delta_group = delta.take(pa.array(order)), delta_group[order]
    runs = _Runs.of(delta_group, delta.column(SEQ).to_numpy(), batch)
    before = Before(aggregation, types, batch.kept, groups, batch.first)
    tallies = _Tallies(aggregation, types, batch.hi, delta, delta_group, runs, before)
    rows = tallies.rows
    after = [tallies.call(c, types[c.name]) for c in aggregation.calls]
    table = {k: groups.column(k).take(pa.array(runs.group)) for k in keys}
    new = pa.table({**table, **{c.name: a for c, (a, _) in zip(aggregation.calls, after, strict=True)}, **runs.tags(1)})
    old = pa.table(
        {**table, **{c.name: b for c, (_, b) in zip(aggregation.calls, after, strict=True)}, **runs.tags(-1)}
    )
    appears = np.ones(len(runs.group), bool) if everywhere else rows.after > 0
    existed = rows.before > 0
    if everywhere:
        existed = np.ones(len(runs.group), bool)
        existed[runs.first_of_group] = not batch.first
    schema = result_schema(aggregation, types)
    changes = pa.concat_tables(
        [new.filter(pa.array(appears)).select(schema.names), old.filter(pa.array(existed)).select(schema.names)]
    )
    return consolidate(changes.cast(schema)), tallies.auxiliary(groups, types)


@dataclass(frozen=True)
class _Running:
    """A measure before and after every run, and at the end of each group."""

    before: Any
    after: Any


@dataclass(frozen=True)
class _Runs:
    """A run is one group in one transaction. `starts` are its first rows in the sorted delta."""

    group: Ints
    seq: Ints
    starts: Ints
    first_of_group: npt.NDArray[np.bool_]
    row_run: Ints

    @staticmethod
    def of(group: Ints, seq: Ints, batch: GroupedDelta) -> _Runs:
        if len(group) == 0:  # the load of an aggregate over nothing: one group, no rows
            one = np.zeros(1, np.int64)
            return _Runs(one, one + batch.hi, one[:0], np.ones(1, bool), one[:0])
        new = np.ones(len(group), bool)
        new[1:] = (group[1:] != group[:-1]) | (seq[1:] != seq[:-1])
        starts = np.flatnonzero(new)
        first = np.ones(len(starts), bool)
        first[1:] = group[starts][1:] != group[starts][:-1]
        return _Runs(group[starts], seq[starts], starts, first, np.cumsum(new) - 1)

    @property
    def once(self) -> bool:
        """Whether every group has one run; then groups and runs have the same numbers."""
        return bool(self.first_of_group.all())

    def running(self, contributions: Any, initial: Any) -> _Running:
        """Sum per run, accumulated within each group on top of its initial value."""
        if len(self.starts) == 0:
            return _Running(initial[self.group], initial[self.group])
        per_run = np.add.reduceat(contributions, self.starts)
        total = np.cumsum(per_run)
        firsts = np.flatnonzero(self.first_of_group)
        offset = (total - per_run)[firsts]
        which = np.cumsum(self.first_of_group) - 1
        after = total - offset[which] + initial[self.group]
        return _Running(after - per_run, after)

    @property
    def last_of_group(self) -> Ints:
        return np.append(np.flatnonzero(self.first_of_group)[1:], len(self.group)) - 1

    def tags(self, count: int) -> dict[str, pa.Array]:
        return {COUNT: pa.array(np.full(len(self.group), count)), SEQ: pa.array(self.seq)}


class _Tallies:
    """All measures that the calls of one aggregation need, over one batch."""

    def __init__(
        self, aggregation: Aggregation, types: Types, hi: int, delta: pa.Table, group: Ints, runs: _Runs, before: Before
    ) -> None:
        self._aggregation, self._types, self._hi = aggregation, types, hi
        self._delta, self._group, self._runs, self._before = delta, group, runs, before
        self._count = delta.column(COUNT).to_numpy()
        self._valued = valued(aggregation)
        self._seen: dict[str, tuple[dict[int, Held], list[Held]]] = {}
        self.rows = runs.running(self._count, before.numbers(ROWS))
        self._present = {a: self._presence(a) for a in arguments(aggregation)}
        self._sums = {a: self._summed(a) for a in summed(aggregation)}

    def call(self, call: AggregateCall, wanted: pa.DataType) -> tuple[pa.Array, pa.Array]:
        """The call's value after and before every run."""
        if call.argument is None:
            return pa.array(self.rows.after, wanted), pa.array(self.rows.before, wanted)
        if call.quantile is not None:
            return self._shown(call, wanted, *self._placed(call.quantile, self._valued[call.argument]))
        if call.distinct or call.aggregate.keeps is Keeps.VALUES:
            return self._shown(call, wanted, *self._values(self._valued[call.argument]))
        there = self._present[call.argument]
        if call.aggregate.keeps is Keeps.COUNT:
            return pa.array(there.after, wanted), pa.array(there.before, wanted)
        sums, finish = self._sums[call.argument], self._finish(call, wanted)

        def shown(totals: Any, counts: Ints) -> pa.Array:
            held = (Held(int(n), t) for t, n in zip(totals, counts, strict=True))
            return _fitted(call, [finish(one) for one in held], wanted)

        return shown(sums.after, there.after), shown(sums.before, there.before)

    def auxiliary(self, groups: pa.Table, types: Types) -> pa.Table:
        schema, hi, last = auxiliary_schema(self._aggregation, types), self._hi, self._runs.last_of_group
        columns: dict[str, Any] = {n: groups.column(n) for n in groups.column_names}
        columns[ROWS] = self.rows.after[last]
        for a in arguments(self._aggregation):
            columns[present(a)] = self._present[a].after[last]
        for a in summed(self._aggregation):
            columns[total(a)] = _hexadecimal(self._sums[a].after[last])
        for a, one in self._valued.items():
            if one.distinct:
                held = [self._values(one)[1][run] for run in last]
                columns[distinct(a)] = np.array([h.count for h in held], np.int64)
                if one.summed:
                    columns[distinct_sum(a)] = _hexadecimal([h.total for h in held])
        new = self._before.as_groups(pa.table({**columns, COUNT: np.ones(len(last), np.int64)}))
        new = new.filter(pc.not_equal(new.column(ROWS), 0)) if groups.num_columns else new
        changes = [new, self._before.taken_back()]
        changes += [value_changes(one, self._aggregation, types, self._delta) for one in self._valued.values()]
        made = consolidate(pa.concat_tables(changes))
        return made.append_column(SEQ, pa.array(np.full(made.num_rows, hi))).select(schema.names).cast(schema)

    def _presence(self, argument: str) -> _Running:
        valid = pc.is_valid(self._delta.column(argument)).to_numpy().astype(np.int64)
        return self._runs.running(valid * self._count, self._before.numbers(present(argument)))

    def _summed(self, argument: str) -> _Running:
        column, before = self._delta.column(argument), self._before.sums(total(argument))
        if self._small(column, before):
            values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
            return self._runs.running(values * self._count, before.astype(np.int64))
        return self._runs.running(self._how(argument).whole(column) * self._count.astype(object), before)

    def _small(self, column: pa.ChunkedArray, before: npt.NDArray[np.object_]) -> bool:
        """Whether sums of whole numbers have room in 64 bits, so that they need not be Python's."""
        if not pa.types.is_integer(column.type):
            return False
        ends = pc.min_max(column).as_py()
        largest = max(abs(int(ends[end] or 0)) for end in ("min", "max"))
        return largest * int(np.abs(self._count).sum()) + max((abs(int(v)) for v in before), default=0) < _ROOM

    def _how(self, argument: str, shown: pa.DataType | None = None) -> Sum:
        return sum_of(self._types[argument], shown)

    def _shown(
        self, call: AggregateCall, wanted: pa.DataType, before: Mapping[int, Held], after: Sequence[Held]
    ) -> tuple[pa.Array, pa.Array]:
        """The call's value after and before every run, of what is held before the batch and after every run."""
        finish = self._finish(call, wanted)
        now = [finish(held) for held in after]
        previous = [
            finish(before[int(g)] if first else after[r - 1])
            for r, (g, first) in enumerate(zip(self._runs.group, self._runs.first_of_group, strict=True))
        ]
        return _fitted(call, now, wanted), _fitted(call, previous, wanted)

    def _finish(self, call: AggregateCall, wanted: pa.DataType) -> Callable[[Held], Any]:
        assert call.argument is not None
        how, finish = self._how(call.argument, wanted), call.aggregate.finish
        return lambda held: finish(held, how)

    def _values(self, one: Valued) -> tuple[dict[int, Held], list[Held]]:
        """The argument's distinct values in every group before the batch, and after every run."""
        if one.argument not in self._seen:
            column = self._delta.column(one.argument)
            events = Values(self._runs.row_run, column, self._count)
            if self._before.nothing and self._runs.once:
                self._seen[one.argument] = self._loaded(one, column)
                return self._seen[one.argument]
            counts, ends = self._before.values(one, self._group, column)
            universe = ascending([column, counts.value, ends.value])
            whole = self._how(one.argument).whole(pa.chunked_array([universe])).tolist() if one.summed else None
            self._seen[one.argument] = extremes(
                (counts, ends), self._before.held(one), events, self._runs.group, whole, universe
            )
        return self._seen[one.argument]

    def _placed(self, quantile: Quantile, one: Valued) -> tuple[dict[int, Held], list[Held]]:
        """What a quantile lies between in every group before the batch, and after every run."""
        column, there, runs = self._delta.column(one.argument), self._present[one.argument], self._runs
        events = Values(runs.row_run, column, self._count)
        if self._before.nothing and runs.once:
            after = loaded_places(quantile, events, there.after, ascending([column]))
            return dict.fromkeys(range(len(runs.group)), Held(0)), after
        counts = Counts(runs.group, runs.first_of_group, there.before, there.after)
        return places(quantile, events, counts, lambda low, high: self._before.placed(one, low, high))

    def _loaded(self, one: Valued, column: pa.ChunkedArray) -> tuple[dict[int, Held], list[Held]]:
        universe = ascending([column])
        whole = self._how(one.argument).whole(pa.chunked_array([universe])).tolist() if one.summed else None
        groups = len(self._runs.group)
        after = loaded(Values(self._runs.row_run, column, self._count), groups, whole, universe)
        return dict.fromkeys(range(groups), Held(0)), after


def _hexadecimal(numbers: Sequence[Any]) -> pa.Array:
    return pa.array([format(int(v), "x") for v in numbers], pa.string())


def _fitted(call: AggregateCall, values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ValueUnfit(
            f"{call.function.upper()} does not fit {wanted}: {error}", "cast its argument to a wider type in the view"
        ) from error


def numbered(keys: Sequence[str], rows: pa.Table) -> tuple[pa.Table, Ints]:
    """The groups that the rows belong to, each once, and every row's group. NULL is a key like any other."""
    if not keys:
        return pa.table({"_": [0]}).select([]), np.zeros(rows.num_rows, np.int64)
    packed = np.zeros(rows.num_rows, np.int64)
    for key in keys:
        encoded = rows.column(key).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy()
        packed = np.unique(packed * (len(encoded.dictionary) + 1) + codes, return_inverse=True)[1].astype(np.int64)
    _, first, numbers = np.unique(packed, return_index=True, return_inverse=True)
    return rows.select(keys).take(pa.array(first)), numbers.astype(np.int64)
