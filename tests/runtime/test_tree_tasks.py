"""What a tree's program is told: answers of sources that have moved on since, folded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from headwater.algebra.relations import Table
from headwater.maintenance.operators.program import Asked, Program
from headwater.maintenance.operators.running import Wanted
from headwater.maintenance.wave import Ask
from headwater.model.changelog import COUNT
from headwater.model.names import SourceName, TableName
from headwater.model.source import ORDINAL
from headwater.model.written import Tally
from headwater.runtime.compute import tree_tasks

NAME = TableName(SourceName("a"), "banned")
TABLE = Table(NAME, ("item",), ("c0",))


@pytest.mark.parametrize("columns", [("c0",), ()])
def test_rows_that_an_answer_takes_back_are_not_there(
    columns: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 was banned after the batch's end: the table has it now, and what came since takes it back."""
    answer = pa.table({ORDINAL: pa.array([0, 0, 1], pa.int64()), "item": [7, 7, 2], COUNT: [1, -1, 1]})
    monkeypatch.setattr(tree_tasks, "answer_question", lambda wave, ask, tally: answer)
    wave = SimpleNamespace(schemas={NAME: pa.schema([pa.field("item", pa.int64())])})
    program = Program((), "", {"c0": pa.int64()})
    work = tree_tasks.TreeWork(cast(Any, wave), program, "", lambda cost: None)
    keys = pa.table({"k0": [7, 2]}) if columns else pa.table({"k_": [1]})
    found = tree_tasks.supplied(work, Wanted(Asked("r1_", TABLE, columns, "r0_"), keys), Tally())
    assert found.to_pylist() == [{"c0": 2, "n_": 1}]


def test_a_question_about_many_keys_is_asked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key once, in lanes of their own, and told as one question."""
    lanes: dict[int, list[int]] = {}

    def answered(wave: Any, ask: Ask, tally: Tally, lane: int = 0) -> pa.Table:
        keys = lanes[lane] = ask.question.keys.column("item").to_pylist()
        tally.answers += len(keys)
        return pa.table({ORDINAL: pa.array(range(len(keys)), pa.int64()), "item": keys, COUNT: [1] * len(keys)})

    monkeypatch.setattr(tree_tasks, "answer_question", answered)
    monkeypatch.setattr(tree_tasks, "MANY_KEYS", 3)
    schemas = {NAME: pa.schema([pa.field("item", pa.int64())])}
    wave = SimpleNamespace(schemas=schemas, sizes={NAME: 10**9}, leading={NAME: frozenset({"item"})})
    work = tree_tasks.TreeWork(cast(Any, wave), Program((), "", {"c0": pa.int64()}), "", lambda cost: None)
    tally = Tally()
    want = Wanted(Asked("r1_", TABLE, ("c0",), "r0_"), pa.table({"k0": [4, 1, 3, 2, 5]}))
    found = tree_tasks.supplied(work, want, tally)
    assert sorted(found.column("c0").to_pylist()) == [1, 2, 3, 4, 5]
    assert sorted(map(len, lanes.values())) == [2, 3]
    assert (tally.questions, tally.keys, tally.answers) == (1, 5, 5)
