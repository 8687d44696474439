"""Headwater: materialized views over many databases, kept up to date on Spark, at a stated consistency level."""

from headwater.runtime.project import Session, Warehouse
from headwater.runtime.project import open_warehouse as open  # noqa: A004 # headwater.open(path) reads best

__all__ = ["Session", "Warehouse", "open"]
__version__ = "0.1.0"
