"""What keeping would cost and save here, measured: a few questions to each source, a few files in the warehouse.

It takes some milliseconds, and is done where somebody waits for a decision: `plan`, `apply`, the first load.
"""

from __future__ import annotations

import datetime as dt
import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from headwater.maintenance.keeping.costs import Measured
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HeadwaterError
from headwater.model.logged import event
from headwater.model.names import CLOCK, SourceName
from headwater.model.source import Question, Source
from headwater.runtime.project.catalog import SourceCatalog
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.table import ChangelogTable, write_file

log = logging.getLogger(__name__)

TRIES = 3
ROWS = 1_000
FOLDER = "measuring"


def measured(catalog: SourceCatalog, storage: Storage) -> Measured:
    """What is known here and now; of a source that cannot be asked, nothing."""
    names = [SourceName(name) for name in catalog.sources() if name != CLOCK]
    question = {name: seconds for name in names if (seconds := _question(catalog, name)) is not None}
    maintained = frozenset(CutLog(storage).newest().views)
    with tempfile.TemporaryDirectory(prefix="headwater-") as aside:
        place = storage if maintained else Storage(aside)  # a plan makes no warehouse
        upkeep = _upkeep(place) if question else 0.0
    return Measured(question, upkeep, free_bytes(storage), maintained)


def free_bytes(storage: Storage) -> int | None:
    """What is free where the warehouse lies; None where nobody counts it."""
    if not storage.local:
        return None
    place = Path(storage.path(""))
    with suppress(OSError):
        return shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free
    return None


def _question(catalog: SourceCatalog, name: SourceName) -> float | None:
    try:
        if not catalog.spec(name).asked:
            return None
        source = catalog.source(name)
        capture = source.capture()
        if capture is None:
            return None
        return _asked(source, capture.tables, catalog)
    except HeadwaterError as error:
        facts = event("source.not_timed", source=name)
        log.info("source %s: a question could not be timed: %s", name, error.what, extra=facts)
        return None


def _asked(source: Source, tables: Iterable[object], catalog: SourceCatalog) -> float | None:
    """The best of a few: what disturbs a question says nothing of it."""
    known = catalog.described(source.name)
    source.expect({})
    at = source.position()
    for name in sorted(known):
        if name not in tables or not known[name].key:
            continue
        fields = [pa.field(c.name, c.type) for c in known[name].columns if c.name == known[name].key[0]]
        if not fields or fields[0].type not in _ANY:
            continue
        keys = pa.table([pa.array([_ANY[fields[0].type]], fields[0].type)], names=[fields[0].name])
        question = Question(name, (fields[0].name,), keys, (fields[0].name,))
        return _best(lambda: list(source.ask(question, at)))  # noqa: B023 # it is asked here
    return None


_ANY: Mapping[pa.DataType, object] = {
    pa.int64(): 0, pa.int32(): 0, pa.int16(): 0, pa.string(): "", pa.date32(): dt.date(1970, 1, 1),
    pa.decimal128(38, 0): Decimal(0), pa.decimal128(20, 0): Decimal(0),
}  # fmt: skip
"""A key of each kind, for a question of which nobody needs the answer."""


def _upkeep(storage: Storage) -> float:
    """Writing a batch and committing it, in a table that is gone afterwards."""
    folder = f"{FOLDER}/{uuid.uuid4().hex[:8]}"
    table = ChangelogTable(storage, folder)
    numbers = pa.array(range(ROWS), pa.int64())
    rows = pa.table(dict.fromkeys(("a", "b", COUNT, SEQ), numbers))
    try:
        table.create(rows.schema)
        return _best(lambda: table.commit([write_file(storage, folder, rows, "0")]))
    finally:
        storage.delete_folder(folder)


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(TRIES):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
