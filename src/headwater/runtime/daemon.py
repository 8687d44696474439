"""The process Spark forks its Python workers from: it has everything imported, so that a new worker starts at once."""

from __future__ import annotations

import importlib

from pyspark.daemon import manager

for module in ("adbc_driver_sqlite.dbapi", "numpy", "psycopg", "pyarrow.parquet", "headwater.runtime.tasks"):
    importlib.import_module(module)

if __name__ == "__main__":
    manager()
