"""The process Spark forks its Python workers from: it has everything imported, so that a new worker starts at once.

A worker collects garbage after every task, and would look at every object of every imported module each time: on tiny
jobs that was two thirds of its time. So what is there before the first fork is frozen.
"""

from __future__ import annotations

import gc
import importlib

from pyspark.daemon import manager

MODULES = (
    "adbc_driver_sqlite",
    "duckdb",
    "numpy",
    "pandas",
    "psycopg",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyspark.sql.pandas.types",
    "pyspark.worker",
    "headwater.algebra",
    "headwater.runtime.compute.copying",
    "headwater.runtime.compute.aggregating",
    "headwater.runtime.compute.waves",
    "headwater.runtime.compute.tree_tasks",
)

if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    manager()
