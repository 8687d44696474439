"""The tables of the source of time: each has one row, which every tick replaces."""

from __future__ import annotations

from headwater.model.names import CLOCK, TableName

NOW, TODAY = TableName(CLOCK, "now"), TableName(CLOCK, "today")
COLUMN = {NOW: "at", TODAY: "day"}
