"""The change of one view in one batch, computed by Spark: a wave, or a recomputation for a periodic view."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from headwater.model.consistency import Level
from headwater.model.names import SourceName, TableName, view_table
from headwater.model.source import SourceSpec
from headwater.model.written import Written
from headwater.runtime.commit.views import ManagedView
from headwater.runtime.compute.jobs import run_wave
from headwater.runtime.compute.living_spark import LivingSpark
from headwater.runtime.compute.recompute import Refresh, recompute
from headwater.runtime.compute.tasks import ParentFiles, WaveWork
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.scheduling.families import Batch
from headwater.runtime.scheduling.managers import ViewManager
from headwater.runtime.steps import Step, reached
from headwater.storage import Storage

ROWS_PER_PART = 4_000
"""A batch gets one more Spark task for every so many changes, up to the cores there are."""

UNKNOWN_ROWS = 1_000_000
"""What a table without statistics is taken to hold: better to ask for a few keys than to read everything."""


class Computing:
    """Called by the managers' threads."""

    def __init__(self, config: Config, spark: LivingSpark, catalog: SourceCatalog, storage: Storage) -> None:
        self.config, self._living, self._catalog, self._storage = config, spark, catalog, storage

    def __call__(self, manager: ViewManager, batch: Batch) -> Written:
        with self._living.using() as spark:
            return self._compute(spark, manager, batch)

    def _compute(self, spark: SparkSession, manager: ViewManager, batch: Batch) -> Written:
        view = manager.view
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", str(view.name))
        if view.periodic:
            parents = {view_table(p.view.name): _parent(p.view, batch) for p in manager.parents}
            written = recompute(spark, self.config, view, Refresh(batch, parents))
        else:
            work = self._work(manager, batch, spark.sparkContext.defaultParallelism)
            written = run_wave(spark, view.plan, work, view.target(str(batch)), view.aggregation(batch.hi))
        view.compute_ahead(written)
        reached(Step.COMPUTED)
        return written

    def _work(self, manager: ViewManager, batch: Batch, cores: int) -> WaveWork:
        plan, view = manager.view.plan, manager.view.plan.view
        tables = self._catalog.schemas(view)
        rows = sum(n for s in batch.segments for t, (_, n) in s.tables.items() if t in plan.base)
        return WaveWork(
            view=view,
            storage=self._storage,
            segments=batch.segments,
            lo=batch.lo,
            hi=batch.hi,
            positions=batch.segments[-1].positions,
            specs=self._specs(view.base_tables),
            schemas=plan.schemas,
            sizes={t: UNKNOWN_ROWS if s.rows is None else s.rows for t, s in tables.items()},
            leading={t: frozenset(i[0] for i in (s.key, *s.indexes) if i) for t, s in tables.items()},
            parents={view_table(p.view.name): _parent(p.view, batch) for p in manager.parents},
            parts=max(1, min(cores, rows // ROWS_PER_PART)),
            every=view.every if view.level is Level.COMPLETE and not batch.whole else 0,
            identities=manager.view.identities,
        )

    def _specs(self, tables: tuple[TableName, ...]) -> Mapping[SourceName, SourceSpec]:
        return {t.source: self.config.sources[t.source] for t in tables}


def _parent(view: ManagedView, batch: Batch) -> ParentFiles:
    """A view's files at the end of a batch, those not yet committed included."""
    with view.lock:
        files = [(f.name, f.low, f.high) for f in view.log.log_files()]
        files += [(f.name, f.low, f.high) for w in view.pending for f in w.log]
    paths = {name: view.storage.path(f"{view.log.folder}/{name}") for name, _, _ in files}
    changes = tuple(paths[n] for n, low, high in files if high > batch.lo and low <= batch.hi)
    return ParentFiles(changes, tuple(paths[n] for n, low, _ in files if low <= batch.hi))
