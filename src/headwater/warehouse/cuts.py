"""Cut records: the one atomic step in which a warehouse transaction becomes visible.

A cut record says `{view → table version, seq}` and which source positions it stands for. Readers resolve the newest one
(or an older one) and read every view at the versions it names, so all views change together or not at all. The records
are rows of a Delta table, and each also travels in its commit's metadata: the newest is read without opening a data
file.

Invariant: everything a record names was durable before the record was written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake

from headwater.model.consistency import Level
from headwater.model.errors import UnknownName
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.storage import Storage
from headwater.storage.files import explained

FOLDER = "cuts"
_METADATA = "headwater.cut"
_SCHEMA = pa.schema(
    [("cut", pa.int64()), ("seq", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("record", pa.string())]
)


@dataclass(frozen=True)
class ViewState:
    """A view as one cut sees it: the transactions up to `seq`, of the rows that `version` of its table holds.
    `auxiliary` is the version of its auxiliary changelog, −1 if it has none. `horizon` is the oldest `seq` its history
    still distinguishes. `state` is "live" or "halted" (then `reason` says why)."""

    folder: str
    version: int
    auxiliary: int
    seq: Seq
    horizon: Seq
    level: str
    fingerprint: str
    sources: tuple[SourceName, ...] = ()
    state: str = "live"
    reason: str = ""
    ahead: tuple[tuple[Seq, Seq], ...] = ()
    """Batches (lo, hi] beyond `seq` that a convergent view holds already."""
    through: Seq = field(default=Seq(0))
    """The last transaction its tables hold; those after `seq` wait there until the other views have them too."""
    every: int = 1
    """Every so many transactions are a state of a complete view."""
    refreshed: float = 0.0
    """When a periodic view was last recomputed, seconds since 1970."""
    resumable: bool = False
    """Of a halted view: its tables were journaled all along, so it can go on from where it stopped."""
    fix: str = ""
    """Of a halted view: what to do about it."""
    gaps: tuple[tuple[Seq, Seq], ...] = ()
    """Stretches (lo, hi] that a complete view took as one state when it was resumed: between lo and hi it has none."""

    @property
    def every_transaction(self) -> bool:
        """Whether each transaction is a state of it."""
        return self.level == Level.COMPLETE.value and self.every == 1


@dataclass(frozen=True)
class Cut:
    """One state of the warehouse. `seq` is what every live view holds at least; `positions` are the sources' then, or
    a little before."""

    number: int = 0
    seq: Seq = field(default=Seq(0))
    positions: Mapping[SourceName, Position] = field(default_factory=dict)
    generations: Mapping[SourceName, str] = field(default_factory=dict)
    """Which life of each source's capture the positions belong to."""
    views: Mapping[ViewName, ViewState] = field(default_factory=dict)
    at: float = 0.0
    """Wall-clock time it became visible, seconds since 1970."""
    warehouse: str = ""
    """The identity of the warehouse that it is a state of."""

    def named(self, name: str) -> ViewName:
        """A view by its name, in any case."""
        for known in self.views:
            if known == name:
                return known
        for known in self.views:
            if known.lower() == name.lower():
                return known
        raise UnknownName("view", name, self.views)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Cut:
        raw: dict[str, Any] = json.loads(text)
        views = {ViewName(name): _view_state(state) for name, state in raw["views"].items()}
        return Cut(**{**raw, "views": views})


def _view_state(raw: dict[str, Any]) -> ViewState:
    ahead = tuple((Seq(lo), Seq(hi)) for lo, hi in raw.get("ahead", ()))
    gaps = tuple((Seq(lo), Seq(hi)) for lo, hi in raw.get("gaps", ()))
    through = raw.get("through", raw["seq"])  # records of version 0.1 know only one number
    return ViewState(
        **{**raw, "sources": tuple(raw.get("sources", ())), "ahead": ahead, "gaps": gaps, "through": through}
    )


class CutLog:
    """The sequence of cut records of one warehouse."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._delta: DeltaTable | None = None

    def newest(self) -> Cut:
        """The newest cut; cut 0 before anything was maintained."""
        table = self._table()
        if table is None:
            return Cut()
        table.update_incremental()
        for commit in table.history(10):
            if _METADATA in commit:
                return Cut.from_json(commit[_METADATA])
        found = self._query("SELECT record FROM cuts ORDER BY cut DESC LIMIT 1")
        return Cut.from_json(found[0]["record"]) if found else Cut()

    def append(self, cut: Cut) -> Cut:
        """Make the next cut visible. Its number must follow the newest one's."""
        cut = replace(cut, at=time.time())
        text = cut.to_json()
        row = {"cut": cut.number, "seq": cut.seq, "at": datetime.fromtimestamp(cut.at, UTC), "record": text}
        with explained(self._storage.url):
            write_deltalake(
                self._table() or self._storage.uri(FOLDER),
                pa.Table.from_pylist([row], schema=_SCHEMA),
                mode="append",
                commit_properties=CommitProperties(custom_metadata={_METADATA: text}),
                configuration={"delta.checkpointInterval": "50", "delta.logRetentionDuration": "interval 1 days"},
            )
        return cut

    def find(self, holds: Callable[[Cut], bool], newest: Cut) -> Cut | None:
        """The newest cut up to `newest` of which this holds, given that it holds of every earlier one."""
        low, high, found = 1, newest.number, None
        if holds(newest):
            return newest
        while low <= high:
            middle = (low + high) // 2
            rows = self._query(f"SELECT record FROM cuts WHERE cut <= {middle} ORDER BY cut DESC LIMIT 1")
            cut = Cut.from_json(rows[0]["record"]) if rows else None
            if cut is None or holds(cut):
                low, found = middle + 1, cut
            else:
                high = middle - 1
        return found

    def kept(self) -> list[Cut]:
        """All records that are still there, oldest first."""
        return [Cut.from_json(row["record"]) for row in self._query("SELECT record FROM cuts ORDER BY cut")]

    def tidy(self) -> None:
        """Bring many one-row files together; what they say stays."""
        table = self._table()
        if table is not None:
            table.optimize.compact()
            table.vacuum(retention_hours=1, enforce_retention_duration=False, dry_run=False)

    def _query(self, sql: str) -> list[dict[str, Any]]:
        table = self._table()
        if table is None:
            return []
        answer = QueryBuilder().register("cuts", table).execute(sql).read_all()
        rows: list[dict[str, Any]] = pa.table(answer).to_pylist()
        return rows

    def _table(self) -> DeltaTable | None:
        if self._delta is None and DeltaTable.is_deltatable(self._storage.uri(FOLDER)):
            self._delta = DeltaTable(self._storage.uri(FOLDER))
        return self._delta
