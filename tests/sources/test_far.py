"""A source that is made to seem far away: questions take longer, and nothing else is different."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from headwater.model.names import SourceName, TableName
from headwater.model.source import COUNT, DELAY, Joined, JoinQuestion, Question, SourceSpec
from headwater.sources import connect
from headwater.sources.memory import database


def test_only_questions_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    here = database("memory://far")
    here.create("t", {"k": pa.int64()}, key=("k",))
    source = connect(SourceSpec(SourceName("far"), "memory://far", ((DELAY, "20"),)))
    table = TableName(SourceName("far"), "t")
    source.install([table])
    here.commit([("t", {"k": 1}, 1)])
    at = source.position()
    assert [b.num_rows for chunk in source.chunks(table, 10) for b in source.scan(chunk, ["k"], at)] == [1]
    assert not slept
    (batch,) = source.ask(Question(table, ("k",), pa.table({"k": [1]}), ("k",)), at)
    assert batch.column(COUNT).to_pylist() == [1]
    assert slept == [0.02]
    twice = (Joined(table, ("k",)), Joined(table, (), on=(("k", 0, "k"),)))
    (batch,) = source.ask_join(JoinQuestion(twice, ((0, "k"),), pa.table({"k": [1]}), ("k",)), at)
    assert batch.column(COUNT).to_pylist() == [1]
    assert slept == [0.02, 0.02], "a join is one question"
