"""What computing a batch left behind: files that no table refers to yet, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class DataFile:
    """A data file in a table's folder: how many rows it has, from which transaction to which."""

    name: str
    size: int
    rows: int
    low: int
    high: int


@dataclass
class Tally:
    """What a part of a batch cost; counted up by the task that computes it. `questions` went to sources, `saved` are
    those that views answered, which are kept in the warehouse, `shared` those that another view had asked already."""

    questions: int = 0
    saved: int = 0
    shared: int = 0
    keys: int = 0
    scans: int = 0
    answers: int = 0
    bytes: int = 0
    """Of the keys that were sent and the answers that came, as Arrow has them."""
    changes: int = 0
    seconds_asking: float = 0.0
    seconds: float = 0.0

    def plus(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in _COUNTED))


_COUNTED = tuple(field.name for field in fields(Tally))


@dataclass(frozen=True)
class Written:
    """Files of a view's changelog and of its auxiliary changelog, not yet committed, and what they cost."""

    log: tuple[DataFile, ...]
    auxiliary: tuple[DataFile, ...]
    tally: Tally

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.log)
