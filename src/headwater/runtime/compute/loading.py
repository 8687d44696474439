"""New views, loaded by Spark: their tables are copied as of one state, and each view is computed from the copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from headwater.maintenance.block_loads import Pushed, pushed
from headwater.model.consistency import Level
from headwater.model.errors import HeadwaterError
from headwater.model.names import Seq, TableName, ViewName, view_table
from headwater.runtime.change.ports import Loaded, LoadOrder
from headwater.runtime.commit.tables import ViewTables
from headwater.runtime.compute.frames import state_of
from headwater.runtime.compute.living_spark import LivingSpark
from headwater.runtime.compute.load import load_view
from headwater.runtime.compute.spark import give_back_memory
from headwater.runtime.compute.staging import StagedCut, Staging, block_copies, wanted
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.steps import Step, reached
from headwater.runtime.view import ManagedView


class SparkLoader:
    """Called in the thread that builds."""

    def __init__(self, config: Config, spark: LivingSpark, catalog: SourceCatalog, tables: ViewTables) -> None:
        self._config, self._living, self._catalog, self._tables = config, spark, catalog, tables

    def load(self, load: LoadOrder) -> list[Loaded]:
        with self._living.using() as spark:
            return self._loaded(load, spark)

    def _loaded(self, load: LoadOrder, session: SparkSession) -> list[Loaded]:
        point = load.point
        catalog = self._catalog.another()  # connections of its own
        spark = session.newSession()  # and temporary views of its own
        built: dict[ViewName, Loaded] = {}
        try:
            at = StagedCut(point.seq, point.positions, identities=point.identities)
            plan_of = {plan.view.name: plan for plan in load.plans}
            staged = Staging(spark, self._config, catalog, at)
            joined = self._joined(load.plans, catalog)
            blocks = {name: block_copies(plan_of[name], found) for name, found in joined.items()}
            joins = [copy for copies in blocks.values() for copy in copies.values()]
            staged.copy(wanted(load.plans, joined), load.meter.copied, joins)
            reached(Step.STAGED)
            for plan in load.plans:
                load.meter.joining(plan.view.name)
                load.phase(f"joining {plan.view.name}")
                mine, over = blocks.get(plan.view.name, {}), joined.get(plan.view.name)
                left = over.over.view.tables if over is not None else plan.view.tables
                tables = {t: staged.table(t) for t in left if not t.is_view and t not in mine}
                tables |= {block: staged.table(copy.name) for block, copy in mine.items()}
                known = {name: one.view for name, one in built.items()}
                tables |= self._parents(spark, plan, {**load.parents, **known}, point.seq)
                view = self._tables.create(plan, point.identities)
                made = None if over is None else over.over
                written = load_view(spark, self._tables, view, tables, point.seq, made)
                built[plan.view.name] = Loaded(view, self._tables.commit(view, written))
                reached(Step.LOADED)
                load.meter.loaded(plan.view.name, written.rows)
            staged.remove()
            give_back_memory(session)
            return list(built.values())
        finally:
            catalog.close()

    def _joined(self, plans: Sequence[ViewPlan], catalog: SourceCatalog) -> dict[ViewName, Pushed]:
        """What sources join for which views."""
        if not self._config.join_at_sources:
            return {}
        users = Counter(t for plan in plans for t in plan.view.base_tables)
        shared = [table for table, views in users.items() if views > 1]
        found = {}
        for plan in plans:
            if plan.view.level is Level.PERIODIC:
                continue
            tables = catalog.schemas(plan.view)
            leading = {t: frozenset(i[0] for i in (s.key, *s.indexes) if i) for t, s in tables.items()}
            made = pushed(plan.view, tables, plan.schemas, leading, shared)
            if made is not None:
                found[plan.view.name] = made
        return found

    def _parents(
        self, spark: SparkSession, plan: ViewPlan, known: Mapping[ViewName, ManagedView], seq: Seq
    ) -> dict[TableName, DataFrame]:
        """The views that this one reads, at L: built just now, or maintained already and computed up to there."""
        found = {}
        for name in plan.parents:
            if name not in known:
                raise HeadwaterError(f"view {name}, which {plan.view.name} reads, is not there any more")
            files = self._tables.log_paths(known[name])
            found[view_table(name)] = state_of(spark, self._tables.storage, files, plan.schemas[view_table(name)], seq)
        return found
