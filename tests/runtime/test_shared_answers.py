"""Views that ask the same table by the same columns as of the same position share one answer."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.integrator.journal import Journal
from headwater.maintenance.graph import steps
from headwater.model.changelog import COUNT
from headwater.model.errors import SourceUnavailable
from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import ORDINAL, Question, SourceSpec
from headwater.runtime.compute import asking
from headwater.runtime.compute.answers import Answers, Signature, Wider
from headwater.runtime.compute.wave_work import WaveWork
from headwater.runtime.compute.waves import core_changes
from headwater.storage import Storage
from maintenance.histories import Wanted, scenario
from maintenance.oracle import bag_of, played
from maintenance.test_wave_oracle import journalled

TABLE = TableName(SourceName("s"), "t")
SPEC = SourceSpec(SourceName("s"), "memory://s")
ROWS = {n: [(n, f"row {n}", n * 10 + m) for m in range(n % 3)] for n in range(20)}


def signature(at: str = "1") -> Signature:
    return Signature(SPEC, Position(at), TABLE, ("id",), (), "")


def question(keys: list[int], columns: tuple[str, ...]) -> Question:
    return Question(TABLE, ("id",), pa.table({"id": pa.array(keys, pa.int64())}), columns)


def told(asked: Question) -> pa.Table:
    """What a source answers."""
    found = [(o, *row) for o, key in enumerate(asked.keys.column("id").to_pylist()) for row in ROWS[key]]
    types = {ORDINAL: pa.int64(), "id": pa.int64(), "name": pa.string(), "value": pa.int64()}
    columns = {n: pa.array([row[i] for row in found], t) for i, (n, t) in enumerate(types.items())}
    return pa.table({**columns, COUNT: pa.array([1] * len(found), pa.int64())}).select([ORDINAL, *asked.columns, COUNT])


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True))


WIDE = ("id", "name", "value")


@given(st.integers(0, 10_000))
def test_what_is_shared_is_what_would_have_been_told(seed: int) -> None:
    chance, answers, asked = Random(seed), Answers(), []

    def ask(one: Question) -> pa.Table:
        asked.append(one)
        return told(one)

    for _ in range(6):
        keys = chance.sample(range(20), chance.randint(1, 20))
        mine = question(keys, tuple(chance.sample(WIDE, chance.randint(1, 3))))
        before = len(asked)
        found, shared = answers.answer(signature(chance.choice("12")), mine, replace(mine, columns=WIDE), ask)
        assert rows(found) == rows(told(mine))
        assert shared == (len(asked) == before)


def test_who_asks_for_less_is_told_without_asking() -> None:
    answers = Answers()
    first = question([1, 2, 5], ("name",))
    assert not answers.answer(signature(), first, replace(first, columns=WIDE), told)[1]
    assert answers.answer(signature(), question([5, 2], ("value",)), question([5, 2], WIDE), told)[1]
    assert not answers.answer(signature(), question([5, 3], ("value",)), question([5, 3], WIDE), told)[1]
    assert not answers.answer(signature("2"), first, replace(first, columns=WIDE), told)[1]


def test_who_comes_while_another_asks_waits_for_the_answer() -> None:
    answers, began, go, asked = Answers(), threading.Event(), threading.Event(), []

    def slow(one: Question) -> pa.Table:
        asked.append(one)
        began.set()
        assert go.wait(10)
        return told(one)

    mine = question([2, 5], WIDE)
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(answers.answer, signature(), mine, mine, slow)
        assert began.wait(10)
        two = threads.submit(answers.answer, signature(), mine, mine, slow)
        go.set()
        assert (one.result()[1], two.result()[1]) == (False, True)
    assert len(asked) == 1


def test_a_question_that_failed_for_one_is_asked_by_the_other() -> None:
    """A column that only another view uses may be gone: whoever does not use it goes on."""
    answers = Answers()

    def only_names(one: Question) -> pa.Table:
        if "value" in one.columns:
            raise SourceUnavailable("there is no column value", "")
        return told(one)

    mine = question([2, 5], ("name",))
    found, shared = answers.answer(signature(), mine, replace(mine, columns=WIDE), only_names)
    assert (rows(found), shared) == (rows(told(mine)), False)
    with pytest.raises(SourceUnavailable):
        answers.answer(signature(), replace(mine, columns=("value",)), replace(mine, columns=WIDE), only_names)


def test_what_is_remembered_is_bounded() -> None:
    answers = Answers(most_bytes=2_000)
    for at in range(100):
        mine = question(list(range(20)), WIDE)
        answers.answer(signature(str(at)), mine, mine, told)
    assert sum(told.size for tolds in answers._told.values() for told in tolds) <= 2_000
    assert answers._told


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWERS", Answers())


@pytest.mark.parametrize("seed", range(12))
def test_waves_that_share_find_what_waves_that_ask_find(seed: int) -> None:
    history = scenario(seed, Wanted(kind="plain"))
    with played(history) as world, tempfile.TemporaryDirectory() as folder:
        storage, view = Storage(folder), world.view()
        journal = Journal(storage)
        journalled(world, view, journal, [1000])
        if not journal.segments:
            return
        segments = tuple(journal.segments)
        schemas = world.schemas(view)
        alone = WaveWork(
            view=view, storage=storage, segments=segments, lo=segments[0].lo, hi=segments[-1].hi,
            positions=segments[-1].positions, specs=world.specs, schemas=schemas,
            sizes=dict.fromkeys(view.tables, 10**9),
        )  # fmt: skip
        wider = {(o.table, o.conditions): Wider(schemas[o.table], {}) for o in view.occurrences}
        expected, asked = core_changes(alone)
        first, told_first = core_changes(replace(alone, wider=wider))
        again, told_again = core_changes(replace(alone, wider=wider))
    assert bag_of(first) == bag_of(again) == bag_of(expected)
    assert told_first.questions + told_first.shared == asked.questions
    keyless = sum(not step.far for step in steps(view))
    assert told_again.questions <= keyless
    assert told_again.questions + told_again.shared == asked.questions
