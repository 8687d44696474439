"""The wave over blocks: fewer, larger questions, and every state as exact as before.

A block B (`blocks`) is a relation like any other, for a batch (lo, hi] that asks as of P:

    its changes        ΔB: the wave over the block alone, where the journal holds changes of its tables
    a question by key  one JoinQuestion to its source, as of P like any other

Invariant: for every s up to P, B(s) restricted to some keys is `ask(keys)` less ΔB in (s, P]. It holds because ΔB is
exact for every s up to P, the transactions beyond hi among them. So compensation is what it was, the wave over blocks
is exact for every s, and it asks 2(m−1) questions; a changed block asks up to 2(|B|−1) for itself. Together that is
never more than the 2(n−1) of the wave over tables.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import pyarrow as pa

from headwater.maintenance.blocks import Contracted
from headwater.maintenance.slices import WHOLE, Slices
from headwater.maintenance.wave import Ask, Journal, core_schema, wave
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import TableName
from headwater.model.source import JoinQuestion


@dataclass(frozen=True)
class AskJoin:
    """Wants `question` answered as of the batch's cut P: a table with ORDINAL, its columns, COUNT. `meeting`: how many
    rows the answer will be joined with."""

    question: JoinQuestion
    meeting: int = 0


ContractedWave = Generator[Ask | AskJoin, pa.Table, pa.Table]
Share = Callable[[pa.Table], pa.Table]


def contracted_wave(made: Contracted, journal: Journal, share: Share, slices: Slices = WHOLE) -> ContractedWave:
    """As `wave`. `share` takes the batch's rows out of changes that may lie beyond it; of a block's changes, too."""
    part = {table: share(rows) for table, rows in journal.items()}
    changes: dict[TableName, pa.Table] = {}
    mine: dict[TableName, pa.Table] = {}
    for occurrence in made.view.occurrences:
        table = occurrence.table
        if table not in made.blocks:
            changes[table], mine[table] = journal[table], part[table]
            continue
        block = made.blocks[table]
        others = [o for o in made.original.occurrences if o not in block.view.occurrences]
        if any(journal[o.table].num_rows for o in others):
            delta = yield from wave(block.view, journal, journal, slices)
            changes[table] = delta.select([*block.columns, COUNT, SEQ])
            mine[table] = share(changes[table])
        else:  # nobody else changed, so nobody asks for it, and nothing is compensated: the wave is linear in its part
            delta = yield from wave(block.view, journal, part, slices)
            changes[table] = mine[table] = delta.select([*block.columns, COUNT, SEQ])
    running = wave(made.view, changes, mine, slices)
    answer: pa.Table | None = None
    try:
        while True:
            ask = running.send(answer) if answer is not None else next(running)
            asked = made.blocks.get(ask.question.table)
            if asked is None:
                answer = yield ask
            else:
                answer = asked.meets((yield AskJoin(asked.question(ask.question.key, ask.question.keys), ask.meeting)))
    except StopIteration as stop:
        core = stop.value.select([*made.names.values(), COUNT, SEQ]).rename_columns([*made.names, COUNT, SEQ])
        schema = core_schema(made.original, {name: rows.schema for name, rows in journal.items()})
        return core.select(schema.names).cast(schema)
