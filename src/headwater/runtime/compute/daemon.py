"""The process Spark forks its Python workers from: it has everything imported, so that a new worker starts at once.

A worker collects garbage after every task, and would look at every object of every imported module each time: on tiny
jobs that was two thirds of its time. So what is there before the first fork is frozen.

Allocators keep what a large task has freed, in case there is another one: after a load that was half a gigabyte in
every worker. With the collection that ends a task a worker that has grown large gives it back to the machine.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import resource
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa
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

LARGE = 192 << 20
"""A worker with less memory of its own keeps it: small tasks come one after the other."""


def give_back(phase: str, about: Mapping[str, int]) -> None:
    """Whenever everything has been collected, as pyspark does after each task."""
    if phase == "stop" and about["generation"] == 2 and _own() > LARGE:
        pa.default_memory_pool().release_unused()
        with suppress(AttributeError, OSError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)


def _own() -> int:
    """Bytes of this process that are no file's and nobody else's; 0 where the machine does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as said:
            _, resident, shared = map(int, said.read().split()[:3])
    except OSError:
        return 0
    return (resident - shared) * resource.getpagesize()


if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    gc.callbacks.append(give_back)
    manager()
