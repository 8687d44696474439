"""Keys of whole numbers, dates and moments: numpy says what the engine says, of every row and NULL."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

from headwater.kept import engine
from headwater.kept.engine import hash_of, hashes, matched
from headwater.kept.whole import all_whole, hashes_of_whole, matched_whole

KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, -(2**63), -1, 0, 1, 7, 2**63 - 1]),
    (pa.int32(), [None, -(2**31), 0, 5]),
    (pa.int16(), [0, 1, 2]),
    (pa.int8(), [None, -128, 0]),
    (pa.date32(), [None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2020, 2, 29)]),
    (pa.timestamp("us", "UTC"), [None, dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
    (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(2020, 1, 1)]),
]


def _rows(kinds: list[tuple[pa.DataType, list[Any]]], number: int, chance: random.Random, name: str) -> pa.Table:
    columns = [pa.array([chance.choice(values) for _ in range(number)], kind) for kind, values in kinds]
    table = pa.table(columns, names=[f"{name}{i}" for i in range(len(columns))])
    half = number // 2
    return pa.concat_tables([table.slice(0, half), table.slice(half)])  # in two chunks


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_matched_as_the_engine_matches_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    kinds = [chance.choice(KINDS) for _ in range(chance.randint(1, 4))]
    rows, keys = (_rows(kinds, chance.choice([0, 1, 8, 90]), chance, name) for name in "ab")
    assert all_whole(rows.schema)
    found, numbers = matched_whole(rows, keys)
    mine = list(zip(found.to_pylist(), numbers.to_pylist(), strict=True))
    assert [row for row, _ in mine] == sorted(row for row, _ in mine)
    with monkeypatch.context() as only_the_engine:
        only_the_engine.setattr(engine, "all_whole", lambda schema: False)
        theirs = [part.to_pylist() for part in matched(rows, keys)]
    assert sorted(mine) == sorted(zip(*theirs, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_equal_rows_have_one_hash_and_others_others(seed: int) -> None:
    chance = random.Random(seed)
    kinds = [chance.choice(KINDS) for _ in range(chance.randint(1, 4))]
    rows = _rows(kinds, 200, chance, "a")
    found = hashes(rows).tolist()
    assert found == hashes_of_whole(rows).tolist()
    told = [tuple(row.values()) for row in rows.to_pylist()]
    assert len(set(zip(told, found, strict=True))) == len(set(told)) == len(set(found))
    for row, number in list(zip(told, found, strict=True))[:5]:
        assert hash_of(row, [kind for kind, _ in kinds]) == number


def test_hashes_stay_what_they_are() -> None:
    """They are in files: whoever changes them changes `whole.VERSION`."""
    rows = pa.table({"a": [0, 1, -1, None], "b": pa.array([0, 0, 0, None], pa.date32())})
    assert hashes(rows.select(["a"])).tolist() == SINGLE
    assert hashes(rows).tolist() == PAIRS


SINGLE = [-2152535657050944081, -7995527694508729151, -1956407806741107680, -4963013395825814188]
PAIRS = [-6411193824288604561, 6791897765849424158, 6755974106381971767, -1742262934979930918]
