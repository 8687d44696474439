"""The strategies on real databases: SQLite files, memory sources and PostgreSQL, which change between any two steps.

Every run ends with what SQL says about the rows that are there, and the checker finds the level that the algorithm
promises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol

import adbc_driver_sqlite.dbapi as adbc
import psycopg
import pyarrow as pa
import pytest

from headwater.algebra.bag import Bag
from headwater.lab.algorithms import ALGORITHMS, factory
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.history import History
from headwater.lab.live.database import LiveDatabase
from headwater.lab.live.run import Live
from headwater.lab.worlds.world import defined, table_name
from headwater.maintenance.strategies.contract import Factory
from headwater.model.errors import UsageError
from headwater.model.names import SourceName
from headwater.model.source import Source, SourceSpec
from headwater.sources import connect, memory
from postgres_server import PostgresServer

CHAIN = "SELECT r1.a AS a1, r2.a AS a2, r3.a AS a3 FROM s1.r1 JOIN s2.r2 ON r1.a = r2.b JOIN s3.r3 ON r2.a = r3.b"
TWO_IN_ONE = CHAIN.replace("s2.", "s1.").replace("s3.", "s2.")
ALL_IN_ONE = TWO_IN_ONE.replace("s2.", "s1.")
KEYED = CHAIN.replace("SELECT", "SELECT r1.k AS k1, r2.k AS k2, r3.k AS k3,")

Tables = dict[str, tuple[str, ...]]
"""Which tables each source has."""
APART: Tables = {"s1": ("r1",), "s2": ("r2",), "s3": ("r3",)}
TOGETHER: Tables = {"s1": ("r1", "r2"), "s2": ("r3",)}
ALONE: Tables = {"s1": ("r1", "r2", "r3")}
MARK = "INSERT INTO _headwater_transaction(tag) VALUES (NULL)"
Execute = Callable[[str], Sequence[tuple[Any, ...]]]
Between = Callable[[int], bool]


# ── who writes ───────────────────────────────────────────────────────────────────────────────────────────────────


class Application(Protocol):
    tables: Sequence[str]
    columns: str

    def commit(self) -> None:
        """One random transaction."""
        ...

    def rows(self, table: str) -> Sequence[tuple[Any, ...]]: ...


class Sql:
    """Writes SQL. `mark` is what its transactions begin with; `spread` ones may change several tables."""

    columns = "k, a, b"

    def __init__(self, execute: Execute, tables: Sequence[str], random: Random) -> None:
        self.tables = tables
        self.execute = execute
        self.mark = ""
        self.spread = False
        self._random = random
        self._keys = count(1)
        for table in tables:
            execute(f"CREATE TABLE {table} (k INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
            for _ in range(5):
                execute(self._insert(table))

    def commit(self) -> None:
        """Up to two random statements, and one that changes something for sure."""
        self.execute("BEGIN")
        if self.mark:
            self.execute(self.mark)
        table = self._random.choice(self.tables)
        for _ in range(self._random.randint(0, 2)):
            self.execute(self._any(table))
            table = self._random.choice(self.tables) if self.spread else table
        self.execute(self._insert(table))
        self.execute("COMMIT")

    def rows(self, table: str) -> Sequence[tuple[Any, ...]]:
        return self.execute(f"SELECT {self.columns} FROM {table}")

    def _any(self, table: str) -> str:
        which = f"WHERE k % 3 = {self._random.randrange(3)}"
        column, value = self._random.choice("ab"), _value(self._random)
        changes = [f"DELETE FROM {table} {which}", f"UPDATE {table} SET {column} = {value or 'NULL'} {which}"]
        return self._random.choice([self._insert(table), *changes])

    def _insert(self, table: str) -> str:
        a, b = (_value(self._random) or "NULL" for _ in "ab")
        return f"INSERT INTO {table} VALUES ({next(self._keys)}, {a}, {b})"


class Plain:
    """Writes to a memory source: tables without a key, so that rows repeat."""

    columns = "a, b"

    def __init__(self, url: str, tables: Sequence[str], random: Random) -> None:
        self.tables = tables
        self._random = random
        self._database = memory.database(url)
        for table in tables:
            self._database.create(table, {"a": pa.int64(), "b": pa.int64()})
            self._database.commit([(table, self._any(), 1) for _ in range(5)])

    def commit(self) -> None:
        table = self._random.choice(self.tables)
        changes = [(table, self._any(), 1)]
        held = self.rows(table)
        if held and self._random.random() < 0.6:
            a, b = self._random.choice(held)
            changes.append((table, {"a": a, "b": b}, -1))
        self._database.commit(changes)

    def rows(self, table: str) -> Sequence[tuple[Any, ...]]:
        return sorted(self._database.now[table].elements(), key=repr)

    def _any(self) -> dict[str, int | None]:
        return {c: _value(self._random) for c in "ab"}


def _value(random: Random) -> int | None:
    """NULL now and then."""
    return random.randrange(5) or None


# ── where ────────────────────────────────────────────────────────────────────────────────────────────────────────


class World:
    """Applications, and adapters that look at their databases."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.applications: dict[str, Application] = {}
        self.sources: list[Source] = []

    def add(self, name: str, url: str, application: Application) -> None:
        source = connect(SourceSpec(SourceName(name), url))
        source.install([found for t in application.tables if (found := source.resolve("", t))])
        self.applications[name] = application
        self.sources.append(source)

    def writing(self, transactions: int) -> Between:
        """Commits so many transactions in all, each at a random source, some between the same two steps."""
        left = transactions

        def between(step: int) -> bool:
            nonlocal left
            while left and self.random.random() < 0.3:
                self.random.choice([*self.applications.values()]).commit()
                left -= 1
            return left > 0

        return between

    def recomputed(self, select: str) -> Bag:
        """What SQL says about the rows that are there now: the view's own text, over copies of the tables."""
        with closing(adbc.connect(autocommit=True)) as connection:
            execute = sqlite(connection)
            for name, application in self.applications.items():
                execute(f"ATTACH ':memory:' AS {name}")
                for table in application.tables:
                    execute(f"CREATE TABLE {name}.{table} ({application.columns})")
                    for row in application.rows(table):
                        values = ", ".join("NULL" if v is None else str(v) for v in row)
                        execute(f"INSERT INTO {name}.{table} VALUES ({values})")
            return Bag.of(execute(select))


def sqlite(connection: Any) -> Execute:
    def execute(sql: str) -> Sequence[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    return execute


@contextmanager
def files(
    folder: Path, tables: Tables = APART, seed: int = 0, mark: str = MARK, spread: bool = False
) -> Iterator[World]:
    """SQLite files, written through the adapter's own copy of the library: two would lose each other's locks."""
    world = World(seed)
    with ExitStack() as stack:
        for name, held in tables.items():
            path = folder / f"{name}.db"
            execute = sqlite(stack.enter_context(closing(adbc.connect(str(path), autocommit=True))))
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = OFF")
            application = Sql(execute, held, world.random)
            world.add(name, f"sqlite:///{path}", application)
            application.mark, application.spread = mark, spread
            stack.callback(world.sources[-1].close)
        yield world


@contextmanager
def memories(seed: int = 0) -> Iterator[World]:
    world = World(seed)
    urls = {name: f"memory://live-{name}" for name in APART}
    for name, url in urls.items():
        world.add(name, url, Plain(url, APART[name], world.random))
    yield world
    for url in urls.values():
        memory.database(url).reset()


def live_run(sources: Sequence[Source], select: str, make: Factory, seed: int = 0) -> Live:
    """A run for the view V that this SELECT defines."""
    described = {table: schema for source in sources for table, schema in source.describe().items()}
    types = {table: {c.name: c.type for c in schema.supported()} for table, schema in described.items()}
    (view,) = defined({table: tuple(columns) for table, columns in types.items()}, {"V": select}, types)
    return Live(sources, view, make, seed)


def judged(history: History, level: Consistency) -> None:
    verdict = check(history)
    assert level in verdict.holds, str(verdict)


# ── what holds ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["sweep", "nested-sweep", "pvm", "pvm-cc", "posse", "tid-rules", "wave"])
def test_on_sqlite_files_each_algorithm_keeps_its_promise(name: str, tmp_path: Path) -> None:
    with files(tmp_path, seed=1) as world:
        history = live_run(world.sources, CHAIN, factory(name, {}), seed=1).run(world.writing(16))
        assert len(history.transactions) == 16
        assert history.final()["V"] == world.recomputed(CHAIN)
    judged(history, ALGORITHMS[name].level)


@pytest.mark.parametrize("name", ["sweep", "nested-sweep", "pvm", "pvm-cc", "posse", "tid-rules", "wave"])
def test_on_memory_sources_where_rows_repeat(name: str) -> None:
    with memories(seed=2) as world:
        history = live_run(world.sources, CHAIN, factory(name, {}), seed=2).run(world.writing(16))
        assert history.final()["V"] == world.recomputed(CHAIN)
    judged(history, ALGORITHMS[name].level)


@pytest.mark.parametrize("name", ["sweep", "pvm-cc", "posse", "tid-rules", "wave"])
def test_two_relations_that_meet_in_one_column_of_the_third(name: str) -> None:
    """SWEEP multiplies r1 and r3, then asks for rows of r2 by the same column twice."""
    star = "SELECT r1.b AS b1, r3.b AS b3, r2.a FROM s1.r1, s3.r3, s2.r2 WHERE r1.a = r2.a AND r3.a = r2.a"
    with memories(seed=9) as world:
        history = live_run(world.sources, star, factory(name, {}), seed=9).run(world.writing(10))
        assert history.final()["V"] == world.recomputed(star)
    judged(history, ALGORITHMS[name].level)


@pytest.mark.parametrize("name", ["simple-parallel", "equal-partition", "frequency-partition"])
def test_the_machines_of_a_cluster_send_each_other_messages(name: str) -> None:
    with memories(seed=3) as world:
        history = live_run(world.sources, CHAIN, factory(name, {"k": "2"}), seed=3).run(world.writing(16))
        assert history.final()["V"] == world.recomputed(CHAIN)
    judged(history, ALGORITHMS[name].level)


@pytest.mark.parametrize(
    ("name", "tables", "select"), [("strobe", APART, KEYED), ("c-strobe", APART, KEYED), ("eca", ALONE, ALL_IN_ONE)]
)
def test_what_needs_keys_or_a_single_source(name: str, tables: Tables, select: str, tmp_path: Path) -> None:
    options = {"keys": "s1.r1.k,s2.r2.k,s3.r3.k"} if select is KEYED else {}
    with files(tmp_path, tables, seed=1) as world:
        history = live_run(world.sources, select, factory(name, options), seed=1).run(world.writing(8))
        assert history.final()["V"] == world.recomputed(select)
    judged(history, ALGORITHMS[name].level)


@pytest.mark.parametrize("name", ["sweep", "pvm", "pvm-cc", "posse", "tid-rules", "wave"])
def test_two_tables_in_one_file(name: str, tmp_path: Path) -> None:
    """Nested SWEEP refuses it: one relation per source."""
    with files(tmp_path, TOGETHER, seed=3) as world:
        history = live_run(world.sources, TWO_IN_ONE, factory(name, {}), seed=3).run(world.writing(12))
        assert history.final()["V"] == world.recomputed(TWO_IN_ONE)
    judged(history, ALGORITHMS[name].level)


@pytest.mark.parametrize(("name", "right"), [("tid-rules", True), ("wave", True), ("sweep", False)])
def test_two_tables_that_one_transaction_changes(name: str, right: bool, tmp_path: Path) -> None:
    """This is beyond SWEEP, as its file says: the two sweeps of one update see each other's changes."""
    with files(tmp_path, TOGETHER, seed=4, spread=True) as world:
        history = live_run(world.sources, TWO_IN_ONE, factory(name, {}), seed=4).run(world.writing(16))
        assert any(len(u.changes) == 2 for u in history.transactions)
        assert (history.final()["V"] == world.recomputed(TWO_IN_ONE)) is right
    assert (ALGORITHMS[name].level in check(history).holds) is right


@pytest.mark.parametrize("name", ["sweep", "wave"])
def test_writers_that_do_not_wait(name: str, tmp_path: Path) -> None:
    """A thread for each file commits at any moment, also while an answer is being read."""
    with files(tmp_path, seed=4) as world:

        def write(application: Application) -> None:
            for _ in range(8):
                application.commit()

        live = live_run(world.sources, CHAIN, factory(name, {}), seed=4)
        writers = [threading.Thread(target=write, args=[a]) for a in world.applications.values()]
        for writer in writers:
            writer.start()
        history = live.run(lambda step: any(w.is_alive() for w in writers))
        assert len(history.transactions) == 24
        assert history.final()["V"] == world.recomputed(CHAIN)
    judged(history, ALGORITHMS[name].level)


def test_a_writer_that_never_rests_does_not_keep_the_run(tmp_path: Path) -> None:
    with files(tmp_path, seed=4) as world:
        live = live_run(world.sources, CHAIN, factory("sweep", {}), seed=4)

        def between(step: int) -> bool:
            next(iter(world.applications.values())).commit()
            return len(live.history.transactions) < 6

        history = live.run(between)
    assert len(history.transactions) >= 6
    judged(history, Consistency.COMPLETE)


@pytest.mark.parametrize("name", ["tid-rules", "sweep", "wave"])
def test_after_the_beginning_only_what_is_joined_is_read(name: str) -> None:
    """By key: of a thousand rows those few that meet a change."""
    urls = {"s1": "memory://live-large-1", "s2": "memory://live-large-2"}
    tables = {"s1": "r", "s2": "s"}
    for source, url in urls.items():
        memory.database(url).create(tables[source], {"k": pa.int64()})
        memory.database(url).commit([(tables[source], {"k": k}, 1) for k in range(1000)])
    sources = [connect(SourceSpec(SourceName(name), url)) for name, url in urls.items()]
    for source in sources:
        source.install([table_name(f"{source.name}.{tables[str(source.name)]}")])

    def between(step: int) -> bool:
        if step < 3:
            memory.database(urls["s1"]).commit([("r", {"k": step}, 1)])
        return step < 3

    try:
        live = live_run(sources, "SELECT r.k FROM s1.r JOIN s2.s ON r.k = s.k", factory(name, {}))
        history = live.run(between)
        assert len(history.transactions) == 3
        assert history.final()["V"].total() == 1003
        assert 3 <= live.rows_asked_for < 30
    finally:
        for url in urls.values():
            memory.database(url).reset()


def test_unmarked_transactions_are_coarser_but_real(tmp_path: Path) -> None:
    with files(tmp_path, seed=5, mark="") as world:
        history = live_run(world.sources, CHAIN, factory("sweep", {}), seed=5).run(world.writing(16))
        assert len(history.transactions) < 16
        assert history.final()["V"] == world.recomputed(CHAIN)
    judged(history, Consistency.COMPLETE)


def test_without_compensation_the_interference_shows() -> None:
    """So it is there, and what the others do about it is needed."""
    with memories(seed=6) as world:
        live = live_run(world.sources, CHAIN, factory("sweep-without-compensation", {}), seed=6)
        history = live.run(world.writing(16))
        assert history.final()["V"] != world.recomputed(CHAIN)
    assert check(history).witness


@pytest.mark.parametrize("name", ["sweep", "wave"])
def test_a_table_that_is_empty_at_first(name: str) -> None:
    url = "memory://live-empty"
    database, source = memory.database(url), connect(SourceSpec(SourceName("s"), url))
    for table in ("t", "u"):
        database.create(table, {"x": pa.string()})
    source.install([table_name("s.t"), table_name("s.u")])

    def between(step: int) -> bool:
        if step < 2:
            database.commit([("tu"[step], {"x": "text"}, 1)])
        return step < 2

    try:
        live = live_run([source], "SELECT t.x FROM s.t JOIN s.u ON t.x = u.x", factory(name, {}))
        assert live.run(between).final()["V"] == Bag.of([("text",)])
    finally:
        database.reset()


def test_agents_beside_the_sources_are_refused() -> None:
    with memories() as world, pytest.raises(UsageError, match="agents beside s1, s2, s3"):
        live_run(world.sources, CHAIN, factory("pull-push", {}))


def test_a_source_is_asked_about_its_last_poll_and_about_any_transaction_before_it() -> None:
    with memories(seed=7) as world:
        source, application, r1 = world.sources[0], world.applications["s1"], table_name("s1.r1")
        database = LiveDatabase(source, {r1: pa.schema([("a", pa.int64()), ("b", pa.int64())])})
        states = [Bag.of(application.rows("r1"))]
        for _ in range(6):
            application.commit()
            states.append(Bag.of(application.rows("r1")))
            if len(states) in (2, 5):  # the position between two transactions is not known then
                database.poll()
        assert database.position == 4
        assert database.rows(r1) == states[4]
        for n in range(5):
            assert Bag.summed(database.as_of(r1, (), n)(())) == states[n]
            for a in range(5):
                found = Bag.summed(database.as_of(r1, (0,), n)(a))
                assert found == states[n].select(lambda row, a=a: row[0] == a)  # type: ignore[misc]  # defaults


def test_a_key_that_no_row_can_have_finds_nothing() -> None:
    url = "memory://live-keys"
    memory.database(url).create("t", {"small": pa.int32(), "price": pa.decimal128(5, 2)})
    memory.database(url).commit([("t", {"small": 5, "price": 7}, 1)])
    source, table = connect(SourceSpec(SourceName("s"), url)), table_name("s.t")
    source.install([table])
    database = LiveDatabase(source, {table: pa.schema([("small", pa.int32()), ("price", pa.decimal128(5, 2))])})
    small = database.find(table, (0,))
    assert [len(list(small(key))) for key in (5, 5.0, 5.5, 2**40)] == [1, 1, 0, 0]
    assert len(list(database.find(table, (0, 1))((5, 7)))) == 1
    twice = database.find(table, (0, 0))
    assert [len(list(twice(key))) for key in ((5, 5), (5, 6))] == [1, 0]
    memory.database(url).reset()


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["sweep", "wave"])
def test_on_postgresql_beside_sqlite(name: str, tmp_path: Path, postgres: PostgresServer) -> None:
    """One transaction is always open, and commits after others that began later: positions are sets there."""
    tables = {"s1": ("r1",), "s3": ("r3",)}
    url = postgres.create_database(f"live_{name}")
    with (
        files(tmp_path, tables, seed=8) as world,
        psycopg.connect(url, autocommit=True) as connection,
        psycopg.connect(url) as slow,
    ):
        world.add("s2", url, Sql(postgresql(connection), ("r2",), world.random))
        live = live_run(world.sources, CHAIN, factory(name, {}), seed=8)
        writing = world.writing(16)

        def between(step: int) -> bool:
            more = writing(step)
            if more and step % 5 == 0:
                slow.commit()
                slow.execute(f"INSERT INTO r2 VALUES ({1000 + step}, {step % 4}, {step % 3})")
            elif not more:
                slow.commit()
            return more

        history = live.run(between)
        assert len(history.transactions) > 16
        assert history.final()["V"] == world.recomputed(CHAIN)
        world.sources[-1].close()
    judged(history, ALGORITHMS[name].level)


def postgresql(connection: psycopg.Connection[Any]) -> Execute:
    def execute(sql: str) -> Sequence[tuple[Any, ...]]:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    return execute
