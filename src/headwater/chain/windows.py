"""The windows of a chain at one of its members: pins, and the database they are pins of."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headwater.chain.pins import Pin, PinBook
from headwater.model.chain import Chain, ChainMember
from headwater.model.changelog import COUNT, UNFIT, consolidate
from headwater.model.conditions import meets
from headwater.model.errors import ValueUnfit
from headwater.model.names import Position
from headwater.model.source import ORDINAL, Question, Source

POLLED = 100_000
"""About so many changes are taken off the capture at a time."""


class MemberWindows:
    """`source` is the adapter of the database here, used by whoever has this object and by nobody else."""

    def __init__(self, book: PinBook, chain: Chain, place: int, source: Source) -> None:
        self._book, self._chain, self._source = book, chain.source, source
        self._member: ChainMember = chain.members[place]
        columns = dict.fromkeys([*self._member.columns, *(c.column for c in self._member.conditions)])
        self._polled = {self._member.table: list(columns)}

    def begin(self, window: int) -> Pin:
        """Pin the first window of a chain to what is there now: a view is loaded from it, and means the columns that
        are there now."""
        with self._book.lock:
            meant = self._source.identities(self._polled)[self._member.table]
            position = self._source.position()
            self._source.check(position, [self._member.table])
            self._book.begin(self._chain, window, position, self._nothing(), meant)
            return self._book.pin(self._chain, window)

    def ensure(self, window: int) -> Pin:
        """Pin a window, unless it is pinned. Windows before it that nobody spoke of here end where it does."""
        with self._book.lock:
            known = self._book.windows(self._chain)
            if not known or window < known[0]:
                return self._book.pin(self._chain, window)  # which says that it is not known
            if window > known[-1]:
                self._expect()
                position, rows = self._since(self._book.pin(self._chain, known[-1]))
                following = known[-1] + 1
                if (
                    rows.num_rows and following < window
                ):  # those up to `window` end where this one does, and are not kept
                    self._book.write(self._chain, following, position, rows)
                    rows = self._nothing()
                self._book.write(self._chain, window, position, rows)
            return self._book.pin(self._chain, window)

    def pinned(self, window: int) -> Pin:
        """A window that was spoken of before; PositionTrimmed if it is not known any more."""
        return self._book.pin(self._chain, window)

    @property
    def newest(self) -> int:
        """The last window that is pinned here; 0: none."""
        return max(self._book.windows(self._chain), default=0)

    def held(self, after: int) -> int:
        """How many windows are kept that came after one: all that changed anything are."""
        return sum(window > after for window in self._book.windows(self._chain))

    # ── what the algorithms ask (`pinned_source.Windows`) ────────────────────────────────────────────────────────

    def changes(self, after: int, upto: int) -> pa.Table:
        return consolidate(pa.concat_tables([self._nothing(), *self._book.rows(self._chain, after, upto)]))

    def ask(self, question: Question, window: int) -> Iterator[pa.Table]:
        at = self._book.pin(self._chain, window).position
        self._expect()
        return (pa.Table.from_batches([batch]) for batch in self._source.ask(question, at))

    def truncate(self, window: int) -> None:
        with self._book.lock:
            self._book.forget_below(self._chain, window)
            oldest = self._book.oldest()
        if oldest is not None:
            self._source.trim(oldest)

    def _expect(self) -> None:
        self._source.expect({self._member.table: self._book.meant(self._chain)})

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────

    def _since(self, pin: Pin) -> tuple[Position, pa.Table]:
        """Where the source is now, and what changed on the way. Nothing is pinned while a value among it cannot be
        represented: when it was corrected, the change and its correction are in one window."""
        after, more, found = pin.position, True, list[pa.Table]()
        while more:
            poll = self._source.poll(after, self._polled, POLLED)
            rows = poll.changes.get(self._member.table)
            if rows is not None:
                found.append(rows.drop_columns([ORDINAL]))
            after, more = poll.end, poll.more
        if not found:
            return after, self._nothing()
        rows = consolidate(pa.concat_tables(found, promote_options="default"))
        if UNFIT in rows.column_names:
            rows = self._represented(rows)
        return after, consolidate(meets(rows, self._member.conditions).select([*self._member.columns, COUNT]))

    def _represented(self, rows: pa.Table) -> pa.Table:
        for text in rows.column(UNFIT).drop_null().to_pylist():
            mark = json.loads(text)
            column = next((c for c in mark["values"] if c in self._polled[self._member.table]), None)
            if column is not None:
                where = f", row {mark['key']}" if mark.get("key") else ""
                raise ValueUnfit(
                    f"{self._member.table}.{column} holds {mark['values'][column]}{where}, which its type here cannot"
                    " represent",
                    "correct the value at the source; or leave the column out of the view",
                )
        return rows.filter(pc.is_null(rows.column(UNFIT))).drop_columns([UNFIT])

    def _nothing(self) -> pa.Table:
        return self._member.schema.append(pa.field(COUNT, pa.int64())).empty_table()
