"""Headwater: materialized views over many databases, kept up to date on Spark, at a stated consistency level."""

import logging

from headwater.api import Warehouse
from headwater.api import open_warehouse as open  # noqa: A004 # headwater.open(path) reads best
from headwater.model.errors import HeadwaterError, HeadwaterWarning, ViewHalted
from headwater.runtime.reading.sessions import Session

__all__ = ["HeadwaterError", "HeadwaterWarning", "Session", "ViewHalted", "Warehouse", "open"]
__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent, unless somebody wants to hear
