"""What is to be computed, as a value: one batch of one view. It is pickled into the closures of Spark tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.algebra.view import ViewDefinition
from headwater.integrator.journal import Segment
from headwater.model.conditions import Condition
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities
from headwater.model.source import SourceSpec
from headwater.runtime.compute.answers import Wider
from headwater.runtime.compute.failures import TooMuch
from headwater.storage import Storage


@dataclass(frozen=True)
class ParentFiles:
    """A view that another one reads, at a batch's end: the files of its changelog that hold rows of the batch, and all
    those that make up its state. `unwritten`: a copy's batches that are not in its files yet; `ahead` are their rows,
    once somebody has read them (`read_ahead`)."""

    changes: tuple[str, ...]
    state: tuple[str, ...]
    unwritten: WaveWork | None = None
    ahead: pa.Table | None = None


@dataclass(frozen=True)
class WaveWork:
    """One batch of one view: the transactions (lo, hi]. `positions` are the sources' after the last of `segments`,
    which may lie beyond `hi`."""

    view: ViewDefinition
    storage: Storage
    segments: tuple[Segment, ...]
    lo: int
    hi: int
    positions: Mapping[SourceName, Position]
    specs: Mapping[SourceName, SourceSpec]
    schemas: Mapping[TableName, pa.Schema]
    sizes: Mapping[TableName, int]
    leading: Mapping[TableName, frozenset[str]] = field(default_factory=dict)
    """Per table, the columns some index begins with; a table not mentioned is taken to have what is needed."""
    parents: Mapping[TableName, ParentFiles] = field(default_factory=dict)
    identities: Mapping[TableName, Identities] = field(default_factory=dict)
    """The columns the view was loaded from: answers about others are refused."""
    parts: int = 1
    """In how many threads its rows are matched, and in how many tasks they are grouped."""
    changed: int = 0
    """About how many changes of its tables the batch holds."""
    every: int = 1
    """Every N-th transaction is a state of the view; 0 makes the whole batch one state."""
    join_at_sources: bool = False
    """Whether tables of one source that are joined with each other are asked together."""
    small: int = 0
    """A batch of no more changes may be computed without a job."""
    most: int | None = None
    """It is given up when it meets more rows than this."""
    lane: int = 0
    """The first of the lanes in which it asks."""
    own: tuple[str, ...] = ()
    """The files of the view itself before the batch, where rows are taken out of it by a key that it shows."""
    wider: Mapping[tuple[TableName, tuple[Condition, ...]], Wider] = field(default_factory=dict)
    """What other views need of the same rows: they are asked for it together (`answers`)."""

    def bears(self, rows: int) -> None:
        """Raise TooMuch where so many rows are more than was thought."""
        if self.most is not None and rows > self.most:
            raise TooMuch

    def labels(self, seqs: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The state that first shows each transaction. What lies beyond the batch keeps its number."""
        shown = np.full(len(seqs), self.hi) if not self.every else -(-seqs // self.every) * self.every
        return np.where(seqs <= self.hi, np.minimum(shown, self.hi), seqs)
