"""Cut records: the one atomic step in which a warehouse transaction becomes visible.

A cut record says `{view → table version, seq}` and which source positions it stands for. Readers resolve the newest one
(or an older one) and read every view at the versions it names, so all views change together or not at all. The records
are rows of a Delta table, and each also travels in its commit's metadata: the newest is read without opening a data
file.

Invariant: everything a record names was durable before the record was written.

A record is committed as the version after the one its writer has looked at, or not at all. So of two maintainers one is
refused: the one that does not know the newest record, or whose lease has a lower number than one that was seen here
(docs/decisions/0014).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.model.consistency import Level
from headwater.model.errors import LeaseLost, UnknownName, WarehouseError
from headwater.model.names import Position, Seq, SourceName, ViewName
from headwater.storage import Storage
from headwater.storage.files import explained
from headwater.storage.records import decode, encode
from headwater.warehouse.delta import committed, fence_of, is_table, mark, only_next, open_table
from headwater.warehouse.delta_log import checkpoint_of, commit_name

if TYPE_CHECKING:
    from deltalake import DeltaTable

FOLDER = "cuts"
_METADATA = "headwater.cut"
_SETTINGS = {"delta.checkpointInterval": "50", "delta.logRetentionDuration": "interval 1 days"}
_TRIES = 5
_BACK = 10
"""So many commits are looked through for the newest record; those that have none only tidied up."""
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
    """Of a complete view: every N-th transaction is one of its states."""
    refreshed: float = 0.0
    """When a periodic view was last recomputed, seconds since 1970."""
    resumable: bool = False
    """Of a halted view: its tables were journaled all along, so it can go on from where it stopped."""
    fix: str = ""
    """Of a halted view: what to do about it."""
    gaps: tuple[tuple[Seq, Seq], ...] = ()
    """Stretches (lo, hi] that a complete view took as one state when it was resumed: between lo and hi it has none."""
    order: tuple[tuple[str, bool, bool], ...] = ()
    """The order in which its rows are shown: (column, descending, NULLs first) each."""

    def __post_init__(self) -> None:
        if self.through < self.seq:  # records of version 0.1 know only one number
            object.__setattr__(self, "through", self.seq)

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
    fence: int = 0
    """The number of the lease under which it was written; higher ones are of later maintainers."""

    def named(self, name: str) -> ViewName:
        """A view by its name, in any case."""
        for known in self.views:
            if known == name:
                return known
        for known in self.views:
            if known.lower() == name.lower():
                return known
        raise UnknownName("view", name, self.views)


@dataclass(frozen=True)
class Moment:
    """When a cut became visible."""

    cut: int
    seq: Seq
    at: float


def read_cut(text: str) -> Cut:
    """The cut that a record describes."""
    return decode(text, Cut, "a cut record")


def _row(cut: Cut) -> dict[str, Any]:
    at = datetime.fromtimestamp(cut.at, UTC)
    return {"cut": cut.number, "seq": cut.seq, "at": at, "record": encode(cut).decode()}


@dataclass(frozen=True)
class _Known:
    """What was read of the log at one version of its table."""

    version: int
    newest: Cut
    fence: int


def _told(commit: bytes) -> Cut | None:
    """The cut that a commit made visible; None if it only tidied up."""
    for line in commit.splitlines():
        info = json.loads(line).get("commitInfo", {}) if b'"commitInfo"' in line else {}
        if _METADATA in info:
            return read_cut(info[_METADATA])
    return None


class CutLog:
    """The sequence of cut records of one warehouse."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._delta: DeltaTable | None = None
        self._known: _Known | None = None
        self._glanced: tuple[int, Cut] | None = None
        """The version that was last seen, and the newest cut at it."""

    def newest(self) -> Cut:
        """The newest cut; cut 0 before anything was maintained. The first look of a process is at the log's own files,
        where they say it: most processes look once."""
        if self._delta is None and self._glanced is None and self._storage.local:
            self._glanced = self._first_look()
            if self._glanced is not None:
                return self._glanced[1]
        table = self._table()
        if table is None:
            return Cut()
        table.update_incremental()
        known = self._look(table)
        self._glanced = (known.version, known.newest)
        return known.newest

    def glance(self) -> Cut:
        """The newest cut, for who looks many times a second: told by the log's own files that came since, where the
        warehouse is a folder. A log that was tidied meanwhile is only seen by `newest`, so ask that now and then."""
        if self._glanced is None or not self._storage.local:
            return self.newest()
        return self._further(*self._glanced)

    def _further(self, version: int, cut: Cut) -> Cut:
        while (text := self._storage.get(commit_name(FOLDER, version + 1))) is not None:
            version, cut = version + 1, _told(text) or cut
        self._glanced = (version, cut)
        return cut

    def _first_look(self) -> tuple[int, Cut] | None:
        newest = checkpoint_of(self._storage, FOLDER)
        while self._there(newest + 1):
            newest += 1
        for version in range(newest, max(-1, newest - _BACK), -1):
            text = self._storage.get(commit_name(FOLDER, version))
            cut = None if text is None else _told(text)
            if cut is not None:
                return newest, cut
        return None

    def moved(self) -> bool:
        """Whether there is something newer than what was last seen: one look for a file, where that is cheap. False
        where it is not known."""
        known = self._glanced
        return (
            known is not None
            and self._storage.local
            and os.path.exists(self._storage.path(commit_name(FOLDER, known[0] + 1)))
        )

    def unchanged(self) -> bool:
        """Whether it can be seen, without reading, that nothing was appended since the last look. In a folder it can,
        as long as the log after that look is not old enough to be cleaned up."""
        if self._known is None or not self._storage.local:
            return False
        return not self._there(self._known.version + 1)

    def _there(self, version: int) -> bool:
        return os.path.exists(self._storage.path(commit_name(FOLDER, version)))

    def fence(self) -> int:
        """The highest number of a lease seen here."""
        table = self._table()
        if table is None:
            return 0
        table.update_incremental()
        return fence_of(table)

    def take_over(self) -> Cut:
        """From now on no maintainer with an older lease can append: the newest cut, which stays the newest. To be asked
        before anything is undone, so that nothing can be shown any more of what is."""
        fence, table = self._storage.fence(), self._table() or self._create()
        for _ in range(_TRIES):
            table.update_incremental()
            self._check_fence(fence_of(table), fence, "nothing was written")
            if fence_of(table) < fence:
                with explained(self._storage.url):
                    if not mark(table, fence):
                        continue
            return self._look(table).newest
        raise self._overtaken("nothing was written")

    def append(self, *cuts: Cut) -> Cut:
        """Make the next cuts visible, all in one step: readers see the last, and can ask for the others. Their numbers
        must follow the newest one's. Returns the last."""
        fence, table = self._storage.fence(), self._table() or self._create()
        cuts = tuple(replace(cut, at=time.time(), fence=fence) for cut in cuts)
        first, cut = cuts[0], cuts[-1]
        rows = pa.Table.from_pylist([_row(one) for one in cuts], schema=_SCHEMA)
        told = {_METADATA: rows.column("record")[-1].as_py()}
        for _ in range(_TRIES):
            known = self._look(table)
            if known.newest == cut:
                return cut  # a commit whose answer was lost
            self._check_follows(table, first)
            self._storage.fence()
            with explained(self._storage.url):
                if self._commit(table, rows, known.version + 1, told):
                    self._known = _Known(known.version + 1, cut, fence)
                    return cut
            # somebody was faster: one who tidied up, or another maintainer
        raise self._overtaken(f"cut {cut.number} was not written")

    def _commit(self, table: DeltaTable, rows: pa.Table, version: int, told: dict[str, str]) -> bool:
        """Append these rows as this version; False if there is one already, which the table shows from then on."""
        if not self._storage.local:
            from deltalake import write_deltalake

            commit = only_next(self._storage.fence(), **told)
            return committed(table, partial(write_deltalake, table, rows, mode="append", commit_properties=commit))
        from headwater.warehouse import delta_commit  # these load what only writers need
        from headwater.warehouse.table import write_file

        file = write_file(self._storage, FOLDER, rows, "cut")
        numbers = (rows.column("cut")[n].as_py() for n in (0, -1))
        least, most = ({"cut": number} for number in numbers)
        action = delta_commit.add(file.name, file.size, file.rows, least, most)
        if not delta_commit.commit_next(self._storage, FOLDER, version, [action], **told):
            self._storage.delete(f"{FOLDER}/{file.name}")
            table.update_incremental()
            return False
        if delta_commit.checkpoint_due(version):
            delta_commit.checkpoint(self._storage, FOLDER, table)
        return True

    def _look(self, table: DeltaTable) -> _Known:
        """What the table says at the version that we have of it, or have made since."""
        if self._known is None or self._known.version < table.version():
            self._known = _Known(table.version(), self._newest_in(table), fence_of(table))
        return self._known

    def _check_follows(self, table: DeltaTable, cut: Cut) -> None:
        known, so = self._look(table), f"cut {cut.number} was not written"
        self._check_fence(known.fence, cut.fence, so)
        if known.newest.number + 1 != cut.number:
            raise self._overtaken(f"the newest cut is {known.newest.number} now, {so}")

    def _check_fence(self, found: int, ours: int, so: str) -> None:
        if found > ours:
            raise LeaseLost(
                f"the warehouse at {self._storage.url} is maintained by another process since (lease {found}, this"
                f" one's is {ours}): {so}",
                "let that one go on: 'headwater status' shows it; if it has ended, start again",
            )

    def _overtaken(self, so: str) -> WarehouseError:
        return WarehouseError(
            f"another process writes to the warehouse at {self._storage.url}: {so}",
            "only one may maintain it at a time: see that one has ended, then start again; nothing is lost",
        )

    def _newest_in(self, table: DeltaTable) -> Cut:
        for commit in table.history(_BACK):
            if _METADATA in commit:
                return read_cut(commit[_METADATA])
        found = self._query("SELECT record FROM cuts ORDER BY cut DESC LIMIT 1")
        return read_cut(found[0]["record"]) if found else Cut()

    def find(self, holds: Callable[[Cut], bool], newest: Cut) -> Cut | None:
        """The newest cut up to `newest` of which this holds, given that it holds of every earlier one."""
        low, high, found = 1, newest.number, None
        if holds(newest):
            return newest
        while low <= high:
            middle = (low + high) // 2
            rows = self._query(f"SELECT record FROM cuts WHERE cut <= {middle} ORDER BY cut DESC LIMIT 1")
            cut = read_cut(rows[0]["record"]) if rows else None
            if cut is None or holds(cut):
                low, found = middle + 1, cut
            else:
                high = middle - 1
        return found

    def since(self, number: int, most: int) -> list[Cut]:
        """The records after cut `number`, oldest first, at most the newest `most` of them."""
        wanted = f"WHERE cut > {int(number)} ORDER BY cut DESC LIMIT {int(most)}"
        return [read_cut(row["record"]) for row in reversed(self._query(f"SELECT record FROM cuts {wanted}"))]

    def moments(self, most: int) -> list[Moment]:
        """When the newest `most` cuts were made, oldest first; what they say of views is not read."""
        rows = self._query(f"SELECT cut, seq, at FROM cuts ORDER BY cut DESC LIMIT {int(most)}")
        return [Moment(row["cut"], Seq(row["seq"]), row["at"].timestamp()) for row in reversed(rows)]

    def kept(self) -> list[Cut]:
        """All records that are still there, oldest first."""
        return [read_cut(row["record"]) for row in self._query("SELECT record FROM cuts ORDER BY cut")]

    def tidy(self) -> None:
        """Bring many one-row files together; what they say stays."""
        self._storage.fence()
        table = self._table()
        if table is not None:
            table.update_incremental()
            table.optimize.compact()
            table.vacuum(retention_hours=1, enforce_retention_duration=False, dry_run=False)

    def _query(self, sql: str) -> list[dict[str, Any]]:
        table = self._table()
        if table is None:
            return []
        seen = [self._glanced[0] if self._glanced else 0, self._known.version if self._known else 0]
        if max(seen) > table.version():
            table.update_incremental()  # a glance reads past it, and so does who writes
        from deltalake import QueryBuilder

        answer = QueryBuilder().register("cuts", table).execute(sql).read_all()
        rows: list[dict[str, Any]] = pa.table(answer).to_pylist()
        return rows

    def _table(self) -> DeltaTable | None:
        if self._delta is None and is_table(self._storage, FOLDER):
            self._delta = open_table(self._storage, FOLDER)
        return self._delta

    def _create(self) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        uri, options = self._storage.uri(FOLDER), self._storage.delta_options
        with explained(self._storage.url):
            try:
                DeltaTable.create(uri, _SCHEMA, configuration=_SETTINGS, storage_options=options)
            except DeltaError:
                if not is_table(self._storage, FOLDER):  # else somebody else has just made it
                    raise
        self._delta = open_table(self._storage, FOLDER)
        return self._delta
