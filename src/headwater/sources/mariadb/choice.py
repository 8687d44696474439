"""A MariaDB captured as the project says: by its log, by triggers, or by the log where the server lets it.

    capture = "log"         the server's binary log (`adapter.py`); so it is if nothing is said
    capture = "triggers"    triggers that write changes down (`triggers/adapter.py`)
    capture = "auto"        as it is captured already; if it is not yet, by the log, or else by triggers, and why

MySQL is captured by its log only.

The two share nothing at the source but the table of tags. Their positions are not comparable, so a project that goes
over from one to the other begins a new capture: what it has of the old one is taken away when the new one is there,
every position of the old one is of another life, and views are loaded again. Nothing is lost, as nothing is taken over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.errors import SourceRefused
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, TableSchema
from headwater.model.source import Capture, Chunk, CommitTimes, JoinQuestion, Poll, Question, Source, SourceSpec
from headwater.sources.mariadb import books, grants
from headwater.sources.mariadb.adapter import MariadbSource
from headwater.sources.mariadb.connection import ConnectionPool, dialect
from headwater.sources.mariadb.dialect import MARIADB
from headwater.sources.mariadb.triggers.adapter import TriggerSource


class ChosenSource:
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._pool = ConnectionPool(spec)
        self._log, self._triggers = MariadbSource(spec), TriggerSource(spec)
        self._settled: Source | None = None
        if not spec.says_capture or spec.capture == "log":
            self._settled = self._log
        elif spec.capture == "triggers":
            self._settled = self._triggers

    @property
    def name(self) -> SourceName:
        return self._spec.name

    def close(self) -> None:
        for one in (self._pool, self._log, self._triggers):
            one.close()

    # ── which of them ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _way(self) -> Source:
        """The one that is installed stays; before that, whatever the server allows now."""
        if self._settled is not None:
            return self._settled
        if self._triggers.installed():
            self._settled = self._triggers
        elif self._logged() or not self._has_triggers():
            self._settled = self._log
        else:
            return self._triggers if self._why_not_the_log() else self._log
        return self._settled

    def _has_triggers(self) -> bool:
        with self._pool.borrow() as connection:
            return dialect(connection) is MARIADB

    def _logged(self) -> bool:
        """Whether this project is captured by the log."""
        try:
            with self._pool.borrow() as connection:
                noted = books.read(connection, self._spec)
        except SourceRefused:  # who may not read a table is not told whether it is there
            return False
        return noted is not None and noted.floor is not None

    def _why_not_the_log(self) -> SourceRefused | None:
        with self._pool.borrow() as connection:
            try:
                grants.check(connection, self.name, (), {})
            except SourceRefused as refused:
                return refused
        return None

    @property
    def _other(self) -> tuple[bool, str]:
        """Whether this project is captured in the other way, too; and what that is called."""
        if self._way is self._triggers:
            return self._logged(), "the log"
        return self._triggers.installed(), "triggers"

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        return self._log.describe()

    def resolve(self, schema: str, table: str) -> TableName | None:
        return self._log.resolve(schema, table)

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        said = self._way.advice(tables)
        why = self._why_not_the_log() if self._spec.capture == "auto" and self._way is self._triggers else None
        if why is not None:
            said.append(f"it is not captured by its log, because {_reason(why)}. For the log, {why.fix}")
        elif self._spec.capture == "auto" and self._way is self._triggers:
            said.append(f'source {self.name} could be captured by its log now: capture = "log" changes over')
        return said

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────

    def capture(self) -> Capture | None:
        return self._way.capture()

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        return [*self._way.plan_install(tables), *self._given_up()]

    def install(self, tables: Sequence[TableName]) -> list[str]:
        lines, given_up, way = self._way.install(tables), self._given_up(), self._way
        if given_up:
            (self._log if way is self._triggers else self._triggers).remove()
        return [*lines, *given_up]

    def _given_up(self) -> list[str]:
        there, called = self._other
        return [f"no longer capture by {called}: views over this source are loaded again"] if there else []

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return self._way.release(keep)

    def remove(self) -> list[str]:
        self._settled = None if self._spec.capture == "auto" and self._spec.says_capture else self._settled
        return [*self._log.remove(), *self._triggers.remove()]

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        return self._way.identities(tables)

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._log.expect(tables)
        self._triggers.expect(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        self._way.check(at, tables)

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        return [None] * len(transactions)

    # ── what happened, and what is asked ─────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        return self._way.position()

    def waiting(self, after: Position) -> int:
        return self._way.waiting(after)

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        return self._way.poll(after, tables, limit)

    def trim(self, below: Position) -> int:
        return self._way.trim(below)

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        yield from self._way.ask(question, at)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        yield from self._way.ask_join(question, at)

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        return self._way.chunks(table, target_rows)

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        yield from self._way.scan(chunk, columns, at, conditions)


def _reason(refused: SourceRefused) -> str:
    """Without the name of the source, which the sentence has already."""
    return refused.what.partition(": ")[2] or refused.what
