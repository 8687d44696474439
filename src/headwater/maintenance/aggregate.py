"""From the core's changelog to the changelog of an aggregation over it: γ, incrementally and per transaction.

For every group g that a batch touches, in every transaction s that touches it:

    ΔV(s) = − row(g, s−1) + row(g, s)           where row(g, s) is absent if the group is empty at s

What a group needs to be continued later is an *auxiliary view*, itself a changelog with the same fold:

    groups   (key…, rows, per argument: how many, sum)     one row per group, where sums are enough
    values   (key…, arg…)                                  the grouped rows themselves, for MIN, MAX, DISTINCT

Invariant: folding the auxiliary changelog up to hi gives the accumulators of the core's state at hi, exactly (see
`exact`: sums are whole numbers, so what was added can be taken back without a trace).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.algebra.aggregates import Held, Keeps
from headwater.algebra.view import AggregateCall, Aggregation
from headwater.maintenance.exact import Sum, sum_of
from headwater.maintenance.extremes import ascending, extremes
from headwater.maintenance.keys import Ints
from headwater.model.changelog import COUNT, SEQ, consolidate
from headwater.model.errors import ValueUnfit

ROWS = "rows"

Types = Mapping[str, pa.DataType]
"""Arrow types of key…, arg… and agg… columns."""


def keeps_values(aggregation: Aggregation) -> bool:
    """Whether the auxiliary view must keep the grouped rows, not only sums."""
    return any(_over_values(call) for call in aggregation.calls)


def auxiliary_schema(aggregation: Aggregation, types: Types) -> pa.Schema:
    keys = [pa.field(k.name, types[k.name]) for k in aggregation.keys]
    if keeps_values(aggregation):
        fields = keys + [pa.field(a.name, types[a.name]) for a in aggregation.arguments]
    else:
        fields = [*keys, pa.field(ROWS, pa.int64())]
        fields += [pa.field(f"n_{a}", pa.int64()) for a in _arguments(aggregation)]
        fields += [pa.field(f"sum_{a}", pa.string()) for a in _summed(aggregation)]
    return pa.schema([*fields, pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])


def result_schema(aggregation: Aggregation, types: Types) -> pa.Schema:
    names = [k.name for k in aggregation.keys] + [c.name for c in aggregation.calls]
    return pa.schema([pa.field(n, types[n]) for n in names] + [pa.field(n, pa.int64()) for n in (COUNT, SEQ)])


@dataclass(frozen=True)
class GroupedDelta:
    """`delta` are the core's changes (key…, arg…, COUNT, SEQ), `state` the folded auxiliary rows of the groups they
    touch, `hi` the batch's last transaction. `first` marks the load, before which there is no view at all."""

    delta: pa.Table
    state: pa.Table
    hi: int
    first: bool = False


def aggregate(aggregation: Aggregation, types: Types, batch: GroupedDelta) -> tuple[pa.Table, pa.Table]:
    """The changelog of (key…, agg…), and the auxiliary view's changelog, labelled `hi`."""
    keys = [k.name for k in aggregation.keys]
    everywhere = not keys  # without GROUP BY there is one group, and it never disappears
    delta = _one_zero(batch.delta)
    if delta.num_rows == 0 and not (everywhere and batch.first):
        return result_schema(aggregation, types).empty_table(), auxiliary_schema(aggregation, types).empty_table()
    groups, delta_group, state_group = _group(keys, delta, batch.state)
    order = np.lexsort((delta.column(SEQ).to_numpy(), delta_group))
    delta, delta_group = delta.take(pa.array(order)), delta_group[order]
    runs = _Runs.of(delta_group, delta.column(SEQ).to_numpy(), batch)
    tallies = _Tallies(aggregation, types, batch, delta, state_group, runs)
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
        self,
        aggregation: Aggregation,
        types: Types,
        batch: GroupedDelta,
        delta: pa.Table,
        state_group: Ints,
        runs: _Runs,
    ) -> None:
        self._aggregation, self._types, self._batch = aggregation, types, batch
        self._delta, self._state_group, self._runs = delta, state_group, runs
        self._values = keeps_values(aggregation)
        self._groups = int(runs.group.max()) + 1
        self._count = delta.column(COUNT).to_numpy()
        self._seen: dict[tuple[str, bool], tuple[dict[int, Held], list[Held]]] = {}
        self.rows = runs.running(self._count, self._initial(ROWS))
        self._present = {a: self._presence(a) for a in _arguments(aggregation)}
        self._sums = {a: self._summed(a) for a in _summed(aggregation)}

    def call(self, call: AggregateCall, wanted: pa.DataType) -> tuple[pa.Array, pa.Array]:
        """The call's value after and before every run."""
        if call.argument is None:
            return pa.array(self.rows.after, wanted), pa.array(self.rows.before, wanted)
        if _over_values(call):
            return self._of_values(call, wanted)
        present = self._present[call.argument]
        if call.aggregate.keeps is Keeps.COUNT:
            return pa.array(present.after, wanted), pa.array(present.before, wanted)
        total, finish = self._sums[call.argument], self._finish(call, wanted)

        def shown(totals: Any, counts: Ints) -> pa.Array:
            held = (Held(int(n), t) for t, n in zip(totals, counts, strict=True))
            return _fitted(call, [finish(one) for one in held], wanted)

        return shown(total.after, present.after), shown(total.before, present.before)

    def auxiliary(self, groups: pa.Table, types: Types) -> pa.Table:
        schema = auxiliary_schema(self._aggregation, types)
        hi = self._batch.hi
        if self._values:
            names = [n for n in schema.names if n not in (COUNT, SEQ)]
            rows = consolidate(self._delta.select([*names, COUNT]))
            return rows.append_column(SEQ, pa.array(np.full(rows.num_rows, hi))).cast(schema)
        last = self._runs.last_of_group
        columns: dict[str, Any] = {n: groups.column(n) for n in groups.column_names}
        columns[ROWS] = self.rows.after[last]
        for a in _arguments(self._aggregation):
            columns[f"n_{a}"] = self._present[a].after[last]
        for a in _summed(self._aggregation):
            columns[f"sum_{a}"] = pa.array([format(int(v), "x") for v in self._sums[a].after[last]], pa.string())
        new = pa.table({**columns, COUNT: np.ones(len(last), np.int64), SEQ: np.full(len(last), hi)})
        new = new.select(schema.names).cast(schema)
        new = new.filter(pc.not_equal(new.column(ROWS), 0)) if groups.num_columns else new
        old = self._batch.state
        old = old.set_column(old.schema.get_field_index(COUNT), COUNT, pc.negate(old.column(COUNT)))
        old = old.append_column(SEQ, pa.array(np.full(old.num_rows, hi))).select(schema.names).cast(schema)
        return consolidate(pa.concat_tables([new, old]))

    def _initial(self, column: str) -> Ints:
        initial = np.zeros(self._groups, np.int64)
        state = self._batch.state
        counted = state.column(COUNT).to_numpy() if self._values else state.column(column).to_numpy()
        np.add.at(initial, self._state_group, counted)
        return initial

    def _presence(self, argument: str) -> _Running:
        valid = pc.is_valid(self._delta.column(argument)).to_numpy().astype(np.int64)
        initial = np.zeros(self._groups, np.int64)
        state = self._batch.state
        if self._values:
            there = pc.is_valid(state.column(argument)).to_numpy().astype(np.int64) * state.column(COUNT).to_numpy()
            np.add.at(initial, self._state_group, there)
        else:
            np.add.at(initial, self._state_group, state.column(f"n_{argument}").to_numpy())
        return self._runs.running(valid * self._count, initial)

    def _summed(self, argument: str) -> _Running:
        how = self._how(argument)
        initial = np.zeros(self._groups, object)
        state = self._batch.state
        if self._values:
            there = how.whole(state.column(argument)) * state.column(COUNT).to_numpy().astype(object)
            np.add.at(initial, self._state_group, there)
        else:
            sums = [int(v, 16) for v in state.column(f"sum_{argument}").to_pylist()]
            np.add.at(initial, self._state_group, np.array(sums, dtype=object))
        whole = how.whole(self._delta.column(argument)) * self._count.astype(object)
        return self._runs.running(whole, initial)

    def _how(self, argument: str, shown: pa.DataType | None = None) -> Sum:
        return sum_of(self._types[argument], shown)

    def _of_values(self, call: AggregateCall, wanted: pa.DataType) -> tuple[pa.Array, pa.Array]:
        assert call.argument is not None
        before, after = self._extremes(call.argument, call.aggregate.keeps is Keeps.SUM)
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

    def _extremes(self, argument: str, summing: bool) -> tuple[dict[int, Held], list[Held]]:
        if (argument, summing) not in self._seen:
            delta, state = self._delta.column(argument), self._batch.state.column(argument)
            universe = ascending([delta, state])
            whole = self._how(argument).whole(pa.chunked_array([universe])).tolist() if summing else None
            self._seen[argument, summing] = extremes(
                (self._state_group, state, self._batch.state.column(COUNT).to_numpy()),
                (self._runs.row_run, delta, self._count),
                self._runs.group,
                whole,
                universe,
            )
        return self._seen[argument, summing]


def _fitted(call: AggregateCall, values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ValueUnfit(
            f"{call.function.upper()} does not fit {wanted}: {error}", "cast its argument to a wider type in the view"
        ) from error


def _over_values(call: AggregateCall) -> bool:
    """Whether the call needs the values themselves: a smallest one that goes brings back the next."""
    return call.distinct or call.aggregate.keeps is Keeps.VALUES


def _arguments(aggregation: Aggregation) -> list[str]:
    return sorted({c.argument for c in aggregation.calls if c.argument is not None})


def _summed(aggregation: Aggregation) -> list[str]:
    wanted = {c.argument for c in aggregation.calls if c.aggregate.keeps is Keeps.SUM and not c.distinct}
    return sorted(a for a in wanted if a is not None)


def _one_zero(rows: pa.Table) -> pa.Table:
    """−0.0 and 0.0 are one group and one value, as in Spark."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(at, field, pc.add(rows.column(at), pa.scalar(0.0, field.type)))
    return rows


def _group(keys: Sequence[str], delta: pa.Table, state: pa.Table) -> tuple[pa.Table, Ints, Ints]:
    """Number the groups the delta touches. Returns one row of keys per group, and every row's group. `state` must hold
    touched groups only. NULL is a key like any other."""
    n = delta.num_rows
    if not keys:
        return pa.table({"_": [0]}).select([]), np.zeros(n, np.int64), np.zeros(state.num_rows, np.int64)
    both = pa.concat_tables([delta.select(keys), state.select(keys).cast(delta.select(keys).schema)])
    packed = np.zeros(both.num_rows, np.int64)
    for key in keys:
        encoded = both.column(key).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy()
        packed = np.unique(packed * (len(encoded.dictionary) + 1) + codes, return_inverse=True)[1].astype(np.int64)
    _, first, numbers = np.unique(packed, return_index=True, return_inverse=True)
    numbers = numbers.astype(np.int64)
    return both.take(pa.array(first)), numbers[:n], numbers[n:]
