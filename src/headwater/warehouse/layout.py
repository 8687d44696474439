"""Where the tables of a view lie below its folder."""

from __future__ import annotations


def log_folder(view: str) -> str:
    """Its changelog."""
    return f"{view}/log"


def auxiliary_folder(view: str) -> str:
    """The accumulators of its aggregation."""
    return f"{view}/auxiliary"
