"""Changelog tables: a commit follows the version its writer knows; what no cut names can be undone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import LeaseLost, WarehouseError
from headwater.model.names import Seq, ViewName
from headwater.storage import Storage, folder_name
from headwater.warehouse.contents import Shelf
from headwater.warehouse.cuts import Cut
from headwater.warehouse.lock import Lock
from headwater.warehouse.publishing import publish_view, published_cut
from headwater.warehouse.reading import Pinned, count_rows, read_view, run_sql
from headwater.warehouse.table import ChangelogTable, DataFile, write_file
from warehouse.test_lock import Clock, take_away

Open = Callable[[], Storage]
FOLDER = f"views/{folder_name('an odd näme %=/')}/1/log"
SCHEMA = pa.schema([("x", pa.int64()), (COUNT, pa.int64()), (SEQ, pa.int64())])


def rows(seq: int, *values: int, count: int = 1) -> pa.Table:
    return pa.table([list(values), [count] * len(values), [seq] * len(values)], schema=SCHEMA)


def written(storage: Storage, seq: int, *values: int, count: int = 1) -> DataFile:
    return write_file(storage, FOLDER, rows(seq, *values, count=count), str(seq))


def held(storage: Storage, version: int, seq: int = 99) -> list[int]:
    found: list[int] = read_view(Shelf(storage), Pinned(FOLDER, version, Seq(seq))).column("x").to_pylist()
    return found


@pytest.fixture
def table(storage: Storage) -> ChangelogTable:
    made = ChangelogTable(storage, FOLDER)
    assert not made.exists()
    made.create(SCHEMA)
    return made


def test_commits_make_versions_that_stay_readable(storage: Storage, table: ChangelogTable) -> None:
    assert table.exists()
    assert table.schema.names == SCHEMA.names
    one, two = written(storage, 1, 10, 20), written(storage, 2, 20, count=-1)
    assert (one.rows, one.low, one.high) == (2, 1, 1)
    first = table.commit([one])
    second = table.commit([two])
    assert (first, second, table.version) == (1, 2, 2)
    assert held(storage, first) == [10, 20]
    assert held(storage, second) == [10]
    assert held(storage, second, seq=1) == [10, 20]
    assert table.commit([]) == second
    assert set(table.files()) == {one.name, two.name}
    assert table.files(first) == [one.name]
    assert count_rows(storage, Pinned(FOLDER, second, Seq(2))) == 1
    assert count_rows(storage, Pinned(FOLDER, second, Seq(2)), most=2) is None


def test_a_file_that_nothing_commits_is_not_there(storage: Storage, table: ChangelogTable) -> None:
    version = table.commit([written(storage, 1, 10)])
    written(storage, 2, 20)
    assert held(storage, version) == [10]


def test_files_are_replaced_in_one_step(storage: Storage, table: ChangelogTable) -> None:
    parts = [written(storage, 1, 10), written(storage, 2, 20)]
    before = table.commit(parts)
    folded = written(storage, 2, 10, 20)
    after = table.commit([folded], [part.name for part in parts])
    assert table.files() == [folded.name]
    assert held(storage, before) == held(storage, after) == [10, 20]


def test_rewind_undoes_what_no_cut_names(open_storage: Open, table: ChangelogTable) -> None:
    storage = open_storage()
    named = table.commit([written(storage, 1, 10)])
    table.commit([written(storage, 2, 20)])
    table.commit([written(storage, 3, 30)])
    again = ChangelogTable(open_storage(), FOLDER)
    version = again.rewind(named)
    assert held(storage, version) == held(storage, named) == [10]
    assert again.rewind(named) == version, "once is enough"
    assert again.commit([written(storage, 2, 21)]) == version + 1
    assert held(storage, version + 1) == [10, 21]


def test_orphans_are_the_files_that_no_needed_version_names(open_storage: Open, table: ChangelogTable) -> None:
    storage = open_storage()
    one, two = written(storage, 1, 10), written(storage, 2, 20)
    pinned = table.commit([one, two])
    folded = written(storage, 2, 10, 20)
    newest = table.commit([folded], [one.name, two.name])
    stray = written(storage, 3, 30)
    assert ChangelogTable(storage, FOLDER).remove_orphans([pinned]) == 1
    assert storage.get(f"{FOLDER}/{stray.name}") is None
    assert held(storage, pinned) == [10, 20]
    assert ChangelogTable(storage, FOLDER).remove_orphans([newest]) == 2
    assert held(storage, newest) == [10, 20]


def test_of_two_writers_the_second_is_refused(open_storage: Open, table: ChangelogTable) -> None:
    """One that deltalake puts after the other's would be counted with it."""
    storage, other = open_storage(), ChangelogTable(open_storage(), FOLDER)
    assert other.version == 0
    version = table.commit([written(storage, 1, 10)])
    with pytest.raises(WarehouseError, match=r"another process writes to .*not added") as refused:
        other.commit([written(storage, 1, 11)])
    assert "start again" in refused.value.fix
    assert table.version == version
    assert held(storage, version) == [10]


def test_what_a_stale_maintainer_has_under_way_finds_no_place(in_s3: str) -> None:
    """Its clock never moves, and there is nothing to undo: the one that takes over makes a version of its own."""
    stale, next_one = Storage(in_s3), Storage(in_s3)
    lock = Lock(stale, "headwater run", clock=Clock())
    lock.acquire()
    theirs = ChangelogTable(stale, FOLDER)
    theirs.create(SCHEMA)
    named = theirs.commit([written(stale, 1, 10)])
    late = written(stale, 2, 20)
    take_away(next_one)
    with Lock(next_one, "the next one"):
        ours = ChangelogTable(next_one, FOLDER)
        assert ours.rewind(named) == named + 1
        with pytest.raises(WarehouseError, match="another process writes to"):
            theirs.commit([late])
        version = ours.commit([written(next_one, 2, 21)])
        assert held(next_one, version) == [10, 21]
        with pytest.raises(LeaseLost):
            lock.renew()
        with pytest.raises(LeaseLost):
            theirs.rewind(named)
    lock.release()


def test_views_are_read_and_published(storage: Storage, table: ChangelogTable) -> None:
    name, pinned = ViewName("an odd näme"), Pinned(FOLDER, table.commit([written(storage, 1, 10, 20)]), Seq(1))
    assert run_sql(storage, {name: pinned}, 'SELECT sum(x) AS s FROM "an odd näme"').to_pylist() == [{"s": 30}]
    assert published_cut(storage, name) == 0
    assert publish_view(storage, name, pinned, Cut(7))
    assert not publish_view(storage, name, pinned, Cut(7))
    assert published_cut(storage, name) == 7
