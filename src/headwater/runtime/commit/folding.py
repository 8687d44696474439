"""When a changelog's files are worth rewriting, and what rewriting them leaves behind.

A file is full with a million rows, so what is rewritten may come back as many full files: to merge them again for their
number would never end. They are folded with all others once as many rows have come in full files as the first of them
hold, so that what was taken back goes, and a row is rewritten a few times in its life.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model.names import Seq
from headwater.model.written import DataFile
from headwater.warehouse.table import LogFile

SMALL_ROWS = 100_000
MANY_FILES = 64
SMALL_RUN = 10_000
MANY_RUNS = 32
MERGED = 8
FULL_ROWS = 1_000_000
"""Rows at which a file is full, and the next one is begun."""


@dataclass(frozen=True)
class Rewritten:
    """Files that replace others, not yet committed."""

    added: tuple[DataFile, ...]
    removed: tuple[str, ...]


def worth_merging(files: Sequence[LogFile]) -> list[str]:
    """Of what is kept to be looked up, files of one size class when there are many: so every lookup goes through few
    files, and a row is rewritten once for every class that it grows through. All of them, when that may halve the full
    ones."""
    classes: dict[int, list[LogFile]] = {}
    full = [file for file in files if file.rows >= FULL_ROWS]
    for file in (file for file in files if file.rows < FULL_ROWS):
        classes.setdefault(max(0, int(math.log(max(1, file.rows) / SMALL_RUN, MERGED))), []).append(file)
    first = min((file.high for file in full), default=0)
    base = sum(file.rows for file in full if file.high == first)
    if sum(file.rows for file in full) > 2 * base:
        return [file.name for file in files]
    for size, found in sorted(classes.items()):
        if len(found) >= (MANY_RUNS if size == 0 else MERGED):
            return [file.name for file in found]
    return []


def worth_compacting(files: Sequence[LogFile], horizon: Seq) -> list[str]:
    """The files to compact now, by their cost: small ones when there are many; all of them when about as many rows can
    be folded as there are in states folded already, so that a row is rewritten a few times in its life, not every time.
    """
    base = sum(f.rows for f in files if f.one_state and f.rows >= SMALL_ROWS)
    foldable = sum(f.foldable(horizon) for f in files if not f.one_state)
    if foldable > max(4 * SMALL_ROWS, base):
        return [f.name for f in files]
    small = [f for f in files if f.rows < SMALL_ROWS]
    return [f.name for f in small] if len(small) >= MANY_FILES else []
