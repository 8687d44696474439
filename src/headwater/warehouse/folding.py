"""Equal rows brought together, as every engine has it: NULL equals NULL, NaN itself, and 0.0 is −0.0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from headwater.model.changelog import COUNT, consolidate, visible

FEW = 5_000
"""So many rows are counted one by one sooner than an engine is started."""

_Row = tuple[object, ...]


def as_counted(rows: pa.Table) -> pa.Table:
    """Each row as often as its counts say together, without COUNT."""
    return one_by_one(rows) if rows.num_rows <= FEW else visible(folded(rows))


def folded(rows: pa.Table) -> pa.Table:
    """Equal rows once, with their counts together. Rows without columns are all equal."""
    if all(_exact(field.type) for field in rows.schema):
        return consolidate(rows)
    from headwater.kept.engine import first_of_equals  # an engine of its own is started only where it is needed

    places, counts = first_of_equals(rows.drop_columns([COUNT]), rows.column(COUNT))
    at = rows.schema.get_field_index(COUNT)
    return rows.take(places).set_column(at, COUNT, counts)


def _exact(kind: pa.DataType) -> bool:
    """Whether equal values are the same bytes. Floats have two zeros; lists and the like Arrow does not group."""
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_dictionary(kind))


def one_by_one(rows: pa.Table) -> pa.Table:
    """`as_counted`, for few rows."""
    counts = rows.column(COUNT).to_pylist()
    shown = rows.drop_columns([COUNT])
    if all(count == 1 for count in counts):
        return shown
    places, totals = dict[_Row, int](), Counter[_Row]()
    for at, (row, count) in enumerate(zip(_comparable_rows(shown), counts, strict=True)):
        places.setdefault(row, at)
        totals[row] += count
    return shown.take(pa.array([places[row] for row, count in totals.items() for _ in range(count)], pa.int64()))


def _comparable_rows(rows: pa.Table) -> Iterator[_Row]:
    """Rows as values that can be counted: NaN equals itself; lists and the like by what they look like."""
    made = [[_comparable(value) for value in column.to_pylist()] for column in rows.columns]
    return zip(*made, strict=True) if made else iter([()] * rows.num_rows)


_NAN = object()


def _comparable(value: object) -> object:
    if isinstance(value, float):
        return _NAN if value != value else value
    return repr(value) if isinstance(value, (list, dict)) else value
