"""The merge process: what many view managers computed, made visible together (Zhuge, Wiener, Garcia-Molina 1997)."""

from headwater.merge.entries import Color, Entry, Row
from headwater.merge.kinds import MergeProcess, painting_for
from headwater.merge.painting import Painting
from headwater.merge.sequencing import Sequencing, Submissions
from headwater.merge.simple_painting import SimplePainting, Trace
from headwater.merge.transactions import ActionList, View, WarehouseTransaction
from headwater.merge.view_update_table import ViewUpdateTable

__all__ = [
    "ActionList",
    "Color",
    "Entry",
    "MergeProcess",
    "Painting",
    "Row",
    "Sequencing",
    "SimplePainting",
    "Submissions",
    "Trace",
    "View",
    "ViewUpdateTable",
    "WarehouseTransaction",
    "painting_for",
]
