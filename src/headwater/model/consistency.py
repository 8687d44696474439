"""What a view promises about its states."""

from __future__ import annotations

from enum import Enum


class Level(Enum):
    """The consistency levels a view may ask for, strongest first."""

    COMPLETE = "complete"
    """Every source transaction is a state of the view, in order."""
    STRONG = "strong"
    """States are real and in order; some are skipped."""
    PERIODIC = "periodic"
    """Strong, but recomputed on a schedule instead of maintained."""
    CONVERGENT = "convergent"
    """Right when things settle."""
