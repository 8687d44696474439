"""Rows of a view by key, one key at a time, without an engine: what a point query asks for.

Large files are asked through the indexes that lie beside them (`kept`), small ones are in memory. What is found is
folded by counting. A view is looked up by some columns from the third time on that it is asked by them: the first two
are answered by reading it, so that a question nobody repeats makes no index. Of one that is read whole a second time,
copies are made: a reader that comes again comes for all of it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.kept.engine import can_hash, hash_of
from headwater.model.changelog import COUNT, SEQ
from headwater.warehouse.contents import Contents
from headwater.warehouse.folding import one_by_one

log = logging.getLogger(__name__)

OFTEN, AGAIN = 3, 2
MOST_FOUND = 5_000
"""A key with more entries is none; such a question is answered by reading the view."""
MOST_INDEXED = 10_000_000
"""An index is made in memory; of more rows than that none is made."""


class Lookups:
    """Of the views of one warehouse, for any number of threads."""

    def __init__(self) -> None:
        self._lock, self._indexing = threading.Lock(), threading.Lock()
        self._asked = Counter[tuple[str, tuple[str, ...]]]()
        self._indexed = set[tuple[tuple[str, ...], tuple[str, ...]]]()

    def often(self, folder: str, by: tuple[str, ...], times: int = OFTEN) -> bool:
        """Counts a question, and says whether it is one that comes again."""
        with self._lock:
            self._asked[folder, by] += 1
            return self._asked[folder, by] >= times

    def whole(self, folder: str, contents: Contents) -> None:
        """A view is read whole. From the second time on, copies of its large files are made meanwhile that need no
        decoding."""
        made = (tuple(contents.large_paths()), ())
        rows = sum(file.rows for file in contents.files)
        if not made[0] or made in self._indexed or rows > MOST_INDEXED or not self.often(folder, (), AGAIN):
            return
        self._indexed.add(made)
        threading.Thread(target=self._copy, args=[contents], name="headwater-copy", daemon=True).start()

    def _copy(self, contents: Contents) -> None:
        with self._indexing:
            try:
                contents.kept.copy()
            except OSError as error:  # a file may be gone meanwhile
                log.info("no copy of %s: %s", contents.large_paths()[0], error)

    def found(
        self, contents: Contents, seq: int, where: Mapping[str, object], columns: Sequence[str]
    ) -> pa.Table | None:
        """These columns of the rows that have these values at the state `seq`, or None if it is better to look for
        them by reading the view."""
        kinds = {name: contents.schema.field(name).type for name in where}
        if not all(can_hash(kind) for kind in kinds.values()):
            return None
        read = list(dict.fromkeys([*columns, *where, COUNT, SEQ]))
        large = self._large(contents, where, kinds, read)
        if large is None:
            return None
        rows = pa.concat_tables([contents.small.select(read), large])
        wanted = pc.less_equal(rows.column(SEQ), seq)
        for name, value in where.items():
            wanted = pc.and_(wanted, pc.equal(rows.column(name), pa.scalar(value, kinds[name])))
        return one_by_one(rows.filter(wanted).select([*columns, COUNT]))

    def _large(
        self, contents: Contents, where: Mapping[str, object], kinds: Mapping[str, pa.DataType], read: list[str]
    ) -> pa.Table | None:
        paths, by = contents.large_paths(), tuple(sorted(where))
        if not paths:
            return pa.schema([contents.schema.field(name) for name in read]).empty_table()
        if sum(file.rows for file in contents.files) > MOST_INDEXED:
            return None
        number = hash_of([where[name] for name in by], [kinds[name] for name in by])
        made = (tuple(paths), by)
        if made in self._indexed:
            return contents.kept.entries(by, number, read, MOST_FOUND)
        if not self._indexing.acquire(blocking=False):
            return None  # somebody makes an index; meanwhile views are read
        try:
            found = contents.kept.entries(by, number, read, MOST_FOUND)
            self._indexed.add(made)
            return found
        finally:
            self._indexing.release()
