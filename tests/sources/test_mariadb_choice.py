"""By log or by triggers: what the project says, what the server allows, and going over from one to the other."""

from __future__ import annotations

import pytest

from headwater.model.errors import LifeChanged, SourceRefused
from headwater.model.names import TableName
from headwater.model.source import CAPTURE, Chunk, Source, SourceSpec
from headwater.sources import connect
from mariadb_server import MariadbServer

from .log_database import SRC, Database, fold, told
from .test_mariadb_triggers import Bare

pytestmark = pytest.mark.mariadb
T = TableName(SRC, "t")


def chosen(db: Database, capture: str | None, **options: str) -> Source:
    said = ((CAPTURE, capture),) if capture else ()
    return connect(SourceSpec(SRC, db.url, (*said, *options.items())))


def works(db: Database, source: Source) -> None:
    at = source.position()
    db.run("REPLACE INTO t VALUES (1)", "DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1)")
    poll = source.poll(at, {T: ["id"]}, 100)
    assert sum(told(poll, T)[-1].values()) >= 0
    assert fold(source.scan(Chunk(T, 0), ["id"], poll.end))[(1,)] == 1
    source.trim(poll.end)


def test_without_a_log_the_log_is_refused_and_auto_takes_triggers_and_says_why(mariadb_bare: MariadbServer) -> None:
    db = Bare(mariadb_bare)
    db.run("CREATE TABLE t (id int PRIMARY KEY)")
    for capture in None, "log":
        with pytest.raises(SourceRefused, match=r'log_bin is off[\s\S]*capture = "triggers"'):
            chosen(db, capture).plan_install([T])
    source = chosen(db, "auto")
    assert any("_headwater_of_t, 3 triggers" in line for line in source.plan_install([T]))
    said = " ".join(source.advice([T]))
    assert "captured by triggers" in said
    assert "log_bin is off" in said
    assert "binlog_format = ROW" in said
    source.install([T])
    works(db, source)
    works(db, chosen(db, "triggers"))
    assert chosen(db, "auto").plan_install([T]) == []
    before = db.run("SHOW TABLES")
    assert len(before) > 5
    assert source.remove()
    assert db.run("SHOW TABLES") == (("t",),)
    assert db.run("SHOW TRIGGERS") == ()
    db.close()


def test_with_a_log_auto_takes_it_and_stays_with_what_is_there(mariadb: MariadbServer) -> None:
    db = Database(mariadb)
    db.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = chosen(db, "auto")
    assert any("from the server's log" in line for line in source.plan_install([T]))
    source.install([T])
    works(db, source)
    assert db.run("SHOW TRIGGERS") == ()
    source.remove()
    chosen(db, "triggers").install([T])
    again = chosen(db, "auto")
    assert again.plan_install([T]) == []
    works(db, again)
    assert "could be captured by its log now" in " ".join(again.advice([T]))
    again.remove()
    assert db.run("SHOW TABLES") == (("t",),)
    db.close()


def test_going_over_begins_anew_and_no_position_of_the_other_way_is_answered(mariadb: MariadbServer) -> None:
    """And other projects keep what they have."""
    db = Database(mariadb)
    db.run("CREATE TABLE t (id int PRIMARY KEY)")
    log, triggers = chosen(db, "log"), chosen(db, "triggers")
    other = chosen(db, "log", owner="other")
    for one in log, other:
        one.install([T])
    by_log, others = log.position(), other.position()
    assert triggers.capture() is None
    planned = triggers.plan_install([T])
    assert "views over this source are loaded again" in planned[-1]
    assert triggers.install([T]) == planned
    assert triggers.plan_install([T]) == []
    for ask in (
        lambda: triggers.poll(by_log, {T: ["id"]}, 10),
        lambda: triggers.check(by_log, [T]),
        lambda: list(triggers.scan(Chunk(T, 0), ["id"], by_log)),
        lambda: triggers.trim(by_log),
    ):
        with pytest.raises(LifeChanged, match="apply"):
            ask()
    works(db, triggers)
    db.run("BEGIN", "INSERT INTO _headwater_parts VALUES (DEFAULT, 'g', 2)", "INSERT INTO t VALUES (7)", "COMMIT")
    for source, at in ((triggers, None), (other, others)):
        poll = source.poll(at or triggers.position(), {T: ["id"]}, 100)
        assert at is None or "g" in poll.transactions.column("global_id").to_pylist()
    by_triggers = triggers.position()
    assert "views over this source are loaded again" in log.install([T])[-1]
    assert db.run("SHOW TRIGGERS") == ()
    with pytest.raises(LifeChanged, match="apply"):
        log.poll(by_triggers, {T: ["id"]}, 10)
    works(db, log)
    db.run("INSERT INTO _headwater_parts VALUES (DEFAULT, 'still', 2)")
    assert "still" in other.poll(others, {T: ["id"]}, 100).transactions.column("global_id").to_pylist()
    triggers.install([T])
    assert other.remove()
    db.run("INSERT INTO _headwater_parts VALUES (DEFAULT, 'and still', 2)")
    assert triggers.poll(triggers.position(), {T: ["id"]}, 100).transactions.num_rows == 0
    triggers.remove()
    assert db.run("SHOW TABLES") == (("t",),)
    db.close()


@pytest.mark.mysql
def test_mysql_is_captured_by_its_log_only(mysql: MariadbServer) -> None:
    db = Database(mysql)
    db.run("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(SourceRefused, match="MySQL, which is captured by its log only"):
        chosen(db, "triggers").plan_install([T])
    source = chosen(db, "auto")
    assert any("from the server's log" in line for line in source.plan_install([T]))
    source.install([T])
    assert source.capture().tables == {T}  # type: ignore[union-attr]  # it is installed
    source.remove()
    assert db.run("SHOW TABLES") == (("t",),)
    db.close()
