"""Cut records: in one line, each after the one its writer knew, whoever writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable

from headwater.model.errors import LeaseLost, WarehouseError
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.storage import Storage
from headwater.storage.records import encode
from headwater.warehouse.cuts import FOLDER, Cut, CutLog, ViewState, read_cut
from headwater.warehouse.lock import Lock
from warehouse.test_lock import Clock, take_away

Open = Callable[[], Storage]
VIEW = ViewState("views/v/1", 3, -1, Seq(1), Seq(0), "complete", "f", (SourceName("db"),), gaps=((Seq(0), Seq(1)),))


def cut(number: int, seq: int | None = None) -> Cut:
    at = Seq(number if seq is None else seq)
    return Cut(number, at, {SourceName("db"): Position(str(at))}, {}, {ViewName("v"): VIEW}, warehouse="w")


def shown(storage: Storage) -> list[int]:
    return [c.number for c in CutLog(storage).kept()]


def test_before_anything_was_maintained(storage: Storage) -> None:
    log = CutLog(storage)
    assert log.newest() == Cut()
    assert log.kept() == []
    assert log.find(lambda c: c.number == 1, Cut()) is None
    assert log.fence() == 0
    log.tidy()


def test_what_was_appended_is_the_newest_for_everybody(open_storage: Open) -> None:
    writer, reader = CutLog(open_storage()), CutLog(open_storage())
    for number in (1, 2, 3):
        written = writer.append(cut(number))
        assert reader.newest() == written == writer.newest()
        assert written.at > 0
        assert replace(written, at=0.0) == cut(number)
    assert [c.number for c in reader.kept()] == [1, 2, 3]


def test_a_glance_sees_what_was_appended(open_storage: Open) -> None:
    writer, reader = CutLog(open_storage()), CutLog(open_storage())
    assert reader.glance() == Cut()
    for number in (1, 2):
        assert reader.glance().number == number - 1
        written = writer.append(cut(number))
        assert reader.moved() is (open_storage().local and number > 1)
        assert reader.glance() == written
        assert not reader.moved()
    writer.append(cut(3), cut(4))
    writer.append(cut(5))
    assert reader.glance().number == 5
    assert [c.number for c in reader.since(2, 10)] == [3, 4, 5], "what was glanced at can be asked for"
    assert reader.glance() == writer.newest() == reader.newest()
    writer.tidy()
    assert reader.glance() == writer.newest(), "a commit that only tidies up shows nothing new"
    writer.append(cut(6))
    assert reader.glance() == writer.newest()


def test_find_and_tidy(open_storage: Open) -> None:
    log = CutLog(open_storage())
    for number in range(1, 8):
        log.append(cut(number, seq=10 * number))
    for _ in range(2):
        found = log.find(lambda c: c.seq <= 35, log.newest())
        assert found is not None
        assert found.number == 3
        assert log.find(lambda c: c.seq <= 5, log.newest()) is None
        log.tidy()
    assert CutLog(open_storage()).newest().number == 7
    assert log.append(cut(8)).number == 8
    assert shown(open_storage()) == list(range(1, 9))


def test_the_newest_is_found_behind_many_commits_that_show_nothing(storage: Storage) -> None:
    CutLog(storage).append(cut(1))
    for _ in range(12):
        with Lock(storage, "headwater run"):
            assert CutLog(storage).take_over().number == 1
    assert CutLog(storage).newest().number == 1


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_number_that_does_not_follow_is_refused(storage: Storage, number: int) -> None:
    log = CutLog(storage)
    log.append(cut(1))
    log.append(cut(2))
    with pytest.raises(WarehouseError, match=f"newest cut is 2 now, cut {number} was not written") as refused:
        log.append(cut(number))
    assert "start again" in refused.value.fix
    assert shown(storage) == [1, 2]


def test_of_two_writers_the_second_is_refused(open_storage: Open) -> None:
    """Both know the newest record, and would append the same number: an append that deltalake puts after the other's
    would be there twice."""
    one, other = CutLog(open_storage()), CutLog(open_storage())
    one.append(cut(1))
    assert other.newest().number == 1
    mine = one.append(cut(2, seq=20))
    with pytest.raises(WarehouseError, match="cut 2 was not written"):
        other.append(cut(2, seq=21))
    assert CutLog(open_storage()).newest() == mine
    assert shown(open_storage()) == [1, 2]


def test_one_that_comes_between_looking_and_committing_is_not_overlooked(
    open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = CutLog(open_storage()), CutLog(open_storage())
    one.append(cut(1))
    commit = CutLog._commit

    def late(self: CutLog, *arguments: Any) -> bool:
        monkeypatch.setattr(CutLog, "_commit", commit)
        one.append(cut(2, seq=20))
        return commit(self, *arguments)

    monkeypatch.setattr(CutLog, "_commit", late)
    with pytest.raises(WarehouseError, match="newest cut is 2 now, cut 2 was not written"):
        other.append(cut(2, seq=21))
    assert shown(open_storage()) == [1, 2]
    assert CutLog(open_storage()).newest().seq == 20


def test_of_two_that_begin_a_log_one_is_refused(open_storage: Open) -> None:
    one, other = CutLog(open_storage()), CutLog(open_storage())
    assert one.newest() == other.newest() == Cut()
    one.append(cut(1))
    with pytest.raises(WarehouseError, match="cut 1 was not written"):
        other.append(cut(1))
    assert shown(open_storage()) == [1]


def test_tidying_up_does_not_refuse_the_next_cut(open_storage: Open) -> None:
    """It is a commit too, but not of another maintainer's cut."""
    one, other = CutLog(open_storage()), CutLog(open_storage())
    for number in (1, 2, 3):
        one.append(cut(number))
    other.tidy()
    one.append(cut(4))
    assert shown(open_storage()) == [1, 2, 3, 4]


def test_an_answer_that_was_lost_is_no_conflict(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is there, and the log says that somebody was faster: it was us."""
    log = CutLog(storage)
    log.append(cut(1))

    commit = CutLog._commit

    def lost(self: CutLog, table: DeltaTable, *arguments: Any) -> bool:
        assert commit(self, table, *arguments)
        table.update_incremental()
        return False

    monkeypatch.setattr(CutLog, "_commit", lost)
    assert log.append(cut(2)).number == 2
    assert shown(storage) == [1, 2]


def test_a_record_carries_the_number_of_its_lease(open_storage: Open) -> None:
    for number in (1, 2):
        storage = open_storage()
        with Lock(storage, "headwater run"):
            log = CutLog(storage)
            log.take_over()
            assert log.append(cut(number)).fence == number
            assert log.fence() == number
    assert [c.fence for c in CutLog(open_storage()).kept()] == [1, 2]


def test_a_record_from_before_there_were_numbers(open_storage: Open) -> None:
    raw = json.loads(encode(cut(1)))
    del raw["fence"]
    assert read_cut(json.dumps(raw)) == cut(1)
    CutLog(open_storage()).append(cut(1))  # without a lease: as in such a warehouse
    storage = open_storage()
    with Lock(storage, "headwater run") as lock:
        assert lock.fence == 1
        assert CutLog(storage).take_over().number == 1
        CutLog(storage).append(cut(2))
    assert shown(storage) == [1, 2]


def test_a_lower_number_is_refused_though_its_clock_says_that_all_is_well(in_s3: str) -> None:
    """What the fence is for: between looking at the clock and the commit a process can stand still for any time. Here
    its clock never moves. The one that took over has shown nothing yet."""
    stale, next_one = Storage(in_s3), Storage(in_s3)
    lock = Lock(stale, "headwater run", clock=Clock())
    lock.acquire()
    log = CutLog(stale)
    log.take_over()
    log.append(cut(1))
    take_away(next_one)
    with Lock(next_one, "the next one"):
        assert CutLog(next_one).take_over().number == 1
        with pytest.raises(LeaseLost, match=r"lease 2, this one's is 1\): cut 2 was not written"):
            log.append(cut(2))
        with pytest.raises(LeaseLost, match="nothing was written"):
            log.take_over()
        CutLog(next_one).append(cut(2))
    assert shown(next_one) == [1, 2]
    assert CutLog(next_one).newest().fence == 2
    lock.release()


def test_a_cut_that_came_before_the_taking_over_counts(in_s3: str) -> None:
    """The stale one was faster: then its cut is the newest, and the next one goes on from there."""
    stale, next_one = Storage(in_s3), Storage(in_s3)
    lock = Lock(stale, "headwater run", clock=Clock())
    lock.acquire()
    log = CutLog(stale)
    log.take_over()
    take_away(next_one)
    with Lock(next_one, "the next one"):
        theirs = CutLog(next_one)
        assert theirs.newest().number == 0
        log.append(cut(1))
        assert theirs.take_over().number == 1
        theirs.append(cut(2))
    assert shown(next_one) == [1, 2]
    lock.release()


def test_the_log_is_a_plain_delta_table(storage: Storage) -> None:
    CutLog(storage).append(cut(1))
    table = DeltaTable(storage.uri(FOLDER), storage_options=storage.delta_options)
    assert [f.name for f in table.schema().fields] == ["cut", "seq", "at", "record"]
