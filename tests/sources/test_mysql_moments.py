"""Which state a snapshot of MySQL shows, while writers never rest: compared with the log from its beginning.

The server waits for its disk at every commit, so that many a transaction is in the log and not yet in the tables; with
`binlog_order_commits` off, the tables do not even follow the order of the log.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

import pyarrow as pa
import pymysql
import pytest

from headwater.model.errors import SourceUnavailable
from headwater.model.names import Position, TableName
from headwater.model.source import Chunk, Question, SourceSpec
from headwater.sources.mariadb import moments
from headwater.sources.mariadb.connection import ConnectionPool
from headwater.sources.mariadb.moments import Doubts
from headwater.sources.mariadb.places import LogPosition, Place
from headwater.sources.mariadb.runs import Run
from headwater.sources.mariadb.transactions import Log
from mariadb_server import MariadbServer
from mysql_server import find, mysql_server

from .log_database import SRC, Bag, Database, fold, scanned, told

pytestmark = pytest.mark.mysql

WRITERS = 8
KEYS = 40
GONE = (0, 2006, 2013)
"""What a writer hears whose server was killed."""


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    if find() is None:
        pytest.skip("there is no MySQL server: run 'make mysql' on a Debian")
    settings = {"sync-binlog": "1", "innodb-flush-log-at-trx-commit": "1"}
    with mysql_server(tmp_path_factory.mktemp("mysql"), settings) as server:
        yield server


@pytest.fixture(params=["ON", "OFF"])
def db(careful: MariadbServer, request: pytest.FixtureRequest) -> Iterator[Database]:
    """With commits in the order of the log, and without."""
    database = Database(careful)
    database.run(f"SET GLOBAL binlog_order_commits = {request.param}")
    yield database
    database.close()


@contextmanager
def hammered(db: Database, work: Callable[[Random, pymysql.cursors.Cursor], None]) -> Iterator[None]:
    """Writers that commit one transaction after the other."""
    done, failed = threading.Event(), list[BaseException]()

    def write(number: int) -> None:
        chance, connection = Random(number), db.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET innodb_lock_wait_timeout = 2")
                while not done.is_set():
                    try:
                        connection.begin()
                        work(chance, cursor)
                        connection.commit()
                    except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
                        if error.args[0] in GONE:
                            return
                        connection.rollback()
                        if error.args[0] not in (1205, 1213):
                            raise
                    except pymysql.err.IntegrityError:
                        connection.rollback()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failed


def history(db: Database, start: Position, table: TableName, columns: list[str]) -> Callable[[Position], Bag]:
    """The state at any position, from the log alone, transaction by transaction."""
    begun, states = LogPosition.parse(start), [Bag()]
    poll = db.source.poll(start, {table: columns}, 1_000_000)
    log = Log(ConnectionPool(SourceSpec(SRC, db.url)), SRC, begun.head.log)
    with log.dump(begun.place) as dump:
        ends = dict[str, Place]()
        for one in log.transactions(dump):
            if isinstance(one, Run):
                ends |= zip(one.names.to_pylist(), map(Place.of, one.places.tolist()), strict=True)
            else:
                ends[one.name] = one.place
    places = [begun.place, *(ends[name] for name in poll.transactions.column(0).to_pylist())]
    assert places == sorted(places)
    assert not poll.more
    for change in told(poll, table):
        state = Counter(states[-1])
        state.update(change)
        assert min(state.values(), default=0) >= 0
        states.append(Counter({row: n for row, n in state.items() if n}))
    return lambda position: states[bisect.bisect_right(places, LogPosition.parse(position).place) - 1]


def keyed(chance: Random, cursor: pymysql.cursors.Cursor) -> None:
    number = chance.randrange(KEYS)
    if chance.random() < 0.1:
        prepared(chance, cursor, f"UPDATE t SET n = n + 100 WHERE id IN ({number}, {chance.randrange(KEYS)})")
        return
    match chance.randrange(5):
        case 0:
            cursor.execute("INSERT IGNORE INTO t VALUES (%s, %s, 0)", [number, chance.choice("aAbB")])
        case 1:
            cursor.execute("DELETE FROM t WHERE id = %s", [number])
        case 2:
            cursor.execute("UPDATE IGNORE t SET id = %s WHERE id = %s", [chance.randrange(KEYS), number])
        case 3:
            cursor.execute("UPDATE t SET n = 1 - n WHERE id IN (%s, %s)", [number, chance.randrange(KEYS)])
        case _:
            cursor.execute("UPDATE t SET n = n + 1, s = upper(s) WHERE id = %s", [number])


def prepared(chance: Random, cursor: pymysql.cursors.Cursor, statement: str) -> None:
    """In two phases: what is prepared is no longer the session's own, and is committed by its name."""
    name = f"'{chance.randbytes(8).hex()}'"
    cursor.execute("COMMIT")
    cursor.execute(f"XA START {name}")
    try:
        cursor.execute(statement)
    except pymysql.err.OperationalError:  # a deadlock: it has been rolled back, and may be ended only that way
        with suppress(pymysql.err.OperationalError):
            cursor.execute(f"XA END {name}")
        cursor.execute(f"XA ROLLBACK {name}")
        return
    cursor.execute(f"XA END {name}")
    cursor.execute(f"XA PREPARE {name}")
    cursor.execute(f"XA COMMIT {name}")


def test_every_answer_is_a_state_of_the_log(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, s varchar(9), n int)")
    columns = ["id", "s", "n"]
    decided = list[Doubts | None]()
    by_rows = moments.doubts
    monkeypatch.setattr(
        "headwater.sources.mariadb.past.decided", lambda *told: decided.append(by_rows(*told)) or decided[-1]
    )
    start = db.source.position()
    answers: list[tuple[Position, Bag]] = []
    asked: list[tuple[Position, Bag]] = []
    keys = pa.table({"id": pa.array(range(0, KEYS, 3), pa.int32())})

    def read(until: float) -> None:
        source, at = db.adapter(), start
        while time.monotonic() < until:
            answers.append((at, scanned(db, t, columns, at)))
            now = source.position()
            answers.append((now, fold(source.scan(Chunk(t, 0), columns, now))))
            asked.append((now, fold(source.ask(Question(t, ("id",), keys, tuple(columns)), now))))
            at = source.poll(now, {t: columns}, 3).end
        source.close()

    with hammered(db, keyed):
        readers = [threading.Thread(target=read, args=(time.monotonic() + 2,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    end = db.source.position()
    state = history(db, start, t, columns)
    assert Counter(db.run("SELECT id, s, n FROM t")) == state(end) == scanned(db, t, columns, end)
    assert len(answers) >= 8
    for at, found in answers:
        assert found == state(at)
    for at, found in asked:
        assert found == Counter({row: n for row, n in state(at).items() if row[0] % 3 == 0})
    assert any(one is not None and one.touched for one in decided), "no commit was ever under way: nothing was tested"


@pytest.mark.soak
def test_a_server_that_is_killed_goes_on_where_it_was(careful: MariadbServer) -> None:
    """What was told stays so: the log is on disk before anything is."""
    db = Database(careful)
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, s varchar(9), n int)")
    columns, start = ["id", "s", "n"], db.source.position()
    answers: list[tuple[Position, Bag]] = []
    for _ in range(2):
        until = time.monotonic() + 1.0
        with hammered(db, keyed):
            while time.monotonic() < until:
                at = db.source.position()
                answers.append((at, scanned(db, t, columns, at)))
            careful.stop(crash=True)
            with pytest.raises(SourceUnavailable):
                db.source.position()
        careful.start()
        db.main = db.connect()
        for form, first, second, name in db.run("XA RECOVER"):  # whoever prepared it is gone
            assert (form, second) == (1, 0)
            db.run(f"XA {'COMMIT' if int(name[:2], 16) % 2 else 'ROLLBACK'} '{name[:first]}'")
    end = db.source.position()
    state = history(db, start, t, columns)
    assert Counter(db.run("SELECT id, s, n FROM t")) == state(end) == scanned(db, t, columns, end)
    for at, found in answers:
        assert found == state(at) == scanned(db, t, columns, at)
    db.close()


def keyless(chance: Random, cursor: pymysql.cursors.Cursor) -> None:
    number = chance.randrange(5)
    if chance.random() < 0.6:
        cursor.execute("INSERT INTO h VALUES (%s, 'x'), (%s, NULL)", [number, number])
    else:
        cursor.execute("DELETE FROM h WHERE k = %s LIMIT 2", [number])


def test_without_a_primary_key_writers_are_held_up_for_a_moment(db: Database) -> None:
    h = db.captured("CREATE TABLE h (k int, s varchar(9))", "h")
    start, answers = db.source.position(), list[tuple[Position, Bag]]()
    with hammered(db, keyless):
        for _ in range(4):
            at = db.source.position()
            answers.append((at, scanned(db, h, ["k", "s"], at)))
    state = history(db, start, h, ["k", "s"])
    for at, found in answers:
        assert found == state(at)
