"""Which row a batch failed of: said with the error, so that somebody can correct it.

Spark says what went wrong (a division by zero, an overflow), not of which row. So a batch that failed is computed once
more, here, step by step: what Spark shall evaluate is halved until one row is left of which it fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.algebra.spoken import called
from headwater.maintenance.operators.program import COUNT as N
from headwater.maintenance.operators.program import INPUT, Evaluated
from headwater.maintenance.operators.program import SEQ as S
from headwater.maintenance.operators.running import Wanted, driven, outcome, running
from headwater.maintenance.operators.timelines import BEGIN, VERSION
from headwater.model.changelog import COUNT, SEQ
from headwater.model.logged import event
from headwater.model.written import Tally
from headwater.runtime.compute.failures import ComputationFailed, OutOfMemory, translated
from headwater.runtime.compute.planning import arguments, outputs
from headwater.runtime.compute.tree_tasks import TreeWork, supplied
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import core_changes, read_ahead
from headwater.runtime.project.plan import ViewPlan

log = logging.getLogger(__name__)

_MOST_ROWS = 200_000
"""Beyond this many rows nobody is kept waiting for a name."""
_SHOWN = 6
_HIDDEN = (N, S, VERSION, COUNT, SEQ)


@dataclass(frozen=True)
class Culprit:
    """A row, under the names that the view's author knows, and the transaction it belongs to, if it is a change."""

    values: Mapping[str, object]
    seq: int | None

    def __str__(self) -> str:
        shown = [f"{name} = {value!r}" for name, value in list(self.values.items())[:_SHOWN]]
        more = ", …" if len(self.values) > _SHOWN else ""
        at = f" of transaction {self.seq}" if self.seq is not None else ""
        return f"the row ({', '.join(shown)}{more}){at}"


class _Found(Exception):
    def __init__(self, row: pa.Table) -> None:
        self.row = row


def blamed(error: ComputationFailed, spark: SparkSession, plan: ViewPlan, wave: WaveWork) -> ComputationFailed:
    """The error, with the row that it is about if that can be found."""
    if isinstance(error, OutOfMemory):
        return error
    try:
        culprit = _of_tree(spark, plan, wave) if plan.tree is not None else _of_wave(spark, plan, wave)
    except Exception:  # to say more than Spark says is a courtesy
        facts = event("view.culprit_not_found", view=plan.view.name)
        log.info("view %s: which row it failed of was not found", plan.view.name, exc_info=True, extra=facts)
        return error
    if culprit is None:
        return error
    return ComputationFailed(f"{error.what} It is about {culprit}", error.fix)


def _of_wave(spark: SparkSession, plan: ViewPlan, wave: WaveWork) -> Culprit | None:
    return _of_core(spark, plan, core_changes(wave)[0].cast(plan.core), {})


def _of_core(spark: SparkSession, plan: ViewPlan, core: pa.Table, names: Mapping[str, str]) -> Culprit | None:
    finished = outputs if plan.view.aggregation is None else arguments
    row = _guilty(spark, core, lambda rows: finished(plan.view, rows))
    return None if row is None else _culprit(row, names)


def _of_tree(spark: SparkSession, plan: ViewPlan, wave: WaveWork) -> Culprit | None:
    assert plan.tree is not None
    program, session = plan.tree.program, spark.newSession()
    work = TreeWork(read_ahead(wave), program, "", lambda cost: None)
    names = called(plan.tree.root)

    def supply(want: Wanted) -> pa.Table:
        if not isinstance(want.step, Evaluated):
            return supplied(work, want, Tally())
        assert want.given is not None
        return _evaluated(session, want.step.sql, want.given, outcome(want, program))

    try:
        rows = driven(running(program), supply)
    except _Found as found:
        return _culprit(found.row, names)
    rows = rows.rename_columns([{N: COUNT, S: SEQ}.get(c, c) for c in rows.column_names])
    return _of_core(spark, plan, rows.select(plan.core.names).cast(plan.core), names)


def _evaluated(session: SparkSession, sql: str, given: pa.Table, schema: pa.Schema) -> pa.Table:
    def through(rows: DataFrame) -> DataFrame:
        rows.createOrReplaceTempView(INPUT)
        return session.sql(sql)

    try:
        return through(session.createDataFrame(given)).toArrow().select(schema.names).cast(schema)
    except (PySparkException, Py4JError) as error:
        row = _guilty(session, given, through)
        raise (translated(error) if row is None else _Found(row)) from error


def _guilty(spark: SparkSession, rows: pa.Table, through: Callable[[DataFrame], DataFrame]) -> pa.Table | None:
    """One row of which it fails, if it fails of one."""

    def fails(some: pa.Table) -> bool:
        try:
            through(spark.createDataFrame(some)).toArrow()
        except (PySparkException, Py4JError):
            return True
        return False

    if not 0 < rows.num_rows <= _MOST_ROWS or not fails(rows):
        return None
    while rows.num_rows > 1:
        half = rows.num_rows // 2
        first, second = rows.slice(0, half), rows.slice(half)
        if fails(first):
            rows = first
        elif fails(second):
            rows = second
        else:
            return None  # it takes several rows: a sum, a window
    return rows


def _culprit(row: pa.Table, names: Mapping[str, str]) -> Culprit:
    values = row.to_pylist()[0]
    seq = next((values[c] for c in (S, SEQ, VERSION) if values.get(c) is not None), None)
    shown = {names.get(c, c): v for c, v in values.items() if c not in _HIDDEN}
    return Culprit(shown, None if seq is None or seq <= BEGIN else int(seq))
