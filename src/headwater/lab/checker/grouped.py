"""A view that groups, over source states: its core is linear, so only groups that a transaction touches change.

The groups of one source state are kept; to go to another costs what the transactions between them changed. A group is
kept as the values of each call's argument with their counts, and the row that it shows; not as its rows, of which
there are many more.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.algebra.bag import Bag, Row
from headwater.algebra.evaluate import DIGITS, aggregator
from headwater.algebra.spj import Spj
from headwater.algebra.view import AggregateCall, Aggregation, Output, ViewDefinition, quoted
from headwater.lab.checker.lattice import Vector
from headwater.model.names import TableName

Values = dict[Row, int]
"""The values of an argument that are not NULL, each as a row of one."""


@dataclass
class _Group:
    """How many rows it has, the values of each argument, and how many of them there are. `row` is its keys and what is
    called of it, until it changes."""

    size: int
    values: list[Values]
    totals: list[int]
    row: Row | None = None


class Grouped:
    """γ over a linear core: `core` has a group's keys and then the calls' arguments."""

    def __init__(self, view: ViewDefinition, columns: Mapping[TableName, Sequence[str]]) -> None:
        assert view.aggregation is not None
        self.name = str(view.name)
        self.at: Vector | None = None
        """Where the groups are those of."""
        aggregation = view.aggregation
        self._keys, self._width = len(aggregation.keys), len(aggregation.arguments)
        outputs = (*aggregation.keys, *aggregation.arguments)
        self.core = Spj(replace(view, aggregation=None, outputs=outputs), columns)
        self._aggregate = aggregator(_over(aggregation), [o.name for o in outputs])
        positions = {a.name: i for i, a in enumerate(aggregation.arguments)}
        self._calls = [_called(call, positions) for call in aggregation.calls]
        self._finish = _finished(aggregation)
        self._groups: dict[Row, _Group] = {}

    def content(self, core: Bag) -> Bag:
        """From scratch."""
        with decimal.localcontext(prec=DIGITS):
            return self._aggregate(core)

    def start(self, vector: Vector, core: Bag) -> None:
        """The groups of this core."""
        self._groups = {}
        self._put(core)
        self.at = vector

    def difference(self, vector: Vector, change: Bag) -> Bag:
        """V there − V where the groups are now, by what changes in the core; then they are there."""
        touched = {row[: self._keys] for row in change.counts}
        with decimal.localcontext(prec=DIGITS):
            old = self._shown(touched)
            self._put(change)
            self.at = vector
            return self._shown(touched) - old

    def _put(self, change: Bag) -> None:
        for row, count in change.counts.items():
            key = row[: self._keys]
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(0, [{} for _ in range(self._width)], [0] * self._width)
            group.size += count
            group.row = None
            for i, value in enumerate(row[self._keys :]):
                if value is not None:
                    values = group.values[i]
                    total = values.get((value,), 0) + count
                    if total:
                        values[value,] = total
                    else:
                        del values[value,]
                    group.totals[i] += count

    def _shown(self, keys: set[Row]) -> Bag:
        """The rows of these groups. Without keys there is one, even of nothing."""
        rows = []
        for key in keys:
            group = self._groups.get(key)
            if group is None or not group.size:
                self._groups.pop(key, None)
                if self._keys:
                    continue
                group = _Group(0, [{} for _ in range(self._width)], [0] * self._width)
            if group.row is None:
                group.row = key + tuple(call(group) for call in self._calls)
            rows.append(group.row)
        return self._finish(Bag.of(rows))


def _called(call: AggregateCall, positions: Mapping[str, int]) -> Callable[[_Group], Any]:
    """An aggregate of a group: what was counted already, else by definition."""
    if call.argument is None:
        return lambda group: group.size
    i, reference = positions[call.argument], call.aggregate.reference
    if call.function == "count":
        return (lambda group: len(group.values[i])) if call.distinct else (lambda group: group.totals[i])
    if call.distinct:
        return lambda group: reference(Bag(group.values[i]).distinct())
    return lambda group: reference(Bag(group.values[i]))


def _finished(aggregation: Aggregation) -> Callable[[Bag], Bag]:
    """HAVING and the outputs, over rows of keys and calls: each is a group of its own, of which nothing is called."""
    names = [Output(k.name, "") for k in aggregation.keys] + [Output(c.name, "") for c in aggregation.calls]
    return aggregator(replace(aggregation, keys=_plain(names), arguments=(), calls=()), [n.name for n in names])


def _over(aggregation: Aggregation) -> Aggregation:
    """The same, where keys and arguments are columns already."""
    return replace(aggregation, keys=_plain(aggregation.keys), arguments=_plain(aggregation.arguments))


def _plain(outputs: Sequence[Output]) -> tuple[Output, ...]:
    return tuple(Output(o.name, quoted(o.name)) for o in outputs)
