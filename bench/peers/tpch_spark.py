"""Spark recomputing TPC-H's queries over Parquet files, in one warm session.

    python tpch_spark.py --queries queries.json --parquet FOLDER

Prints a JSON line {query: [seconds, processor seconds]}; each is the median of so many runs after one that is not
counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

from pyspark.sql import SparkSession

CORES = 2


def session() -> SparkSession:
    return (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(2 * CORES))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def _used(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--parquet", type=Path, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    spark = session()
    for file in options.parquet.glob("*.parquet"):
        spark.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    found = {}
    for name, query in json.loads(options.queries.read_text()).items():
        times = []
        for _ in range(options.repeat + 1):
            begun, used = time.perf_counter(), _used(jvm)
            spark.sql(query).collect()
            times.append((time.perf_counter() - begun, _used(jvm) - used))
        found[name] = [statistics.median(column) for column in zip(*times[1:], strict=True)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
