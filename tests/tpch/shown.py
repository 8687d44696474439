"""What the engine shows of a benchmark's views, state by state, against what the queries say of the same state.

The journal says which transaction got which number. Of every source the order is known here, so the k-th transaction
that the journal tells of a source is the k-th that was committed there; what a state of the tables is follows from
that, and nothing that the engine wrote about rows takes part in the expectation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

import headwater
from headwater.model.names import SourceName

from .maintained import Rows, View, difference
from .world import Edit, Row, World


@dataclass(frozen=True)
class Committed:
    """The transactions of every source, in their order."""

    of: dict[SourceName, list[list[Edit]]] = field(default_factory=dict)

    def add(self, sources: Sequence[SourceName], edits: Sequence[Edit]) -> None:
        for source in sources:
            self.of.setdefault(source, []).append([edit for edit in edits if edit[0].source == source])


def states(
    warehouse: headwater.Warehouse, world: World, committed: Committed, since: int
) -> Iterator[tuple[int, World]]:
    """(seq, tables) after every transaction, of a world that holds them as of `since`; the first is that one."""
    told: dict[SourceName, int] = {}
    parts: dict[int, list[Edit]] = {}
    for one in warehouse.log(since + 1):
        source = SourceName(one["source"])
        edits = committed.of[source][told.get(source, 0)]
        told[source] = told.get(source, 0) + 1
        parts.setdefault(one["seq"], []).extend(edits)
    assert told == {source: len(all_) for source, all_ in committed.of.items()}, "the journal lacks transactions"
    yield since, world
    for seq, edits in sorted(parts.items()):
        world.commit(edits)
        yield seq, world


def check_state(warehouse: headwater.Warehouse, views: Mapping[str, View], world: World, seq: int) -> dict[str, Rows]:
    """Every view as readers see it at `seq`, compared with its query over the world; what was seen."""
    seen = {}
    with warehouse.session(seq) as session:
        for name, view in views.items():
            shown = session.rows(name)
            got, wanted = _bag(shown), _as_shown(world.connection.execute(view.written).fetchall(), shown.schema)
            assert not (wrong := difference(got, wanted)), f"{name} at {seq}:\n{wrong}"
            seen[name] = got
    return seen


def _bag(table: pa.Table) -> Rows:
    return Counter(tuple(map(_plain, row.values())) for row in table.to_pylist())


def _as_shown(rows: Iterable[Row], schema: pa.Schema) -> Rows:
    """DuckDB divides decimals as floats, Spark as decimals of so many places: the former, rounded as the latter are."""
    return Counter(tuple(_fitted(v, f.type) for v, f in zip(row, schema, strict=True)) for row in rows)


def _fitted(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, float) and pa.types.is_decimal(kind):
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    return _plain(value)


def _plain(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value
