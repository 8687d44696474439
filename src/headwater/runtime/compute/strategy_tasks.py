"""A batch of a view that a published algorithm maintains: one task, in which the strategy's own objects run.

Its view changes are threads of this task and not tasks of their own: a Spark task costs more than most view changes do
(decision 17). Each thread has its own connections, as far as the algorithm handles updates side by side.
"""

from __future__ import annotations

import time

import pyarrow as pa

from headwater.integrator.journal import within
from headwater.maintenance.strategies.batch import core_by_strategy
from headwater.maintenance.strategies.named import lanes_of
from headwater.maintenance.wave import Ask
from headwater.model.source import Question
from headwater.model.written import Tally
from headwater.runtime.compute.tasks import WaveWork, answer_question, batch_changes, read_ahead


def strategy_changes(work: WaveWork, part: int) -> tuple[pa.Table, Tally]:
    """The change of the view's core, and what it cost."""
    assert part == 0, "an algorithm handles one update after the other, or several in its own way"
    started = time.perf_counter()
    work = read_ahead(work)
    journal = {table: batch_changes(work, table) for table in work.view.tables}
    lanes = [Tally() for _ in range(lanes_of(work.view))]

    def ask(question: Question, lane: int) -> pa.Table:
        return answer_question(work, Ask(question), lanes[lane], lane)

    core = core_by_strategy(work.view, journal, work.hi, ask)
    tally = Tally(changes=sum(within(rows, work.lo, work.hi).num_rows for rows in journal.values()))
    for one in lanes:
        tally = tally.plus(one)
    tally.seconds = time.perf_counter() - started
    return core, tally
