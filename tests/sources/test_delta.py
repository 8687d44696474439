"""A Delta table as a source: every version is a transaction, and every position is the table's own past."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.model.conditions import Condition
from headwater.model.errors import ConfigError, LifeChanged, PositionTrimmed, SchemaChanged, UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import COUNT, ORDINAL, Question, SourceSpec
from headwater.sources import connect
from headwater.sources.delta import versions
from headwater.sources.delta.adapter import DeltaSource
from headwater.storage.object_store import settings

T = TableName(SourceName("lake"), "orders")
COLUMNS = ("id", "k", "v", "x")
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("v", pa.string()), ("x", pa.float64())])


def rows(*values: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in values], SCHEMA)


class World:
    def __init__(self, folder: Path | str, partitioned: bool = False) -> None:
        self.folder = f"{folder}/orders"
        by = ["k"] if partitioned else None
        self.options = settings(self.folder)
        first = rows((1, 1, "a", 0.5), (2, None, None, -0.0))
        write_deltalake(self.folder, first, partition_by=by, storage_options=self.options)
        url = f"delta+{self.folder}" if "://" in self.folder else f"delta:///{self.folder}"
        self.source = connect(SourceSpec(T.source, url))
        assert isinstance(self.source, DeltaSource)

    def append(self, *values: tuple[Any, ...]) -> None:
        write_deltalake(self.folder, rows(*values), mode="append", storage_options=self.options)

    def state(self) -> Counter[tuple[Any, ...]]:
        table = DeltaTable(self.folder, storage_options=self.options)
        return Counter(tuple(row[c] for c in COLUMNS) for row in table.to_pyarrow_table().to_pylist())

    def as_of(self, at: Position, columns: tuple[str, ...] = COLUMNS) -> Counter[tuple[Any, ...]]:
        """By scanning in several parts, and by asking for every key."""
        scanned: Counter[tuple[Any, ...]] = Counter()
        for chunk in self.source.chunks(T, 3):
            for batch in self.source.scan(chunk, columns, at):
                for row in batch.to_pylist():
                    scanned[tuple(row[c] for c in columns)] += row[COUNT]
        asked: Counter[tuple[Any, ...]] = Counter()
        keys = pa.table({"k": pa.array(range(-1, 9), pa.int32())})
        for batch in self.source.ask(Question(T, ("k",), keys, columns), at):
            for row in batch.to_pylist():
                assert row["k"] == row[ORDINAL] - 1
                asked[tuple(row[c] for c in columns)] += row[COUNT]
        assert asked == Counter({row: n for row, n in scanned.items() if row[1] is not None})
        return scanned

    def told(self, after: Position, limit: int = 1_000_000) -> tuple[list[Counter[tuple[Any, ...]]], Position, bool]:
        poll = self.source.poll(after, {T: COLUMNS}, limit)
        found = [Counter[tuple[Any, ...]]() for _ in range(poll.transactions.num_rows)]
        for row in poll.changes[T].to_pylist():
            found[row[ORDINAL]][tuple(row[c] for c in COLUMNS)] += row[COUNT]
        return found, poll.end, poll.more


def summed(*parts: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    whole: Counter[tuple[Any, ...]] = Counter()
    for part in parts:
        for row, count in part.items():
            whole[row] += count
    return Counter({row: n for row, n in whole.items() if n})


def change(world: World, chance: Random) -> None:
    table, number = DeltaTable(world.folder, storage_options=world.options), chance.randint(1, 9)
    match chance.randint(0, 7) if table.version() else 0:
        case 0 | 1 | 2:
            new = [(chance.randint(1, 9), chance.choice([1, 2, 3, None]), chance.choice("ab"), 1.5) for _ in range(3)]
            world.append(*new)
        case 3:
            table.delete(f"id = {number}")
        case 4:
            table.update({"v": "'changed'"}, predicate=f"id > {number}")
        case 5:
            table.optimize.compact()
        case 6:
            anew = rows((number, 7, "all anew", 0.0))
            write_deltalake(world.folder, anew, mode="overwrite", storage_options=world.options)
        case _:
            table.restore(chance.randint(0, table.version() - 1))


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_version_is_exact(tmp_path: Path, seed: int, partitioned: bool) -> None:
    _exact(World(tmp_path, partitioned), Random(seed))


@pytest.mark.s3
def test_every_version_is_exact_in_an_object_store(in_s3: str) -> None:
    world = World(in_s3)
    _exact(world, Random(1), 4)
    at = world.source.position()
    write_deltalake(world.folder, rows((9, 9, "i", 9.0)), mode="overwrite", storage_options=world.options)
    assert world.source.waiting(at) == 1
    nothing = connect(SourceSpec(T.source, f"delta+{in_s3}/nothing"))
    with pytest.raises(ConfigError, match="no Delta table"):
        nothing.describe()


def _exact(world: World, chance: Random, steps: int = 14) -> None:
    states = [(world.source.position(), world.state())]
    for _ in range(steps):
        change(world, chance)
        states.append((world.source.position(), world.state()))
    last = states[-1][1]
    for at, state in states:
        assert world.as_of(at) == state
        transactions, end, more = world.told(at)
        assert summed(state, *transactions) == last
        assert (end, more) == (states[-1][0], False)
    at, state = states[0]
    for _ in range(40):  # a few at a time
        transactions, at, more = world.told(at, 2)
        state = summed(state, *transactions)
        assert state == dict(states)[at]
        if not more:
            break
    assert state == last
    times = world.source.commit_times(["0", "1"])
    assert all(time is not None for time in times)


def test_conditions_and_questions_about_everything(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append((3, 3, "c", 2.0))
    condition = Condition("id", ">=", 2)
    found = list(world.source.ask(Question(T, (), pa.table({}), ("id",), (condition,)), world.source.position()))
    assert sorted(row["id"] for batch in found for row in batch.to_pylist()) == [2, 3]


def test_columns_that_come_go_and_change(tmp_path: Path) -> None:
    world = World(tmp_path)
    at = world.source.position()
    world.source.expect(world.source.identities({T: COLUMNS}))
    more = rows((5, 5, "e", 5.0)).append_column("extra", pa.array(["new"]))
    write_deltalake(world.folder, more, mode="append", schema_mode="merge")
    assert summed(*world.told(at)[0]) == {(5, 5, "e", 5.0): 1}
    later = world.source.position()
    with pytest.raises(PositionTrimmed, match="no column extra"):
        list(world.source.scan(world.source.chunks(T, 10)[0], ["id", "extra"], at))
    write_deltalake(world.folder, pa.table({"id": ["text"], "k": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaChanged):
        world.told(later)


def test_another_table_in_the_same_place_is_another_life(tmp_path: Path) -> None:
    world = World(tmp_path)
    at = world.source.position()
    shutil.rmtree(world.folder)
    write_deltalake(world.folder, rows((1, 1, "a", 0.5)))
    for ask in (world.told, world.as_of, lambda p: world.source.check(p, [T])):
        with pytest.raises(LifeChanged):
            ask(at)


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_table_that_was_made_anew_meanwhile_is_noticed(tmp_path: Path, more: int) -> None:
    """With fewer versions than the one that was kept open, as many, or more."""
    world = World(tmp_path)
    world.append((3, 3, "c", 3.0))
    at = world.source.position()
    assert world.as_of(at)
    shutil.rmtree(world.folder)
    write_deltalake(world.folder, rows((7, 7, "g", 7.0)))
    for n in range(more):
        world.append((n, 1, "x", 0.0))
    for ask in (world.told, world.as_of, world.source.waiting):
        with pytest.raises(LifeChanged):
            ask(at)
    assert world.as_of(world.source.position()) == world.state()


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    at = world.source.position()
    opened: list[object] = []
    real = versions.DeltaTable

    def counting(*args: Any, **kwargs: Any) -> DeltaTable:
        opened.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(versions, "DeltaTable", counting)
    for n in range(5):
        world.append((n, n, "x", 1.0))
        transactions, at, _ = world.told(at)
        assert len(transactions) == 1
        assert world.as_of(at) == world.state()
    assert opened == []


def test_versions_that_were_cleaned_up_are_said_to_be_gone(tmp_path: Path) -> None:
    world = World(tmp_path)
    at = world.source.position()
    write_deltalake(world.folder, rows((9, 8, "z", 9.0)), mode="overwrite")
    DeltaTable(world.folder).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(PositionTrimmed, match="VACUUM"):
        world.told(at)
    with pytest.raises(PositionTrimmed, match="VACUUM"):
        world.as_of(at)
    assert world.as_of(world.source.position()) == {(9, 8, "z", 9.0): 1}


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    nowhere = connect(SourceSpec(T.source, f"delta:///{tmp_path / 'nothing'}"))
    with pytest.raises(ConfigError, match="no Delta table"):
        nowhere.describe()
    world = World(tmp_path)
    with pytest.raises(UnknownName):
        world.source.plan_install([TableName(T.source, "other")])
    assert world.source.resolve("", "Orders") == T
    assert world.source.resolve("main", "orders") is None
    assert world.source.install([T]) == []
    assert world.source.advice([T])
    assert world.source.describe()[T].rows == 2
