"""What a load writes is indexed when it is written, by all that batches will look up: no batch waits for an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.algebra.aggregates import Quantile
from headwater.algebra.view import AggregateCall, Aggregation, Output
from headwater.kept import files, runs
from headwater.kept.files import FilesKept
from headwater.kept.memory import MemoryKept
from headwater.maintenance.aggregate import GroupedDelta, aggregate
from headwater.maintenance.groups import auxiliary_schema, looked_up
from headwater.model.changelog import COUNT, SEQ
from headwater.runtime.compute import writing
from headwater.runtime.compute.writing import Target, read_description, write_rows
from headwater.storage import Storage

CALLS = {
    "sum": AggregateCall("agg0", "sum", "arg0"),
    "min": AggregateCall("agg0", "min", "arg0"),
    "distinct": AggregateCall("agg0", "count", "arg0", distinct=True),
    "percentile": AggregateCall("agg0", "percentile", "arg0", quantile=Quantile(0.5)),
}
TYPES = {"key0": pa.int64(), "arg0": pa.int64(), "agg0": pa.int64()}


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL_ROWS", 0)
    monkeypatch.setattr(writing, "SMALL_ROWS", 0)


def delta(seq: int) -> pa.Table:
    """Each transaction's values are smaller than those before, so that every aggregate changes."""
    values = np.arange(40)
    rows = {"key0": values % 3, "arg0": values * 7 % 20 - 20 * seq, COUNT: np.ones(40, np.int64), SEQ: np.full(40, seq)}
    return pa.table(rows)


@pytest.mark.parametrize("kinds", [[kind] for kind in CALLS] + [list(CALLS)], ids="+".join)
@pytest.mark.parametrize("keyed", [True, False])
def test_a_batch_after_a_load_makes_no_index(
    kinds: Sequence[str], keyed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [AggregateCall(f"agg{n}", *_said(CALLS[kind])) for n, kind in enumerate(kinds)]
    shape = Aggregation((Output("key0", ""),) if keyed else (), (Output("arg0", ""),), tuple(calls), ())
    types = {**TYPES, **{c.name: pa.float64() if c.quantile else pa.int64() for c in calls}}
    schema = auxiliary_schema(shape, types)
    nothing = MemoryKept(schema.empty_table())
    _, loaded = aggregate(shape, types, GroupedDelta(delta(1), nothing, 1, True))
    (tmp_path / "kept").mkdir()
    target = Target(Storage(str(tmp_path)), "kept", "1", schema, "auxiliary", looked_up(shape))
    written = [read_description(one)[1].name for one in write_rows(target, loaded.to_batches())]
    files._open.clear()

    def made(*of: object) -> None:
        raise AssertionError(f"a batch waits for an index: {of[1]}")

    monkeypatch.setattr(runs, "_entries", made)
    kept = FilesKept(target.storage, schema, [target.storage.path(f"kept/{name}") for name in written])
    changes, _ = aggregate(shape, types, GroupedDelta(delta(2), kept, 2))
    assert changes.num_rows
    files._open.clear()


def _said(call: AggregateCall) -> tuple[object, ...]:
    return call.function, call.argument, call.distinct, call.quantile
