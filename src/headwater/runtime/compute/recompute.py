"""Periodic views: computed from scratch, stored as a change.

    ΔV = V(hi) − V(before)

The tables are copied as of the batch's positions, less what came after `hi`; Spark runs the query as it was written.
What differs from the rows the view holds is its change, all of it one state: to the merge process the view looks like
any other that skips states (multiple view consistency, section 6.3).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # as everyone calls it

from headwater.algebra.view import quoted
from headwater.integrator.journal import read_changes
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import FOREVER, Seq, TableName
from headwater.model.written import Written
from headwater.runtime.commit.tables import ViewTables
from headwater.runtime.compute.failures import translated_errors
from headwater.runtime.compute.frames import minus, repeated, state_of, undone
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.staging import StagedCut, Staging, wanted
from headwater.runtime.compute.targets import log_target
from headwater.runtime.compute.wave_work import ParentFiles
from headwater.runtime.compute.writing import FILES, writing, written
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.scheduling.families import Batch
from headwater.runtime.view import ManagedView


@dataclass(frozen=True)
class Refresh:
    """A periodic view, and what it is recomputed from."""

    view: ManagedView
    batch: Batch
    parents: Mapping[TableName, ParentFiles] = field(default_factory=dict)


def recompute(
    spark: SparkSession, catalog: SourceCatalog, config: Config, store: ViewTables, refresh: Refresh
) -> Written:
    """Compute the view at the batch's end, and write what changed since it was last computed. The catalog's connections
    are this call's own: it runs in a thread of its own, and closes them."""
    view, batch, plan, storage = refresh.view, refresh.batch, refresh.view.plan, store.storage
    owner = f"refresh-{int(time.time())}-{uuid.uuid4().hex[:8]}"
    session = spark.newSession()
    last = batch.segments[-1]
    staged = Staging(session, config, catalog, StagedCut(last.hi, last.positions, owner, store.identities(view)))
    try:
        staged.copy(wanted([plan]), lambda rows, total: None)
        tables: dict[TableName, DataFrame] = {}
        for name in plan.view.base_tables:
            later = read_changes(storage, batch.segments, name, batch.hi, last.hi)
            tables[name] = undone(session, staged.table(name), later)
        for name, files in refresh.parents.items():
            tables[name] = state_of(session, storage, files.state, plan.schemas[name], batch.hi)
        now = evaluated(session, plan, tables)
        before = state_of(session, storage, store.log_paths(view), plan.columns, FOREVER)
        return write_change(store, view, minus(now, before, plan.columns), batch.hi)
    finally:
        catalog.close()
        storage.delete_folder(f"loads/{owner}")


def evaluated(session: SparkSession, plan: ViewPlan, tables: Mapping[TableName, DataFrame]) -> DataFrame:
    """The view's query over these tables (with COUNT), as rows with COUNT."""
    for name, rows in tables.items():
        repeated(rows).createOrReplaceTempView(quoted(str(name)))
    names = plan.columns.names
    rows = session.sql(plan.view.recompute).toDF(*names)
    return rows.groupBy(*[quoted(n) for n in names]).agg(F.count("*").alias(COUNT))


def write_change(store: ViewTables, view: ManagedView, change: DataFrame, seq: Seq) -> Written:
    """Write rows with COUNT as files of the view's changelog, all of them of one state."""
    names = [quoted(n) for n in view.plan.columns.names]
    labelled = change.select(*names, COUNT, F.lit(int(seq)).cast("bigint").alias(SEQ))
    files = labelled.mapInArrow(writing(log_target(store, view, f"refresh-{seq}")), spark_types(FILES))
    with translated_errors():
        return written([row[0] for row in files.collect()])
