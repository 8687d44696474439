"""Taking a warehouse over: everything goes back to the newest cut, and a stale maintainer changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.integrator.journal import FOLDER as JOURNAL
from headwater.integrator.journal import Journal
from headwater.model.errors import LeaseLost, WarehouseError
from headwater.model.names import Seq, ViewName
from headwater.runtime.commit.recovery import recover
from headwater.runtime.commit.tables import ViewTables
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog, ViewState
from headwater.warehouse.format import claim
from headwater.warehouse.lock import Lock
from headwater.warehouse.sessions import PinnedCut
from headwater.warehouse.table import ChangelogTable
from integrator.test_journal import numbered, seqs
from warehouse.test_lock import Clock, take_away
from warehouse.test_storage import filled
from warehouse.test_tables import FOLDER as TABLE
from warehouse.test_tables import SCHEMA, held, written

VIEW = TABLE.removesuffix("/log")
Open = Callable[[], Storage]


class Maintainer:
    """What a run has in its hands, without Spark."""

    def __init__(self, storage: Storage) -> None:
        self.storage, self.identity = storage, claim(storage)
        self.journal, self.cuts = Journal(storage, self.identity), CutLog(storage)
        self.cut = recover(storage, self.journal, self.cuts, ViewTables(storage))
        self.table = ChangelogTable(storage, TABLE)

    def load(self) -> None:
        self.table.create(SCHEMA)
        self.show(0)

    def maintain(self, seq: int) -> None:
        """One transaction, all the way."""
        self.journal.append(numbered(seq - 1, seq))
        self.table.commit([written(self.storage, seq, seq)])
        self.show(seq)

    def show(self, seq: int) -> None:
        state = ViewState(VIEW, self.table.version, -1, Seq(seq), Seq(0), "complete", "f")
        cut = Cut(self.cut.number + 1, Seq(seq), views={ViewName("v"): state}, warehouse=self.identity)
        self.cut = self.cuts.append(cut)


def read(storage: Storage) -> list[int]:
    state = CutLog(storage).newest().views[ViewName("v")]
    return held(storage, state.version, state.seq)


def test_everything_goes_back_to_the_newest_cut(open_storage: Open) -> None:
    storage = open_storage()
    with Lock(storage, "headwater run"):
        run = Maintainer(storage)
        run.load()
        run.maintain(1)
        run.journal.append(numbered(1, 2))
        run.table.commit([written(storage, 2, 2)])  # and no cut
        stray = written(storage, 3, 3)
        storage.put("views/other/1/log/x.parquet", b"of no cut")
    again = open_storage()
    with Lock(again, "headwater run"):
        run = Maintainer(again)
        assert run.cut.number == 2
        assert stray.name not in again.names(TABLE)
        assert filled(again, "views/other") == []
        assert seqs(again, run.journal, 0, 9) == [1, 2], "what has a number keeps it"
        run.table.commit([written(again, 2, 2)])
        run.show(2)
    assert read(open_storage()) == [1, 2]


def test_a_pinned_state_survives(open_storage: Open) -> None:
    storage = open_storage()
    with Lock(storage, "headwater run"):
        run = Maintainer(storage)
        run.load()
        run.maintain(1)
        run.maintain(2)
        pin, before = PinnedCut(open_storage(), run.cut), run.cut.views[ViewName("v")]
        folded = written(storage, 2, 1, 2)
        run.table.commit([folded], run.table.files())
        run.show(2)
    with Lock(storage, "headwater run"):
        Maintainer(storage)
        assert held(storage, before.version) == [1, 2]
        pin.close()
        recover(storage, Journal(storage), CutLog(storage), ViewTables(storage))
        assert storage.names(TABLE).count(folded.name) == 1
        assert [n for n in storage.names(TABLE) if n.endswith(".parquet")] == [folded.name]


def test_a_stale_maintainer_whose_clock_never_moves_changes_nothing(in_s3: str) -> None:
    """Wherever it stood still: before a segment of the journal, a commit or a cut."""
    stale, next_one = Storage(in_s3), Storage(in_s3)
    lock = Lock(stale, "headwater run", clock=Clock())
    lock.acquire()
    old = Maintainer(stale)
    old.load()
    old.maintain(1)
    late = written(stale, 2, 666)
    take_away(next_one)
    with Lock(next_one, "the next one"):
        new = Maintainer(next_one)
        with pytest.raises(WarehouseError, match="another process writes to"):
            old.table.commit([late])
        with pytest.raises(LeaseLost, match="cut 3 was not written"):
            old.show(1)
        new.maintain(2)
        with pytest.raises(WarehouseError, match="segment 2 is there already"):
            old.journal.append(numbered(1, 5))
        new.maintain(3)
        assert seqs(next_one, Journal(next_one), 0, 9) == [1, 2, 3]
    assert read(next_one) == [1, 2, 3]
    assert [c.fence for c in CutLog(next_one).kept()] == [1, 1, 2, 2]
    lock.release()


def test_a_segment_of_a_stale_maintainer_that_comes_first_is_whole(in_s3: str) -> None:
    """It had written the files and stood still before the manifest, which then comes before its successor's."""
    stale, next_one = Storage(in_s3), Storage(in_s3)
    lock = Lock(stale, "headwater run", clock=Clock())
    lock.acquire()
    old = Maintainer(stale)
    old.load()
    old.maintain(1)
    put_new, new = stale.put_new, None

    def later(relative: str, data: bytes) -> bool:
        nonlocal new
        take_away(next_one)
        Lock(next_one, "the next one").acquire()
        new = Maintainer(next_one)
        return put_new(relative, data)

    stale.put_new = later  # type: ignore[method-assign]
    old.journal.append(numbered(1, 2))
    assert new is not None
    with pytest.raises(WarehouseError, match="segment 2 is there already"):
        new.maintain(2)
    assert next_one.lease is not None
    next_one.lease.release()  # type: ignore[attr-defined]
    third = Storage(in_s3)
    with Lock(third, "and the next"):
        run = Maintainer(third)
        assert seqs(third, run.journal, 0, 9) == [1, 2]
        run.maintain(3)
    assert [s.fence for s in Journal(third).segments] == [1, 1, 3]
    assert third.names(JOURNAL) == [f"{n:012d}" for n in (1, 2, 3)]
    lock.release()
