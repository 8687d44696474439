"""What a SQLite file must prove before it is believed: its life, its columns, its capture, whose it is."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.model.errors import (
    CaptureMissing,
    LifeChanged,
    PositionTrimmed,
    SchemaChanged,
    SourceUnavailable,
    ValueUnfit,
)
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, UNFIT, Chunk, Question, SourceSpec
from headwater.sources.sqlite import adapter
from headwater.sources.sqlite.adapter import SqliteSource

from .rigs import SqliteRig, application
from .world import added, fold

SRC = SourceName("src")
T = TableName(SRC, "t")
COPY = (
    "CREATE TABLE fresh (id INTEGER PRIMARY KEY, s TEXT)",
    "INSERT INTO fresh SELECT * FROM t",
    "DROP TABLE t",
    "ALTER TABLE fresh RENAME TO t",
)


@pytest.fixture(params=["wal", "delete"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteRig:
    found = SqliteRig(tmp_path / "app.db", request.param)
    found.run("CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)", "CREATE TABLE other (id INTEGER PRIMARY KEY)")
    return found


def project(rig: SqliteRig, owner: str = "", label: str = "", path: Path | None = None) -> Any:
    options = (("owner", owner), ("owner_label", label))
    return SqliteSource(SourceSpec(SRC, f"sqlite:///{path or rig.path}", options))


def installed(rig: SqliteRig, *tables: TableName) -> Any:
    source = rig.source()
    source.install(tables or (T,))
    return source


def insert(*ids: int, table: str = "t") -> list[str]:
    return [f"INSERT INTO {table} (id) VALUES ({n})" for n in ids]


def state(source: Any, at: Position, columns: tuple[str, ...] = ("id",), table: TableName = T) -> Counter[Any]:
    return added(*(fold(source.scan(chunk, columns, at), columns) for chunk in source.chunks(table, 100)))


def asked(source: Any, at: Position, *ids: int, columns: tuple[str, ...] = ("id",)) -> Counter[Any]:
    question = Question(T, ("id",), pa.table({"id": pa.array(ids, pa.int64())}), columns)
    return fold(source.ask(question, at), columns)


def every_read(source: Any, at: Position) -> list[Any]:
    """Each way to read as of a position."""
    everything = Chunk(T, 0)
    return [
        lambda: source.poll(at, {T: ["id"]}, 10),
        lambda: list(source.scan(everything, ["id"], at)),
        lambda: asked(source, at, 1),
        lambda: source.check(at, [T]),
    ]


def all_raise(kind: type[Exception], source: Any, at: Position, match: str | None = None) -> None:
    for read in every_read(source, at):
        with pytest.raises(kind, match=match):
            read()


def backup(path: str, to: str) -> None:
    """In the application's process, through SQLite's own backup."""
    with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(to)) as there:
        here.backup(there)


def save(rig: SqliteRig, name: str = "backup.db") -> Path:
    path = rig.path.with_name(name)
    application().submit(backup, str(rig.path), str(path)).result()
    return path


def put_back(rig: SqliteRig, saved: Path, how: str) -> None:
    """As people do it: the application is stopped, the file is replaced, and what was beside it is taken away."""
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{rig.path}{suffix}").unlink(missing_ok=True)
    if how == "mv":
        saved.replace(rig.path)
    elif how == "cp":
        shutil.copyfile(saved, rig.path)  # the same inode
    else:
        rig.path.unlink()
        shutil.copyfile(saved, rig.path)


# ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["mv", "rm and cp", "cp"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("later", [0, 3, 9], ids=["behind", "at the same id", "past it"])
def test_a_restored_backup_is_noticed(rig: SqliteRig, how: str, running: bool, later: int) -> None:
    source = installed(rig)
    rig.run(*insert(1, 2))
    common, saved = source.position(), save(rig)
    rig.run(*insert(3, 4, 5))
    at = source.position()
    assert state(source, at).total() == 5
    if not running:
        source.close()
    put_back(rig, saved, how)
    if later:
        rig.run(*insert(*range(100, 100 + later)))
    all_raise(LifeChanged, source, at, "backup")
    with pytest.raises(LifeChanged, match="apply"):
        source.trim(at)
    assert state(source, common) == Counter([(1,), (2,)]), "what both pasts share can be read"
    assert fold(source.poll(common, {T: ["id"]}, 99).changes.values(), ["id"]).total() == later


def test_a_copy_that_continues_is_the_same_life(rig: SqliteRig) -> None:
    source = installed(rig)
    rig.run(*insert(1, 2))
    at, saved = source.position(), save(rig, "moved.db")
    moved = project(rig, path=saved)
    assert moved.position() == at
    assert state(moved, at) == Counter([(1,), (2,)])


def test_trimming_keeps_the_witness(rig: SqliteRig) -> None:
    source = installed(rig)
    rig.run(*insert(1, 2))
    middle, saved = source.position(), save(rig)
    rig.run(*insert(3))
    at = source.position()
    source.trim(middle)
    assert state(source, middle) == Counter([(1,), (2,)])
    source.trim(at)
    assert state(source, at).total() == 3
    put_back(rig, saved, "mv")
    rig.run(*insert(7))
    all_raise(LifeChanged, source, at)


def test_capture_installed_anew_is_another_life(rig: SqliteRig) -> None:
    source = installed(rig)
    rig.run(*insert(1))
    at = source.position()
    source.remove()
    source.install([T])
    rig.run(*insert(2, 3))
    all_raise(LifeChanged, source, at, "anew")
    all_raise(LifeChanged, source, Position("1"))


def test_an_emptied_file_is_noticed(rig: SqliteRig) -> None:
    source = installed(rig)
    rig.run(*insert(1))
    at = source.position()
    source.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{rig.path}{suffix}").unlink(missing_ok=True)
    rig.path.write_bytes(b"")
    all_raise(LifeChanged, source, at, "empty")


def test_a_file_cut_off_is_noticed(tmp_path: Path) -> None:
    rig = SqliteRig(tmp_path / "app.db", "delete")
    rig.run("CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)")
    source = installed(rig)
    rig.run(*insert(*range(2000)))
    at = source.position()
    whole = rig.path.read_bytes()
    rig.path.write_bytes(whole[: len(whole) // 2 // 4096 * 4096])
    with pytest.raises((SourceUnavailable, LifeChanged)):
        state(source, at)
    rig.path.write_bytes(whole)
    assert state(source, at).total() == 2000


# ── capture that breaks, and columns that are others ─────────────────────────────────────────────────────────────

HARMS = {
    "a trigger dropped": ("DROP TRIGGER _headwater_1_insert",),
    "rebuilt": COPY,
    "a unique key added": ("CREATE UNIQUE INDEX later ON t (s)",),
    "a trigger that comes first": ("CREATE TRIGGER mine AFTER INSERT ON t BEGIN SELECT RAISE(IGNORE); END",),
    "entangled": ("CREATE TRIGGER mine BEFORE UPDATE ON t BEGIN UPDATE t SET s = 'x' WHERE id = 9; END",),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_breaks_capture_stops_the_next_read_of_that_table_only(rig: SqliteRig, harm: str) -> None:
    source = installed(rig, T, TableName(SRC, "other"))
    rig.run(*insert(1))
    at = source.position()
    for read in every_read(source, at):
        read()
    expected = source.identities({T: ["id", "s"]})
    source.expect(expected)
    rig.run(*HARMS[harm], *insert(2), *insert(3, table="other"))
    all_raise(CaptureMissing, source, at, "setup")
    other = TableName(SRC, "other")
    assert fold(source.poll(at, {other: ["id"]}, 10).changes.values(), ["id"]) == Counter([(3,)])
    named = source.capture().broken[T]
    assert "mine" in named or "mine" not in HARMS[harm][0], "the trigger is named"

    source.install([T])
    assert source.capture().tables == {T, other}
    for read in every_read(source, at)[:3]:
        with pytest.raises(SchemaChanged, match="apply"):  # silent before: what happened in between is unknown
            read()
    source.expect(source.identities({T: ["id", "s"]}))
    now = source.position()
    rig.run(*insert(50))
    assert fold(source.poll(now, {T: ["id"]}, 10).changes.values(), ["id"]) == Counter([(50,)])


def test_renamed_tables_and_columns_are_noticed_at_once(rig: SqliteRig) -> None:
    source = installed(rig)
    at = source.position()
    rig.run("ALTER TABLE t RENAME COLUMN s TO z", *insert(1))
    with pytest.raises(SchemaChanged, match=r"src\.t\.s"):
        source.poll(at, {T: ["id", "s"]}, 10)
    with pytest.raises(SchemaChanged):
        source.identities({T: ["s"]})
    rig.run("ALTER TABLE t RENAME TO elsewhere")
    with pytest.raises(SchemaChanged, match=r"src\.t is gone"):
        source.poll(at, {T: ["id"]}, 10)
    elsewhere = TableName(SRC, "elsewhere")
    assert any("stop capturing t" in line for line in source.plan_install([elsewhere]))
    source.install([elsewhere])
    assert {name for (name,) in rig.run("SELECT name FROM sqlite_master WHERE name GLOB '_headwater_1_*'")[0]} == set()


def test_identities_last_as_long_as_capture(rig: SqliteRig) -> None:
    source = installed(rig)
    first = source.identities({T: ["id", "s"]})
    rig.run("ALTER TABLE t ADD COLUMN x TEXT", *insert(1))
    source.install([T])
    again = source.identities({T: ["id", "s", "x"]})
    assert all(not first[T][c].became(again[T][c]) for c in ("id", "s"))
    with pytest.raises(CaptureMissing):
        source.identities({TableName(SRC, "other"): ["id"]})
    with pytest.raises(SchemaChanged):
        source.identities({T: ["nowhere"]})


def test_harmless_changes_of_the_schema_pass(rig: SqliteRig) -> None:
    source = installed(rig)
    at = source.position()
    rig.run(
        "CREATE TABLE later (x)",
        "CREATE INDEX plain ON t (s)",
        "CREATE TRIGGER audit BEFORE INSERT ON t BEGIN INSERT INTO later VALUES (NEW.id); END",
        "ALTER TABLE t ADD COLUMN x TEXT",
        "VACUUM",
        *insert(1),
    )
    for read in every_read(source, at):
        read()
    assert fold(source.poll(at, {T: ["id"]}, 10).changes.values(), ["id"]) == Counter([(1,)])


def test_the_old_format_is_broken_and_replaced(rig: SqliteRig) -> None:
    rig.run(
        "CREATE TABLE _headwater_meta (generation TEXT, trimmed INTEGER, tx INTEGER)",
        "CREATE TABLE _headwater_tables (number INTEGER PRIMARY KEY, name TEXT, columns TEXT, triggers TEXT,"
        " uniques TEXT)",
        "CREATE TABLE _headwater_changes (id INTEGER PRIMARY KEY, tx INTEGER, tbl INTEGER, at, count INTEGER, c0)",
        "CREATE TABLE _headwater_stash (tbl INTEGER, rid, c0)",
        "INSERT INTO _headwater_meta VALUES ('old', 0, 0)",
        """INSERT INTO _headwater_tables VALUES (1, 't', '[["id", "INTEGER", 0]]', '{}', '[]')""",
        "CREATE TRIGGER _headwater_1_insert AFTER INSERT ON t BEGIN INSERT INTO _headwater_changes"
        " (tx, tbl, at, count, c0) VALUES (0, 1, 0, 1, NEW.id); END",
    )
    source: Any = rig.source()
    found = source.capture()
    assert not found.tables
    assert "was installed by an older Headwater; run 'headwater setup'" in found.broken[T]
    all_raise(CaptureMissing, source, Position("0"), "older Headwater")
    assert source.plan_install([T])
    source.install([T])
    assert source.capture().tables == {T}
    at = source.position()
    rig.run(*insert(1))
    assert fold(source.poll(at, {T: ["id"]}, 10).changes.values(), ["id"]) == Counter([(1,)])
    source.remove()
    assert not [o for o in rig.objects() if "_headwater" in o]


# ── owners ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_projects_share_a_file(rig: SqliteRig) -> None:
    other = TableName(SRC, "other")
    before = rig.objects()
    a, b = project(rig, "a", "/projects/a"), project(rig, "b", "/projects/b")
    a.install([T])
    start = a.position()
    assert b.capture().tables == frozenset()
    assert b.capture().others == ("/projects/a",)
    with pytest.raises(CaptureMissing, match="this project"):
        b.poll(start, {T: ["id"]}, 10)
    assert b.plan_install([T, other])
    b.install([T, other])
    assert b.plan_install([T, other]) == []
    assert a.capture().tables == {T}
    assert b.capture().tables == {T, other}
    rig.run(*insert(*range(10)))
    middle = a.position()
    rig.run(*insert(*range(10, 20)))
    assert a.trim(middle) == 0, "the other one still needs it"
    assert fold(b.poll(start, {T: ["id"]}, 99).changes.values(), ["id"]).total() == 20
    with pytest.raises(PositionTrimmed):
        a.poll(start, {T: ["id"]}, 99)
    assert b.trim(middle) == 9, "all but the witness"
    assert fold(a.poll(middle, {T: ["id"]}, 99).changes.values(), ["id"]).total() == 10

    assert b.release([other]) == [], "the first project needs t"
    assert b.capture().tables == {other}
    assert b.release([other]) == []
    assert a.release([]) == ["stop capturing t"]
    assert a.remove() == []
    assert a.remove() == []
    assert b.capture().tables == {other}
    assert b.capture().others == ()
    assert b.remove()
    assert rig.objects() == before


def test_a_project_takes_the_place_of_one_with_its_label(rig: SqliteRig) -> None:
    old, new = project(rig, "old", "/projects/a"), project(rig, "new", "/projects/a")
    other = TableName(SRC, "other")
    old.install([T, other])
    assert "take the place of /projects/a" in new.plan_install([T])
    new.install([T])
    assert new.capture().others == ()
    assert new.capture().tables == {T}
    assert old.capture().tables == frozenset()
    assert not [o for o in rig.objects() if "_headwater_2_" in o], "nobody needs the other table"
    new.remove()
    assert not [o for o in rig.objects() if "_headwater" in o]


# ── values that do not fit ───────────────────────────────────────────────────────────────────────────────────────

ODD: dict[str, tuple[str, str, str]] = {
    "text in INTEGER": ("INTEGER", "'abc'", "'abc'"),
    "arithmetic": ("DECIMAL(10,2)", "0.1 + 0.2", "0.30000000000000004"),
    "a date": ("DATE", "'2023-02-29'", "'2023-02-29'"),
    "a time without zone": ("TIMESTAMPTZ", "'2024-02-29 01:02:03'", "'2024-02-29 01:02:03'"),
    "not UTF-8": ("TEXT", "CAST(X'61FF' AS TEXT)", "CAST(X'61FF' AS TEXT)"),
    "not UTF-8 in INTEGER": ("INTEGER", "CAST(X'61FF' AS TEXT)", "'a\ufffd'"),
    "a blob": ("TEXT", "X'01'", "X'01'"),
    "a boolean": ("BOOLEAN", "7", "7"),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_value_concerns_its_row_and_column_only(rig: SqliteRig, kind: str) -> None:
    declared, value, shown = ODD[kind]
    rig.run("DROP TABLE t", f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared}, n INTEGER)")
    source = installed(rig)
    start = source.position()
    rig.run("INSERT INTO t VALUES (16, NULL, 1), (18, NULL, 1)", f"INSERT INTO t VALUES (17, {value}, 5)")
    at = source.position()
    (rows,) = source.poll(start, {T: ["n", "v"]}, 10).changes.values()
    told = {row["n"]: row for row in rows.to_pylist()}
    assert told[5]["v"] is None
    assert told[1][UNFIT] is None
    assert json.loads(told[5][UNFIT]) == {"key": "id = 17", "values": {"v": shown}}
    (rows,) = source.poll(start, {T: ["n"]}, 10).changes.values()
    assert UNFIT not in rows.column_names, "nobody asked for the column"

    for read in (lambda: state(source, at, ("n", "v")), lambda: asked(source, at, 17, columns=("v",))):
        with pytest.raises(ValueUnfit, match=r"src\.t\.v") as caught:
            read()
        assert shown in str(caught.value)
        if kind != "not UTF-8 in INTEGER":
            assert "id = 17" in str(caught.value)
    assert asked(source, at, 16, 18, columns=("n", "v")) == Counter({(1, None): 2}), "other rows are fine"
    assert state(source, start, ("n", "v")) == Counter(), "it came later"
    rig.run("UPDATE t SET v = NULL WHERE id = 17")
    now = source.position()
    assert state(source, now, ("n", "v")).total() == 3
    assert state(source, start, ("n", "v")) == Counter(), "it came and went"
    with pytest.raises(ValueUnfit):
        state(source, at, ("v",))


def test_many_odd_values(rig: SqliteRig) -> None:
    rig.run("DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY, v DATE, n INTEGER)")
    source = installed(rig)
    start = source.position()
    rig.run(
        "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 3000)"
        " INSERT INTO t SELECT n, CASE n % 3 WHEN 0 THEN '2024-01-01' WHEN 1 THEN 'soon' ELSE 5 END, n FROM i"
    )
    (rows,) = source.poll(start, {T: ["v", "n"]}, 10**6).changes.values()
    assert rows.column(UNFIT).null_count == 1000
    assert rows.column("v").null_count == 2000
    assert sum(rows.column(COUNT).to_pylist()) == 3000


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_advice_names_the_journal_mode(rig: SqliteRig) -> None:
    advice = installed(rig).advice([T])
    if rig.name == "sqlite-wal":
        assert advice == []
    else:
        assert "PRAGMA journal_mode = WAL" in advice[0]
        rig.run("PRAGMA journal_mode = WAL")
        assert rig.source().advice([T]) == []


@pytest.mark.parametrize("key", ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY", "TEXT COLLATE NOCASE PRIMARY KEY"])
def test_long_answers_are_many_short_reads(rig: SqliteRig, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each exact as of the position, whatever is written in between."""
    monkeypatch.setattr(adapter, "SHORT_ROWS", 7)
    monkeypatch.setattr(adapter, "SHORT_KEYS", 5)
    rig.run("DROP TABLE t", f"CREATE TABLE t (id {key}, s INTEGER)")
    rig.run(*(f"INSERT INTO t VALUES ({n}, {n})" for n in range(60)))
    source = installed(rig)
    at = source.position()
    before = Counter([(n,) for n in range(60)])
    half = source.scan(source.chunks(T, 1000)[0], ["s"], at)
    got = [next(half)]
    rig.run("UPDATE t SET id = id + 500 WHERE s % 3 = 0", "DELETE FROM t WHERE s % 5 = 0", *insert(1000))
    got += half
    assert fold(got, ["s"]) == before
    kind = pa.int64() if key.startswith("INTEGER") else pa.string()
    keys = pa.array([str(n) if kind == pa.string() else n for n in range(60)], kind)
    answer = source.ask(Question(T, ("id",), pa.table({"id": keys}), ("s",)), at)
    assert fold(answer, ["s"]) == before
    assert source.position() != at
