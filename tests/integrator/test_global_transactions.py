"""Assembly: parts pass together or not at all, a source's order is kept, nothing waits longer than `patience`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.integrator import global_transactions
from headwater.integrator.global_transactions import Assembly, Kind, Ready
from headwater.integrator.numbering import number
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, SourceName, TableName
from headwater.model.source import ORDINAL, TRANSACTIONS, Poll

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
PATIENCE = 10.0


def poll(source: str, told: str, start: int = 0, cuttable: bool = True) -> Poll:
    """`told` lists transactions: `-` is untagged, `g` a part of a global transaction of two, `g/3` of three. The n-th
    transaction of a source is called source + n and has one row; position n is after the first n."""
    words = told.split()
    labels = [f"{source}{start + n}" for n in range(len(words))]
    ids = [None if w == "-" else w.partition("/")[0] for w in words]
    parts = [None if w == "-" else int(w.partition("/")[2] or 2) for w in words]
    changes = pa.table(
        {
            "x": pa.array(labels, pa.string()),
            COUNT: pa.array([1] * len(words), pa.int64()),
            ORDINAL: pa.array(range(len(words)), pa.int64()),
        }
    )
    return Poll(
        end=Position(str(start + len(words))),
        transactions=pa.table([labels, [NOW] * len(words), ids, parts], schema=TRANSACTIONS),
        changes={TableName(SourceName(source), "t"): changes},
        before={t: Position(str(start + n)) for n, t in enumerate(labels) if ids[n] and cuttable},
    )


def polls(cuttable: bool = True, **told: str) -> dict[SourceName, Poll]:
    return {SourceName(s): poll(s, words, cuttable=cuttable) for s, words in told.items()}


def labels(found: Mapping[SourceName, Poll]) -> dict[str, list[str]]:
    """Also checks that every transaction still has its own rows."""
    for source, one in found.items():
        rows = one.changes[TableName(source, "t")]
        told = one.transactions.column("transaction")
        assert rows.column("x").to_pylist() == [told[n].as_py() for n in rows.column(ORDINAL).to_pylist()]
        assert rows.num_rows == len(told)
    return {s: names for s, one in found.items() if (names := one.transactions.column("transaction").to_pylist())}


def kinds(ready: Ready) -> dict[str, Kind]:
    return {r.global_id: r.kind for r in ready.reports}


def test_without_tags_everything_goes_on_untouched() -> None:
    given_polls = polls(a="- -", b="-")
    ready = Assembly(PATIENCE).ready(given_polls, 0.0)
    assert ready.polls is given_polls
    assert (ready.held, ready.alone, ready.reports) == ({}, frozenset(), ())


def test_a_complete_transaction_passes_at_once() -> None:
    ready = Assembly(PATIENCE).ready(polls(a="- g -", b="g", c="-"), 0.0)
    assert labels(ready.polls) == {"a": ["a0", "a1", "a2"], "b": ["b0"], "c": ["c0"]}
    assert (ready.held, ready.alone, ready.reports) == ({}, frozenset(), ())


def test_what_came_before_an_incomplete_part_goes_on_the_rest_waits() -> None:
    assembly = Assembly(PATIENCE)
    ready = assembly.ready(polls(a="- g -", b="-"), 100.0)
    assert labels(ready.polls) == {"a": ["a0"], "b": ["b0"]}
    assert ready.polls[SourceName("a")].end == "1", "the source is where its held part begins"
    assert labels(ready.held) == {"a": ["a1", "a2"]}
    assert ready.held[SourceName("a")].end == "3"
    assert [tuple(w) for w in assembly.waiting()] == [("g", 1, 2, 100.0)]
    ready = assembly.ready({**ready.held, SourceName("b"): poll("b", "g -", start=1)}, 101.0)
    assert labels(ready.polls) == {"a": ["a1", "a2"], "b": ["b1", "b2"]}
    assert (ready.held, ready.reports, assembly.waiting()) == ({}, (), [])


def test_a_poll_that_names_no_positions_is_held_whole_and_with_it_all_it_shares() -> None:
    ready = Assembly(PATIENCE).ready(polls(cuttable=False, a="- g h", b="g", c="-"), 0.0)
    assert labels(ready.polls) == {"c": ["c0"]}
    assert labels(ready.held) == {"a": ["a0", "a1", "a2"], "b": ["b0"]}


def test_nothing_to_number_is_no_polls() -> None:
    ready = Assembly(PATIENCE).ready(polls(a="g -"), 0.0)
    assert ready.polls == {}
    assert labels(ready.held) == {"a": ["a0", "a1"]}


def test_a_held_source_is_said_to_stand_before_its_part() -> None:
    """Its poll is numbered without transactions: the cut then has the position that its tables are to be asked at."""
    ready = Assembly(PATIENCE).ready({SourceName("a"): poll("a", "g", start=7), SourceName("b"): poll("b", "-")}, 0.0)
    numbered = number(Seq(0), {SourceName("a"): Position("8")}, ready.polls, ready.alone)
    assert numbered.positions == {"a": "7", "b": "1"}
    assert numbered.hi == 1


def test_steady_traffic_flows_although_there_is_always_one_under_way() -> None:
    assembly, held, told = Assembly(PATIENCE), dict[SourceName, Poll](), []
    for n in range(50):
        held |= {SourceName("a"): poll("a", f"g{n}", start=n)} if SourceName("a") not in held else {}
        if n:
            held |= {SourceName("b"): poll("b", f"g{n - 1}", start=n - 1)}
        ready = assembly.ready(held, float(n))
        assert not ready.reports
        held = dict(ready.held)
        told.append(sum(p.transactions.num_rows for p in ready.polls.values()))
        if n % 2:
            assert told[-1] == 2


def test_a_missing_part_is_given_up_and_a_late_one_comes_alone() -> None:
    assembly = Assembly(PATIENCE)
    ready = assembly.ready(polls(a="g -"), 0.0)
    ready = assembly.ready(ready.held, PATIENCE - 0.1)
    assert labels(ready.held) == {"a": ["a0", "a1"]}
    ready = assembly.ready(ready.held, PATIENCE)
    assert labels(ready.polls) == {"a": ["a0", "a1"]}
    assert (ready.held, ready.alone, kinds(ready)) == ({}, {"g"}, {"g": "missing"})
    assert ready.reports[0].text == "g: 1 of 2 parts came within 10 s (a); its parts are numbered separately"
    ready = assembly.ready(polls(b="- g"), PATIENCE + 5)
    assert labels(ready.polls) == {"b": ["b0", "b1"]}
    assert (ready.held, ready.alone, kinds(ready)) == ({}, {"g"}, {"g": "late"})


def test_a_late_part_is_told_once_though_its_poll_is_held() -> None:
    assembly = Assembly(PATIENCE)
    assembly.ready(polls(a="g"), 0.0)
    assembly.ready(polls(a="g"), PATIENCE)
    ready = assembly.ready(polls(b="h g"), 11.0)
    assert (kinds(ready), labels(ready.held)) == ({"g": "late"}, {"b": ["b0", "b1"]})
    ready = assembly.ready(ready.held, 12.0)
    assert not ready.reports
    ready = assembly.ready(ready.held, 21.0)
    assert (kinds(ready), ready.alone) == ({"h": "missing"}, {"g", "h"})


def test_all_parts_of_what_was_given_up_for_one_are_numbered_separately() -> None:
    assembly = Assembly(PATIENCE)
    first = polls(a="g/3", b="g/3")
    assembly.ready(first, 0.0)
    ready = assembly.ready(first, PATIENCE)
    assert ready.alone == {"g"}
    assert number(Seq(0), {}, ready.polls, ready.alone).hi == 2


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"a": "g/2", "b": "g/3"}, "different numbers of parts (a says 2, b says 3)"),
        ({"a": "g g", "b": "g"}, "a has more than one part"),
        ({"a": "g", "b": "g", "c": "g"}, "parts at 3 sources (a, b, c) and says 2"),
    ],
)
def test_parts_that_contradict_each_other_are_numbered_separately(told: dict[str, str], words: str) -> None:
    given_polls = polls(**told)
    ready = Assembly(PATIENCE).ready(given_polls, 0.0)
    assert labels(ready.polls) == labels(given_polls)
    assert (ready.alone, kinds(ready)) == ({"g"}, {"g": "disagree"})
    assert words in ready.reports[0].text


def test_of_two_that_conflict_one_is_given_up() -> None:
    ready = Assembly(PATIENCE).ready(polls(a="g h", b="h g"), 0.0)
    assert len(ready.alone) == len(ready.reports) == 1
    assert ready.held == {}
    assert "g" in ready.reports[0].text
    assert "h" in ready.reports[0].text
    assert number(Seq(0), {}, ready.polls, ready.alone).hi == 3


def test_the_one_that_strayed_is_given_up_not_all_it_passed() -> None:
    others = " ".join(f"g{n}" for n in range(20))
    for a, b in (f"{others} x", f"x {others}"), (f"x {others}", f"{others} x"):
        ready = Assembly(PATIENCE).ready(polls(a=a, b=b), 0.0)
        assert (ready.alone, ready.held) == ({"x"}, {})


def test_a_ring_through_three_sources_is_found_beside_a_wait() -> None:
    """g is behind i at c, i behind h at b, h behind g at a; and h is behind w, whose other part is not here."""
    assembly = Assembly(PATIENCE)
    ready = assembly.ready(polls(a="g h/3", b="h/3 i", c="i g", d="w h/3"), 0.0)
    assert len(ready.alone) == 1
    assert ready.alone < {"g", "h", "i"}
    assert [w.global_id for w in assembly.waiting()] == ["w"]


def test_given_up_ids_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_transactions, "REMEMBERED", 3)
    assembly = Assembly(0.0)
    assert assembly.ready(polls(a="g h i j"), 0.0).alone == {"g", "h", "i", "j"}
    assert kinds(assembly.ready(polls(b="j i h g"), 1.0)) == {"j": "late", "i": "late", "h": "late", "g": "missing"}


# ── generated ────────────────────────────────────────────────────────────────────────────────────────────────────

IDS = [f"g{n}" for n in range(6)]
WORDS = st.one_of(
    st.just("-"), st.sampled_from(IDS), st.builds("{}/{}".format, st.sampled_from(IDS), st.integers(2, 4))
)
TOLD = st.fixed_dictionaries(
    {s: st.lists(WORDS, max_size=7).map(" ".join) for s in "abc"},
    optional={"d": st.lists(WORDS, max_size=7).map(" ".join)},
)


def tags(found: Mapping[SourceName, Poll]) -> dict[str, set[SourceName]]:
    """Global id → the sources that have it here."""
    where: dict[str, set[SourceName]] = {}
    for source, one in found.items():
        for global_id in one.transactions.column("global_id").drop_null().to_pylist():
            where.setdefault(global_id, set()).add(source)
    return where


def check(given_polls: Mapping[SourceName, Poll], ready: Ready, assembly: Assembly) -> None:
    """What holds of every answer."""
    go, held = labels(ready.polls), labels(ready.held)
    assert {s: go.get(s, []) + held.get(s, []) for s in given_polls if go.get(s) or held.get(s)} == labels(given_polls)
    gone, kept = tags(ready.polls), tags(ready.held)
    for global_id, sources in gone.items():
        if global_id not in ready.alone:
            assert global_id not in kept, "parts pass together"
            stated = {
                p["parts"]
                for s in sources
                for p in ready.polls[s].transactions.to_pylist()
                if p["global_id"] == global_id
            }
            assert stated == {len(sources)}
    for poll_held in ready.held.values():
        first = poll_held.transactions.column("global_id")[0].as_py()
        if poll_held.before:
            assert first is not None, "held from a part on"
            assert first not in ready.alone
    for source, one in ready.polls.items():
        if source in ready.held:
            first_held = ready.held[source].transactions.column("transaction")[0].as_py()
            assert one.end == first_held.removeprefix(source)
        else:
            assert one.end == given_polls[source].end
    assert {w.global_id for w in assembly.waiting()} <= set(kept)
    numbered = number(Seq(0), {}, ready.polls, ready.alone)
    alone = sum(
        g is None or g in ready.alone
        for p in ready.polls.values()
        for g in p.transactions.column("global_id").to_pylist()
    )
    assert numbered.hi == alone + len(set(gone) - ready.alone), "number takes what assembly gives"
    assert set(numbered.transactions.column(SEQ).to_pylist()) == set(range(1, numbered.hi + 1))


@given(TOLD, st.booleans())
@settings(max_examples=400, deadline=None)
def test_nothing_waits_longer_than_patience(told: dict[str, str], cuttable: bool) -> None:
    assembly, again = Assembly(PATIENCE), Assembly(PATIENCE)
    given_polls = polls(cuttable=cuttable, **told)
    ready = assembly.ready(given_polls, 0.0)
    assert again.ready(dict(reversed(given_polls.items())), 0.0).alone == ready.alone, "deterministic"
    check(given_polls, ready, assembly)
    assert all(w.have < w.parts for w in assembly.waiting())
    late = assembly.ready(ready.held, PATIENCE)
    check(ready.held, late, assembly)
    assert late.held == {}
    assert assembly.waiting() == []
    assert ready.alone | late.alone == {r.global_id for r in (*ready.reports, *late.reports)}, "all said so"


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_sources_that_agree_and_are_polled_on_lose_nothing(data: st.DataObject) -> None:
    """A global order, dealt out to the sources and polled in pieces: no report, everything passes, parts as one."""
    words: dict[str, list[str]] = {s: [] for s in "abcd"}
    for n in range(data.draw(st.integers(0, 12))):
        sources = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
        for source in sources:
            words[source].append(f"g{n}/{len(sources)}" if len(sources) > 1 else "-")
    assembly, at, taken = Assembly(PATIENCE), dict.fromkeys(words, 0), 0
    held: dict[SourceName, Poll] = {}
    for _ in range(100):
        for source, all_words in words.items():
            if source not in held and at[source] < len(all_words):
                size = data.draw(st.integers(1, 4))
                piece = all_words[at[source] : at[source] + size]
                held[SourceName(source)] = poll(source, " ".join(piece), start=at[source])
                at[source] += len(piece)
        if not held:
            break
        before = dict(held)
        ready = assembly.ready(before, 0.0)
        check(before, ready, assembly)
        assert (ready.alone, ready.reports) == (frozenset(), ())
        held = dict(ready.held)
        taken += sum(p.transactions.num_rows for p in ready.polls.values())
    assert taken == sum(map(len, words.values()))
