"""Keys as ordinals: what equals what across types, and what cannot be asked at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.maintenance.keys import common_type, equal, key_set


def column(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    """In two chunks, as columns come."""
    half = len(values) // 2
    return pa.chunked_array([pa.array(values[:half], kind), pa.array(values[half:], kind)], kind)


TYPES = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(12,0)": pa.decimal128(12, 0),
    "decimal(38,18)": pa.decimal128(38, 18),
    "decimal(38,30)": pa.decimal128(38, 30),
}
NUMBERS = {
    "int16": [0, 1, -1, 32767],
    "int32": [0, 1, -1, 32767, 2**31 - 1],
    "int64": [0, 1, -1, 32767, 2**31 - 1, 2**63 - 1, -(2**63)],
    "decimal(10,2)": [Decimal(t) for t in ("0.00", "1.00", "1.50", "-1.00", "32767.00", "99999999.99")],
    "decimal(12,0)": [Decimal(t) for t in ("0", "1", "-1", "32767", "999999999999")],
    "decimal(38,18)": [Decimal(t) for t in ("0", "1", "1.5", "-1", "32767", "99999999999999999999")],
    "decimal(38,30)": [Decimal(t) for t in ("0", "1", "1.5", "-1", "32767")],
}


@pytest.mark.parametrize("far", TYPES)
@pytest.mark.parametrize("near", TYPES)
def test_numbers_of_different_types_meet_where_they_are_equal(near: str, far: str) -> None:
    asking, there = [*NUMBERS[near], None], [*NUMBERS[far], None]
    keys, (numbers,) = key_set([[column(asking, TYPES[near])]])
    found = keys.numbers([column(there, TYPES[far])])
    by_number = {int(n): v for n, v in zip(numbers, asking, strict=True) if n >= 0}
    met = [by_number.get(int(n)) for n in found]
    assert met == [v if v is not None and v in asking else None for v in there]
    asked, ordinals = keys.table(["k"], [TYPES[far]])
    assert asked.schema.field("k").type == TYPES[far]
    values = asked.column("k").to_pylist()
    assert [by_number[int(n)] for n in ordinals] == values, "what is asked for is what was meant"
    assert set(values) >= {v for v in asking if v is not None and v in there}, "whatever could be there is asked for"


def test_a_key_that_the_target_cannot_represent_is_not_asked_for() -> None:
    keys, _ = key_set([[column([1, 2**40, -(2**20), 7], pa.int64())]])
    asked, ordinals = keys.table(["k"], [pa.int16()])
    assert asked.column("k").to_pylist() == [1, 7]
    assert ordinals.tolist() == [0, 3]
    keys, _ = key_set([[column([Decimal("1.50"), Decimal("2.00")], pa.decimal128(10, 2))]])
    assert keys.table(["k"], [pa.int32()])[0].column("k").to_pylist() == [2]


def test_a_double_is_asked_of_singles_only_if_it_is_one() -> None:
    keys, _ = key_set([[column([0.1, 0.5, 1e300, float("nan"), float("inf")], pa.float64())]])
    asked, ordinals = keys.table(["k"], [pa.float32()])
    assert ordinals.tolist() == [1, 3, 4]
    assert asked.column("k").to_pylist()[0] == 0.5


def test_zero_has_no_sign_and_nan_is_itself() -> None:
    nan = float("nan")
    keys, (numbers,) = key_set([[column([0.0, -0.0, nan, nan, 1.0], pa.float64())]])
    assert numbers.tolist() == [0, 0, 1, 1, 2]
    assert keys.numbers([column([-0.0, nan, 2.0, None], pa.float64())]).tolist() == [0, 1, -1, -1]
    same = equal(column([0.0, nan, nan, None], pa.float64()), column([-0.0, nan, 1.0, None], pa.float64()))
    assert same.to_pylist() == [True, True, False, None]


def test_null_joins_nothing_in_any_column() -> None:
    _, (numbers,) = key_set([[column([1, None, 1], pa.int64()), column(["a", "a", None], pa.string())]])
    assert numbers.tolist() == [0, -1, -1]
    keys, (numbers,) = key_set([[column([None, None], pa.int64())]])
    assert len(keys) == 0
    assert numbers.tolist() == [-1, -1]
    assert keys.numbers([column([1, None], pa.int64())]).tolist() == [-1, -1]
    asked, ordinals = keys.table(["k"], [pa.int64()])
    assert (asked.num_rows, len(ordinals)) == (0, 0)


def test_types_that_do_not_compare_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot compare"):
        common_type(pa.int64(), pa.string())
    assert common_type(pa.int16(), pa.int32()) == pa.int64()
    assert common_type(pa.int64(), pa.decimal128(38, 30)).precision == 76
    assert common_type(pa.date32(), pa.date32()) == pa.date32()


_SIDES = {
    "int": (st.integers(-2, 3), pa.int64()),
    "text": (st.sampled_from(["", "a", "b"]), pa.string()),
    "date": (st.sampled_from([dt.date(2024, 1, 1), dt.date(2024, 1, 2)]), pa.date32()),
}


@given(st.data(), st.lists(st.sampled_from(sorted(_SIDES)), min_size=1, max_size=4))
@settings(max_examples=60)
def test_composite_keys(data: st.DataObject, kinds: list[str]) -> None:
    """Numbers are equal where keys are; a table of keys numbers itself; strangers and NULLs get −1."""
    row = st.tuples(*(st.one_of(st.none(), _SIDES[k][0]) for k in kinds))
    sides = data.draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=3))
    strangers = data.draw(st.lists(row, max_size=8))

    def columns(rows: list[Any]) -> list[pa.ChunkedArray]:
        return [column([r[i] for r in rows], _SIDES[k][1]) for i, k in enumerate(kinds)]

    keys, numbers = key_set([columns(rows) for rows in sides])
    number_of: dict[Any, int] = {}
    for rows, found in zip(sides, numbers, strict=True):
        for r, n in zip(rows, found.tolist(), strict=True):
            assert (n == -1) == (None in r)
            if n >= 0:
                assert number_of.setdefault(r, n) == n
    assert sorted(number_of.values()) == list(range(len(keys)))
    assert keys.numbers(columns(strangers)).tolist() == [number_of.get(r, -1) for r in strangers]
    asked, ordinals = keys.table([f"k{i}" for i in range(len(kinds))], [_SIDES[k][1] for k in kinds])
    told = list(zip(*(c.to_pylist() for c in asked.columns), strict=True))
    assert told == [r for r, _ in sorted(number_of.items(), key=lambda item: item[1])]
    assert ordinals.tolist() == list(range(len(keys)))


def test_many_columns_of_many_values_do_not_overflow() -> None:
    n, width = 10_000, 6
    shuffled = [np.random.default_rng(i).permutation(n) for i in range(width)]
    columns = [pa.chunked_array([pa.array(s)]) for s in shuffled]
    keys, (numbers,) = key_set([columns])
    assert len(keys) == n
    assert keys.numbers(columns).tolist() == numbers.tolist()
    asked, _ = keys.table([f"k{i}" for i in range(width)], [pa.int64()] * width)
    again, (same,) = key_set([[asked.column(i) for i in range(width)]])
    assert len(again) == n
    assert len(set(same.tolist())) == n
