"""A small batch, computed where the coordinator is: a Spark job would take longer than the work.

Only where Spark has nothing to evaluate (plain columns, plain aggregates), and only as long as it stays small: a batch
of few changes may meet many rows, and whatever meets more than `MOST_ROWS` is given up here and computed by Spark.
The programs are those of Spark's tasks (`tasks`), so there is one way in which a change is computed.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace

import pyarrow as pa

from headwater.algebra.methods import WAVE
from headwater.algebra.view import Aggregation, is_copy, plain, quoted
from headwater.model.changelog import COUNT, SEQ, one_zero
from headwater.model.written import Tally, Written
from headwater.runtime.compute.aggregating import AggregateWork, aggregating
from headwater.runtime.compute.connections import DESK, disconnect
from headwater.runtime.compute.failures import TooMuch, failures_here
from headwater.runtime.compute.leaving import with_taken_out
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import core_changes
from headwater.runtime.compute.writing import FILE, Target, write_rows, writing, written
from headwater.runtime.project.plan import ViewPlan

COPIED = 50_000
"""A batch of fewer changes of one table, written as they are, is small however large other batches may be."""
MOST_ROWS = 200_000
"""A batch that meets more rows than this is not small."""

_lanes = itertools.count(DESK, DESK)


class Desks:
    """Where threads of the coordinator compute, each with connections of its own."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._lock = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[int]:
        """The lane in which a thread asks sources, while it is nobody else's."""
        with self._lock:
            if not self._free:
                self._free.append(next(_lanes))
            lane = self._free.pop()
        try:
            yield lane
        finally:
            with self._lock:
                self._free.append(lane)

    def close(self) -> None:
        """Close the connections of desks that nobody sits at."""
        with self._lock:
            disconnect(lane + n for lane in self._free for n in range(DESK))
            self._free.clear()


def fits_here(plan: ViewPlan, work: WaveWork, groups: AggregateWork | None) -> bool:
    """Whether Spark has nothing to evaluate of a batch, and it is small."""
    if plan.tree is not None or plan.view.maintenance != WAVE or plain(plan.view) is None:
        return False
    if work.changed > (COPIED if is_copy(plan.view) else work.small):
        return False
    return groups is None or _plain_groups(groups.aggregation) is not None


def run_here(plan: ViewPlan, work: WaveWork, target: Target, groups: AggregateWork | None) -> Written | None:
    """Compute one batch of one view that fits, and write the files of its change. None: it meets too much."""
    found = waved_here(plan, work)
    return None if found is None else finished_here(*found, target, groups)


def waved_here(plan: ViewPlan, work: WaveWork) -> tuple[pa.Table, Tally] | None:
    """A batch that fits, up to its groups: the view's columns, or its keys and arguments. None: it meets too much."""
    direct = plain(plan.view)
    assert direct is not None
    try:
        with failures_here():
            work = replace(work, parts=1, most=MOST_ROWS)
            core, cost = core_changes(work)
            return with_taken_out(work, _renamed(core, {**direct, COUNT: COUNT, SEQ: SEQ})), cost
    except TooMuch:
        return None


def finished_here(rows: pa.Table, cost: Tally, target: Target, groups: AggregateWork | None) -> Written:
    """The rest of it: the files of its change."""
    with failures_here():
        if groups is None:
            return written(list(write_rows(target, rows.to_batches())), asdict(cost))
        return written(list(_grouped(rows, groups, target)), asdict(cost))


def _plain_groups(aggregation: Aggregation) -> dict[str, str] | None:
    """Name → column of the groups, where Spark has nothing to compute of them."""
    names = [*(key.name for key in aggregation.keys), *(call.name for call in aggregation.calls)]
    columns = {quoted(name): name for name in names}
    if aggregation.having or any(o.expression not in columns for o in aggregation.outputs):
        return None
    return {o.name: columns[o.expression] for o in aggregation.outputs}


def _grouped(rows: pa.Table, groups: AggregateWork, target: Target) -> Iterator[str]:
    """Descriptions of the files that the change of groups is written to, and of those that the groups keep."""
    shown = _plain_groups(groups.aggregation)
    assert shown is not None
    taken = {**shown, COUNT: COUNT, SEQ: SEQ, FILE: FILE}
    changes = aggregating(groups)(iter(one_zero(rows).to_batches()))
    finished = (
        batch for change in changes for batch in one_zero(_renamed(pa.Table.from_batches([change]), taken)).to_batches()
    )
    for described in writing(target)(finished):
        yield from described.column(FILE).to_pylist()


def _renamed(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return pa.table([rows.column(column) for column in names.values()], names=list(names))
