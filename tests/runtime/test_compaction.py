"""When compaction is worth its cost."""

from __future__ import annotations

from headwater.model.names import Seq
from headwater.runtime.commit.folding import FULL_ROWS, worth_compacting, worth_merging
from headwater.warehouse.table import LogFile

LOAD = [LogFile("load-1", 1_000_000, 0, 0), LogFile("load-2", 1_000_000, 0, 0)]


def test_a_folded_state_of_several_files_is_not_folded_again() -> None:
    assert worth_compacting([*LOAD, LogFile("batch", 5_000, 1, 90)], Seq(90)) == []


def test_history_is_folded_when_it_is_as_large_as_the_state() -> None:
    files = [*LOAD, LogFile("batches", 2_500_000, 1, 1000)]
    assert worth_compacting(files, Seq(1000)) == ["load-1", "load-2", "batches"]
    assert worth_compacting(files, Seq(500)) == [], "half of it is history that must stay"
    assert worth_compacting(files, Seq(0)) == []


def test_many_small_files_are_brought_together_without_touching_the_large_ones() -> None:
    small = [LogFile(f"batch-{i}", 10, i, i + 1) for i in range(1, 70)]
    assert worth_compacting([*LOAD, *small], Seq(0)) == [f.name for f in small]
    assert worth_compacting([*LOAD, *small[:60]], Seq(0)) == []


def test_what_is_looked_up_is_merged_by_size() -> None:
    """So that a lookup goes through few files, and a row is not rewritten with every batch."""
    files: list[LogFile] = [LogFile("load", 10_000_000, 0, 0)]
    rewritten = batches = 0
    for n in range(1, 2000):
        files.append(LogFile(f"batch-{n}", 2_000, n, n))
        batches += 2_000
        while names := worth_merging(files):
            assert "load" not in names
            merged = [f for f in files if f.name in names]
            rows = sum(f.rows for f in merged)
            rewritten += rows
            files = [f for f in files if f.name not in names] + [LogFile(f"merged-{n}-{rows}", rows, n, n)]
        assert len(files) < 60
    assert rewritten < 4 * batches


def test_full_files_are_not_merged_for_their_number() -> None:
    """Ten of them came back as ten, and were merged again, every five seconds for ever."""
    assert worth_merging([LogFile(f"load-{n}", FULL_ROWS, 0, 0) for n in range(10)]) == []


def test_what_keeps_its_size_is_rewritten_a_few_times_and_stays_small() -> None:
    """Ten million rows, of which each batch replaces some."""
    state, at_most = 10 * FULL_ROWS, 0
    files = [LogFile(f"load-{n}", FULL_ROWS, 0, 0) for n in range(10)]
    rewritten = written = 0
    for n in range(1, 500):
        files.append(LogFile(f"batch-{n}", 200_000, n, n))
        written += 200_000
        while names := worth_merging(files):
            merged = sum(f.rows for f in files if f.name in names)
            rewritten += merged
            left = min(merged, state) if len(names) == len(files) else merged
            files = [f for f in files if f.name not in names]
            sizes = [FULL_ROWS] * (left // FULL_ROWS) + [left % FULL_ROWS] * bool(left % FULL_ROWS)
            files += [LogFile(f"merged-{n}-{i}-{len(names)}", rows, n, n) for i, rows in enumerate(sizes)]
        at_most = max(at_most, sum(f.rows for f in files))
    assert rewritten < 5 * written
    assert at_most < 3 * state
