"""The change of one view in one batch, computed by Spark: a wave, or a recomputation for a periodic view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.model.conditions import Condition
from headwater.model.consistency import Level
from headwater.model.names import TableName, view_table
from headwater.model.written import Written
from headwater.runtime.commit.tables import ViewTables
from headwater.runtime.compute.aggregating import AggregateWork
from headwater.runtime.compute.ahead import GroupsLater, RowsHere, RowsInSpark
from headwater.runtime.compute.answers import Wider
from headwater.runtime.compute.culprit import blamed
from headwater.runtime.compute.failures import ComputationFailed, translated_errors
from headwater.runtime.compute.here import Desks, fits_here, run_here, waved_here
from headwater.runtime.compute.jobs import run_wave
from headwater.runtime.compute.living_spark import LivingSpark
from headwater.runtime.compute.recompute import Refresh, recompute
from headwater.runtime.compute.strategy_jobs import run_shares
from headwater.runtime.compute.targets import aggregation, log_target
from headwater.runtime.compute.tree_jobs import run_tree
from headwater.runtime.compute.wave_work import ParentFiles, WaveWork
from headwater.runtime.compute.writing import Target
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.scheduling.families import Batch
from headwater.runtime.scheduling.foreseen import in_two_parts
from headwater.runtime.scheduling.work import Ahead, BatchWork
from headwater.runtime.steps import Step, reached
from headwater.runtime.view import ManagedView
from headwater.warehouse.layout import log_folder

Mention = tuple[TableName, tuple[Condition, ...]]

ROWS_PER_PART = 4_000
"""The number of changes per Spark task of a batch; there are never more tasks than cores."""

UNKNOWN_ROWS = 1_000_000
"""What a table without statistics is taken to hold: better to ask for a few keys than to read everything."""


class SparkCompute:
    """Called by the managers' threads."""

    def __init__(self, config: Config, spark: LivingSpark, catalog: SourceCatalog, tables: ViewTables) -> None:
        self._config, self._living, self._catalog, self._tables = config, spark, catalog, tables
        self._desks = Desks()
        self._large: set[str] = set()
        """Views of which few changes have met many rows: they are not tried here again."""

    def close(self) -> None:
        self._desks.close()

    def __call__(self, work: BatchWork) -> Written | Ahead:
        with self._living.using() as spark:
            if work.behind:
                return self._begun(spark, work)
            return self._noted(work.view, self._compute(spark, work))

    def _compute(self, spark: SparkSession, work: BatchWork) -> Written:
        view, batch = work.view, work.batch
        if view.periodic:
            _in_own_pool(spark, view)
            refresh = Refresh(view, batch, self._parents(work))
            return recompute(spark, self._catalog.another(), self._config, self._tables, refresh)
        wave = self._waved(spark, work)
        target, groups = log_target(self._tables, view, str(batch)), aggregation(self._tables, view, batch.hi)
        try:
            return self._here(view, wave, target, groups) or self._job(spark, view, wave, target, groups)
        except ComputationFailed as error:
            raise blamed(error, spark, view.plan, wave) from error

    def _begun(self, spark: SparkSession, work: BatchWork) -> Ahead:
        """A batch whose groups cannot be told yet: the core's changes, which take nearly all of the time."""
        view, wave = work.view, self._waved(spark, work)
        groups = aggregation(self._tables, view, work.batch.hi)
        finish = GroupsLater(self._living, self._tables, view, work.batch, self._noted)
        try:
            if fits_here(view.plan, wave, groups):
                with self._desks.taken() as lane:
                    found = waved_here(view.plan, replace(wave, lane=lane))
                if found is not None:
                    return RowsHere(finish, *found)
                self._large.add(view.key)
            _in_own_pool(spark, view)
            return RowsInSpark.of(finish, spark, wave)
        except ComputationFailed as error:
            raise blamed(error, spark, view.plan, wave) from error

    def _noted(self, view: ManagedView, written: Written) -> Written:
        self._tables.computed(view, written)
        reached(Step.COMPUTED)
        return written

    def _parents(self, work: BatchWork) -> dict[TableName, ParentFiles]:
        return {view_table(p.name): self._parent(p, work.batch, work.unwritten.get(p.key)) for p in work.parents}

    def _waved(self, spark: SparkSession, work: BatchWork) -> WaveWork:
        wave = self._wave(work.view, work.batch, self._parents(work), self._living.cores(spark))
        if work.view.plan.view.taken_out_by:
            wave = replace(wave, own=self._before(work.view, work.batch))
        return replace(wave, wider=self._wider(work.view, work.beside))

    def _here(self, view: ManagedView, wave: WaveWork, target: Target, groups: AggregateWork | None) -> Written | None:
        if not fits_here(view.plan, wave, groups):
            return None
        with self._desks.taken() as lane:
            written = run_here(view.plan, replace(wave, lane=lane), target, groups)
        if written is None:
            self._large.add(view.key)
        return written

    @staticmethod
    def _job(
        spark: SparkSession, view: ManagedView, wave: WaveWork, target: Target, groups: AggregateWork | None
    ) -> Written:
        with translated_errors():
            _in_own_pool(spark, view)
            if view.plan.tree is not None:
                return run_tree(spark, view.plan, wave, target, groups)
            run = run_shares if view.by_updates and wave.parts > 1 else run_wave
            return run(spark, view.plan, wave, target, groups)

    def _wave(self, view: ManagedView, batch: Batch, parents: dict[TableName, ParentFiles], cores: int) -> WaveWork:
        plan, definition = view.plan, view.plan.view
        tables = self._catalog.schemas(definition)
        rows = sum(n for s in batch.segments for t, (_, n) in s.tables.items() if t in plan.base)
        return WaveWork(
            view=replace(definition, tree=None),  # tasks are told the program instead
            storage=self._tables.storage,
            segments=batch.segments,
            lo=batch.lo,
            hi=batch.hi,
            positions=batch.segments[-1].positions,
            specs={t.source: self._catalog.spec(t.source) for t in definition.base_tables},
            schemas=plan.schemas,
            sizes={t: UNKNOWN_ROWS if s.rows is None else s.rows for t, s in tables.items()},
            leading={t: frozenset(i[0] for i in (s.key, *s.indexes) if i) for t, s in tables.items()},
            parents=parents,
            parts=_parts(view, batch, rows, cores),
            changed=rows,
            every=_every(view, batch),
            identities=self._tables.identities(view),
            join_at_sources=self._config.join_at_sources,
            small=0 if view.key in self._large else self._config.small_batch,
        )

    def _before(self, view: ManagedView, batch: Batch) -> tuple[str, ...]:
        """A view's own files as a batch finds it."""
        folder = log_folder(view.folder)
        files = (file.name for file in self._tables.log_files(view) if file.low <= batch.lo)
        return tuple(self._tables.storage.path(f"{folder}/{name}") for name in files)

    def _wider(self, view: ManagedView, beside: Sequence[ManagedView]) -> dict[Mention, Wider]:
        """What it and others need of the same rows, by table and conditions; the same for all of them."""
        found: dict[Mention, dict[str, list[ManagedView]]] = {}
        for one in sorted((view, *beside), key=lambda v: v.key):
            for o in one.plan.view.occurrences if one.plan.tree is None and not one.by_updates else ():
                columns = found.setdefault((o.table, o.conditions), {})
                for column in o.columns:
                    columns.setdefault(column, []).append(one)
        mine = {(o.table, o.conditions) for o in view.plan.view.occurrences if not o.table.is_view}
        wider: dict[Mention, Wider] = {}
        for (table, conditions), columns in found.items():
            if (table, conditions) not in mine or len({v.key for users in columns.values() for v in users}) == 1:
                continue
            meant = {
                name: {self._tables.identities(v).get(table, {}).get(name) for v in users}
                for name, users in sorted(columns.items())
            }
            if any(len(identities) > 1 for identities in meant.values()):
                continue  # a name stands for one column here and for another there: each asks for its own
            fields = [columns[name][0].plan.schemas[table].field(name) for name in meant]
            known = {name: identity for name, (identity,) in meant.items() if identity is not None}
            wider[table, conditions] = Wider(pa.schema(fields), known)
        return wider

    def _parent(self, view: ManagedView, batch: Batch, unwritten: Batch | None) -> ParentFiles:
        """A view's files at the end of a batch, those not yet committed included, and what a copy is still to write."""
        folder = log_folder(view.folder)
        files, unwritten = in_two_parts(self._tables.log_files(view), unwritten, batch.hi)
        paths = {file.name: self._tables.storage.path(f"{folder}/{file.name}") for file in files}
        changes = tuple(paths[f.name] for f in files if f.high > batch.lo and f.low <= batch.hi)
        ahead = None if unwritten is None else self._wave(view, unwritten, {}, 1)
        return ParentFiles(changes, tuple(paths[f.name] for f in files if f.low <= batch.hi), ahead)


def _in_own_pool(spark: SparkSession, view: ManagedView) -> None:
    """Jobs of this thread share the cores with those of other views, fairly. To say so takes a question to the JVM."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", str(view.name))


def _parts(view: ManagedView, batch: Batch, rows: int, cores: int) -> int:
    """How many tasks compute the batch, the second stage of a published algorithm not counted. Of its ViewChanges
    `parallel` are under way at a time: one for each task, as far as there are cores, and threads of these beyond."""
    if view.by_updates:
        return max(1, min(cores, view.plan.view.parallel, batch.hi - batch.lo))
    return max(1, min(cores, rows // ROWS_PER_PART))


def _every(view: ManagedView, batch: Batch) -> int:
    """Which transactions of a batch are states; a published algorithm is told of each, and makes its own states."""
    if batch.whole:
        return 0
    return view.every if view.by_updates or view.plan.view.level is Level.COMPLETE else 0
