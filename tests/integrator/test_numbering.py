"""One number per source transaction: each source's order is kept, clocks only decide between sources."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.integrator.numbering import TRANSACTIONS as NUMBERED
from headwater.integrator.numbering import number
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.model.source import ORDINAL, TRANSACTIONS, Poll

EPOCH = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def poll(source: str, end: str, minutes: list[int | None], rows_of: list[int] | None = None) -> Poll:
    """A poll whose i-th transaction was committed at that minute; `rows_of` are the transactions of its rows."""
    times = [None if m is None else EPOCH + dt.timedelta(minutes=m) for m in minutes]
    rows_of = list(range(len(minutes))) if rows_of is None else rows_of
    changes = pa.table(
        {
            "x": pa.array([f"{source}{n}" for n in rows_of], pa.string()),
            COUNT: pa.array([1] * len(rows_of), pa.int64()),
            ORDINAL: pa.array(rows_of, pa.int64()),
        }
    )
    transactions = pa.table([[f"{source}{n}" for n in range(len(minutes))], times], schema=TRANSACTIONS)
    return Poll(Position(end), transactions, {TableName(SourceName(source), "t"): changes} if rows_of else {})


def test_sources_are_merged_by_the_time_of_commit() -> None:
    polls = {SourceName("a"): poll("a", "7", [0, 3, 9]), SourceName("b"): poll("b", "4", [1, 4])}
    got = number(Seq(10), {SourceName("c"): Position("z")}, polls)
    assert (got.lo, got.hi) == (10, 15)
    assert got.positions == {"a": "7", "b": "4", "c": "z"}
    assert got.transactions.schema == NUMBERED
    assert got.transactions.column("transaction").to_pylist() == ["a0", "b0", "a1", "b1", "a2"]
    assert got.transactions.column(SEQ).to_pylist() == [11, 12, 13, 14, 15]
    a = got.changes[TableName(SourceName("a"), "t")]
    assert dict(zip(a.column("x").to_pylist(), a.column(SEQ).to_pylist(), strict=True)) == {
        "a0": 11,
        "a1": 13,
        "a2": 15,
    }
    assert ORDINAL not in a.column_names


def test_a_source_order_outranks_its_clock() -> None:
    polls = {SourceName("a"): poll("a", "1", [9, 0]), SourceName("b"): poll("b", "1", [5])}
    assert number(Seq(0), {}, polls).transactions.column("transaction").to_pylist() == ["b0", "a0", "a1"]


def test_nothing_happened_but_positions_move() -> None:
    got = number(Seq(3), {SourceName("a"): Position("1")}, {SourceName("a"): poll("a", "2", [])})
    assert (got.lo, got.hi, got.transactions.num_rows, dict(got.changes)) == (3, 3, 0, {})
    assert got.positions == {"a": "2"}


@given(st.data(), st.lists(st.sampled_from("abc"), max_size=3, unique=True))
@settings(max_examples=100)
def test_every_transaction_gets_one_number_and_all_its_rows_the_same(data: st.DataObject, sources: list[str]) -> None:
    polls = {}
    for source in sources:
        minutes = data.draw(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=6))
        rows = data.draw(st.lists(st.integers(0, len(minutes) - 1), max_size=8)) if minutes else []
        polls[SourceName(source)] = poll(source, "9", minutes, rows)
    got = number(Seq(0), {}, polls)
    assert got.transactions.column(SEQ).to_pylist() == list(range(1, got.hi + 1))
    seq_of = dict(
        zip(got.transactions.column("transaction").to_pylist(), got.transactions.column(SEQ).to_pylist(), strict=True)
    )
    assert set(seq_of) == {f"{s}{n}" for s in sources for n in range(polls[SourceName(s)].transactions.num_rows)}
    for source in sources:
        own = [seq_of[f"{source}{n}"] for n in range(polls[SourceName(source)].transactions.num_rows)]
        assert own == sorted(own)
        rows = got.changes.get(TableName(SourceName(source), "t"))
        if rows is not None:
            assert [seq_of[x] for x in rows.column("x").to_pylist()] == rows.column(SEQ).to_pylist()
    assert number(Seq(0), {}, polls).transactions.equals(got.transactions), "a replay gives the same numbers"
