"""A PostgreSQL position: a snapshot, and the life that it belongs to.

    10:20:10,14@3f9a1c2b/16423.881.1736345000123456
    snapshot    life (see `life.py`); a bare snapshot claims none

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
    def parse(cls, position: str) -> Snapshot:
        """The snapshot of a position, or of PostgreSQL's own text."""
        try:
            xmin, xmax, xip = position.partition("@")[0].split(":")
            return cls(int(xmin), int(xmax), tuple(int(x) for x in xip.split(",") if x))
        except ValueError:
            raise HeadwaterError(
                f"{position[:80]!r} is not a position of a PostgreSQL source",
                "positions look like 10:20:10,14; start the views of this source anew if its kind was changed",
            ) from None

    @property
    def text(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(str(x) for x in self.xip)}"

    def position(self, life: str = "") -> Position:
        return Position(f"{self.text}@{life}" if life else self.text)

    def shows(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.xip

    def without(self, cut: Iterable[int], newest: int) -> Snapshot:
        """This snapshot less the transactions `cut` and all above `newest`: `xmax` goes down to `newest`, so that only
        those `cut` ids that lie below it need naming."""
        xmax = min(self.xmax, newest + 1)
        xip = tuple(sorted({x for x in (*self.xip, *cut) if x < xmax}))
        return Snapshot(xip[0] if xip else xmax, xmax, xip)

    def union(self, other: Snapshot) -> Snapshot:
        """Shows what either of them shows."""
        low, high = (self, other) if self.xmax <= other.xmax else (other, self)
        xip = tuple(x for x in high.xip if not low.shows(x))
        return Snapshot(xip[0] if xip else high.xmax, high.xmax, xip)

    def intersection(self, other: Snapshot) -> Snapshot:
        """Shows what both of them show."""
        xmax = min(self.xmax, other.xmax)
        xip = tuple(sorted({x for x in (*self.xip, *other.xip) if x < xmax}))
        return Snapshot(xip[0] if xip else xmax, xmax, xip)

    def contains(self, part: Snapshot) -> bool:
        """Whether it shows all that `part` shows."""
        beyond = sum(x >= self.xmax for x in part.xip)
        return not any(part.shows(x) for x in self.xip) and beyond >= part.xmax - self.xmax


def life_of(position: Position) -> str:
    """The life part of a position; empty if it claims none."""
    return position.partition("@")[2]
