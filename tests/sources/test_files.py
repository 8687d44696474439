"""A folder of files that only grows: every file is a transaction, and every position is the files up to it."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from headwater.model.conditions import Condition
from headwater.model.errors import ConfigError, LifeChanged, SchemaChanged, ValueUnfit
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, ORDINAL, UNFIT, Question, SourceSpec
from headwater.sources import connect
from headwater.sources.files import listing

T = TableName(SourceName("drop"), "orders")
COLUMNS = ("id", "k", "v", "x")
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.string()), ("x", pa.float64())])
Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SETTLE", 0.0)


class World:
    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder / "orders", kind
        self.folder.mkdir()
        self.source = connect(SourceSpec(T.source, f"files:///{self.folder}/*.{kind}"))
        self.put("first", [(1, 1, "a", 0.5), (2, None, None, -1.5)])

    def put(self, name: str, rows: list[Row], aside: bool = True) -> Path:
        table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA)
        path = self.folder / f"{name}.{self.kind}"
        written = path.with_name(f".{path.name}") if aside else path
        if self.kind == "csv":
            pcsv.write_csv(table, written)
        else:
            pq.write_table(table, written)
        if aside:
            written.rename(path)
        time.sleep(0.012)  # the file system's clock ticks
        return path

    def as_of(self, at: Position) -> Counter[Row]:
        """By scanning in several parts, and by asking for every key."""
        scanned: Counter[Row] = Counter()
        for chunk in self.source.chunks(T, 3):
            for batch in self.source.scan(chunk, COLUMNS, at):
                for row in batch.to_pylist():
                    scanned[tuple(row[c] for c in COLUMNS)] += row[COUNT]
        asked: Counter[Row] = Counter()
        keys = pa.table({"k": pa.array(range(-1, 9), pa.int64())})
        for batch in self.source.ask(Question(T, ("k",), keys, COLUMNS), at):
            for row in batch.to_pylist():
                assert row["k"] == row[ORDINAL] - 1
                asked[tuple(row[c] for c in COLUMNS)] += row[COUNT]
        assert asked == Counter({row: n for row, n in scanned.items() if row[1] is not None})
        return scanned

    def told(self, after: Position, limit: int = 10**6) -> tuple[list[Counter[Row]], Position, bool]:
        poll = self.source.poll(after, {T: COLUMNS}, limit)
        found = [Counter[Row]() for _ in range(poll.transactions.num_rows)]
        for row in poll.changes[T].to_pylist():
            found[row[ORDINAL]][tuple(row[c] for c in COLUMNS)] += row[COUNT]
        return found, poll.end, poll.more


@pytest.fixture(params=["csv", "parquet"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, request.param)


def summed(*parts: Counter[Row]) -> Counter[Row]:
    whole: Counter[Row] = Counter()
    for part in parts:
        whole.update(part)
    return whole


@pytest.mark.parametrize("seed", range(3))
def test_every_position_is_exact(world: World, seed: int) -> None:
    chance, state = Random(seed), Counter({(1, 1, "a", 0.5): 1, (2, None, None, -1.5): 1})
    states = [(world.source.position(), state)]
    for n in range(12):
        rows = [(chance.randint(1, 9), chance.choice([1, 2, None]), chance.choice(["p", "q,\n", None]), 0.25)]
        world.put(f"{chance.randint(0, 99):02}-{n}", rows * chance.randint(0, 2))  # names in no order
        found, _, _ = world.told(states[-1][0])
        assert len(found) == bool(found and found[0])
        state = summed(state, *found)
        states.append((world.source.position(), state))
    for at, then in states:
        assert world.as_of(at) == then
        transactions, end, more = world.told(at)
        assert summed(then, *transactions) == states[-1][1]
        assert (end, more) == (states[-1][0], False)
    at, then, more = states[0][0], states[0][1], True
    while more:  # a few at a time, as another process that knows only its position
        world.source = connect(SourceSpec(T.source, f"files:///{world.folder}/*.{world.kind}"))
        transactions, at, more = world.told(at, 1)
        then = summed(then, *transactions)
        assert then == dict(states)[at]
    assert world.source.waiting(states[0][0]) == 12
    assert None not in world.source.commit_times([f"first.{world.kind}"])


def test_what_happens_to_files_that_were_told_is_said_with_their_names(world: World) -> None:
    second = world.put("second", [(3, 3, "c", 1.0)])
    at = world.source.position()
    world.told(at)
    os.utime(second)
    for ask in (world.told, world.as_of, lambda p: world.source.check(p, [T])):
        with pytest.raises(LifeChanged, match=r"second.* was changed"):
            ask(at)
    at = world.source.position()
    world.told(at)
    second.unlink()
    with pytest.raises(LifeChanged, match=r"second.* is gone"):
        world.told(at)
    with pytest.raises(LifeChanged, match="changed, removed or added"):
        connect(SourceSpec(T.source, f"files:///{world.folder}/*.{world.kind}")).waiting(at)


def test_a_file_that_slips_in_below_is_never_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that was set back, or a server's clock beside ours."""
    world.put("second", [(3, 3, "c", 1.0)])
    at = world.source.position()
    late = world.put("late", [(4, 4, "d", 1.0)])
    real = listing.Listing.files

    def files(self: listing.Listing) -> list[listing.File]:
        return sorted(listing.File(1, f.name, f.size) if f.name == late.name else f for f in real(self))

    monkeypatch.setattr(listing.Listing, "files", files)
    with pytest.raises(LifeChanged, match=r"late.* came late"):
        world.told(at)


def test_files_that_are_not_meant_or_not_complete_are_not_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at = world.source.position()
    for name in (f".a.{world.kind}", f"_b.{world.kind}", f"c.{world.kind}.tmp", "d.txt"):
        (world.folder / name).write_text("id\n1\n")
    (world.folder / f"folder.{world.kind}").mkdir()
    assert world.told(at) == ([], at, False)
    if world.kind == "parquet":
        whole = world.put("whole", [(5, 5, "e", 5.0)], aside=False)
        data = whole.read_bytes()
        whole.write_bytes(data[:-20])
        time.sleep(0.012)
        world.put("behind", [(6, 6, "f", 6.0)])
        assert world.told(at) == ([], at, False), "what is behind a file that is being written waits, too"
        whole.write_bytes(data)
        time.sleep(0.012)
        assert [sum(one.values()) for one in world.told(at)[0]] == [1, 1]
    monkeypatch.setattr(listing, "SETTLE", 60.0)
    world.put("young", [(7, 7, "g", 7.0)])
    assert len(world.source._listing.files()) == 0  # type: ignore[attr-defined]  # what is this young may be written yet


def test_a_value_that_does_not_fit_concerns_its_column(tmp_path: Path) -> None:
    world = World(tmp_path, "csv")
    at = world.source.position()
    (world.folder / "odd.csv").write_text("id,v,k\n3,c,1\nnot a number,d,2\n4,e,3\n")
    time.sleep(0.012)
    poll = world.source.poll(at, {T: ("id", "v", "x")}, 100)
    rows = poll.changes[T].to_pylist()
    assert [(r["id"], r["v"], r["x"]) for r in rows] == [(3, "c", None), (None, "d", None), (4, "e", None)]
    assert json.loads(rows[1][UNFIT]) == {"key": "row 2 of odd.csv", "values": {"id": "not a number"}}
    assert UNFIT not in world.source.poll(at, {T: ("v",)}, 100).changes[T].column_names
    asked = Question(T, (), pa.table({}), ("v",), (Condition("k", ">=", 2),))
    found = [row["v"] for batch in world.source.ask(asked, poll.end) for row in batch.to_pylist()]
    assert found == ["d", "e"]
    with pytest.raises(ValueUnfit, match=r"'not a number' of row 2 of odd\.csv"):
        world.as_of(poll.end)


def test_a_first_file_made_anew_is_another_table(world: World) -> None:
    world.source.expect(world.source.identities({T: COLUMNS}))
    (world.folder / f"first.{world.kind}").unlink()
    world.put("other", [(1, 1, "a", 0.5)])
    with pytest.raises(SchemaChanged):
        world.told(world.source.position())


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        connect(SourceSpec(T.source, f"files:///{tmp_path}/orders/*.csv")).describe()
    (tmp_path / "orders").mkdir()
    with pytest.raises(ConfigError, match="no file is there yet"):
        connect(SourceSpec(T.source, f"files:///{tmp_path}/orders/*.csv")).describe()
    for url in ("files:///a/*.txt", "files:///*/b.csv"):
        with pytest.raises(ConfigError, match="one folder"):
            connect(SourceSpec(T.source, url))
    (tmp_path / "other").mkdir()
    world = World(tmp_path / "other", "csv")
    assert world.source.resolve("", "Orders") == T
    assert world.source.install([T]) == []
    assert [c.type for c in world.source.describe()[T].columns] == [f.type for f in SCHEMA]
    assert world.source.describe()[T].rows == 2
    assert world.source.advice([T])
