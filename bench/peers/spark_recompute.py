"""Spark recomputing the view from the SQLite files and writing it as Parquet.

Each relation is read in ranges of rowids by Spark tasks that ask SQLite for Arrow batches themselves (`mapInArrow` over
the ADBC driver), as Headwater's scans do. First load = the recomputation over the base files, burst = the same over the
changed files, so the burst runs in a warm session; starting the session is not timed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import contract
import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession

from chain_sql import answer_sql, view_sql

CORES = 2
SLICES = 4
"""Ranges per relation."""


def run(dataset: contract.Dataset, variant: str) -> contract.Outcome:
    spark = _session(dataset.scratch)
    load_s, before = _recompute(spark, dataset.folder / "before", dataset.scratch / "v-before")
    burst_s, after = _recompute(spark, dataset.folder / "after", dataset.scratch / "v-after")
    spark.stop()
    return contract.Outcome(
        peer="spark-recompute",
        version=pyspark.__version__,
        load_s=load_s,
        burst_s=burst_s,
        ends_at="full view",
        states="one batch",
        before=before,
        after=after,
        note=f"local[{CORES}], reads SQLite in tasks through ADBC, writes Parquet; no history",
    )


def _session(scratch: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(2 * CORES))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
        .getOrCreate()
    )


def _recompute(spark: SparkSession, folder: Path, target: Path) -> tuple[float, tuple[int, int]]:
    start = time.perf_counter()
    for i in range(1, 5):
        _relation(spark, folder / f"r{i}.db", f"r{i}").createOrReplaceTempView(f"r{i}")
    spark.sql(view_sql(["r1", "r2", "r3", "r4"])).write.mode("overwrite").parquet(str(target))
    seconds = time.perf_counter() - start
    count, checksum = spark.sql(answer_sql(f"parquet.`{target}`")).first()
    return seconds, (int(count), int(checksum))


def _relation(spark: SparkSession, path: Path, table: str) -> DataFrame:
    uri = f"file:{path}?mode=ro"

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from adbc_driver_sqlite import dbapi

        options = {"adbc.sqlite.query.batch_rows": 65536}
        with dbapi.connect(uri) as connection, connection.cursor(adbc_stmt_kwargs=options) as cursor:
            cursor.execute(f"SELECT max(rowid) FROM {table}")
            (last,) = cursor.fetchone()
            for batch in batches:
                for k in batch.column(0).to_pylist():
                    low, high = last * k // SLICES, last * (k + 1) // SLICES
                    cursor.execute(f"SELECT a, b FROM {table} WHERE rowid > {low} AND rowid <= {high}")
                    yield from cursor.fetch_record_batch()

    return spark.range(0, SLICES, 1, SLICES).mapInArrow(read, "a bigint, b bigint")


if __name__ == "__main__":
    contract.main(run)
