"""A changelog table as a kept relation: its files never change, so each is indexed once, by whoever needs it first.

The table itself is what is kept, and what a cut names; runs and indexes are copies on a local disk beside it, or in
place of it where the table lies in an object store. So nothing here takes part in a commit or in recovery, old cuts
are read as before, and a machine that has no copy makes one. Small files are indexed in memory: reading them is as fast
as mapping them. Copies in place of an object store's files are bounded in size (`cache`).
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from headwater.kept import cache
from headwater.kept.contract import KEY, Ints
from headwater.kept.engine import hashes, matched, speaking
from headwater.kept.memory import with_below
from headwater.kept.places import values_at
from headwater.kept.runs import Index, Indexed, Ranges, copied, indexed, indexes, mapped, opened, places_of
from headwater.kept.standing import FEW, narrowed, picked, places_of_value
from headwater.model.arrow import pc
from headwater.model.changelog import COUNT, SEQ, consolidate
from headwater.storage import Storage

if TYPE_CHECKING:  # where there are copies, no Parquet file is opened
    import pyarrow.parquet as pq

SMALL_ROWS = 20_000
"""A file with fewer rows is indexed in memory."""
TOGETHER = 8
"""So many of the smallest files are looked up as one."""
OPEN = 512
"""Indexes that a process keeps open."""
TIDY_SECONDS = 600.0
FIRST = 16
"""Rows of a key that are read beyond those wanted; four times as many if they do not say enough."""

_RUN, _ALL = "__run", "__all"

_open: OrderedDict[tuple[str, Index], Indexed] = OrderedDict()
_used: dict[tuple[str, Index], tuple[Path, float]] = {}
"""Of those over copies that may be removed: the run, and when this process last said that it uses it."""
_opening = threading.Lock()


class FilesKept:
    """The fold of a table's files up to a transaction (all of it if None), and of `more` rows that are in no file."""

    def __init__(
        self,
        storage: Storage,
        schema: pa.Schema,
        paths: Sequence[str],
        at: int | None = None,
        more: pa.Table | None = None,
    ) -> None:
        self._storage, self._schema, self._paths, self._at, self._more = storage, schema, paths, at, more

    def found(self, by: Sequence[str], keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        shown = [n for n in self._schema.names if n not in (COUNT, SEQ)] if columns is None else list(columns)
        read = list(dict.fromkeys([*shown, *by, COUNT, SEQ]))
        wanted = self._keys(by, keys)
        numbers = np.unique(hashes(wanted))
        parts = []
        for run in self._few_runs(Index(tuple(by))):
            at = places_of(run.ranges(numbers)) if by else np.arange(len(run.places))
            if len(at):
                parts.append(run.take(at, read))
        rows = self._seen(parts, read)
        if by:
            rows = rows.take(pc.unique(matched(rows.select(by), wanted)[0]))
        return consolidate(rows.select([*shown, COUNT]))

    def entries(self, by: Sequence[str], number: int, columns: Sequence[str], most: int) -> pa.Table | None:
        """Of the keys with this hash, the rows as they stand in the files; None if there are more than `most`."""
        wanted, parts, left = np.array([number], np.int64), [], most
        for run in self._runs(Index(tuple(by))):
            at = places_of(run.ranges(wanted))
            left -= len(at)
            if left < 0:
                return None
            if len(at):
                parts.append(run.take(at, columns))
        return pa.concat_tables([pa.schema([self._schema.field(n) for n in columns]).empty_table(), *parts])

    def standing(self, where: Mapping[str, object], columns: Sequence[str]) -> pa.Table:
        """The rows of the state with these values as they stand in the files, COUNT among the columns. Values are of
        types that have an order; one at least is not NULL."""
        known = {n: pa.scalar(v, self._schema.field(n).type).as_py() for n, v in where.items()}
        asked = [name for name, value in known.items() if value is not None]
        parts = []
        for runs in zip(*(self._runs(Index((), name)) for name in asked), strict=True):
            found = [places_of_value(run, name, known[name]) for run, name in zip(runs, asked, strict=True)]
            at = min(found, key=len)
            if len(at):
                rows = runs[0].rows.select(list(dict.fromkeys([*columns, *where, SEQ])))
                rows = picked(rows, np.sort(at))
                parts.append(narrowed(rows, known))
        return self._seen(parts, [*dict.fromkeys([*columns, *where, SEQ])]).select(columns)

    def first(self, by: Sequence[str], keys: pa.Table, value: str, number: Ints, last: bool = False) -> pa.Table:
        wanted, runs = self._keys(by, keys), list(self._runs(Index(tuple(by), value)))
        numbers = hashes(wanted)
        ranges = [run.ranges(numbers) for run in runs]
        kind = self._schema.field(value).type
        result = [pa.schema([(KEY, pa.int64()), (value, kind), (COUNT, pa.int64())]).empty_table()]
        asked, size = np.arange(wanted.num_rows), np.asarray(number, np.int64) + FIRST
        while len(asked):
            read = [
                self._end(run, Ranges(r.low[asked], r.high[asked]), asked, (*by, value), (n, size[asked], last))
                for n, (run, r) in enumerate(zip(runs, ranges, strict=True))
            ]
            values, whole = self._values([part for part in read if part.num_rows], by, wanted, value, last)
            there = np.bincount(values.column(KEY).to_numpy(), minlength=wanted.num_rows)[asked]
            done = (there >= number[asked]) | np.isin(asked, whole)
            result.append(values.filter(pc.is_in(values.column(KEY), pa.array(asked[done]))))
            asked, size = asked[~done], size * 4
        return pa.concat_tables([part.select([KEY, value, COUNT]).cast(result[0].schema) for part in result])

    def ranked(self, by: Sequence[str], keys: pa.Table, value: str, low: Ints, high: Ints) -> pa.Table:
        wanted, index = self._keys(by, keys), Index(tuple(by), value, ranked=True)
        runs = [self._until(run, index) for run in self._runs(index)]
        read, before = values_at(runs, index, wanted, (np.asarray(low), np.asarray(high)))
        schema = pa.schema([(KEY, pa.int64()), (value, self._schema.field(value).type), (COUNT, pa.int64())])
        return with_below(
            consolidate(pa.concat_tables([schema.empty_table(), *(r.cast(schema) for r in read)])), before
        )

    def _until(self, run: Indexed, index: Index) -> Indexed:
        """Counts over a run are of all of it; where some of it is of later transactions, it is counted again."""
        if self._at is None or not run.rows.num_rows or pc.max(run.rows.column(SEQ)).as_py() <= self._at:
            return run
        return indexed(self._of_state(run.rows), index)

    def _end(
        self, run: Indexed, ranges: Ranges, asked: Ints, columns: Sequence[str], how: tuple[int, Ints, bool]
    ) -> pa.Table:
        """Up to so many rows from one end of each key's range."""
        number, size, last = how
        low, high = ranges.low, ranges.high
        some = Ranges(np.maximum(low, high - size), high) if last else Ranges(low, np.minimum(high, low + size))
        of = np.repeat(np.arange(len(asked)), some.high - some.low)
        rows = run.take(places_of(some), [*columns, COUNT, SEQ])
        whole = (high - low) <= size
        return (
            rows.append_column(KEY, pa.array(asked[of]))
            .append_column(_RUN, pa.array(np.full(len(of), number)))
            .append_column(_ALL, pa.array(whole[of]))
        )

    def _values(
        self, parts: Sequence[pa.Table], by: Sequence[str], keys: pa.Table, value: str, last: bool
    ) -> tuple[pa.Table, Ints]:
        """What the rows read so far say for sure: the values before the first one at which some run was left; and the
        keys of which everything was read."""
        kind = self._schema.field(value).type
        empty = pa.schema([(KEY, pa.int64()), (value, kind), (COUNT, pa.int64())]).empty_table()
        if not parts:
            return empty, np.arange(keys.num_rows)
        rows = self._weighed(pa.concat_tables(parts))
        left = rows.filter(pc.invert(rows.column(_ALL)))
        whole = np.setdiff1d(np.arange(keys.num_rows), pc.unique(left.column(KEY)).to_numpy())
        end, reach, beyond = ("MAX", "MIN", ">") if last else ("MIN", "MAX", "<")
        names = [f"c{i}" for i in range(len(by))]
        given = rows.select([*by, value, COUNT, KEY, _RUN, _ALL]).rename_columns(
            [*names, "v", "n", "k", "run", "whole"]
        )
        numbered = keys.rename_columns(names).append_column("k", pa.array(np.arange(keys.num_rows)))
        same = " AND ".join(f"g_.{n} IS NOT DISTINCT FROM k_.{n}" for n in names) or "TRUE"
        with speaking(g_=given, k_=numbered) as here:
            found = here.sql(
                f"WITH b_ AS (SELECT k, {end}(v) AS v FROM (SELECT k, run, {reach}(v) AS v FROM g_ WHERE NOT whole"
                " GROUP BY k, run) GROUP BY k)"
                " SELECT g_.k AS k, g_.v AS v, CAST(SUM(g_.n) AS BIGINT) AS n FROM g_ JOIN k_ ON g_.k = k_.k"
                f" AND {same} LEFT JOIN b_ ON g_.k = b_.k"
                f" WHERE g_.v IS NOT NULL AND (b_.v IS NULL OR g_.v {beyond} b_.v)"
                " GROUP BY g_.k, g_.v HAVING SUM(g_.n) > 0"
            ).to_arrow_table()
        return found.rename_columns([KEY, value, COUNT]).cast(empty.schema), whole

    def _keys(self, by: Sequence[str], keys: pa.Table) -> pa.Table:
        fields = [self._schema.field(name) for name in by]
        return pa.table([keys.column(f.name).cast(f.type) for f in fields], names=list(by)) if by else keys

    def _seen(self, parts: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
        """What belongs to the state."""
        empty = pa.schema([self._schema.field(n) for n in columns]).empty_table()
        return self._of_state(pa.concat_tables([empty, *parts]))

    def _weighed(self, rows: pa.Table) -> pa.Table:
        """What does not belong to the state counts for nothing; it still says how far a run was read."""
        if self._at is None:
            return rows
        count = pc.if_else(pc.less_equal(rows.column(SEQ), self._at), rows.column(COUNT), 0)
        return rows.set_column(rows.schema.get_field_index(COUNT), COUNT, count)

    def _of_state(self, rows: pa.Table) -> pa.Table:
        if self._at is None:
            return rows
        if rows.num_rows <= FEW and all(seq <= self._at for seq in rows.column(SEQ).to_pylist()):
            return rows
        return rows.filter(pc.less_equal(rows.column(SEQ), self._at))

    def _few_runs(self, index: Index) -> Iterator[Indexed]:
        """The same rows, the smallest files `TOGETHER` at a time: each run is searched for all keys, and where a table
        is written all the time most files have few rows."""
        waiting: list[tuple[str, Indexed]] = []
        for number, run in enumerate(self._runs(index)):
            odd = bool(waiting) and run.rows.schema != waiting[0][1].rows.schema
            if odd or number >= len(self._paths) or run.rows.num_rows * TOGETHER > SMALL_ROWS:
                yield run
                continue
            waiting.append((self._storage.uri_of(self._paths[number]), run))
            if len(waiting) == TOGETHER:
                key = ("\0".join(name for name, _ in waiting), index)
                yield self._remembered(key, partial(_as_one, [run.rows for _, run in waiting], index))
                waiting = []
        yield from (run for _, run in waiting)

    def _remembered(self, key: tuple[str, Index], make: Callable[[], Indexed]) -> Indexed:
        with _opening:
            found = _open.get(key) if _is_there(key) else None
        found = found or make()  # perhaps by two at once: they make the same
        with _opening:
            _open[key] = found
            _open.move_to_end(key)
            while len(_open) > OPEN:
                _used.pop(_open.popitem(last=False)[0], None)
        return found

    def _runs(self, index: Index) -> Iterator[Indexed]:
        for path in self._paths:
            make = partial(self._opened, path, index)
            yield self._remembered((self._storage.uri_of(path), index), make)
        if self._more is not None and self._more.num_rows:
            yield indexed(self._more, index)

    def _opened(self, path: str, index: Index) -> Indexed:
        folder, name = self._cache(path), _name(path)
        file = None if (folder / f"{name}.rows").exists() else self._parquet(path)
        if file is not None and file.metadata.num_rows < SMALL_ROWS:
            return indexed(self._read(file), index)
        found = opened(folder, name, index, lambda: self._read(file or self._parquet(path)))
        if file is not None:
            self._tidy(path)
        if not self._storage.local:
            cache.make_room(folder / name)
            with _opening:
                _let_go()
                _used[self._storage.uri_of(path), index] = folder / name, time.monotonic()
        return found

    def _tidy(self, path: str) -> None:
        """Copies of files that are gone go, when they are old enough that nobody begins with them. Who has one open
        keeps it."""
        folder, old = self._cache(path), time.time() - TIDY_SECONDS
        table, known = path.rpartition("/")[0], {_name(p) for p in self._paths}
        for copy in folder.iterdir() if folder.exists() else ():
            name = copy.name.partition(".")[0]
            with suppress(OSError):
                if name not in known and copy.stat().st_mtime < old and not self._there(f"{table}/{name}.parquet"):
                    copy.unlink()

    def _there(self, path: str) -> bool:
        return bool(self._storage.filesystem.get_file_info(path).type != pafs.FileType.NotFound)

    def index(self, wanted: Sequence[Index]) -> None:
        """Make these indexes of the files: then nobody waits for them."""
        for path in self._paths:
            for index in wanted:
                self._opened(path, index)

    def indexes(self) -> tuple[Index, ...]:
        """Those that there are of any of the files."""
        return tuple(dict.fromkeys(i for path in self._paths for i in indexes(self._cache(path), _name(path))))

    def copied(self, path: str) -> pa.Table | None:
        """The rows of a file, memory-mapped, if somebody made a copy of them."""
        return mapped(self._cache(path) / f"{_name(path)}.rows")

    def copy(self) -> None:
        """Make copies of the files, for those who read all of them again and again."""
        for path in self._paths:
            copied(self._cache(path), _name(path), lambda path=path: self._read(self._parquet(path)))  # type: ignore[misc]
            self._tidy(path)

    def _parquet(self, path: str) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        return pq.ParquetFile(path, filesystem=self._storage.filesystem)

    def _read(self, file: pq.ParquetFile) -> pa.Table:
        """All columns: others may need others of them."""
        rows, mine = file.read(), set(self._schema.names)
        return rows.cast(pa.schema([self._schema.field(f.name) if f.name in mine else f for f in rows.schema]))

    def _cache(self, path: str) -> Path:
        """Where copies of a table's files lie: beside them, where Delta looks at nothing, or on this machine."""
        if self._storage.local:
            return Path(path).parent / "_kept"
        folder = self._storage.uri_of(path).rpartition("/")[0]
        return cache.folder() / hashlib.sha256(folder.encode()).hexdigest()[:32]


def _as_one(parts: Sequence[pa.Table], index: Index) -> Indexed:
    return indexed(pa.concat_tables(parts), index)


def _is_there(key: tuple[str, Index]) -> bool:
    """Whether the copies behind an open index are still on disk, as far as this is to be asked again."""
    run, told = _used.get(key, (None, 0.0))
    if run is None or time.monotonic() - told < cache.TOUCHED:
        return True
    _used[key] = run, time.monotonic()
    return cache.still_there(run)


def _let_go() -> None:
    """What was removed takes room as long as somebody has it mapped."""
    for key, (run, _) in list(_used.items()):
        if not run.with_name(f"{run.name}.rows").exists():
            _open.pop(key, None)
            del _used[key]


def _name(path: str) -> str:
    return os.path.basename(path).removesuffix(".parquet")
