"""Commits that we write ourselves are what deltalake would have written, to deltalake and to us."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import WarehouseError
from headwater.storage import Storage
from headwater.warehouse import delta_commit, delta_log
from headwater.warehouse.delta import fence_of
from headwater.warehouse.lock import Lock
from headwater.warehouse.table import ChangelogTable, DataFile, write_file

SCHEMA = pa.schema([("x", pa.int64()), (COUNT, pa.int64()), (SEQ, pa.int64())])


def _table(tmp_path: Path) -> tuple[Storage, ChangelogTable]:
    storage = Storage(str(tmp_path))
    table = ChangelogTable(storage, "t")
    table.create(SCHEMA)
    return storage, table


def _file(storage: Storage, seq: int, label: str = "f") -> DataFile:
    return write_file(storage, "t", pa.table([[seq, -seq], [1, 1], [seq, seq + 1]], schema=SCHEMA), label)


def _values(storage: Storage, version: int | None = None) -> list[int]:
    rows = pa.table(DeltaTable(storage.uri("t"), version=version).to_pyarrow_table())
    return sorted(rows.column("x").to_pylist())


def test_deltalake_and_we_agree_on_every_version(tmp_path: Path) -> None:
    storage, table = _table(tmp_path)
    files = [_file(storage, seq) for seq in range(1, 6)]
    for file in files[:4]:
        table.commit([file])
    assert table.commit(files[4:], [files[0].name, files[1].name]) == 5
    assert _values(storage, 1) == [-1, 1]
    assert _values(storage, 4) == [-4, -3, -2, -1, 1, 2, 3, 4]
    assert _values(storage) == [-5, -4, -3, 3, 4, 5]
    for version in range(6):
        read = delta_log._read(storage, "t", version)
        assert read is not None
        assert set(read.files) == set(table.files(version))
    again = ChangelogTable(storage, "t")
    assert sorted(again.log_files(), key=str) == sorted(table.log_files(), key=str)
    assert {(f.rows, f.low, f.high) for f in again.log_files()} == {(2, seq, seq + 1) for seq in (3, 4, 5)}


def test_what_a_dead_writer_left_without_a_name_goes(tmp_path: Path) -> None:
    storage, table = _table(tmp_path)
    folder = tmp_path / "t" / "_delta_log"
    for name, age in (("1.json.dead.tmp", 7200), ("2.json.alive.tmp", 0)):
        (folder / name).write_text("{}")
        os.utime(folder / name, (folder.stat().st_mtime - age,) * 2)
    for seq in range(1, delta_commit.CHECKPOINT_EVERY + 1):
        table.commit([_file(storage, seq)])
    assert [path.name for path in folder.glob("*.tmp")] == ["2.json.alive.tmp"]


def test_every_so_often_the_log_is_summed_up(tmp_path: Path) -> None:
    storage, table = _table(tmp_path)
    most = 2 * delta_commit.CHECKPOINT_EVERY + 3
    for seq in range(1, most):
        table.commit([_file(storage, seq)])
    assert delta_log.checkpoint_of(storage, "t") == 2 * delta_commit.CHECKPOINT_EVERY - 1
    assert len(_values(storage)) == 2 * (most - 1)
    assert ChangelogTable(storage, "t").version == table.version == most - 1


def test_a_checkpoint_that_fails_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(table: DeltaTable) -> NoReturn:
        raise OSError("no space left")

    storage, table = _table(tmp_path)
    monkeypatch.setattr(DeltaTable, "create_checkpoint", failing)
    monkeypatch.setattr(delta_commit, "CHECKPOINT_EVERY", 1)
    assert [table.commit([_file(storage, seq)]) for seq in (1, 2)] == [1, 2]
    assert _values(storage) == [-2, -1, 1, 2]


def test_a_commit_that_died_before_it_had_a_name_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, table = _table(tmp_path)
    named = table.commit([_file(storage, 1)])
    with monkeypatch.context() as dying:
        dying.setattr(os, "link", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        dying.setattr(os, "unlink", lambda *_: None)  # a process that is killed tidies nothing up
        with pytest.raises(KeyboardInterrupt):
            table.commit([_file(storage, 2)])
    assert [name for name in storage.names("t/_delta_log") if name.endswith(".tmp")]
    again = ChangelogTable(storage, "t")
    assert (again.version, _values(storage)) == (named, [-1, 1])
    assert again.commit([_file(storage, 3)]) == named + 1
    assert _values(storage) == [-3, -1, 1, 3]


def test_one_that_was_there_first_stays(tmp_path: Path) -> None:
    """Whoever wrote it: deltalake, or we."""
    storage, table = _table(tmp_path)
    table.commit([_file(storage, 1)])
    other = ChangelogTable(storage, "t")
    assert other.version == 1
    table.delta.restore(0)
    with pytest.raises(WarehouseError, match="another process writes to"):
        table.commit([_file(storage, 2)])
    with pytest.raises(WarehouseError, match="another process writes to"):
        other.commit([_file(storage, 3)])
    assert _values(storage) == []


def test_odd_names_are_taken_back_too(tmp_path: Path) -> None:
    storage, table = _table(tmp_path)
    table.commit([_file(storage, 1)])
    version = table.commit([_file(storage, 2, "f=2 ü~"), _file(storage, 3)])
    assert ChangelogTable(storage, "t").rewind(1) == version + 1
    assert _values(storage) == [-1, 1]
    odd = _file(storage, 4, "f=4 ü~")
    again = ChangelogTable(storage, "t")
    again.commit([odd])
    again.commit([], [odd.name])
    assert _values(storage) == [-1, 1]


def test_the_table_remembers_the_lease(tmp_path: Path) -> None:
    storage, table = _table(tmp_path)
    lock = Lock(storage, "headwater run")
    lock.acquire()
    try:
        table.commit([_file(storage, 1)])
        assert lock.fence > 0
        assert fence_of(DeltaTable(storage.uri("t"))) == lock.fence
    finally:
        lock.release()
