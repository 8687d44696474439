"""What a tree's program is told: answers of sources that have moved on since, folded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from headwater.algebra.relations import Table
from headwater.maintenance.operators.program import Asked, Program
from headwater.maintenance.operators.running import Wanted
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
