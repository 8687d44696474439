"""Percentiles against recomputation, at every transaction: from what is kept in memory, and in files of which only what
stands around the places is read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.algebra.aggregates import Quantile
from headwater.algebra.view import AggregateCall, Aggregation, Output
from headwater.kept import files, places, ranks
from headwater.kept.contract import Kept
from headwater.kept.files import FilesKept
from headwater.kept.memory import MemoryKept
from headwater.maintenance.aggregate import GroupedDelta, aggregate
from headwater.maintenance.groups import auxiliary_schema
from headwater.model.changelog import COUNT, SEQ, consolidate, fold
from headwater.storage import Storage

NAN, INF = float("nan"), float("inf")
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "whole": (pa.int64(), lambda c: c.choice([-(2**63), 2**63 - 1, c.randrange(-60, 60), c.randrange(9)])),
    "few": (pa.int32(), lambda c: c.randrange(3)),
    "money": (pa.decimal128(10, 2), lambda c: Decimal(c.randrange(-900, 900)).scaleb(-2)),
    "wide": (pa.decimal128(38, 18), lambda c: Decimal(c.choice([1, 10**20, -(10**37)]) + c.randrange(40)).scaleb(-18)),
    "double": (pa.float64(), lambda c: c.choice([NAN, INF, -INF, 0.0, -0.0, 5e-324, c.uniform(-9, 9)])),
    "single": (pa.float32(), lambda c: c.randrange(50) / 8),
}
QUANTILES = [
    *(Quantile(at) for at in (0.0, 0.1, 0.5, 0.9, 1.0)),
    *(Quantile(at, True) for at in (0.1, 0.5)),
    *(Quantile(at, down, True) for at in (0.0, 0.25, 0.3, 1.0) for down in (False, True)),
]
Row = tuple[Any, Any]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(files, "SMALL_ROWS", 20)
    monkeypatch.setattr(places, "WHOLE", 0)
    monkeypatch.setattr(ranks, "PIVOTS", 3)
    yield
    files._open.clear()


def history(kind: str, chance: random.Random) -> Iterator[list[list[tuple[Row, int]]]]:
    """Batches of transactions of signed rows, the load first; no row goes that is not there."""
    held: list[Row] = []
    for batch in range(5):
        made = []
        for _ in range(1 if not batch else chance.choice([0, 1, 8, 20])):
            transaction = []
            for _ in range(chance.choice([0, 60, 90]) if not batch else chance.randint(1, 4)):
                if batch and held and chance.random() < 0.55:
                    transaction.append((held.pop(chance.randrange(len(held))), -1))
                else:
                    value = None if chance.random() < 0.1 else VALUES[kind][1](chance)
                    held.append((chance.choice([1, 1, 1, 2, None]), value))
                    transaction.append((held[-1], 1))
            made.append(transaction)
        yield made


def expected(values: list[Any], wanted: Quantile) -> float | None:
    """Spelled out: the values in a row, and a place on it."""
    row = sorted((v for v in values if v is not None), key=lambda v: (v != v, v), reverse=wanted.descending)
    if not row:
        return None
    if wanted.discrete:
        return float(next(v for n, v in enumerate(row, 1) if n >= wanted.at * len(row)))
    at = wanted.at * (len(row) - 1)
    below, above = row[int(at)], row[-int(-at // 1)]
    return float(below) if below == above else (-(-at // 1) - at) * float(below) + (at - at // 1) * float(above)


def shown(rows: list[Any]) -> Counter[str]:
    return Counter(repr(tuple(0.0 if v == 0 and isinstance(v, float) else v for v in row)) for row in rows)


@pytest.mark.parametrize("seed", range(12))
def test_every_state(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kind, keyed = list(VALUES)[seed % len(VALUES)], seed < 2 * len(VALUES) - 3
    chosen = chance.sample(QUANTILES, 4)
    calls = [
        AggregateCall(f"agg{i}", "percentile_disc" if q.discrete else "percentile", "arg0", quantile=q)
        for i, q in enumerate(chosen)
    ]
    shape = Aggregation((Output("key0", ""),) if keyed else (), (Output("arg0", ""),), tuple(calls), ())
    types = {"key0": pa.int64(), "arg0": VALUES[kind][0], **{c.name: pa.float64() for c in calls}}
    storage, paths, aux = Storage(str(tmp_path)), [], auxiliary_schema(shape, types).empty_table()
    held: Counter[Row] = Counter()
    states: dict[int, list[Any]] = {}
    logs: list[list[pa.Table]] = [[], []]
    seq = 0
    for n, batch in enumerate(history(kind, chance)):
        rows: list[Any] = []
        for transaction in batch:
            seq += 1
            for (key, value), count in transaction:
                rows.append((key, value, count, seq))
                held[key, "NaN" if value != value else value] += count
            states[seq] = list((+held).elements())
        columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
        names = zip(("key0", "arg0", COUNT, SEQ), columns, strict=True)
        delta = consolidate(pa.table({name: pa.array(part, types.get(name, pa.int64())) for name, part in names}))
        both: list[Kept] = [MemoryKept(aux), FilesKept(storage, aux.schema, list(paths))]
        made = [aggregate(shape, types, GroupedDelta(delta, kept, seq, first=n == 0)) for kept in both]
        for log, (changes, _) in zip(logs, made, strict=True):
            log.append(changes)
        aux = pa.concat_tables([aux, made[0][1]])
        paths.append(storage.path(f"p{n}.parquet"))
        pq.write_table(made[1][1], paths[-1])
    for at, state in states.items():
        groups: dict[Any, list[Any]] = {} if keyed else {None: []}
        for key, value in state:
            groups.setdefault(key if keyed else None, []).append(NAN if value == "NaN" else value)
        wanted = shown([((key,) if keyed else ()) + tuple(expected(v, q) for q in chosen) for key, v in groups.items()])
        for log in logs:
            found = fold(pa.concat_tables(log), at).drop_columns([COUNT])
            assert shown([tuple(row.values()) for row in found.to_pylist()]) == wanted, f"at {at}, {chosen}"
