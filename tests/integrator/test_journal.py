"""The journal: what was numbered is there after a restart, whole segments or nothing."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.integrator.journal import FOLDER, Journal, read_changes
from headwater.integrator.numbering import TRANSACTIONS, Numbered
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.storage import Storage

SHOP = SourceName("shop")
ORDERS = TableName(SHOP, "orders")
ODD = TableName(SourceName("crm"), "a/b:ü" + "x" * 120, "weird schema")
NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def numbered(lo: int, hi: int, tables: tuple[TableName, ...] = (ORDERS,)) -> Numbered:
    """Transactions (lo, hi], each of which adds row (seq) to every table."""
    seqs = list(range(lo + 1, hi + 1))
    rows = pa.table({SEQ: pa.array(seqs), COUNT: pa.array([1] * len(seqs)), "x": pa.array(seqs)})
    n = len(seqs)
    transactions = pa.table([seqs, [SHOP] * n, [f"t{s}" for s in seqs], [NOW] * n, [None] * n], schema=TRANSACTIONS)
    return Numbered(Seq(lo), Seq(hi), {SHOP: Position(str(hi))}, transactions, dict.fromkeys(tables, rows))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def seqs(storage: Storage, journal: Journal, lo: int, hi: int, table: TableName = ORDERS) -> list[int]:
    rows = read_changes(storage, journal.between(lo, hi), table, lo, hi)
    return [] if rows is None else rows.column(SEQ).to_pylist()


def test_what_was_appended_is_there_after_a_restart(storage: Storage) -> None:
    journal = Journal(storage)
    assert journal.newest is None
    written = [journal.append(numbered(0, 3)), journal.append(numbered(3, 4, (ORDERS, ODD)))]
    again = Journal(storage)
    assert list(again.segments) == written == list(journal.segments)
    assert again.newest is not None
    assert again.newest.positions == {SHOP: "4"}
    assert seqs(storage, again, 0, 4) == [1, 2, 3, 4]
    assert seqs(storage, again, 0, 4, ODD) == [4]
    rows = read_changes(storage, again.segments, ORDERS, 0, 4)
    assert rows is not None
    assert rows.column_names == ["x", COUNT, SEQ]


@pytest.mark.parametrize(("lo", "hi"), [(0, 6), (1, 5), (2, 4), (2, 3), (3, 3), (6, 9)])
def test_between_takes_exactly_the_transactions_asked_for(storage: Storage, lo: int, hi: int) -> None:
    journal = Journal(storage)
    for start, end in ((0, 2), (2, 3), (3, 6)):
        journal.append(numbered(start, end))
    wanted = [s for s in range(1, 7) if lo < s <= hi]
    assert seqs(storage, journal, lo, hi) == wanted
    told = [row["transaction"] for part in journal.transactions(lo, hi) for row in part.to_pylist()]
    assert told == [f"t{s}" for s in wanted]
    assert read_changes(storage, journal.between(lo, hi), ODD, lo, hi) is None


def test_numbers_follow_each_other(storage: Storage) -> None:
    journal = Journal(storage)
    journal.append(numbered(0, 2))
    with pytest.raises(AssertionError, match="follow"):
        journal.append(numbered(3, 4))


class Crash(Exception):
    """The machine stops here."""


@pytest.mark.parametrize("survives", [0, 1, 2])
def test_a_crash_before_the_manifest_leaves_no_segment(storage: Storage, survives: int, monkeypatch) -> None:
    """However many files were written: the same transactions are numbered again, from the last positions."""
    journal = Journal(storage)
    journal.append(numbered(0, 2))
    put, done = Storage.put, []

    def failing(self: Storage, relative: str, data: bytes) -> None:
        if len(done) == survives:
            raise Crash
        done.append(relative)
        put(self, relative, data)

    monkeypatch.setattr(Storage, "put", failing)
    monkeypatch.setattr(Storage, "put_new", failing)
    with pytest.raises(Crash):
        journal.append(numbered(2, 5, (ORDERS,)))
    monkeypatch.undo()
    assert [s.hi for s in journal.segments] == [2], "nor does the writer believe in it"
    again = Journal(storage)
    assert [s.hi for s in again.segments] == [2]
    assert seqs(storage, again, 0, 9) == [1, 2]
    assert again.remove_orphans() == (1 if survives else 0)
    assert storage.names(FOLDER) == ["000000000001"]
    again.append(numbered(2, 4))
    assert seqs(storage, Journal(storage), 0, 9) == [1, 2, 3, 4]


def test_a_crashed_segment_is_overwritten_even_without_removing_orphans(storage: Storage, monkeypatch) -> None:
    journal = Journal(storage)

    def failing(self: Storage, relative: str, data: bytes) -> bool:
        raise Crash

    monkeypatch.setattr(Storage, "put_new", failing)
    with pytest.raises(Crash):
        journal.append(numbered(0, 5, (ORDERS, ODD)))
    monkeypatch.undo()
    again = Journal(storage)
    again.append(numbered(0, 1))
    assert seqs(storage, Journal(storage), 0, 9) == [1]
    assert seqs(storage, Journal(storage), 0, 9, ODD) == []


def test_trim_forgets_whole_segments_and_never_the_newest(storage: Storage) -> None:
    journal = Journal(storage)
    for start, end in ((0, 2), (2, 3), (3, 6)):
        journal.append(numbered(start, end))
    reader = Journal(storage)
    assert journal.trim(1) == 0
    assert journal.trim(2) == 1
    assert seqs(storage, journal, 2, 6) == [3, 4, 5, 6]
    assert journal.trim(99) == 1
    assert [s.hi for s in journal.segments] == [6]
    assert [s.number for s in Journal(storage).segments] == [3]
    reader.refresh()
    assert [s.number for s in reader.segments] == [3]
    journal.append(numbered(6, 7))
    reader.refresh()
    assert [s.hi for s in reader.segments] == [6, 7]


def test_a_crash_in_the_middle_of_trimming_leaves_no_segment_with_holes(storage: Storage, monkeypatch) -> None:
    journal = Journal(storage)
    journal.append(numbered(0, 2))
    journal.append(numbered(2, 3))

    def failing(self: Storage, relative: str) -> None:
        raise Crash

    monkeypatch.setattr(Storage, "delete_folder", failing)
    with pytest.raises(Crash):
        journal.trim(2)
    monkeypatch.undo()
    again = Journal(storage)
    assert [s.hi for s in again.segments] == [3]
    assert again.remove_orphans() == 1


def test_types_that_grew_between_segments_are_read_together(storage: Storage) -> None:
    journal = Journal(storage)
    first, second = numbered(0, 1), numbered(1, 2)
    narrow = first.changes[ORDERS].set_column(2, "x", pa.array([1], pa.int32()))
    journal.append(Numbered(first.lo, first.hi, first.positions, first.transactions, {ORDERS: narrow}))
    journal.append(second)
    rows = read_changes(storage, journal.segments, ORDERS, 0, 2)
    assert rows is not None
    assert rows.column("x").to_pylist() == [1, 2]


def test_segments_from_before_global_transactions_are_read(storage: Storage) -> None:
    journal = Journal(storage)
    journal.append(replace(old := numbered(0, 2), transactions=old.transactions.drop_columns(["global_id"])))
    journal.append(numbered(2, 4))
    rows = [row for table in Journal(storage).transactions(1, 3) for row in table.to_pylist()]
    assert [(row[SEQ], row.get("global_id")) for row in rows] == [(2, None), (3, None)]
