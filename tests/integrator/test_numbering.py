"""One number per transaction: each source's order is kept, clocks only decide between sources, parts share a number."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.integrator.numbering import TRANSACTIONS as NUMBERED
from headwater.integrator.numbering import number
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.model.source import ORDINAL, TRANSACTIONS, Poll

EPOCH = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def poll(
    source: str,
    end: str,
    minutes: list[int | None],
    rows_of: list[int] | None = None,
    tags: dict[int, str] | None = None,
) -> Poll:
    """A poll whose i-th transaction was committed at that minute; `rows_of` are the transactions of its rows, `tags`
    the global ids of those that are parts."""
    times = [None if m is None else EPOCH + dt.timedelta(minutes=m) for m in minutes]
    rows_of = list(range(len(minutes))) if rows_of is None else rows_of
    changes = pa.table(
        {
            "x": pa.array([f"{source}{n}" for n in rows_of], pa.string()),
            COUNT: pa.array([1] * len(rows_of), pa.int64()),
            ORDINAL: pa.array(rows_of, pa.int64()),
        }
    )
    ids = [(tags or {}).get(n) for n in range(len(minutes))]
    parts = [None if i is None else 2 for i in ids]
    transactions = pa.table([[f"{source}{n}" for n in range(len(minutes))], times, ids, parts], schema=TRANSACTIONS)
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
@settings(max_examples=100, deadline=None)
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


# ── parts of global transactions ─────────────────────────────────────────────────────────────────────────────────


def numbers(polls: dict[str, Poll], alone: frozenset[str] = frozenset()) -> dict[str, int]:
    got = number(Seq(0), {}, {SourceName(s): p for s, p in polls.items()}, alone)
    found = got.transactions
    assert found.column(SEQ).to_pylist() == sorted(found.column(SEQ).to_pylist())
    return dict(zip(found.column("transaction").to_pylist(), found.column(SEQ).to_pylist(), strict=True))


def test_the_parts_of_a_transfer_share_a_number() -> None:
    a = poll("a", "3", [0, 1, 2], tags={1: "transfer-17"})
    b = poll("b", "3", [0, 3, 5], tags={1: "transfer-17"})
    got = number(Seq(0), {}, {SourceName("a"): a, SourceName("b"): b})
    assert (got.hi, got.transactions.num_rows) == (5, 6)
    assert numbers({"a": a, "b": b}) == {"a0": 1, "b0": 2, "a1": 3, "b1": 3, "a2": 4, "b2": 5}
    assert got.transactions.column("global_id").to_pylist() == [None, None, "transfer-17", "transfer-17", None, None]
    assert got.changes[TableName(SourceName("b"), "t")].column(SEQ).to_pylist() == [2, 3, 5]


def test_parts_in_alone_are_transactions_of_their_own() -> None:
    polls = {"a": poll("a", "1", [0], tags={0: "g"}), "b": poll("b", "1", [1], tags={0: "g"})}
    assert numbers(polls) == {"a0": 1, "b0": 1}
    assert numbers(polls, frozenset({"g"})) == {"a0": 1, "b0": 2}
    assert numbers({"a": polls["a"]}) == {"a0": 1}, "one part is a transaction"


def test_a_barrier_holds_back_what_its_sources_did_after_it_and_nobody_else() -> None:
    a = poll("a", "1", [0, 1], tags={0: "g"})
    b = poll("b", "1", [9], tags={0: "g"})
    assert numbers({"a": a, "b": b, "c": poll("c", "1", [5])}) == {"c0": 1, "a0": 2, "b0": 2, "a1": 3}


def test_barriers_of_the_same_moment_keep_their_order() -> None:
    a = poll("a", "1", [0, 0, 0], tags={0: "z", 1: "y"})
    b = poll("b", "1", [0, 0, 0], tags={0: "z", 2: "x"})
    c = poll("c", "1", [0, 0], tags={0: "y", 1: "x"})
    found = numbers({"a": a, "b": b, "c": c})
    assert found["a0"] == found["b0"] < found["a1"] == found["c0"] < found["b2"] == found["c1"]


def test_sources_that_disagree_on_the_order_are_not_numbered() -> None:
    a = poll("a", "1", [0, 1], tags={0: "g", 1: "h"})
    b = poll("b", "1", [0, 1], tags={0: "h", 1: "g"})
    with pytest.raises(AssertionError, match="do not agree"):
        numbers({"a": a, "b": b})
    with pytest.raises(AssertionError, match="two parts of g"):
        numbers({"a": poll("a", "1", [0, 1], tags={0: "g", 1: "g"})})


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_parts_share_a_number_and_all_else_has_its_own(data: st.DataObject) -> None:
    """A global order is drawn and dealt out to the sources, so they agree on it; their clocks are anybody's guess."""
    minutes: dict[str, list[int | None]] = {s: [] for s in "abcd"}
    tags: dict[str, dict[int, str]] = {s: {} for s in "abcd"}
    together: list[list[str]] = []
    for n in range(data.draw(st.integers(0, 12))):
        sources = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
        together.append([f"{s}{len(minutes[s])}" for s in sources])
        for source in sources:
            if len(sources) > 1 or data.draw(st.booleans()):
                tags[source][len(minutes[source])] = f"g{n}"
            minutes[source].append(data.draw(st.one_of(st.none(), st.integers(-3, 3))))
    polls = {s: poll(s, "9", minutes[s], tags=tags[s]) for s in "abcd"}
    alone = frozenset(data.draw(st.lists(st.sampled_from([f"g{n}" for n in range(12)]), max_size=3)))
    found = numbers(polls, alone)
    groups = [{found[t] for t in parts} for n, parts in enumerate(together) if f"g{n}" not in alone]
    assert all(len(one) == 1 for one in groups)
    assert set(found.values()) == set(range(1, len(set(found.values())) + 1)), "dense"
    separate = sum(len(parts) for n, parts in enumerate(together) if f"g{n}" in alone)
    assert len(set(found.values())) == len(groups) + separate, "everything else has its own"
    for source in "abcd":
        own = [found[f"{source}{n}"] for n in range(len(minutes[source]))]
        assert all(one < two for one, two in pairwise(own))
