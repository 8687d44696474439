"""The source port: three questions, one promise.

    what happened after position p?              poll   → transactions, whole, in an order equivalent to commit order
    which rows match these keys, as of p?        ask    → rows with counts; of a join of tables here: ask_join
    all rows of this table, in chunks, as of p   scan   → rows with counts

The promise is the **as-of**: the folded answer is exactly the table's state at `p`, however much has happened
since. Answers are bags with signed counts: an adapter may answer "the table now" with count +1 and "what came
after p" with the opposite sign; only the fold (group by the columns, sum the counts) is promised.

**Parts.** An application that commits one logical transaction at several sources tags each part, inside it, with one id
and the number of parts. A poll tells the tag with the transaction, and it tells every tagged transaction, also one that
touched no table of interest: whoever assembles the parts would wait for it in vain.

**What a source must prove** (or say that it cannot):

*Order*: transactions are told in commit order. Where the source does not record it, those of one poll whose order
cannot be proven are told as one transaction.

*Life*: a position names the past it belongs to, and every question and poll compares that with the present, in the
snapshot it reads. A restored backup, a copied database, a replaced file raise LifeChanged.

*Identity*: `expect` says which column a name stood for when a view was loaded; what reads another one (dropped and
added, renamed, rewritten) raises SchemaChanged, in the very poll that would have told its first change.

*Owner*: capture is shared by projects and belongs to each of them: `spec.owner` installs, trims and removes for itself.

*Only what is asked*: columns nobody names may hold anything. In a poll a value that its type cannot represent is null,
and told in the column UNFIT; in an answer it raises ValueUnfit.

An adapter object is used by one thread at a time; it connects lazily and reconnects after a failure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headwater.model.changelog import COUNT, SEQ, UNFIT
from headwater.model.conditions import Condition
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, TableSchema
from headwater.model.sizes import byte_size

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

__all__ = [
    "ASK", "CAPTURE", "CHAINED", "CHANGES", "COUNT", "DELAY", "LOG_LIMIT", "MISSING", "ORDINAL", "PARTS", "SEQ",
    "TRANSACTIONS",
    "UNFIT", "Capture", "Chunk", "CommitTimes", "Held", "JoinQuestion", "Joined", "Poll", "Question", "Scripted",
    "Source", "SourceSpec",
]  # fmt: skip

MISSING = "missing"
"""The option that names an environment variable which is not set; connecting needs it."""

ASK = "ask"
"""The option that says, with the value false, that a source is not to be asked once its tables were loaded."""

CHAINED = "chained"
"""The option that says that a source is part of chains, and of nothing else."""

CHANGES = "changes:"
"""The options that say, after the name of a table, how it changes if not in every way: "never", "inserts" …"""

CAPTURE = "capture"
"""The option that says how changes are seen: "triggers", "log", or "auto"."""

PARTS = "parts_seconds"
"""The option that says how long the parts of a global transaction wait for this source's."""

LOG_LIMIT = "log_limit"
"""The option that says how many bytes of its log a server may keep for us; "none": any number."""

DELAY = "delay_ms"
"""The option that makes every question take longer, by so many milliseconds."""

LOG_LIMIT_DEFAULT = 10 * 10**9

CommitTimes = tuple[dt.datetime, dt.datetime]
"""When the first and the last of the transactions that are told as one were committed."""


@dataclass(frozen=True)
class SourceSpec:
    """Where a source is. Picklable: Spark tasks connect for themselves. Never printed: `url` and `options` may hold a
    secret. Options that are settings of the source's own: host, port, database, user, password, beside the url or in
    its place (it is then `postgresql://`); MISSING names a variable that is needed to connect and is not set."""

    name: SourceName
    url: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def owner(self) -> str:
        """The project that capture is installed, trimmed and removed for: its warehouse's identity."""
        return dict(self.options).get("owner", "")

    @property
    def asked(self) -> bool:
        """Whether the source may be asked while views are maintained; else only when they are loaded."""
        return dict(self.options).get(ASK, "true") != "false"

    @property
    def chained(self) -> bool:
        """Whether its agent joins its rows with those of others, and nobody else asks for them."""
        return dict(self.options).get(CHAINED, "false") == "true"

    @property
    def promised(self) -> dict[str, str]:
        """What the project says of tables (as it calls them) that do not change in every way."""
        return {key.removeprefix(CHANGES): value for key, value in self.options if key.startswith(CHANGES)}

    @property
    def capture(self) -> str:
        """How its changes are to be seen, where there is a choice."""
        return dict(self.options).get(CAPTURE, "triggers")

    @property
    def log_limit(self) -> int | None:
        """How many bytes of its log a server may keep until we have read them; None: any number."""
        said = dict(self.options).get(LOG_LIMIT, str(LOG_LIMIT_DEFAULT))
        return None if said == "none" else int(said)

    @property
    def says_capture(self) -> bool:
        """Whether the project says it, or leaves it as it is."""
        return CAPTURE in dict(self.options)

    @property
    def parts_seconds(self) -> float:
        """How long others wait for its part of a global transaction; 0: no longer than for any."""
        return float(dict(self.options).get(PARTS, 0))

    @property
    def owner_label(self) -> str:
        """Where that project is, for people; a new owner with the label of an old one takes its place."""
        return dict(self.options).get("owner_label", "")


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
class Joined:
    """A table of a join question: its rows that meet all `conditions` and, for every `(column, table, other)` of `on`,
    whose `column` equals the column `other` of the table with that number, an earlier one. `columns` are told."""

    table: TableName
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    on: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True)
class JoinQuestion:
    """Rows of the join of `tables` that have one of `keys` (distinct, no NULLs). `key` says, for each column of them,
    what must equal it: a column of the table with that number. Every table is reached by a column of the keys or by an
    earlier table; one that stands twice is joined with itself. `columns` are the answer's names for the tables'
    columns, table by table.

    Equality is exact, as in a Question, and NULL equals nothing. Only columns that are `joins.joinable` are joined."""

    tables: tuple[Joined, ...]
    key: tuple[tuple[int, str], ...]
    keys: pa.Table
    columns: tuple[str, ...]

    @property
    def told(self) -> tuple[tuple[int, str], ...]:
        """Per column of the answer: the number of its table, and its name there."""
        return tuple((n, column) for n, joined in enumerate(self.tables) for column in joined.columns)

    def reached_by(self, number: int) -> tuple[str, ...]:
        """The columns by which the rows of a table are found."""
        keys = (column for table, column in self.key if table == number)
        return tuple(dict.fromkeys([*keys, *(column for column, _, _ in self.tables[number].on)]))

    def named(self) -> dict[TableName, tuple[str, ...]]:
        """Every column that the question mentions, of each table."""
        found: dict[TableName, dict[str, None]] = {}
        for number, joined in enumerate(self.tables):
            mine = found.setdefault(joined.table, {})
            mine |= dict.fromkeys((*joined.columns, *(c.column for c in joined.conditions), *self.reached_by(number)))
            for _, table, other in joined.on:
                found[self.tables[table].table][other] = None
        return {table: tuple(columns) for table, columns in found.items()}


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
class Held:
    """How many bytes of its own log a server keeps until we have read them, and beyond how many it is given up, so that
    its disk does not fill; None: never."""

    bytes: int
    limit: int | None

    @property
    def too_much(self) -> bool:
        return self.limit is not None and self.bytes > self.limit

    @property
    def warning(self) -> str:
        """What a person should know from half of the limit on."""
        if self.limit is None or self.bytes * 2 < self.limit:
            return ""
        return (
            f"the server keeps {byte_size(self.bytes)} of its log for Headwater; beyond {byte_size(self.limit)} that is"
            " given up, and views are loaded again: see that 'headwater run' runs and takes it in"
        )


@dataclass(frozen=True)
class Capture:
    """The capture found at a source. `generation` changes whenever capture was removed and installed anew, so that
    positions of another life are recognised. `tables` are those captured for this owner without a gap, `broken` says
    what is wrong with others of its tables (a dropped or disabled trigger). `others` are the labels of other projects
    that use this capture. `held` is what the server keeps for it, where it is read from the server's log."""

    generation: str
    tables: frozenset[TableName]
    broken: Mapping[TableName, str]
    others: tuple[str, ...] = ()
    held: Held | None = None


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

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        """What a person should know before these tables are maintained, one sentence each: what cannot be proven here
        and what to switch on, what capture costs the writers."""
        ...

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        """What `install` would do, one readable line each; raises what would keep it from doing so: all missing
        privileges at once, as statements to paste."""
        ...

    def install(self, tables: Sequence[TableName]) -> list[str]:
        """Install capture of these tables for this owner, leave existing capture of others alone. Idempotent; all or
        nothing."""
        ...

    def release(self, keep: Sequence[TableName]) -> list[str]:
        """This owner needs only these tables any longer: capture that then serves nobody is removed. Idempotent."""
        ...

    def remove(self) -> list[str]:
        """This owner needs nothing any longer. Capture of other owners stays; without any, nothing is left behind.
        Idempotent."""
        ...

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        """Which columns these names stand for now. A table or column that is gone raises SchemaChanged, one that is
        not captured CaptureMissing."""
        ...

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        """From now on poll, ask and scan raise SchemaChanged where a column they read is another than the expected one,
        in the snapshot they read. Columns not mentioned are not checked. Replaces what was expected before."""
        ...

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        """Can everything after this position still be told, and these tables be asked about as of it? Raises
        PositionTrimmed, CaptureMissing or LifeChanged if not. Cheap."""
        ...

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        """When the source itself says that these transactions (as a poll called them) were committed; None where it
        does not know. For checks: nothing else may depend on it."""
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

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        """ORDINAL, the question's columns, COUNT: the join of the tables' states at `at`, counts multiplied. One
        question, however many tables. The promise and the refusals are those of `ask`, for every table. A row of the
        answer with a value that its type cannot hold raises ValueUnfit; where rows are only joined by it, such a value
        either raises or equals nothing."""
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


class Scripted(Protocol):
    """A source whose capture somebody else may install: a DBA, where the project's role may not."""

    def script(self, tables: Sequence[TableName]) -> list[str]:
        """What `install` would do, as statements to be run as they stand, with comments between them, and what the role
        then needs. None if everything is in place. Changes nothing."""
        ...
