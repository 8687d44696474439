"""When a changelog's files are worth rewriting, and what rewriting them leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model.names import Seq
from headwater.model.written import DataFile
from headwater.warehouse.table import LogFile

SMALL_ROWS = 100_000
MANY_FILES = 64


@dataclass(frozen=True)
class Rewritten:
    """Files that replace others, not yet committed."""

    added: tuple[DataFile, ...]
    removed: tuple[str, ...]


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
