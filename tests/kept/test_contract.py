"""The contract of kept relations: memory looks at every row; files must answer the same, however they are cut."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.kept import files, places, ranks, runs
from headwater.kept.contract import BELOW, KEY
from headwater.kept.files import FilesKept
from headwater.kept.heads import Ordered, heads
from headwater.kept.memory import MemoryKept
from headwater.model.changelog import COUNT, SEQ
from headwater.storage import Storage

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [None, -(2**63), -1, 0, 1, 7, 2**63 - 1]),
    "text": (pa.string(), [None, "", "a", "A", "ä", "z" * 40, "\U0001f600"]),
    "float": (pa.float64(), [None, float("-inf"), -1.5, 0.0, 2.5, float("inf"), float("nan")]),
    "decimal": (pa.decimal128(20, 3), [None, Decimal("-1.001"), Decimal("0.000"), Decimal("7.125")]),
    "instant": (pa.timestamp("us", "UTC"), [None, *(dt.datetime(2020, 1, d, tzinfo=dt.UTC) for d in (1, 2, 3))]),
    "day": (pa.date32(), [None, dt.date(1, 1, 1), dt.date(2020, 2, 29)]),
    "yes": (pa.bool_(), [None, True, False]),
    "bytes": (pa.binary(), [None, b"", b"\x00", b"\xff\x00"]),
}


@pytest.fixture(autouse=True, params=[0, 10**9], ids=["mapped", "in memory"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(files, "SMALL_ROWS", request.param)
    monkeypatch.setattr(files, "FIRST", 2)
    monkeypatch.setattr(files, "TOGETHER", 2)
    monkeypatch.setattr(places, "WHOLE", 0)
    monkeypatch.setattr(ranks, "PIVOTS", 2)
    yield
    files._open.clear()


def schema(kinds: list[str]) -> pa.Schema:
    columns = [pa.field(f"c{i}", TYPES[kind][0]) for i, kind in enumerate(kinds)]
    return pa.schema([*columns, pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])


def changelog(kinds: list[str], rows: int, chance: random.Random) -> pa.Table:
    made = {f"c{i}": [chance.choice(TYPES[kind][1]) for _ in range(rows)] for i, kind in enumerate(kinds)}
    counts = [chance.choice([1, 1, 2, -1]) for _ in range(rows)]
    return pa.table({**made, COUNT: counts, SEQ: [chance.randrange(9) for _ in range(rows)]}, schema=schema(kinds))


def kept_in_files(folder: Path, log: pa.Table, at: int | None, chance: random.Random) -> FilesKept:
    """The changelog cut into files, some of them empty."""
    storage = Storage(str(folder))
    cuts = sorted(chance.randrange(log.num_rows + 1) for _ in range(chance.randrange(4)))
    paths = []
    for n, (low, high) in enumerate(zip([0, *cuts], [*cuts, log.num_rows], strict=True)):
        paths.append(storage.path(f"t{n}.parquet"))
        pq.write_table(log.slice(low, high - low), paths[-1])
    return FilesKept(storage, log.schema, paths, at)


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("seed", range(40))
def test_files_answer_as_memory_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kinds = [chance.choice(list(TYPES)) for _ in range(chance.randint(2, 4))]
    log = changelog(kinds, chance.choice([0, 1, 30, 400]), chance)
    at = chance.choice([None, 4])
    memory, stored = MemoryKept(log, at), kept_in_files(tmp_path, log, at, chance)
    by = [f"c{i}" for i in range(len(kinds) - 1)]
    wanted = {c: [chance.choice(TYPES[k][1]) for _ in range(6)] for c, k in zip(by, kinds, strict=False)}
    keys = pa.table(wanted, schema=pa.schema([log.schema.field(c) for c in by])).group_by(by).aggregate([])
    for _ in range(2):  # the second time everything is at hand
        assert rows(stored.found(by, keys)) == rows(memory.found(by, keys))
    twice = pa.concat_tables([keys, keys])
    assert rows(stored.found(by, twice)) == rows(memory.found(by, twice)) == rows(memory.found(by, keys))
    assert rows(stored.found([], pa.table({}))) == rows(memory.found([], pa.table({})))
    assert rows(stored.found(by, keys, ["c0"])) == rows(memory.found(by, keys, ["c0"]))
    value = f"c{len(kinds) - 1}"
    for last in (False, True):
        number = np.array([chance.randint(1, 4) for _ in range(keys.num_rows)])
        answer = stored.first(by, keys, value, number, last)
        everything = memory.first(by, keys, value, number + 1000, last)
        assert memory.first(by, keys, value, number, last).num_rows <= number.sum()
        for key, wanted_values in enumerate(number):
            some, every = (_of(table, key, last) for table in (answer, everything))
            assert len(some) >= min(wanted_values, len(every))
            assert some == every[: len(some)]


def _of(table: pa.Table, key: int, last: bool) -> list[str]:
    """The values of a key and their counts, in order; NaN is the largest."""
    found = [row for row in table.to_pylist() if row[KEY] == key]
    value = next((n for n in table.column_names if n not in (KEY, COUNT)), "")
    found.sort(key=lambda row: (row[value] != row[value], row[value] if row[value] == row[value] else 0), reverse=last)
    return [repr((row[value], row[COUNT])) for row in found]


def history(kinds: list[str], rows: int, chance: random.Random) -> pa.Table:
    """A changelog in which nothing goes that is not there, in any order of its rows."""
    held: list[tuple[Any, ...]] = []
    made: list[tuple[Any, ...]] = []
    for n in range(rows):
        if held and chance.random() < 0.4:
            made.append((*held.pop(chance.randrange(len(held))), -1, n * 9 // rows))
        else:
            held.append(tuple(chance.choice(TYPES[kind][1]) for kind in kinds))
            made.append((*held[-1], 1, n * 9 // rows))
    chance.shuffle(made)
    columns = zip(*made, strict=True) if made else [[] for _ in (*kinds, COUNT, SEQ)]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema(kinds), strict=True)], schema=schema(kinds))


@pytest.mark.parametrize("seed", range(32))
def test_places_hold_what_memory_finds_there(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of some places, and what lies below; the same where different keys have one hash."""
    chance = random.Random(seed)
    if seed % 2:
        few = [(where, where.hashes) for where in (places, runs)]
        for where, real in few:
            monkeypatch.setattr(where, "hashes", lambda rows, real=real: real(rows) % 2)
    kinds = [chance.choice(["whole", "text", "day"]), list(TYPES)[seed % len(TYPES)]]
    log, at = history(kinds, chance.choice([0, 1, 60, 500]), chance), chance.choice([None, 4])
    memory, stored = MemoryKept(log, at), kept_in_files(tmp_path, log, at, chance)
    by = ["c0"] if seed % 5 else []
    wanted = [chance.choice(TYPES[kinds[0]][1]) for _ in range(6)]  # some twice
    keys = pa.table({"c0": pa.array(wanted, TYPES[kinds[0]][0])}).select(by)
    low = np.array([chance.randrange(50) for _ in wanted])
    high = low + np.array([chance.choice([0, 0, 3, 40]) for _ in wanted])
    everything = memory.ranked(by, keys, "c1", low * 0, high * 0 + 10**6)
    for _ in range(2):
        asked, few_ = stored.ranked(by, keys, "c1", low, high), memory.ranked(by, keys, "c1", low, high)
        assert {BELOW, COUNT, KEY, "c1"} == set(asked.column_names)
        for key in range(len(wanted)):
            some, least, every = (
                [repr((r["c1"], r[COUNT], r[BELOW])) for r in rows.to_pylist() if r[KEY] == key]
                for rows in (asked, few_, everything)
            )
            begin = every.index(some[0]) if some else 0
            assert some == every[begin : begin + len(some)], "as they stand, none left out in between"
            assert set(least) <= set(some)


def test_a_key_that_is_not_there_has_no_places_though_another_has_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in (places, runs):
        monkeypatch.setattr(where, "hashes", lambda rows: np.zeros(rows.num_rows, np.int64))
    log = pa.table({"c0": [1, 1], "c1": [5, 6], COUNT: [1, 1], SEQ: [0, 0]})
    stored = kept_in_files(tmp_path, log, None, random.Random(0))
    keys = pa.table({"c0": pa.array([2, 1], pa.int64())})
    assert stored.ranked(["c0"], keys, "c1", np.array([0, 0]), np.array([9, 9])).column(KEY).to_pylist() == [1, 1]


def test_only_what_stands_around_a_place_is_read(tmp_path: Path) -> None:
    many = 50_000
    log = pa.table(
        {
            "c0": np.zeros(many, np.int64),
            "c1": np.arange(many) * 7919 % many,
            COUNT: np.ones(many, np.int64),
            SEQ: np.zeros(many, int),
        }
    )
    stored = kept_in_files(tmp_path, log, None, random.Random(0))
    keys = pa.table({"c0": pa.array([0, 0], pa.int64())})
    answer = stored.ranked(["c0"], keys, "c1", np.array([24_990, 7]), np.array([25_010, 7]))
    assert answer.to_pydict() == {
        KEY: [0] * 21 + [1],
        "c1": [*range(24_990, 25_011), 7],
        COUNT: [1] * 22,
        BELOW: [*range(24_990, 25_011), 7],
    }


def test_a_copy_that_is_torn_is_made_again(tmp_path: Path) -> None:
    log = changelog(["whole", "text"], 50, random.Random(1))
    stored = kept_in_files(tmp_path, log, None, random.Random(1))
    keys = pa.table({"c0": pa.array([1, 7], pa.int64())})
    before, placed = rows(stored.found(["c0"], keys)), rows(_some(stored, keys))
    files._open.clear()
    for copy in (tmp_path / "_kept").glob("*") if (tmp_path / "_kept").exists() else ():
        copy.write_bytes(copy.read_bytes()[:100])
    assert rows(stored.found(["c0"], keys)) == before
    assert rows(_some(stored, keys)) == placed
    assert not list(tmp_path.glob("_kept/*.tmp"))


def _some(stored: FilesKept, keys: pa.Table) -> pa.Table:
    return stored.ranked(["c0"], keys, "c1", np.array([0, 0]), np.array([9, 9]))


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """Of a key with very many values, the first one."""
    many = 50_000
    log = pa.table(
        {
            "c0": np.zeros(many, np.int64),
            "c1": np.arange(many),
            COUNT: np.ones(many, np.int64),
            SEQ: np.zeros(many, int),
        }
    )
    stored = kept_in_files(tmp_path, log, None, random.Random(0))
    keys = pa.table({"c0": pa.array([0], pa.int64())})
    for last, value in ((False, 0), (True, many - 1)):
        answer = stored.first(["c0"], keys, "c1", np.array([1]), last)
        assert value in answer.column("c1").to_pylist()
        assert answer.num_rows < 20


def test_what_replaces_a_file_is_indexed_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL_ROWS", 0)
    log = changelog(["whole", "text"], 50, random.Random(1))
    storage = Storage(str(tmp_path))
    old, new = storage.path("old.parquet"), storage.path("new.parquet")
    for path in (old, new):
        pq.write_table(log, path)
    keys = pa.table({"c0": pa.array([1], pa.int64())})
    FilesKept(storage, log.schema, [old]).found(["c0"], keys)
    FilesKept(storage, log.schema, [old]).first(["c0"], keys, "c1", np.array([1]))
    FilesKept(storage, log.schema, [old]).ranked(["c0"], keys, "c1", np.array([0]), np.array([0]))
    FilesKept(storage, log.schema, [new]).index(FilesKept(storage, log.schema, [old]).indexes())
    made = {path.name.partition(".")[2] for path in (tmp_path / "_kept").glob("new.*")}
    assert made == {path.name.partition(".")[2] for path in (tmp_path / "_kept").glob("old.*")}
    assert len(made) == 4


def test_copies_of_files_that_are_gone_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL_ROWS", 0)
    monkeypatch.setattr(files, "TIDY_SECONDS", -1.0)
    log = changelog(["whole"], 5, random.Random(1))
    storage = Storage(str(tmp_path))
    keys = pa.table({"c0": pa.array([1], pa.int64())})
    for name in ("a", "b", "c"):
        pq.write_table(log, storage.path(f"{name}.parquet"))
        FilesKept(storage, log.schema, [storage.path(f"{name}.parquet")]).found(["c0"], keys)
        (tmp_path / "a.parquet").unlink(missing_ok=True)
    assert {path.name[0] for path in (tmp_path / "_kept").iterdir()} == {"b", "c"}, (
        "b is there, though c does not need it"
    )


def test_many_rows_are_found_where_they_are(tmp_path: Path) -> None:
    """The embedded engine answers in any order that suits it, once there is enough to do for two threads."""
    many = 600_000
    log = pa.table({"c0": np.arange(many), "c1": -np.arange(many), COUNT: np.ones(many, int), SEQ: np.zeros(many, int)})
    storage = Storage(str(tmp_path))
    pq.write_table(log, storage.path("one.parquet"))
    stored = FilesKept(storage, log.schema, [storage.path("one.parquet")])
    keys = pa.table({"c0": np.arange(0, many, 1000)})
    found = stored.found(["c0"], keys)
    assert found.num_rows == keys.num_rows
    assert sorted(found.column("c1").to_pylist()) == sorted(-key for key in keys.column("c0").to_pylist())
    ends = stored.first(["c0"], keys, "c1", np.ones(keys.num_rows, int))
    assert {(row[KEY] * 1000, row["c1"]) for row in ends.to_pylist()} == {(k, -k) for k in range(0, many, 1000)}


@pytest.mark.parametrize("seed", range(40))
def test_heads_hold_the_first_rows_of_each_key(tmp_path: Path, seed: int) -> None:
    """A row is left out only if so many others come before it, by the column of the order."""
    chance = random.Random(seed)
    kinds = [
        chance.choice(["whole", "text", "day"]),
        chance.choice(["whole", "decimal", "text", "day", "instant"]),
        "yes",
    ]
    log = changelog(kinds, chance.choice([0, 3, 60, 300]), chance)
    log = log.set_column(log.schema.get_field_index(COUNT), COUNT, pa.array([1] * log.num_rows))
    by = chance.choice([["c0"], []])
    keys = log.select(by).group_by(by).aggregate([]) if by else pa.table({"k": [1]}).select([])
    number = np.array([chance.randint(1, 4) for _ in range(keys.num_rows)])
    order = Ordered("c1", chance.random() < 0.5, chance.random() < 0.5)
    whole = MemoryKept(log).found([], pa.table({})).to_pylist()
    for kept in (MemoryKept(log), kept_in_files(tmp_path, log, None, chance)):
        found = heads(kept, keys, number, order, ["c0", "c1", "c2"]).to_pylist()
        assert all(row in whole for row in found)
        for key, most in zip(keys.to_pylist() if by else [{}] * keys.num_rows, number, strict=True):
            mine = [row for row in whole if all(row[c] == key[c] for c in by)]
            for row in mine:
                before = [other for other in mine if _comes_before(other["c1"], row["c1"], order)]
                assert row in found or len(before) >= most


def _comes_before(one: Any, other: Any, order: Ordered) -> bool:
    if one is None or other is None:
        return (one is None) != (other is None) and (one is None) == order.nulls_first
    return bool(one > other if order.descending else one < other)
