"""A source that nobody can reach, asked through the hub that its agent connects to.

Every operation of the port is a call that the agent performs beside its database, with the adapter for that kind of
database. So positions, the as-of and all proofs (decision 11) are that adapter's own, and calls can be repeated. What
an agent is told to do and never answers has either happened or not; either way it is asked again.

An agent that is away is a source that is unreachable, and what needs it waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, TableSchema
from headwater.model.source import (
    CAPTURE,
    LOG_LIMIT,
    Capture,
    Chunk,
    CommitTimes,
    JoinQuestion,
    Poll,
    Question,
    SourceSpec,
)
from headwater.sources.agent.calls import CHAIN, Call
from headwater.sources.agent.frames import Frame
from headwater.sources.agent.line import Line
from headwater.sources.agent.values import heard, heard_rows

_PASSED_ON = ("owner", "owner_label", CAPTURE, LOG_LIMIT)


class AgentSource:
    def __init__(self, spec: SourceSpec) -> None:
        self._name = spec.name
        self.options = tuple(option for option in spec.options if option[0] in _PASSED_ON)
        """What an adapter beside the database is called with."""
        self._line = Line.of(spec)
        self._expected: dict[TableName, Identities] = {}

    @property
    def name(self) -> SourceName:
        return self._name

    def _call(self, operation: str, *arguments: Any) -> Iterator[Frame]:
        call = Call(self._name, self.options, operation, arguments, self._expected)
        return self._line.call(call)

    def _told(self, operation: str, *arguments: Any) -> Any:
        message = self._call(operation, *arguments)
        value = heard(message)
        for _ in heard_rows(message):  # there are none; but the end must be there
            pass
        return value

    def _rows(self, operation: str, *arguments: Any) -> Iterator[pa.RecordBatch]:
        message = self._call(operation, *arguments)
        heard(message)
        yield from heard_rows(message)

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        return self._told("describe")  # type: ignore[no-any-return]

    def resolve(self, schema: str, table: str) -> TableName | None:
        return self._told("resolve", schema, table)  # type: ignore[no-any-return]

    def capture(self) -> Capture | None:
        return self._told("capture")  # type: ignore[no-any-return]

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return self._told("advice", list(tables))  # type: ignore[no-any-return]

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        return self._told("plan_install", list(tables))  # type: ignore[no-any-return]

    def install(self, tables: Sequence[TableName]) -> list[str]:
        return self._told("install", list(tables))  # type: ignore[no-any-return]

    def release(self, keep: Sequence[TableName]) -> list[str]:
        return self._told("release", list(keep))  # type: ignore[no-any-return]

    def remove(self) -> list[str]:
        return self._told("remove")  # type: ignore[no-any-return]

    # ── windows of chains (`chain.windows`) ──────────────────────────────────────────────────────────────────────

    def chain(self, what: str, *arguments: Any) -> Any:
        return self._told(CHAIN, what, *arguments)

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        return self._told("identities", _columns(tables))  # type: ignore[no-any-return]

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        self._told("check", at, list(tables))

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        return self._told("commit_times", list(transactions))  # type: ignore[no-any-return]

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        return self._told("position")  # type: ignore[no-any-return]

    def waiting(self, after: Position) -> int:
        return self._told("waiting", after)  # type: ignore[no-any-return]

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        return self._told("poll", after, _columns(tables), limit)  # type: ignore[no-any-return]

    def trim(self, below: Position) -> int:
        return self._told("trim", below)  # type: ignore[no-any-return]

    # ── as of a position ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        return self._rows("ask", question, at)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        return self._rows("ask_join", question, at)

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        return self._told("chunks", table, target_rows)  # type: ignore[no-any-return]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        return self._rows("scan", chunk, list(columns), at, tuple(conditions))

    def close(self) -> None:
        self._line.close()


def _columns(tables: Mapping[TableName, Sequence[str]]) -> dict[TableName, list[str]]:
    return {table: list(columns) for table, columns in tables.items()}
