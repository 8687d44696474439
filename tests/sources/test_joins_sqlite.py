"""Join questions at SQLite: values that do not fit their type, collations, and one read for all tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.model.errors import ValueUnfit
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import Joined, JoinQuestion
from headwater.sources.sqlite.adapter import SqliteSource

from .rigs import SqliteRig
from .world import fold

LEFT, RIGHT = TableName(SourceName("src"), "l"), TableName(SourceName("src"), "r")


@pytest.fixture(params=["wal", "delete"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteRig:
    return SqliteRig(tmp_path / "rig.db", request.param)


def made(rig: SqliteRig, *statements: str) -> Any:
    rig.run(*statements)
    source = rig.source()
    source.install([LEFT, RIGHT])
    return source


def question(key: str = "k", told: tuple[str, ...] = ("id",), keys: int = 10) -> JoinQuestion:
    tables = (Joined(LEFT, ("id",)), Joined(RIGHT, told, on=((key, 0, key),)))
    names = ("l", "r", *told[1:])
    return JoinQuestion(tables, ((0, "id"),), pa.table({"id": pa.array(range(keys), pa.int64())}), names)


def joined(source: Any, asked: JoinQuestion, at: Position) -> Counter[Any]:
    return fold(source.ask_join(asked, at), ["l", "r"])


def test_text_is_joined_exactly_whatever_the_collation(rig: SqliteRig) -> None:
    source = made(
        rig,
        "CREATE TABLE l (id INTEGER PRIMARY KEY, k TEXT COLLATE NOCASE)",
        "CREATE TABLE r (id INTEGER PRIMARY KEY, k TEXT COLLATE NOCASE)",
        "CREATE INDEX i ON r (k)",
        "INSERT INTO l VALUES (1, 'abc'), (2, 'ABC'), (3, 'abc '), (4, NULL)",
        "INSERT INTO r VALUES (5, 'abc'), (6, 'ABC'), (7, 'Abc'), (8, NULL)",
    )
    at = source.position()
    expected = Counter({(1, 5): 1, (2, 6): 1})
    assert joined(source, question(), at) == expected
    rig.run("DELETE FROM l WHERE id = 2", "UPDATE r SET k = 'abc'")
    assert joined(source, question(), at) == expected
    assert joined(source, question(), source.position()) == Counter({(1, n): 1 for n in (5, 6, 7, 8)})


def test_values_that_do_not_fit(rig: SqliteRig) -> None:
    """Told, they raise; as what a table is reached by, they equal nothing; taken back or not asked for, they are none
    of our business."""
    source = made(
        rig,
        "CREATE TABLE l (id INTEGER PRIMARY KEY, k INTEGER)",
        "CREATE TABLE r (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER)",
        "CREATE INDEX i ON r (k)",
        "INSERT INTO l VALUES (1, 1), (2, 2), (30, 'odd')",
        "INSERT INTO r VALUES (5, 1, 7), (6, 'odd', 8), (7, 3, 'odd')",
    )
    at = source.position()
    asked = question(told=("id", "x"))
    assert joined(source, asked, at) == Counter({(1, 5): 1})
    rig.run("UPDATE r SET x = 'odd' WHERE id = 5")
    assert joined(source, asked, at) == Counter({(1, 5): 1})
    with pytest.raises(ValueUnfit, match=r"src\.r\.x holds 'odd' in the row id = 5"):
        joined(source, asked, source.position())
    assert joined(source, question(), source.position()) == Counter({(1, 5): 1})
    rig.run("UPDATE l SET k = 'odd' WHERE id = 2")
    with pytest.raises(ValueUnfit, match=r"src\.l\.k"):  # asked for, and not to be compared with anything
        joined(source, question(), source.position())


def test_all_tables_are_read_in_one_transaction(rig: SqliteRig, monkeypatch: pytest.MonkeyPatch) -> None:
    source = made(
        rig,
        "CREATE TABLE l (id INTEGER PRIMARY KEY, k INTEGER)",
        "CREATE TABLE r (id INTEGER PRIMARY KEY, k INTEGER)",
        "CREATE INDEX i ON r (k)",
        "INSERT INTO l VALUES (1, 1)",
        "INSERT INTO r VALUES (5, 1)",
    )
    looked: list[int] = []
    as_of = SqliteSource._as_of
    monkeypatch.setattr(SqliteSource, "_as_of", lambda *given: looked.append(1) or as_of(*given))
    assert joined(source, question(), source.position()) == Counter({(1, 5): 1})
    assert len(looked) == 1
