"""Copies in place of an object store's files: bounded in size, and right whatever was removed."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.kept import cache, files
from headwater.kept.files import FilesKept
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import ConfigError
from headwater.storage import Storage
from headwater.warehouse.table import write_file
from warehouse.conftest import in_s3, s3  # noqa: F401 # fixtures

ROWS, TABLES = 30_000, 6
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), (COUNT, pa.int64()), (SEQ, pa.int64())])


def kept(storage: Storage, number: int) -> FilesKept:
    folder = f"t{number}"
    names = range(ROWS)
    rows = pa.table([list(names), [k * number for k in names], [1] * ROWS, [1] * ROWS], schema=SCHEMA)
    return FilesKept(storage, SCHEMA, [storage.path(f"{folder}/{write_file(storage, folder, rows, 'it').name}")])


def looked_up(table: FilesKept, key: int) -> list[int]:
    found = table.found(("k",), pa.table({"k": [key]}), ("x",))
    return list(found.column("x").to_pylist())


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def mapped_runs() -> set[str]:
    """What this process has mapped, files that are gone among it."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[5] for line in lines if ".rows" in line or ".index" in line}


@pytest.mark.s3
def test_copies_take_no_more_room_than_they_may(
    in_s3: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, storage, chance = tmp_path / "copies", Storage(in_s3), random.Random(1)
    monkeypatch.setenv(cache.FOLDER, str(place))
    monkeypatch.setattr(cache, "TOUCHED", 0.0)
    tables = [kept(storage, number) for number in range(TABLES)]
    monkeypatch.setenv(cache.SIZE, "1 GB")
    assert looked_up(tables[1], 7) == [7]
    one = on_disk(place)
    assert one > ROWS * 32
    most = 2 * one + one // 2
    monkeypatch.setenv(cache.SIZE, f"{most / 1000} KB")
    for _ in range(40):
        number, key = chance.randrange(TABLES), chance.randrange(ROWS)
        assert looked_up(tables[number], key) == [number * key]
        assert on_disk(place) <= most
        mapped = [path for path in mapped_runs() if str(place) in path]
        assert [path for path in mapped if not Path(path).exists()] == [], "what was removed is let go"
    for number in (3, 4, 3, 5):  # of two that have room, the one that was used longer ago goes
        looked_up(tables[number], 1)
        time.sleep(0.02)
    there = {path.parent.name for path in place.rglob("*.rows")}
    assert there == {tables[n]._cache(tables[n]._paths[0]).name for n in (3, 5)}
    monkeypatch.setenv(cache.SIZE, "1 KB")
    assert looked_up(tables[2], 9) == [18], "one that is larger than all that is allowed is used all the same"
    assert {path.parent.name for path in place.rglob("*.rows")} == {tables[2]._cache(tables[2]._paths[0]).name}
    files._open.clear()


def test_what_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.SIZE, raising=False)
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "not" / "there"))
    assert 0 < cache.limit(0) <= cache.MOST
    monkeypatch.setenv(cache.SIZE, "much")
    with pytest.raises(ConfigError, match="HEADWATER_CACHE_SIZE is 'much'"):
        cache.limit(0)


def test_what_a_dead_process_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.FOLDER, str(tmp_path))
    (tmp_path / "a").mkdir()
    old, new = tmp_path / "a" / "x.rows.1.tmp", tmp_path / "a" / "y.rows.1.tmp"
    old.write_bytes(b"torn")
    new.write_bytes(b"begun")
    os.utime(old, (0, 0))
    cache.make_room(tmp_path / "a" / "z")
    assert not old.exists()
    assert new.exists()
