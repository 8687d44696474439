"""The Spark session: one per process, quiet, and tuned for many small jobs."""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headwater.model.errors import ConfigError
from headwater.runtime.project.config import Config

log = logging.getLogger(__name__)

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "640m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.daemon.module": "headwater.runtime.compute.daemon",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.autoBroadcastJoinThreshold": "4m",
    "spark.sql.join.preferSortMergeJoin": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.cteRecursionRowLimit": "-1",
}
"""What suits many small jobs on one machine; a project's [spark.options] win."""

MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
"""What a view's SQL means depends on these: half of a view computed under other ones would be another view. The
calendar is the proleptic Gregorian one throughout, as in PostgreSQL and in the files we write."""

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n
logger.hadoop.name = org.apache.hadoop.util.NativeCodeLoader
logger.hadoop.level = off
logger.task.name = org.apache.spark
logger.task.level = off
"""


def start_spark(config: Config) -> SparkSession:
    """The session for a project; takes some seconds the first time in a process."""
    _check_meaning({k: v for k, v in config.spark_options.items() if k in MEANING}, "[spark.options]")
    running = SparkSession.getActiveSession()
    if running is not None:
        _check_meaning({k: running.conf.get(k, MEANING[k]) or "" for k in MEANING}, "the running Spark session")
        return running
    quiet = Path(tempfile.mkdtemp(prefix="headwater-spark-")) / "log4j2.properties"
    quiet.write_text(_QUIET)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    options = {**_DEFAULTS, **MEANING, "spark.local.dir": str(quiet.parent), **config.spark_options}
    heap = "-XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
    flags = f"-Dlog4j2.configurationFile={quiet} {heap} -Xshare:auto"
    options["spark.driver.extraJavaOptions"] = f"{flags} {options.get('spark.driver.extraJavaOptions', '')}".strip()
    if not config.spark_master.startswith("local"):
        options.pop("spark.driver.host", None)
        options.pop("spark.driver.bindAddress", None)
    builder = SparkSession.builder.appName("headwater").master(config.spark_master)
    for key, value in options.items():
        builder = builder.config(key, value)
    try:
        with _stderr_into(quiet.parent / "spark.log"):
            session = builder.getOrCreate()
    except Exception as error:
        raise ConfigError(
            f"Spark does not start: {str(error).strip().splitlines()[0] if str(error).strip() else error!r}",
            "it needs Java 17 or newer: check 'java -version' and JAVA_HOME, and [spark] in headwater.toml",
        ) from error
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext._accumulatorServer.handle_error = _cut_off  # type: ignore[method-assign] # it prints
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # we say it in a sentence
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    return session


def _cut_off(request: Any, client_address: Any) -> None:
    """A JVM that died in the middle of a word: whoever waits for it says so."""
    log.info("the JVM's updates were cut off", exc_info=True)


def _check_meaning(options: Mapping[str, str], where: str) -> None:
    for key, value in options.items():
        if value.lower() not in (MEANING[key].lower(), "etc/utc" if key.endswith("timeZone") else ""):
            raise ConfigError(
                f"{where} sets {key} to {value}: views would mean something else than they were loaded with",
                f"remove it, or set it to {MEANING[key]}",
            )


def give_back_memory(spark: SparkSession) -> None:
    """After a first load the JVM's heap is mostly empty: hand it back to the machine."""
    jvm = spark.sparkContext._jvm
    if jvm is None:
        return
    gc.collect()  # our own hands on the JVM's objects
    for _ in range(2):  # the first finds what is no longer used, the second takes what its cleaner then let go
        jvm.System.gc()
        time.sleep(0.2)


@contextmanager
def _stderr_into(file: Path) -> Iterator[None]:
    """What the JVM says about itself belongs in a file, not between our own lines."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(file, "ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def spark_types(schema: pa.Schema) -> StructType:
    """An Arrow schema as Spark sees it."""
    return from_arrow_schema(schema)


def arrow_types(schema: StructType) -> pa.Schema:
    """A Spark schema as Arrow sees it; instants are UTC."""
    found = to_arrow_schema(schema, timezone="UTC")
    swap = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return pa.schema([pa.field(f.name, swap.get(f.type, f.type)) for f in found])
