"""Batches of views that a published algorithm maintains: what runs in their tasks are the strategy's own objects.

An algorithm that handles one update after the other is one task (`strategy_changes`). PVM's ViewChanges are divided
over tasks (`share_effects`), and what they come to is committed together (`divided`). Where more of them shall wait
for sources at a time than there are tasks, those of one task are its threads, each with connections of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from headwater.integrator.journal import within
from headwater.maintenance.strategies.batch import core_by_strategy
from headwater.maintenance.strategies.divided import Completion, Effects, TaskShare, effects_of_share
from headwater.maintenance.strategies.named import lanes_of
from headwater.maintenance.wave import Ask
from headwater.model.source import Question
from headwater.model.written import Tally
from headwater.runtime.compute.asking import answer_question
from headwater.runtime.compute.batch_changes import batch_changes
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import read_ahead

PARCELS = pa.schema([pa.field("completions", pa.binary()), pa.field("rows", pa.binary())])
"""Effects on their way between tasks, as Arrow's own bytes: Spark does not look at the values."""
ROWS_PER_PARCEL = 65_536


def strategy_changes(work: WaveWork, part: int) -> tuple[pa.Table, Tally]:
    """The change of the view's core, and what it cost."""
    assert part == 0, "an algorithm handles one update after the other, or several in its own way"
    asking = _Asking(work, lanes_of(work.view))
    return core_by_strategy(work.view, asking.journal, work.hi, asking), asking.cost(part)


def share_effects(work: WaveWork, part: int) -> tuple[Effects, Tally]:
    """What the ViewChanges of one task came to, and what they cost."""
    share = TaskShare(part, work.parts, work.view.parallel)
    asking = _Asking(work, share.lanes)
    return effects_of_share(work.view, asking.journal, work.hi, asking, share), asking.cost(part)


class _Asking:
    """A task of a batch: the journal's part of it, and questions in lanes, counted."""

    def __init__(self, work: WaveWork, lanes: int) -> None:
        self._started = time.perf_counter()
        self._work = read_ahead(work)
        self._lanes = [Tally() for _ in range(lanes)]
        self.journal = {table: batch_changes(self._work, table) for table in work.view.tables}

    def __call__(self, question: Question, lane: int) -> pa.Table:
        return answer_question(self._work, Ask(question), self._lanes[lane], lane)

    def cost(self, part: int) -> Tally:
        """What it came to so far. All tasks know all changes of the batch; the first of them counts them."""
        lo, hi = self._work.lo, self._work.hi
        tally = Tally(changes=0 if part else sum(within(rows, lo, hi).num_rows for rows in self.journal.values()))
        for one in self._lanes:
            tally = tally.plus(one)
        tally.seconds = time.perf_counter() - self._started
        return tally


def packed(effects: Effects) -> Iterator[pa.RecordBatch]:
    """Effects as rows of PARCELS."""
    columns = zip(*effects.completions, strict=True) if effects.completions else [()] * len(Completion._fields)
    told = pa.record_batch([pa.array(c, pa.int64()) for c in columns], names=list(Completion._fields))
    yield pa.record_batch([pa.array([_bytes(told)], pa.binary()), pa.nulls(1, pa.binary())], schema=PARCELS)
    for rows in effects.rows.to_batches(max_chunksize=ROWS_PER_PARCEL):
        yield pa.record_batch([pa.nulls(1, pa.binary()), pa.array([_bytes(rows)], pa.binary())], schema=PARCELS)


def unpacked(parcels: Iterable[pa.RecordBatch], core: pa.Schema) -> Effects:
    """The effects of all tasks together."""
    completions: list[Completion] = []
    rows = [core.empty_table()]
    for told, some in ((p["completions"], p["rows"]) for batch in parcels for p in batch.to_pylist()):
        if told is not None:
            completions += [Completion(**one) for one in _table(told).to_pylist()]
        if some is not None:
            rows.append(_table(some).cast(core))
    return Effects(tuple(completions), pa.concat_tables(rows))


def _bytes(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
