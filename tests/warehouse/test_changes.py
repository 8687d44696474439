"""Reading a stretch of a changelog: only the files that can hold it, each transaction once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import headwater as hw
from cli.small import add_view, small_project
from headwater.integrator.journal import segments_between
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HistoryGone
from headwater.model.names import Seq, ViewName
from headwater.runtime.reading.changes import changes, newest
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.table import ChangelogTable, write_file
from integrator.test_journal import numbered


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_project(tmp_path / "small")


def grow(folder: Path, view: str, seq: int, *rows: tuple[int, int]) -> None:
    """A batch of one transaction, its rows (n, count), and the cut that shows it."""
    storage = Storage(str(folder / "warehouse"))
    cuts = CutLog(storage)
    cut = cuts.newest()
    state = cut.views[ViewName(view)]
    log = ChangelogTable(storage, f"{state.folder}/log")
    table = log.schema.empty_table()
    if rows:
        table = type(table).from_pydict(
            {"n": [n for n, _ in rows], COUNT: [c for _, c in rows], SEQ: [seq] * len(rows)}, schema=log.schema
        )
    version = log.commit([write_file(storage, log.folder, table, "x")])
    shown = replace(state, version=version, seq=Seq(seq), through=Seq(seq))
    views = {**cut.views, ViewName(view): shown}
    cuts.append(replace(cut, number=cut.number + 1, seq=Seq(seq), views=views))


def told(found: Any) -> list[tuple[int, list[tuple[int, int]]]]:
    return [(change.seq, [(row["n"], count) for count, row in change.rows]) for change in found]


def test_changes_come_with_the_transaction_that_caused_them(folder: Path) -> None:
    two, three = hw.open(folder).changes("PEOPLE", after=1)
    assert (two.seq, [(count, row["id"]) for count, row in two.rows]) == (2, [(1, 2)])
    assert [(c.source, c.transaction) for c in two.transactions] == [("crm", "b")]
    assert sorted((count, row["name"]) for count, row in three.rows) == [(-2, "Ann"), (2, "Anne")]


def test_the_state_then_plus_the_changes_is_the_state_now(folder: Path) -> None:
    warehouse = hw.open(folder)
    bag: dict[int, int] = {}
    for row in warehouse.rows("people", at=1).to_pylist():
        bag[row["name"]] = bag.get(row["name"], 0) + 1
    for change in warehouse.changes("people", after=1):
        for count, row in change.rows:
            bag[row["name"]] = bag.get(row["name"], 0) + count
    now = [row["name"] for row in warehouse.rows("people").to_pylist()]
    assert sorted(name for name, n in bag.items() for _ in range(n)) == sorted(now)


def test_only_files_that_can_hold_them_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_view(folder, "many", seq=3)
    for seq in range(4, 24):
        grow(folder, "many", seq, (seq, 1))
    read: list[str] = []
    table = pq.read_table
    monkeypatch.setattr(pq, "read_table", lambda path, **how: read.append(path) or table(path, **how))  # type: ignore[func-returns-value]
    assert told(hw.open(folder).changes("many", after=21)) == [(22, [(22, 1)]), (23, [(23, 1)])]
    assert len(read) == 2


def test_a_reader_that_follows_gets_each_transaction_once(folder: Path) -> None:
    add_view(folder, "many", seq=3)
    later = iter([(4, (4, 1)), (5, (5, 1), (4, -1)), (6,), (8, (8, 1), (8, -1), (9, 1))])

    def wait(seconds: float) -> None:
        grow(folder, "many", *next(later))  # type: ignore[arg-type]

    found = changes(hw.open(folder).project, "many", follow=True, wait=wait)
    assert told(itertools.islice(found, 3)) == [(4, [(4, 1)]), (5, [(5, 1), (4, -1)]), (8, [(9, 1)])]


def test_what_is_not_kept_or_not_there_yet_is_refused(folder: Path) -> None:
    add_view(folder, "late", seq=3, horizon=3)
    with pytest.raises(HistoryGone, match="keeps its history from 3 on"):
        list(hw.open(folder).changes("late", after=2))
    with pytest.raises(HistoryGone, match="no state 9 yet"):
        list(hw.open(folder).changes("late", after=9))


def test_a_view_that_is_loaded_anew_ends_the_stream_with_a_word(folder: Path) -> None:
    def wait(seconds: float) -> None:
        cuts = CutLog(Storage(str(folder / "warehouse")))
        cut = cuts.newest()
        state = replace(cut.views[ViewName("people")], folder="views/people/2")
        cuts.append(replace(cut, number=cut.number + 1, views={ViewName("people"): state}))

    with pytest.raises(HistoryGone, match="loaded anew"):
        list(changes(hw.open(folder).project, "people", follow=True, wait=wait))


def test_the_last_few_are_found_from_the_end(folder: Path) -> None:
    add_view(folder, "many", seq=3)
    for seq in range(4, 24):
        grow(folder, "many", seq, *([(seq, 1)] if seq % 2 else []))
    project = hw.open(folder).project
    assert newest(project, "many", 3) == 18  # 19, 21, 23
    assert newest(project, "many", 99) == 4
    assert [s for s, _ in told(changes(project, "many", newest(project, "many", 3)))] == [19, 21, 23]


def test_a_few_of_many_segments_are_found_by_halving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.integrator.journal import Journal

    storage = Storage(str(tmp_path))
    journal = Journal(storage)
    for n in range(64):
        journal.append(numbered(10 * n, 10 * n + 10))
    storage.put("journal/000000000065/stray.arrow", b"half written")
    journal.trim(50)
    storage.put("journal/000000000002/stray.arrow", b"half forgotten")
    read: list[str] = []
    get = Storage.get
    monkeypatch.setattr(Storage, "get", lambda self, name: read.append(name) or get(self, name))  # type: ignore[func-returns-value]
    assert [(s.lo, s.hi) for s in segments_between(storage, 300, 315)] == [(300, 310), (310, 320)]
    assert len(read) < 20
    assert [s.hi for s in segments_between(storage, 0, 70)] == [60, 70]
    assert [s.hi for s in segments_between(storage, 635, 10**9)] == [640]
    assert list(segments_between(storage, 640, 10**9)) == []
