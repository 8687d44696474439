"""Rows found by the order of their values: a binary search of a column in a run's order, and no hash, so no engine.

Of several columns the one with the fewest rows of its value is taken, and the others are looked at in those rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.kept.contract import Ints
from headwater.kept.runs import Indexed
from headwater.model.arrow import pc

FEW = 100
"""So many rows are looked at one by one."""


def can_order(kind: pa.DataType) -> bool:
    """Whether Arrow has an order of a type's values that Python has, too."""
    t = pa.types
    tests = (t.is_integer, t.is_floating, t.is_decimal, t.is_string, t.is_boolean, t.is_date, t.is_timestamp)
    return any(test(kind) for test in tests) and getattr(kind, "unit", "us") != "ns"


def places_of_value(run: Indexed, column: str, value: object) -> Ints:
    """Where the rows with a value stand in the file, given a run in the order of that column."""
    values, places, wanted = run.rows.column(column), run.places, _key(value)

    def at(place: int) -> tuple[bool, object]:
        return _key(values[int(places[place])].as_py())

    all_of_it = range(len(places))
    low = bisect_left(all_of_it, wanted, key=at)
    return np.asarray(places[low : bisect_right(all_of_it, wanted, lo=low, key=at)], np.int64)


def picked(rows: pa.Table, places: Ints) -> pa.Table:
    """The rows at these places. A few are cut out: what Arrow takes rows with is loaded for many."""
    if not 0 < len(places) <= FEW:
        return rows.take(pa.array(places))
    return pa.concat_tables([rows.slice(int(place), 1) for place in places])


def _key(value: object) -> tuple[bool, object]:
    """NaN equals itself, and comes last."""
    return (True, 0) if value != value else (False, value)


def narrowed(rows: pa.Table, where: Mapping[str, object]) -> pa.Table:
    """Those rows whose columns have these values; None is NULL."""
    if rows.num_rows <= FEW:
        values = zip(*(rows.column(name).to_pylist() for name in where), strict=True)
        wanted = [_key(value) for value in where.values()]
        found = [place for place, row in enumerate(values) if [_key(value) for value in row] == wanted]
        return rows if len(found) == rows.num_rows else picked(rows, np.array(found, np.int64))
    for name, value in where.items():
        column = rows.column(name)
        if value is None:
            rows = rows.filter(pc.is_null(column))
        elif value != value:
            rows = rows.filter(pc.is_nan(column))
        else:
            rows = rows.filter(pc.equal(column, pa.scalar(value, column.type)))
    return rows
