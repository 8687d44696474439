"""A relation that knows its past (Pull-Push, section 2): tuples with creation tags, and a log of those deleted.

    R     (row, cr)          what is there, and since when
    R̄     (row, cr, dr)      what was there, from cr until dr

    R(t)          = {cr ≤ t in R} ∪ {cr ≤ t < dr in R̄}
    δR(t_k, t_k+1) = R(t_k+1) − R(t_k) = ΔR − ∇R,   over the interval ]t_k, t_k+1]

The paper's formula for ΔR looks into R only, and that for ∇R only at dr. Taken at its word, a tuple that was created
in the interval and deleted before somebody asks is missed, and one that came and went inside is deleted without having
been inserted. What is meant is the difference of two states, and that is what is computed here.

Invariant: after `truncate(t_v)` every state from t_v on can be restored, an older one is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key, key_of
from headwater.maintenance.strategies.contract import Wanted
from headwater.model.errors import HeadwaterError

ALWAYS = float("-inf")
"""The creation tag of what was there at the beginning."""
NEVER = float("inf")
"""The deletion tag of what is there."""


class Deleted(NamedTuple):
    """A tuple of R̄."""

    row: Row
    cr: float
    dr: float


class Tags(NamedTuple):
    """cr and dr of a tuple."""

    cr: float
    dr: float = NEVER

    @property
    def at(self) -> float:
        """When the tuple was last changed."""
        return self.cr if self.dr == NEVER else self.dr


class Updates(NamedTuple):
    """δR = (ΔR, ∇R): what an interval inserted and what it deleted, net."""

    inserted: Bag
    deleted: Bag

    @property
    def change(self) -> Bag:
        """Both, with their signs."""
        return self.inserted - self.deleted


NOTHING = Updates(Bag(), Bag())


class TaggedRelation:
    """R and R̄. Times of commits never decrease. Of equal tuples the youngest is deleted: states are the same
    whichever goes, and what came and went stays short."""

    def __init__(self, rows: Bag) -> None:
        self.truncated = ALWAYS
        """Nothing older than this can be restored."""
        self._live: dict[Row, list[float]] = {row: [ALWAYS] * count for row, count in rows.counts.items()}
        self._gone: dict[Row, list[Deleted]] = {}
        self._log: list[Deleted] = []
        """R̄, ascending in dr."""
        self._created: list[tuple[float, Row]] = []
        """What `updates` may still ask for, ascending in cr."""
        self._indexes: dict[tuple[int, ...], dict[Key, dict[Row, None]]] = {}
        self._changed = ALWAYS
        """The time of the last commit."""
        self._read = ALWAYS
        """The latest time that was asked for: it must have been over by then."""

    def __len__(self) -> int:
        """How long the log is."""
        return len(self._log)

    def insert(self, row: Row, at: float, count: int = 1) -> None:
        self._not_before_what_was_read(at)
        self._changed = at
        self._live.setdefault(row, []).extend([at] * count)
        self._created.append((at, row))
        for positions, index in self._indexes.items():
            index.setdefault(key_of(positions)(row), {})[row] = None

    def delete(self, row: Row, at: float, count: int = 1) -> None:
        self._not_before_what_was_read(at)
        self._changed = at
        tags = self._live.get(row, [])
        if len(tags) < count:
            raise HeadwaterError(f"{row} is deleted at {at} and is not there", "delete what is there only")
        for _ in range(count):
            deleted = Deleted(row, tags.pop(), at)
            self._log.append(deleted)
            self._gone.setdefault(row, []).append(deleted)
        if not tags:
            del self._live[row]

    def apply(self, change: Bag, at: float) -> None:
        """A transaction: deletions first, so that its own insertions stay."""
        for row, count in change:
            if count < 0:
                self.delete(row, at, -count)
        for row, count in change:
            if count > 0:
                self.insert(row, at, count)

    def state(self, t: float) -> Bag:
        """R(t)."""
        self._restorable(t)
        counts = ((row, self._count(row, t)) for row in dict.fromkeys((*self._live, *self._gone)))
        return Bag({row: count for row, count in counts if count})

    def find(self, positions: tuple[int, ...], t: float, wanted: Wanted | None = None) -> Find:
        """Rows of R(t) by the key at these positions. All are here: which are `wanted` does not matter."""
        self._restorable(t)
        index = self._indexes.get(positions)
        if index is None:
            index = self._indexes[positions] = {}
            key_at = key_of(positions)
            for row in (*self._live, *self._gone):
                index.setdefault(key_at(row), {})[row] = None
        found = index

        def rows(key: Key) -> Iterator[tuple[Row, int]]:
            for row in found.get(key, ()):
                count = self._count(row, t)
                if count:
                    yield row, count

        return rows

    def updates(self, t_k: float, t_k1: float) -> Updates:
        """δR(t_k, t_k+1); rows that came and went inside are in neither part."""
        self._restorable(t_k)
        self._read = max(self._read, t_k1)
        if self._changed <= t_k:
            return NOTHING  # most intervals are empty
        created = self._created[bisect_right(self._created, t_k, key=_cr) : bisect_right(self._created, t_k1, key=_cr)]
        deleted = self._log[bisect_right(self._log, t_k, key=_dr) : bisect_right(self._log, t_k1, key=_dr)]
        touched = dict.fromkeys((*(row for _, row in created), *(d.row for d in deleted)))
        net = [(row, self._count(row, t_k1) - self._count(row, t_k)) for row in touched]
        return Updates(Bag({r: n for r, n in net if n > 0}), Bag({r: -n for r, n in net if n < 0}))

    def tagged_updates(self, t_k: float, t_k1: float) -> dict[Tags, Bag]:
        """δR(t_k, t_k+1) by the tags of its tuples: those of ΔR have a cr in the interval, those of ∇R a dr."""
        updates = self.updates(t_k, t_k1)
        found: dict[Tags, list[tuple[Row, int]]] = {}
        for row, count in updates.inserted:
            created = [*self._live.get(row, ()), *(d.cr for d in self._gone.get(row, ()) if d.dr > t_k1)]
            for cr in sorted(cr for cr in created if t_k < cr <= t_k1)[-count:]:
                found.setdefault(Tags(cr), []).append((row, 1))
        for row, count in updates.deleted:
            deleted = [d for d in self._gone.get(row, ()) if d.cr <= t_k < d.dr <= t_k1]
            for d in deleted[-count:]:
                found.setdefault(Tags(d.cr, d.dr), []).append((row, -1))
        return {tags: Bag.summed(pairs) for tags, pairs in sorted(found.items())}

    def truncate(self, t_v: float) -> None:
        """EMPTY_LOG: the tuples of R̄ with dr ≤ t_v are in no state from t_v on."""
        if t_v <= self.truncated:
            return
        self.truncated = t_v
        over = bisect_right(self._log, t_v, key=_dr)
        for row in dict.fromkeys(d.row for d in self._log[:over]):
            left = [d for d in self._gone[row] if d.dr > t_v]
            if left:
                self._gone[row] = left
                continue
            del self._gone[row]
            if row not in self._live:
                for positions, index in self._indexes.items():
                    key = key_of(positions)(row)
                    del index[key][row]
                    if not index[key]:
                        del index[key]
        del self._log[:over]
        del self._created[: bisect_right(self._created, t_v, key=_cr)]

    def _count(self, row: Row, t: float) -> int:
        return bisect_right(self._live.get(row, ()), t) + sum(d.cr <= t < d.dr for d in self._gone.get(row, ()))

    def _restorable(self, t: float) -> None:
        if t < self.truncated:
            raise HeadwaterError(
                f"the state at {t} is asked for, but the log was emptied up to {self.truncated}",
                "empty the log up to what the view has applied only",
            )
        self._read = max(self._read, t)

    def _not_before_what_was_read(self, at: float) -> None:
        if at <= self._read:
            raise HeadwaterError(
                f"a commit at {at} comes after the state at {self._read} was read",
                "tell the agent of commits at once: its tags must be complete up to now",
            )


def _cr(created: tuple[float, Row]) -> float:
    return created[0]


def _dr(deleted: Deleted) -> float:
    return deleted.dr
