"""A view that groups, over source states: its core is linear, so only groups that a transaction touches change.

The groups of one source state are kept, at the vector where the last difference ended; going up from there costs what
the transactions changed. Anywhere else they are computed anew.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headwater.algebra.bag import Bag, Row
from headwater.algebra.evaluate import DIGITS, aggregator
from headwater.algebra.spj import Spj
from headwater.algebra.view import Aggregation, Output, ViewDefinition, quoted
from headwater.lab.lattice import Vector
from headwater.model.names import TableName

Groups = dict[Row, dict[Row, int]]


class Grouped:
    """γ over a linear core: `core` has a group's keys and then the calls' arguments."""

    def __init__(self, view: ViewDefinition, columns: Mapping[TableName, Sequence[str]]) -> None:
        assert view.aggregation is not None
        self.name = str(view.name)
        self._keys = len(view.aggregation.keys)
        outputs = (*view.aggregation.keys, *view.aggregation.arguments)
        self.core = Spj(replace(view, aggregation=None, outputs=outputs), columns)
        self._aggregate = aggregator(_over(view.aggregation), [o.name for o in outputs])
        self._at: Vector | None = None
        self._groups: Groups = {}

    def content(self, core: Bag) -> Bag:
        with decimal.localcontext(prec=DIGITS):
            return self._aggregate(core)

    def difference(self, low: Vector, high: Vector, core: Callable[[], Bag], change: Bag) -> Bag:
        """V(high) − V(low), where the core changes by `change`; `core()` is the core at `low`, should it be needed."""
        if self._at != low:
            self._groups = {}
            self._put(core())
        touched = {row[: self._keys] for row in change.counts}
        old = self._shown(touched)
        self._put(change)
        self._at = high
        return self._shown(touched) - old

    def _put(self, change: Bag) -> None:
        for row, count in change.counts.items():
            group = self._groups.setdefault(row[: self._keys], {})
            total = group.get(row, 0) + count
            if total:
                group[row] = total
            else:
                del group[row]

    def _shown(self, groups: set[Row]) -> Bag:
        rows = {row: n for group in groups for row, n in self._groups.get(group, {}).items()}
        if not rows and self._keys:
            return Bag()
        return self.content(Bag(rows))


def _over(aggregation: Aggregation) -> Aggregation:
    """The same, where keys and arguments are columns already."""
    return replace(aggregation, keys=_plain(aggregation.keys), arguments=_plain(aggregation.arguments))


def _plain(outputs: Sequence[Output]) -> tuple[Output, ...]:
    return tuple(Output(o.name, quoted(o.name)) for o in outputs)
