"""MariaDB (10.5 or newer) and MySQL (8.0 or newer) as a source, by their binary log.

**Positions** are places in the log (`places.py`); they name the capture and the very log they belong to. What a
position contains are the transactions that end at or before it, in the order of the log, which is the order of their
commits.

**As-of**: the tables in a snapshot that knows its place in the log, less what the log tells since (`past.py`).

**Identity**: statements that alter tables are in the log as text. A column that one of them makes another is another
(`statements.py`, `books.py`). TRUNCATE is one of them: the rows that went are not in the log.

Nothing runs at the source and its writers pay nothing: capture is a few tables of notes (`books.py`). The log must
hold whole rows with the names of their columns; `grants.py` says what is missing, and what is logged otherwise by a
single session is noticed when it is read.

Known limits:

- rows that a foreign key deletes or changes (CASCADE, SET NULL) are not in the log: such tables are refused;
- what a session writes with `sql_log_bin = 0`, or into the files, nobody can see;
- tables of other engines than InnoDB, and system-versioned ones, are refused; virtual columns, `uuid` and `inet6`
  columns and texts in gbk, sjis and the like are not read;
- one database is one source; other databases of the server are other sources.

What the two products differ in is in `dialect.py`, and which state a snapshot shows in `moments.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.errors import CaptureMissing, HeadwaterError, LifeChanged, PositionTrimmed, UnknownName
from headwater.model.joins import one_by_one
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Identities, TableSchema
from headwater.model.source import Capture, Chunk, CommitTimes, JoinQuestion, Poll, Question, SourceSpec
from headwater.sources.mariadb import books, catalog, grants
from headwater.sources.mariadb.answering import chunk_bounds
from headwater.sources.mariadb.books import Books
from headwater.sources.mariadb.changes import wanted
from headwater.sources.mariadb.connection import Connection, ConnectionPool, another_life, log_end, rows
from headwater.sources.mariadb.known import KnownTables, captured
from headwater.sources.mariadb.past import Reader, held
from headwater.sources.mariadb.places import LogPosition, place_of
from headwater.sources.mariadb.poll import Polled, poll
from headwater.sources.mariadb.transactions import Log
from headwater.sources.mariadb.window import LogWindow, window_of

_COUNTED = 2_000
"""Row events that are counted to tell the lag; beyond that it is told from the size of the log."""


class MariadbSource:
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._pool = ConnectionPool(spec)
        self._known = KnownTables(spec.name)
        self._reader = Reader(spec, self._pool, self._known)

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
        with self._pool.borrow() as connection:
            names = "'binlog_expire_logs_seconds', 'expire_logs_days', 'sync_binlog', 'innodb_flush_log_at_trx_commit'"
            said = dict(rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))
            advice = grants.advice(connection, tables, catalog.tables(connection, self.name))
        kept = float(said.get("binlog_expire_logs_seconds", 0)) or 86_400 * float(said.get("expire_logs_days", 0))
        if kept:
            advice.append(
                f"the server keeps its log for {kept / 86_400:g} days; if Headwater is away for longer, views are"
                " loaded again (binlog_expire_logs_seconds)"
            )
        else:
            advice.append("the server keeps its log for ever; binlog_expire_logs_seconds = 604800 bounds it to a week")
        if said.get("sync_binlog") != "1" or said.get("innodb_flush_log_at_trx_commit") != "1":
            advice.append(
                "a crash of the machine may leave tables and log in disagreement, which nobody can see afterwards;"
                " sync_binlog = 1 and innodb_flush_log_at_trx_commit = 1 keep them together"
            )
        return advice

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────

    def capture(self) -> Capture | None:
        with self._pool.borrow() as connection:
            noted = books.read(connection, self._spec)
            if noted is None:
                return None
            there = catalog.tables(connection, self.name)
        wrong = self._stale(noted)
        good, broken = set(), {}
        for name in (TableName(self.name, table) for table in noted.tables):
            refusal = there[name].refusal if name in there else None
            if wrong:
                broken[name] = wrong
            elif name not in there:
                broken[name] = "the table is gone"
            elif refusal is not None:
                broken[name] = refusal[0]
            else:
                good.add(name)
        others = tuple(label or owner or "a project without a name" for owner, label in noted.others)
        return Capture(noted.generation, frozenset(good), broken, others)

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        with self._pool.borrow() as connection:
            return [line for line, _ in self._steps(connection, tables)]

    def install(self, tables: Sequence[TableName]) -> list[str]:
        with self._pool.borrow() as connection:
            steps = self._steps(connection, tables)
            if not steps:
                return []
            absent = books.missing(connection)
            if books.META in absent or any(kind == "anew" for _, kind in steps):
                books.drop(connection)
                absent = books.missing(connection)
            now = self._now(connection, "")
            books.create(connection, absent)
            books.own(connection, self._spec, [t.table for t in tables], now)
        return [line for line, _ in steps]

    def _steps(self, connection: Connection, tables: Sequence[TableName]) -> list[tuple[str, str]]:
        """What is to be done, readable, and of which kind it is."""
        there = catalog.tables(connection, self.name)
        for table in tables:
            if table not in there and not self._exists(connection, table):
                raise UnknownName("table", table.table, (t.table for t in there), f"at source {self.name}")
        grants.check(connection, self.name, tables, there)
        noted = books.read(connection, self._spec)
        steps = []
        if noted is not None and (wrong := self._stale(noted)):
            steps.append((f"begin capture anew, because {wrong}", "anew"))
            noted = None
        elif noted is None:
            steps.append((f"create {', '.join(books.CREATE)}: notes of what is captured", "create"))
        elif absent := books.missing(connection):
            steps.append((f"create {', '.join(absent)}", "create"))
        mine = noted.tables if noted is not None else {}
        steps += [(f"capture {t} from the server's log", "table") for t in dict.fromkeys(tables) if t.table not in mine]
        if not steps and noted is not None and not self._registered(connection):
            steps.append((f"note that this is the project at {self._spec.owner_label}", "owner"))
        return steps

    def _exists(self, connection: Connection, table: TableName) -> bool:
        """Though the user may not read it: whether is for `grants` to say."""
        return False

    def _registered(self, connection: Connection) -> bool:
        found = rows(connection, f"SELECT owner, label FROM {books.OWNERS}")
        label = self._spec.owner_label
        same = [row for row in found if row[0] == self._spec.owner or (label and row[1] == label)]
        return same == [(self._spec.owner, label)]

    def release(self, keep: Sequence[TableName]) -> list[str]:
        with self._pool.borrow() as connection:
            noted = books.read(connection, self._spec)
            kept = {t.table for t in keep}
            gone = [table for table in noted.tables if table not in kept] if noted is not None else []
            if gone:
                books.disown(connection, self._spec, gone)
        return [f"forget {TableName(self.name, table)}" for table in gone]

    def remove(self) -> list[str]:
        with self._pool.borrow() as connection:
            noted = books.read(connection, self._spec)
            if noted is None or (noted.floor is None and noted.others):
                return []
            if noted.others:
                books.leave(connection, self._spec)
                return ["forget this project; others use the capture, too"]
            books.drop(connection)
            return [f"drop {', '.join(books.CREATE)}"]

    # ── what is expected ─────────────────────────────────────────────────────────────────────────────────────────

    def identities(self, tables: Mapping[TableName, Sequence[str]]) -> Mapping[TableName, Identities]:
        with self._pool.borrow() as connection:
            noted = books.read(connection, self._spec)
            if noted is None or noted.floor is None:
                raise CaptureMissing(f"capture is not installed at source {self.name}", "run 'headwater setup'")
            for table in tables:
                captured(noted, table)
            window, log = self._window(noted), self._log(connection)
            self._known.forget()
            found: dict[TableName, Identities] = {}
            with window.lock:
                window.look(log, noted)
                for name, columns in tables.items():
                    became = window.became(noted, name.table, tuple(columns))
                    found[name] = self._known.identities(self._known.table(connection, name), noted, became)
                window.write(self._pool, noted)
            return found

    def expect(self, tables: Mapping[TableName, Identities]) -> None:
        self._known.expected = dict(tables)

    def check(self, at: Position, tables: Sequence[TableName]) -> None:
        place = LogPosition.parse(at)
        with self._pool.borrow() as connection:
            noted = held(books.read(connection, self._spec), self._spec, place)
            for table in tables:
                if place.place < captured(noted, table):
                    raise PositionTrimmed(f"{table} is captured since a later position", "ask as of a newer position")
        self._alive(place)

    def commit_times(self, transactions: Sequence[str]) -> Sequence[CommitTimes | None]:
        """The log has them to the second, and by place, not by name."""
        return [None] * len(transactions)

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def position(self) -> Position:
        with self._pool.borrow() as connection:
            noted = books.read(connection, self._spec)
            return self._now(connection, noted.life if noted is not None else "0").text()

    def waiting(self, after: Position) -> int:
        place = LogPosition.parse(after)
        with self._pool.borrow() as connection:
            noted = books.read(connection, self._spec)
            log = self._log(connection)
            if noted is None or log.now() <= place.place:
                return 0
            sizes = [(place_of(row[0], 0)[1].number, int(row[1])) for row in rows(connection, "SHOW BINARY LOGS")]
        counted = 0
        with log.dump(place.place) as dump:
            for transaction in log.transactions(dump):
                counted += transaction.counted(noted.tables)
                if counted >= _COUNTED:
                    break
            read = dump.place
        left = sum(size for number, size in sizes if number >= read.number) - read.offset
        done = sum(size for number, size in sizes if place.place.number <= number < read.number)
        done += read.offset - place.place.offset
        return counted if counted < _COUNTED else int(counted * (1 + max(0, left) / max(1, done)))

    def poll(self, after: Position, tables: Mapping[TableName, Sequence[str]], limit: int) -> Poll:
        place = LogPosition.parse(after)
        with self._pool.borrow() as connection:
            noted = held(books.read(connection, self._spec), self._spec, place)
            window, log = self._window(noted), self._log(connection)
            with window.lock:
                window.know(noted)
            polled = {
                name: self._polled(connection, name, columns, (noted, window)) for name, columns in tables.items()
            }
        try:
            done = poll(log, place, polled, limit, (noted, window))
        except HeadwaterError:
            self._known.forget()
            raise
        finally:
            with window.lock:
                window.write(self._pool, noted)
        window.told.append((place.place, done.end, done.changes))
        return done.poll

    def _polled(
        self, connection: Connection, name: TableName, columns: Sequence[str], told: tuple[Books, LogWindow]
    ) -> Polled:
        """A table as it is now, or was when it was last looked at: alterations since are met in the log."""
        with told[1].lock:
            table, _ = self._known.judged(connection, name, columns, told)
            became = told[1].became(told[0], name.table, tuple(columns))
        expected = self._known.expected.get(name, {})
        return Polled(
            tuple(columns),
            wanted(table, columns, self._known.texts(connection, table)),
            table.key,
            max(int(captured(told[0], name)), max((became[c] for c in columns if c in expected), default=0)),
            {c: became[c] for c in columns if c in expected},
        )

    def trim(self, below: Position) -> int:
        place = LogPosition.parse(below)
        with self._pool.borrow() as connection:
            noted = books.read(connection, self._spec)
            if noted is None or noted.floor is None or place.place <= noted.floor.place:
                return 0
            if place.generation != noted.life:
                return 0
            self._alive(place)
            gone = self._told_between(connection, noted, place)
            if gone or place.place.number > noted.floor.place.number:
                books.let_go(connection, self._spec, place)
            return gone

    def _told_between(self, connection: Connection, noted: Books, below: LogPosition) -> int:
        """How many changes lie between an owner's floor and a position: as polls of this process have counted them, or
        else counted now."""
        assert noted.floor is not None
        window, end = self._window(noted), noted.floor.place
        counted = 0
        for begin, until, changes in sorted(window.told):
            if begin <= end < until <= below.place:
                counted, end = counted + changes, until
        log = self._log(connection)
        if end < below.place:
            try:
                with log.dump(end) as dump:
                    for transaction in log.transactions(dump):
                        counted += transaction.counted(noted.tables, below.place)
                        if transaction.place >= below.place:
                            break
            except PositionTrimmed:
                counted += 1
        window.told[:] = [one for one in window.told if one[1] > below.place]
        return counted

    # ── as of a position ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        named = dict.fromkeys([*question.columns, *question.key, *(c.column for c in question.conditions)])
        with self._reader.snapshot(LogPosition.parse(at), {question.table: tuple(named)}) as snapshot:
            yield from snapshot.ask(question)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        """Table by table, all in one snapshot."""
        with self._reader.snapshot(LogPosition.parse(at), question.named()) as snapshot:

            def kind(table: TableName, column: str) -> pa.DataType:
                return snapshot.tables[table].table.columns[column].type

            yield from one_by_one(question, snapshot.ask, kind)

    def chunks(self, table: TableName, target_rows: int) -> list[Chunk]:
        with self._pool.borrow() as connection:
            found = catalog.tables(connection, self.name, table.table).get(table)
            if found is None:
                raise UnknownName("table", table.table, (), f"at source {self.name}")
            count = catalog.row_count(connection, found)
            parts = max(1, -(-count // max(1, target_rows)))
            bounds = chunk_bounds(connection, found, parts)
        return [Chunk(table, n, bound, count // len(bounds)) for n, bound in enumerate(bounds)]

    def scan(
        self, chunk: Chunk, columns: Sequence[str], at: Position, conditions: Sequence[Condition] = ()
    ) -> Iterator[pa.RecordBatch]:
        named = dict.fromkeys([*columns, *(c.column for c in conditions), *chunk.bounds[:1]])
        with self._reader.snapshot(LogPosition.parse(at), {chunk.table: tuple(named)}) as snapshot:
            yield from snapshot.scan(chunk, columns, conditions)

    # ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _log(self, connection: Connection) -> Log:
        return Log(self._pool, self.name, place_of(log_end(connection)[0], 0)[0])

    def _now(self, connection: Connection, life: str) -> LogPosition:
        file, offset, *_ = log_end(connection)
        log, place = place_of(file, int(offset))
        with Log(self._pool, self.name, log).dump(place) as dump:
            return LogPosition(place, dump.head(), life)

    def _window(self, noted: Books) -> LogWindow:
        return window_of(self._pool, noted, self._spec.owner)

    def _alive(self, at: LogPosition) -> None:
        """The log still has this place, and is the log that the position was taken from."""
        with Log(self._pool, self.name, at.head.log).dump(at.place) as dump:
            if dump.head() != at.head:
                raise another_life(self.name, "its log was begun anew")

    def _stale(self, noted: Books) -> str:
        """Why what was captured is of another life; empty if it is not."""
        if noted.floor is None:
            return ""
        try:
            self._alive(noted.floor)
        except LifeChanged:
            return "the server's log is not the one it was: it was reset, or the database restored or copied"
        except PositionTrimmed:
            return ""
        return ""
