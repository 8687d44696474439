"""MariaDB as a source whose log is off or may not be read: by triggers.

**Positions** are rounds (`rounds.py`): states that somebody who polled or asked has seen and numbered. Transactions of
one poll share a round, because nothing here says in which order they were committed; those that an application tags
have rounds of their own where all are tagged.

**As-of**: the tables in a snapshot, less the changes that the position's rounds do not have (`past.py`).

**Life**: each round has a number by chance that a restored backup does not have (`notes.py`). **Identity**: any
alteration of a captured table counts as a gap (`facts.py`); after it the table is captured anew.

Known limits:

- TRUNCATE, OPTIMIZE, ALTER TABLE (also of an index), partition commands: views over the table halt, `headwater setup`
  captures it anew and `headwater apply` loads them again;
- rows that a foreign key deletes or changes (CASCADE, SET NULL) fire no triggers: such tables are refused;
- rows that a replica gets from its primary fire none, either, unless the server is told to;
- where tagged and untagged transactions meet in one poll, only the last of the tags is told;
- the triggers run with the rights of the user that installed them: `headwater teardown` before it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.errors import UnknownName
from headwater.model.joins import one_by_one
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, TableSchema
from headwater.model.source import Capture, Chunk, CommitTimes, JoinQuestion, Poll, Question, SourceSpec
from headwater.sources.mariadb import catalog
from headwater.sources.mariadb.answering import chunk_bounds
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, ConnectionPool, rows
from headwater.sources.mariadb.triggers import capture, needs, rounds
from headwater.sources.mariadb.triggers import notes as notes_of
from headwater.sources.mariadb.triggers import poll as polling
from headwater.sources.mariadb.triggers.facts import facts
from headwater.sources.mariadb.triggers.notes import Notes
from headwater.sources.mariadb.triggers.past import Reader, Watch
from headwater.sources.mariadb.triggers.rounds import RoundPosition


class TriggerSource:
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._pool = ConnectionPool(spec)
        self._watch = Watch(spec.name)
        self._reader = Reader(spec, self._pool, self._watch)

    @property
    def name(self) -> SourceName:
        return self._spec.name

    def close(self) -> None:
        self._pool.close()

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> Mapping[TableName, TableSchema]:
        with self._pool.borrow() as connection:
            found = catalog.tables(connection, self.name)
        return {name: table.schema() for name, table in found.items()}

    def resolve(self, schema: str, table: str) -> TableName | None:
        with self._pool.borrow() as connection:
            known = list(catalog.tables(connection, self.name))
        return catalog.resolve(known, schema, self._pool.database, table)

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return [
            f"source {self.name} is captured by triggers, within its writers' transactions: they take longer, and"
            " transactions of one poll share one state. TRUNCATE and any ALTER TABLE of a captured table halt the views"
            " over it until 'headwater setup' and 'headwater apply'"
        ]

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────

    def installed(self) -> bool:
        """Whether this project is captured here."""
        with self._pool.borrow() as connection:
            notes = notes_of.read(connection, self._spec)
        return notes is not None and notes.floor is not None

    def capture(self) -> Capture | None:
        with self._pool.borrow() as connection:
            notes = notes_of.read(connection, self._spec)
            if notes is None:
                return None
            there = catalog.tables(connection, self.name)
            good, broken = set(), {}
            for name in (TableName(self.name, table) for table in sorted(notes.mine)):
                refusal = needs.refused_by_triggers(there[name]) if name in there else None
                why = refusal[0] if refusal else notes.tables[name.table].broken(facts(connection, name.table))
                if why:
                    broken[name] = why
                else:
                    good.add(name)
        others = tuple(label or owner or "a project without a name" for owner, label in notes.others)
        return Capture(notes.generation, frozenset(good), broken, others)

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        with self._pool.borrow() as connection:
            return self._planned(connection, tables)[0]

    def install(self, tables: Sequence[TableName]) -> list[str]:
        with self._pool.borrow() as connection:
            lines, there = self._planned(connection, tables)
            if lines:
                capture.install(connection, self._spec, tables, there)
        return lines

    def _planned(
        self, connection: Connection, tables: Sequence[TableName]
    ) -> tuple[list[str], Mapping[TableName, MariaTable]]:
        there = catalog.tables(connection, self.name)
        for table in tables:
            if table not in there:
                raise UnknownName("table", table.table, (t.table for t in there), f"at source {self.name}")
        needs.check(connection, self.name, tables, there)
        return capture.steps(connection, self._spec, tables, there), there

    def release(self, keep: Sequence[TableName]) -> list[str]:
        with self._pool.borrow() as connection:
            if notes_of.read(connection, self._spec) is None:
                return []
            return capture.release(connection, self._spec, [t.table for t in keep])

    def remove(self) -> list[str]:
        with self._pool.borrow() as connection:
            return capture.remove(connection, self._spec)

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        expected, self._watch.expected = self._watch.expected, {}
        try:
            with self._pool.borrow() as connection:
                rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
                notes = self._notes(connection)
                return {
                    name: self._watch.identities(notes, self._watch.look(connection, notes, name, columns), columns)
                    for name, columns in tables.items()
                }
        finally:
            self._watch.expected = expected

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._watch.expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        asked = RoundPosition.parse(at)
        with self._reader.snapshot(asked, dict.fromkeys(tables, ())) as (_, _, seen):
            for one in seen.values():
                notes_of.old_enough(one.captured, asked.round)

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        """Nobody notes them here. Nothing hangs on it: rounds are in the order of their snapshots."""
        return [None] * len(transactions)

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        with self._pool.borrow() as connection:
            self._notes(connection)
            last = rounds.number(connection)
            return notes_of.position(connection, self._notes(connection), last).text()

    def waiting(self, after: Position) -> int:
        asked = RoundPosition.parse(after)
        with self._pool.borrow() as connection:
            rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            return polling.waiting(connection, asked.round) if notes_of.read(connection, self._spec) else 0

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        asked = RoundPosition.parse(after)
        with self._pool.borrow() as connection:
            notes = self._notes(connection)
            for name in tables:
                notes.captured(name)
            rounds.number(connection)
        with self._reader.snapshot(asked, tables) as (connection, _, seen):
            return polling.poll(connection, asked, seen, tables, limit)

    def trim(self, below: Position) -> int:
        asked = RoundPosition.parse(below)
        with self._pool.borrow() as connection:
            self._notes(connection)
            return polling.trim(connection, self._spec, asked)

    # ── as of a position ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        named = dict.fromkeys([*question.columns, *question.key, *(c.column for c in question.conditions)])
        with self._reader.answering(RoundPosition.parse(at), {question.table: tuple(named)}) as answering:
            yield from answering.ask(question)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        """Table by table, all in one snapshot."""
        with self._reader.answering(RoundPosition.parse(at), question.named()) as answering:

            def kind(table: TableName, column: str) -> pa.DataType:
                return answering.tables[table].columns[column].type

            yield from one_by_one(question, answering.ask, kind)

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        with self._pool.borrow() as connection:
            found = catalog.tables(connection, self.name, table.table).get(table)
            if found is None:
                raise UnknownName("table", table.table, (), f"at source {self.name}")
            count = catalog.row_count(connection, found)
            bounds = chunk_bounds(connection, found, max(1, -(-count // max(1, target_rows))))
        return [Chunk(table, n, bound, count // len(bounds)) for n, bound in enumerate(bounds)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        named = dict.fromkeys([*columns, *(c.column for c in conditions), *chunk.bounds[:1]])
        with self._reader.answering(RoundPosition.parse(at), {chunk.table: tuple(named)}) as answering:
            yield from answering.scan(chunk, columns, conditions)

    # ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _notes(self, connection: Connection) -> Notes:
        return notes_of.installed(notes_of.read(connection, self._spec), self._spec)
