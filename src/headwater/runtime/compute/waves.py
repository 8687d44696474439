"""The wave of one batch, run: every question it asks is answered, and its cost is counted (`maintenance/wave`)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from headwater.algebra.view import plain
from headwater.integrator.journal import within
from headwater.maintenance.block_wave import ContractedWave, contracted_wave
from headwater.maintenance.blocks import Contracted, contracted
from headwater.maintenance.slices import WHOLE, Slices
from headwater.maintenance.wave import Wave, wave
from headwater.model.names import TableName
from headwater.model.written import Tally
from headwater.runtime.compute.asking import answer
from headwater.runtime.compute.batch_changes import COUNTED, batch_changes
from headwater.runtime.compute.wave_work import ParentFiles, WaveWork


def read_ahead(work: WaveWork) -> WaveWork:
    """The same with what copies have not written yet. A copy's changes are its table's, so they are computed as the
    copy computes them, from the journal, and nobody waits for its files."""

    def told(name: TableName, parent: ParentFiles) -> ParentFiles:
        if parent.unwritten is None:
            return parent
        core, _ = core_changes(parent.unwritten)
        columns = plain(parent.unwritten.view)
        assert columns is not None
        schema = pa.schema([*work.schemas[name], *COUNTED])
        rows = [core.column(columns.get(f.name, f.name)).cast(f.type) for f in schema]
        return replace(parent, unwritten=None, ahead=pa.table(rows, schema=schema))

    if all(parent.unwritten is None for parent in work.parents.values()):
        return work
    return replace(work, parents={name: told(name, parent) for name, parent in work.parents.items()})


def core_changes(work: WaveWork) -> tuple[pa.Table, Tally]:
    """Run the wave for a batch: every question is asked once, and rows are matched in as many threads as it has
    parts."""
    if work.parts == 1:
        return _waved(work, WHOLE)
    with ThreadPoolExecutor(work.parts) as threads:
        return _waved(work, Slices(work.parts, each=threads.map))


def _waved(work: WaveWork, slices: Slices) -> tuple[pa.Table, Tally]:
    started, tally = time.perf_counter(), Tally()
    work = read_ahead(work)
    journal = {t: batch_changes(work, t) for t in work.view.tables}
    mine = {t: within(rows, work.lo, work.hi) for t, rows in journal.items()}
    tally.changes = sum(rows.num_rows for rows in mine.values())
    running: ContractedWave | Wave = wave(work.view, journal, mine, slices)
    if made := contraction(work):
        running = contracted_wave(made, journal, lambda rows: within(rows, work.lo, work.hi), slices)
    try:
        ask = next(running)
        while True:
            ask = running.send(answer(work, ask, tally))
    except StopIteration as stop:
        tally.seconds = time.perf_counter() - started
        return stop.value, tally


def contraction(work: WaveWork) -> Contracted | None:
    """The view over its blocks, if it has any and they may be used. Tables that are counted on are met one by one."""
    if work.view.met_after:
        return None
    return contracted(work.view, work.schemas, work.leading) if work.join_at_sources else None
