"""Rows looked up by their values are those that the state has, in large files and small ones."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.kept import files
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Seq
from headwater.storage import Storage
from headwater.warehouse.reading import Pinned, find_rows
from headwater.warehouse.table import ChangelogTable, write_file

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int64(), [*range(-5, 5), 2**62, None]),
    "f": (pa.float64(), [0.0, -0.0, NAN, -1.5, None]),
    "t": (pa.string(), ["", "a", "ä", "b\0", None]),
    "d": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25"), None]),
    "b": (pa.bool_(), [True, False, None]),
    "w": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 2, day, tzinfo=dt.UTC) for day in (1, 28)]),
}
SCHEMA = pa.schema([*((name, kind) for name, (kind, _) in VALUES.items()), (COUNT, pa.int64()), (SEQ, pa.int64())])


def _said(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return repr(value + 0.0 if isinstance(value, float) else value)  # −0.0 is 0.0


@pytest.mark.parametrize("small", [0, 20_000])
def test_found_by_value_is_what_the_state_holds(tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL_ROWS", small)
    chance, storage = random.Random(small), Storage(str(tmp_path))
    log = ChangelogTable(storage, "log")
    log.create(SCHEMA)
    rows = [tuple(chance.choice(values) for _, values in VALUES.values()) for _ in range(400)]
    gone = chance.sample(range(300), 60)
    entries = [(*row, 1, 1 + at // 300) for at, row in enumerate(rows)] + [(*rows[at], -1, 2) for at in gone]
    parts = [entries[:300], entries[300:]]
    tables = [pa.table([pa.array(c, f.type) for c, f in zip(zip(*p, strict=True), SCHEMA, strict=True)], SCHEMA)
              for p in parts]  # fmt: skip
    version = log.commit([write_file(storage, "log", table, f"f{n}") for n, table in enumerate(tables)])
    names = list(VALUES)
    for seq, there in ((1, rows[:300]), (2, [row for at, row in enumerate(rows) if at not in set(gone)])):
        view = Pinned("log", version, Seq(seq))
        for _ in range(60):
            row = chance.choice(rows)
            where = {name: row[names.index(name)] for name in chance.sample(names, chance.choice([1, 1, 2, 3]))}
            found = [tuple(row.values()) for row in find_rows(storage, view, where).to_pylist()]
            wanted = [r for r in there if all(_said(r[names.index(n)]) == _said(v) for n, v in where.items())]
            assert sorted([*map(_said, r)] for r in found) == sorted([*map(_said, r)] for r in wanted)
