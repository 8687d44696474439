"""The source port: three questions, one promise.

    what happened after position p?              poll   → transactions, whole, in an order equivalent to commit order
    which rows match these keys, as of p?        ask    → rows with counts
    all rows of this table, in chunks, as of p   scan   → rows with counts

The promise is the **as-of**: the folded answer is exactly the table's state at `p`, however much has happened
since. Answers are bags with signed counts: an adapter may answer "the table now" with count +1 and "what came
after p" with the opposite sign; only the fold (group by the columns, sum the counts) is promised.

**Parts.** An application that commits one logical transaction at several sources tags each part, inside it, with one id
and the number of parts. A poll tells the tag with the transaction, and it tells every tagged transaction, also one that
touched no table of interest: whoever assembles the parts would wait for it in vain.

An adapter object is used by one thread at a time; it connects lazily and reconnects after a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headwater.model.changelog import COUNT, SEQ
from headwater.model.conditions import Condition
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import TableSchema

ORDINAL = "__ordinal"
"""In an answer: which key it answers. In a poll: which transaction it belongs to. int64, from 0."""

TRANSACTIONS = pa.schema(
    [
        pa.field("transaction", pa.string()),  # the source's own id of it
        pa.field("committed_at", pa.timestamp("us", "UTC")),  # as near as the source can tell
        pa.field("global_id", pa.string()),  # the logical transaction it is a part of; null: of none but itself
        pa.field("parts", pa.int32()),  # at how many sources that one has a part; null: as above
    ]
)

__all__ = ["COUNT", "ORDINAL", "SEQ", "TRANSACTIONS", "Capture", "Chunk", "Poll", "Question", "Source", "SourceSpec"]


@dataclass(frozen=True)
class SourceSpec:
    """Where a source is. Picklable: Spark tasks connect for themselves. Never printed: `url` may hold a secret."""

    name: SourceName
    url: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Question:
    """Rows of `table` whose `key` columns equal one of `keys` (distinct, no NULLs; same columns, same order) and that
    meet all `conditions`. Equality is exact: an adapter whose engine compares more loosely (a NOCASE column) asks it
    to compare exactly."""

    table: TableName
    key: tuple[str, ...]
    keys: pa.Table
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Poll:
    """What happened in `(after, end]`. `transactions` has one row per transaction, in order; row i has ordinal i.
    `changes` maps a table to its rows: the table's columns, COUNT, ORDINAL. `more` says that the limit cut it.
    `before` tells where the poll may end early: a tagged transaction (its `transaction`) → the position that contains
    all that was told before it, and nothing of it or after it."""

    end: Position
    transactions: pa.Table
    changes: Mapping[TableName, pa.Table]
    more: bool = False
    before: Mapping[str, Position] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """A part of a table that one scan reads; `bounds` is the adapter's own, `rows` an estimate."""

    table: TableName
    number: int
    bounds: tuple[str, ...] = ()
    rows: int | None = None


@dataclass(frozen=True)
class Capture:
    """The capture found at a source. `generation` changes whenever capture was removed and installed anew, so that
    positions of another life are recognised. `tables` are those captured without a gap, `broken` says what is wrong
    with others (a dropped or disabled trigger)."""

    generation: str
    tables: frozenset[TableName]
    broken: Mapping[TableName, str]


class Source(Protocol):
    @property
    def name(self) -> SourceName: ...

    def describe(self) -> Mapping[TableName, TableSchema]:
        """Every table the user may read, capture's own tables excluded."""
        ...

    def resolve(self, schema: str, table: str) -> TableName | None:
        """The table a view means by `source.table` (empty schema) or `source.schema.table`; None if there is none."""
        ...

    def capture(self) -> Capture | None:
        """The capture installed here, None if there is none."""
        ...

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        """What `install` would do, one readable line each; raises what would keep it from doing so (privileges)."""
        ...

    def install(self, tables: Sequence[TableName]) -> list[str]:
        """Install capture for these tables, leave existing capture of others alone. Idempotent."""
        ...

    def remove(self) -> list[str]:
        """Remove all capture; leaves nothing behind. Idempotent."""
        ...

    def position(self) -> Position:
        """The position of everything committed so far. It may differ from the last one though nothing captured
        changed, and two positions need not be comparable: each may contain transactions the other lacks."""
        ...

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        """Whole transactions after `after`, about `limit` changes at most (a single transaction may exceed it).
        Only the named tables and columns. Untagged transactions that touched none of them are left out, `end` covers
        them."""
        ...

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        """ORDINAL, the question's columns, COUNT; no batch at all if nothing matches. A table or column whose capture
        began after `at` cannot be asked about: PositionTrimmed."""
        ...

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        """Cut the table into parts of about `target_rows`. Every row the table ever has falls into exactly one."""
        ...

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The columns, COUNT; only rows that meet all conditions. Each call is a short read of its own; no snapshot
        outlives it."""
        ...

    def trim(self, below: Position) -> int:
        """Forget changes that position `below` already contains; returns how many. Asking as of an older position
        then raises PositionTrimmed."""
        ...

    def waiting(self, after: Position) -> int:
        """About how many captured changes lie after this position: the lag. Cheap."""
        ...

    def close(self) -> None: ...
