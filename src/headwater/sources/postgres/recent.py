"""What a poller has just moved from the log itself (`log.py`): which transactions, in which order, with how many rows.

A poll asks the change tables which transactions came after a position and in which order, although whoever polls mostly
moved just those a moment ago. So it is remembered, and taken for the answer where it can be proved to be all of it:

**Invariant.** The rows that were moved here, of transactions that are wanted (after the position, and shown by the
snapshot that is told), are rows of the change tables that are wanted. If the change tables have just as many that are
wanted, table by table, they are the same ones. Whatever else there may be (what somebody else moved, TRUNCATE and other
triggers, what an earlier poll read and did not tell) makes it more, and then the change tables are asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.sources.postgres.snapshot import Snapshot

Ints = npt.NDArray[np.int64]

_NONE = np.zeros(0, np.int64)

AT_MOST = 1_000_000
"""So many transactions are remembered; of a longer backlog, the change tables are asked."""


@dataclass(frozen=True, eq=False)
class Moved:
    """Some transactions in the order of the log, and when each was committed, in microseconds since 1970; by table, of
    which of them (by their places here) how many rows were moved."""

    xids: Ints
    at: Ints
    rows: Mapping[int, tuple[Ints, Ints]]

    @classmethod
    def joined(cls, parts: Sequence[Moved]) -> Moved:
        """One after the other. A transaction that goes on in the next part is the last of the one and the first of the
        other."""
        xids, at, rows = [_NONE], [_NONE], dict[int, tuple[list[Ints], list[Ints]]]()
        length = 0
        for part in (part for part in parts if len(part.xids)):
            goes_on = int(length > 0 and xids[-1][-1] == part.xids[0])
            for oid, (places, counts) in part.rows.items():
                of = rows.setdefault(oid, ([], []))
                of[0].append(places + length - goes_on)
                of[1].append(counts)
            if len(part.xids) > goes_on:
                xids.append(part.xids[goes_on:])
                at.append(part.at[goes_on:])
            length += len(part.xids) - goes_on
        every = {oid: (np.concatenate(places), np.concatenate(counts)) for oid, (places, counts) in rows.items()}
        return cls(np.concatenate(xids), np.concatenate(at), every)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Moved:
        """Only these transactions."""
        place = np.cumsum(wanted) - 1
        rows = {}
        for oid, (places, counts) in self.rows.items():
            kept = wanted[places]
            rows[oid] = (place[places[kept]], counts[kept])
        return Moved(self.xids[wanted], self.at[wanted], rows)

    def after(self, position: Snapshot) -> Moved:
        return self.where(~shows(position, self.xids))

    def shown(self, by: Snapshot) -> Moved:
        return self.where(shows(by, self.xids))

    def hidden(self, by: Snapshot) -> Moved:
        return self.where(~shows(by, self.xids))

    def of(self, oids: Collection[int]) -> Moved:
        """Only transactions that changed these tables."""
        touched = np.zeros(len(self.xids), np.bool_)
        for oid in oids:
            touched[self.rows.get(oid, (_NONE, _NONE))[0]] = True
        return self.where(touched)

    def count(self, oid: int) -> int:
        """How many rows of this table were moved."""
        return int(self.rows.get(oid, (_NONE, _NONE))[1].sum())


def shows(snapshot: Snapshot, xids: Ints) -> npt.NDArray[np.bool_]:
    shown: npt.NDArray[np.bool_] = (xids < snapshot.xmax) & ~np.isin(xids, np.array(snapshot.xip, np.int64))
    return shown
