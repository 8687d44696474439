"""Groups and extremes of every type that a view may hold, over a load and two batches, against plain Python."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.algebra.view import AggregateCall, Aggregation, Output
from headwater.kept.memory import MemoryKept
from headwater.maintenance.aggregate import GroupedDelta, aggregate
from headwater.maintenance.groups import auxiliary_schema
from headwater.model.changelog import COUNT, SEQ, fold

UTC = dt.UTC
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127, 0]),
    "float": (pa.float32(), [1.5, -0.0, 0.0, float("inf")]),
    "double": (pa.float64(), [1.5, -0.0, 0.0, float("-inf")]),
    "decimal": (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0)]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    "instant": (pa.timestamp("us", "UTC"), [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(1899, 12, 31, tzinfo=UTC)]),
    "text": (pa.string(), ["", "a", "A", "é", "e\u0301", "a\0b", "x" * 1_000_000]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff\x00"]),
}
CALLS = (
    AggregateCall("agg0", "count", "arg0"),
    AggregateCall("agg1", "count", "arg0", distinct=True),
    AggregateCall("agg2", "min", "arg0"),
    AggregateCall("agg3", "max", "arg0"),
)
SHAPE = Aggregation((Output("key0", "k"),), (Output("arg0", "x"),), CALLS, ())


def expected(held: Counter[tuple[Any, Any]]) -> Counter[tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = {}
    for (key, value), count in held.items():
        groups.setdefault(key, []).extend([value] * count)
    found = []
    for key, members in groups.items():
        values = [v for v in members if v is not None]
        found.append((key, len(values), len(set(values)), min(values, default=None), max(values, default=None)))
    return Counter(found)


@pytest.mark.parametrize("kind", KINDS)
def test_grouped_by_and_aggregated(kind: str) -> None:
    arrow, some = KINDS[kind]
    values = [*some, None]
    types = {"key0": arrow, "arg0": arrow, "agg0": pa.int64(), "agg1": pa.int64(), "agg2": arrow, "agg3": arrow}
    everything = [(k, x) for k in values for x in values]
    batches = [
        [(row, 1, 1) for row in everything],
        [(row, -1, 2) for row in everything[::2]] + [(row, 2, 3) for row in everything[1::3]],
        [(row, -1, 4) for row in everything[1::2]],
    ]
    held: Counter[tuple[Any, Any]] = Counter()
    log, auxiliary = [], []
    for n, batch in enumerate(batches):
        delta = pa.table(
            {
                "key0": pa.array([row[0] for row, _, _ in batch], arrow),
                "arg0": pa.array([row[1] for row, _, _ in batch], arrow),
                COUNT: pa.array([count for _, count, _ in batch], pa.int64()),
                SEQ: pa.array([seq for _, _, seq in batch], pa.int64()),
            }
        )
        state = pa.concat_tables(auxiliary) if auxiliary else auxiliary_schema(SHAPE, types).empty_table()
        rows, kept = aggregate(SHAPE, types, GroupedDelta(delta, MemoryKept(state), batch[-1][2], n == 0))
        log.append(rows)
        auxiliary.append(kept)
        for row, count, _ in batch:
            held[row] += count
        shown = fold(pa.concat_tables(log)).to_pylist()
        got = Counter({tuple(v for c, v in row.items() if c != COUNT): row[COUNT] for row in shown})
        assert got == expected(+held)
