"""When a changelog's files are worth rewriting, and what rewriting them leaves behind."""

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


@dataclass(frozen=True)
class Rewritten:
    """Files that replace others, not yet committed."""

    added: tuple[DataFile, ...]
    removed: tuple[str, ...]


def worth_merging(files: Sequence[LogFile]) -> list[str]:
    """Of what is kept to be looked up, files of one size class when there are many: so every lookup goes through few
    files, and a row is rewritten once for every class that it grows through."""
    classes: dict[int, list[LogFile]] = {}
    for file in files:
        classes.setdefault(max(0, int(math.log(max(1, file.rows) / SMALL_RUN, MERGED))), []).append(file)
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
