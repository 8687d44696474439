"""A PostgreSQL position: the text of a `pg_snapshot`, `xmin:xmax:xip,…`.

A snapshot is the set of transactions whose work it shows: all ids below `xmax` except those in `xip` (in progress when
it was taken). `xmin` is the lowest id that it may not show. Sets, not numbers: a transaction with a small id that
commits late is simply not in the set yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.model.errors import HeadwaterError
from headwater.model.names import Position


@dataclass(frozen=True)
class Snapshot:
    xmin: int
    xmax: int
    xip: tuple[int, ...] = ()

    @classmethod
    def parse(cls, position: Position) -> Snapshot:
        try:
            xmin, xmax, xip = position.split(":")
            return cls(int(xmin), int(xmax), tuple(int(x) for x in xip.split(",") if x))
        except ValueError:
            raise HeadwaterError(
                f"{position[:80]!r} is not a position of a PostgreSQL source",
                "positions look like 10:20:10,14; start the views of this source anew if its kind was changed",
            ) from None

    def position(self) -> Position:
        return Position(f"{self.xmin}:{self.xmax}:{','.join(str(x) for x in self.xip)}")

    def shows(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.xip

    def without(self, cut: Iterable[int], newest: int) -> Snapshot:
        """This snapshot less the transactions `cut` and all above `newest`: `xmax` goes down to `newest`, so that only
        those `cut` ids that lie below it need naming."""
        xmax = min(self.xmax, newest + 1)
        xip = tuple(sorted({x for x in (*self.xip, *cut) if x < xmax}))
        return Snapshot(xip[0] if xip else xmax, xmax, xip)
