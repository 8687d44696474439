"""A batch's ViewChanges divided over tasks: PVM (Zhang, Ding, Rundensteiner 2003, section 3.4, figure 14), with its
processes where a cluster has room for them.

    AssignTimeStamp     every task for itself: all are told of all updates in the same order, so an update's timestamp
                        is its place in the batch, the same everywhere
    MaintenanceManager  one in each task: it takes its share of the UMQ and starts up to `lanes` ViewChanges at a time
    ViewChange          sees the updates of other tasks in its own UMQ, where nobody takes them
    CommitManager       one, when all tasks are done: told of the completions in the order of their times, the commit
                        order of the strategy (at once, or PVM CC's queue) says what is committed when

Invariant: sources stand still in the state after the batch (`batch`), so the effect of an update is a function of the
batch and of its timestamp, whoever handles it, however often. Only the order of completions is of one execution; PVM
may commit in any order, PVM CC commits in one. So a task that is run twice leaves one of two right answers.

Times are those of the machines that tasks run on. Clocks that disagree make another order of completions, which is one
that PVM might as well have gone through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.algebra.bag import Bag
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.strategies.batch import Asking, Journal, StrategyBatch, labels_of
from headwater.maintenance.strategies.contract import WAREHOUSE, Label, Update
from headwater.maintenance.strategies.loop import timed_commits
from headwater.maintenance.strategies.named import commit_order_of, shared_strategy_of
from headwater.maintenance.strategies.pvm import Stamped
from headwater.model.changelog import SEQ, consolidate


@dataclass(frozen=True)
class TaskShare:
    """Task `task` of `tasks`, which together handle `parallel` updates at a time. There are no more tasks than that.

    ViewChange n of `parallel` is at task n mod `tasks`, and updates go round the ViewChanges: tasks with more of them
    get more updates.
    """

    task: int
    tasks: int
    parallel: int

    @property
    def lanes(self) -> int:
        """How many updates this task handles at a time."""
        return len(range(self.task, self.parallel, self.tasks))

    def __call__(self, stamp: int) -> bool:
        return (stamp - 1) % self.parallel % self.tasks == self.task


class Completion(NamedTuple):
    """A ViewChange has ended: that of the update with this timestamp, of transaction `seq`; `at` in nanoseconds."""

    stamp: int
    seq: int
    at: int


@dataclass(frozen=True)
class Effects:
    """What the ViewChanges of a task came to. `rows` are of the core, each with the timestamp of its update in SEQ:
    labels are known when all is committed."""

    completions: tuple[Completion, ...]
    rows: pa.Table


def effects_of_share(view: ViewDefinition, journal: Journal, hi: int, ask: Asking, share: TaskShare) -> Effects:
    """Handle a task's share of the updates of a batch that ends at `hi`."""
    batch = StrategyBatch(view, journal, hi)
    stamps = {update.label: place for place, update in enumerate(batch.updates, 1)}
    strategy = shared_strategy_of(view, share.lanes, share)(batch.setting)
    mine = sum(map(share, stamps.values()))
    timed = timed_commits(strategy, batch.updates, batch.answering(ask), share.lanes, mine)
    completions = []
    for at, commit in timed:
        (label,) = commit.covers
        completions.append(Completion(stamps[label], batch.seqs[label], at))
    return Effects(tuple(completions), batch.rows([t.commit for t in timed], [c.stamp for c in completions]))


def committed_together(view: ViewDefinition, effects: Sequence[Effects]) -> pa.Table:
    """CommitManager: the change of the view's core, given the effects of all updates of a batch."""
    completions = {c.stamp: c for some in effects for c in some.completions}
    assert len(completions) == sum(len(some.completions) for some in effects), "each update is handled by one task"
    assert sorted(completions) == list(range(1, len(completions) + 1)), "each update is handled"
    in_order = list(_commit_order(view, completions.values()))
    labels = np.zeros(len(completions) + 1, np.int64)
    labels[in_order] = labels_of(view, [[completions[stamp].seq] for stamp in in_order])
    rows = pa.concat_tables([some.rows for some in effects])
    place = rows.schema.get_field_index(SEQ)
    return consolidate(rows.set_column(place, rows.schema.field(place), pa.array(labels[rows.column(SEQ).to_numpy()])))


def _commit_order(view: ViewDefinition, completions: Collection[Completion]) -> Iterator[int]:
    """The timestamps of the updates in the order in which they are committed. The order is asked about them alone:
    effects stay where they are."""
    order = commit_order_of(view)
    known = {c.stamp: Stamped(c.stamp, Update(Label(WAREHOUSE, c.stamp), {}, float(c.seq))) for c in completions}
    for stamp in sorted(known):
        order.received(known[stamp])
    for completion in sorted(completions, key=lambda c: (c.at, c.stamp)):
        for committed, _ in order.handled(known[completion.stamp], Bag()):
            yield committed.stamp
