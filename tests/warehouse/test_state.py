"""A state that is scanned is the state that is folded, whatever columns and rows are wanted of it."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.kept import files
from headwater.kept.engine import hash_of, hashes
from headwater.kept.files import FilesKept
from headwater.model.changelog import COUNT, SEQ
from headwater.storage import Storage
from headwater.warehouse import contents
from headwater.warehouse.contents import Shelf
from headwater.warehouse.lookup import Lookups
from headwater.warehouse.state import State
from headwater.warehouse.table import ChangelogTable, write_file

COLUMNS = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("ratio", pa.float64()), ("tags", pa.list_(pa.int64()))]
)
SCHEMA = pa.schema([*COLUMNS, (COUNT, pa.int64()), (SEQ, pa.int64())])
NAN = float("nan")
LOADED = 12


def history(seed: int, transactions: int = 60) -> list[tuple[Any, ...]]:
    """Entries of a log whose every state is a bag: what is taken back was there."""
    chance, there, entries = random.Random(seed), list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for _ in range(LOADED):  # a first load: each row once
        row = (chance.choice([1, 2]), chance.choice(["a", "b"]), 0.5, [0])
        there.append(row)
        entries.append((*row, 1, 1))
    for seq in range(2, transactions + 1):
        for _ in range(chance.randrange(1, 4)):
            if there and chance.random() < 0.45:
                row = there.pop(chance.randrange(len(there)))
                entries.append((*row, -1, seq))
            else:
                row = (
                    chance.choice([1, 2, 3, None]),
                    chance.choice(["a", "b", None]),
                    chance.choice([0.5, NAN]),
                    [seq % 2],
                )
                count = chance.choice([1, 1, 2])
                there.extend([row] * count)
                entries.append((*row, count, seq))
    return entries


def bag(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(map(repr, rows))


def expected(entries: list[tuple[Any, ...]], seq: int) -> pa.Table:
    """The state by counting, in plain Python."""
    counts, rows = Counter[str](), dict[str, tuple[Any, ...]]()
    for *row, count, when in entries:
        if when <= seq:
            counts[repr(row)] += count
            rows[repr(row)] = tuple(row)
    shown = [rows[key] for key, count in counts.items() for _ in range(count)]
    columns = list(zip(*shown, strict=True)) or [()] * len(COLUMNS)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, COLUMNS, strict=True)], COLUMNS)


def as_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_a_scanned_state_is_the_folded_state(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "SMALL_ROWS", 6)  # so that some files are large
    storage, chance = Storage(str(tmp_path)), random.Random(seed)
    log = ChangelogTable(storage, "log")
    log.create(SCHEMA)
    entries, written, at = history(seed), [], 0
    while at < len(entries):
        size = chance.randrange(1, 20) if at else LOADED
        columns = list(zip(*entries[at : at + size], strict=True))
        part = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)
        written.append(write_file(storage, "log", part, f"f{at}"))
        at += size
    version = log.commit(written)
    shelf = Shelf(storage)
    if seed % 2:  # files of which there are copies
        monkeypatch.setattr(files, "SMALL_ROWS", 6)
        for kept in shelf.contents("log", version).files[:-2]:
            FilesKept(storage, SCHEMA, [kept.path]).found(["id"], pa.table({"id": [1]}), ["id"])
    held = shelf.contents("log", version)
    lookups = Lookups()
    assert held.through
    assert len(held.large_paths()) > 1
    assert held.small.num_rows
    for seq in (1, 20, 41, 60):
        state = State(SCHEMA, seq, partial(shelf.contents, "log", version))
        rows = expected(entries, seq)
        engine = duckdb.connect(":memory:")
        engine.register("it", state)
        for query in (
            "SELECT * FROM it", "SELECT tags, ratio FROM it", "SELECT name FROM it",
            "SELECT id FROM it WHERE name = 'a'",
            "SELECT count(*) FROM it", "SELECT name, count(*) FROM it WHERE id IS NULL OR id > 1 GROUP BY name",
        ):  # fmt: skip
            found = engine.sql(query).fetchall()
            engine.register("plain", rows)
            assert bag(found) == bag(engine.sql(query.replace("FROM it", "FROM plain")).fetchall()), (seq, query)
        for key in ({"id": 2}, {"name": "a"}, {"id": 1, "name": "b"}, {"id": 99}):
            found = lookups.found(held, seq, key, ["id", "name", "ratio"])
            assert found is not None
            wanted = [r for r in as_tuples(rows) if all(r[COLUMNS.get_field_index(n)] == v for n, v in key.items())]
            assert bag(as_tuples(found)) == bag([row[:3] for row in wanted]), (seq, key)
        some = pa.Table.from_batches(state.rows(["name"], pc.field("id") == 2), pa.schema([COLUMNS.field("name")]))
        assert bag(as_tuples(some)) == bag(as_tuples(rows.filter(pc.equal(rows.column("id"), 2)).select(["name"])))


def test_one_key_has_the_hash_that_many_have() -> None:
    for values, kind in (([0, -1, 2**62, 7], pa.int64()), ([3, -3], pa.int16()), (["", "Größe", "a"], pa.string())):
        assert [hash_of([value], [kind]) for value in values] == hashes(
            pa.table({"k": pa.array(values, kind)})
        ).tolist()
    pair = pa.table({"a": [1, 2], "b": ["x", "y"]})
    assert hash_of([2, "y"], [pa.int64(), pa.string()]) == hashes(pair)[1]


def test_what_is_kept_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_ROWS", 100)
    storage = Storage(str(tmp_path))
    log, shelf = ChangelogTable(storage, "log"), Shelf(storage)
    log.create(SCHEMA)
    for seq in range(1, 16):
        rows = [(seq, "a", 0.5, [1], 1, seq)] * 5
        columns = list(zip(*rows, strict=True))
        part = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)
        version = log.commit([write_file(storage, "log", part, f"f{seq}")])
        assert shelf.contents("log", version).small.num_rows == 5 * seq
        assert shelf._together() <= max(100, 5 * seq)
        assert shelf._kept <= 100
    assert shelf.contents("log", version - 3).small.num_rows == 60  # what went is read again
