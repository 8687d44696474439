"""Rows that were taken back are told from the others, whatever tells them."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from headwater.model.changelog import COUNT
from headwater.warehouse.back import Back

DAY = dt.date(1, 1, 1)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [0, -1, 2**63 - 1, -(2**63), *range(0, 2**50, 2**43)]),
    "short": (pa.int16(), [*range(-200, 200)]),
    "unsigned": (pa.uint64(), [2**64 - 1, *range(300)]),
    "day": (pa.date32(), [DAY + dt.timedelta(days=997 * n) for n in range(300)]),
    "day in milliseconds": (pa.date64(), [DAY + dt.timedelta(days=997 * n) for n in range(300)]),
    "time": (pa.timestamp("us", "UTC"), [dt.datetime(1, 1, 1, tzinfo=dt.UTC) + dt.timedelta(n) for n in range(300)]),
    "text": (pa.string(), [f"t{n}" for n in range(300)]),
    "nothing that tells": (pa.float64(), [0.0, -0.0, 0.5]),
}


@pytest.mark.parametrize("name", VALUES)
def test_what_is_left_alone_and_the_rest_are_the_fold(name: str) -> None:
    kind, values = VALUES[name]
    chance = random.Random(name)
    there = [chance.choice([*values, None]) for _ in range(2_000)]
    gone = chance.sample(there, 150)
    back = Back(pa.table({"v": pa.array(gone, kind), "w": pa.array([0.5] * 150), COUNT: pa.array([-1] * 150)}))
    rows = pa.record_batch({"v": pa.array(there, kind), "w": pa.array([0.5] * len(there))})
    alone = [back.left_alone(rows.slice(at, 700)) for at in range(0, len(there), 700)]
    shown = [value for batch in (*alone, *back.rest()) for value in batch.column("v").to_pylist()]
    left = Counter(there)
    left.subtract(gone)
    assert Counter(shown) == +left
    if name != "nothing that tells":  # most rows need no fold: none of these values was taken back
        never = sum(count for value, count in Counter(there).items() if value not in set(gone))
        assert sum(batch.num_rows for batch in alone) > 0.8 * never
