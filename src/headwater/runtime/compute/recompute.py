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
from headwater.model.names import Seq, TableName
from headwater.model.written import Written
from headwater.runtime.commit.views import ManagedView
from headwater.runtime.compute.failures import in_words
from headwater.runtime.compute.frames import minus, repeated, state_of, undone
from headwater.runtime.compute.jobs import written
from headwater.runtime.compute.spark import spark_types
from headwater.runtime.compute.staging import StagedCut, Staging, wanted
from headwater.runtime.compute.tasks import FILES, ParentFiles, writing
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.scheduling.families import Batch

FOREVER = Seq(2**62)


@dataclass(frozen=True)
class Refresh:
    """What a periodic view is recomputed from."""

    batch: Batch
    parents: Mapping[TableName, ParentFiles] = field(default_factory=dict)


def recompute(spark: SparkSession, config: Config, view: ManagedView, refresh: Refresh) -> Written:
    """Compute the view at the batch's end, and write what changed since it was last computed."""
    batch, plan = refresh.batch, view.plan
    owner = f"refresh-{int(time.time())}-{uuid.uuid4().hex[:8]}"
    catalog = SourceCatalog(config)  # its own connections: this runs in a thread of its own
    session = spark.newSession()
    last = batch.segments[-1]
    staged = Staging(session, config, catalog, StagedCut(last.hi, last.positions, owner, view.identities))
    try:
        staged.copy(wanted([plan]), lambda rows, total: None)
        tables: dict[TableName, DataFrame] = {}
        for name in plan.view.base_tables:
            later = read_changes(view.storage, batch.segments, name, batch.hi, last.hi)
            tables[name] = undone(session, staged.table(name), later)
        for name, files in refresh.parents.items():
            tables[name] = state_of(session, view.storage, files.state, plan.schemas[name], batch.hi)
        now = evaluated(session, plan, tables)
        with view.lock:
            names = [*view.log.files(), *(f.name for w in view.pending for f in w.log)]
        old = [view.storage.path(f"{view.log.folder}/{n}") for n in names]
        before = state_of(session, view.storage, old, plan.columns, FOREVER)
        return write_change(view, minus(now, before, plan.columns), batch.hi)
    finally:
        catalog.close()
        view.storage.delete_folder(f"loads/{owner}")


def evaluated(session: SparkSession, plan: ViewPlan, tables: Mapping[TableName, DataFrame]) -> DataFrame:
    """The view's query over these tables (with COUNT), as rows with COUNT."""
    for name, rows in tables.items():
        repeated(rows).createOrReplaceTempView(quoted(str(name)))
    names = plan.columns.names
    rows = session.sql(plan.view.recompute).toDF(*names)
    return rows.groupBy(*[quoted(n) for n in names]).agg(F.count("*").alias(COUNT))


def write_change(view: ManagedView, change: DataFrame, seq: Seq) -> Written:
    """Write rows with COUNT as files of the view's changelog, all of them of one state."""
    names = [quoted(n) for n in view.plan.columns.names]
    labelled = change.select(*names, COUNT, F.lit(int(seq)).cast("bigint").alias(SEQ))
    files = labelled.mapInArrow(writing(view.target(f"refresh-{seq}")), spark_types(FILES))
    with in_words():
        return written([row[0] for row in files.collect()])
