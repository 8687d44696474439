"""The coordinator under generated schedules, without a JVM: every cut of every history shows states that existed, every
transaction is in all of its views or in none, and nothing waits for ever. `HISTORIES=5000 pytest tests/coordinator`
plays more of them; `FIRST` says where to begin."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.model.names import ViewName
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.scheduling import managers, relevance
from headwater.runtime.scheduling.families import Family
from headwater.runtime.scheduling.manager import Job, ViewManager
from headwater.runtime.scheduling.merging import Merging

from .views import PLANS
from .world import Counts, Dangers, play

HISTORIES, FIRST = int(os.environ.get("HISTORIES", "120")), int(os.environ.get("FIRST", "0"))
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # journals are many small files


@pytest.fixture(autouse=True)
def _batches_of_few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that batches of published algorithms end where the others' do not, in short histories too."""
    for module in (managers, relevance):
        monkeypatch.setattr(module, "UPDATES", 3)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Path(name)


@pytest.mark.timeout(3000)
def test_every_cut_of_every_history_is_right(folder: Path) -> None:
    total = Counts()
    for seed in range(FIRST, FIRST + HISTORIES):
        (folder / str(seed)).mkdir()
        total = total.plus(play(seed, folder / str(seed)))
    assert total.cuts > 5 * HISTORIES
    assert total.states > 20 * HISTORIES
    assert total.moments > 5 * HISTORIES
    assert min(total.crashes, total.halts, total.changes, total.failures) > HISTORIES // 25, total
    assert min(total.ahead, total.over_views) > 0, total


@pytest.mark.timeout(3000)
def test_kills_at_every_step(folder: Path) -> None:
    total = Counts()
    for seed in range(10_000, 10_000 + HISTORIES // 4):
        (folder / str(seed)).mkdir()
        total = total.plus(play(seed, folder / str(seed), 120, Dangers(crash=0.1)))
    assert total.crashes > HISTORIES // 8


AGGREGATES = tuple(name for name, plan in PLANS.items() if plan.auxiliary is not None)


@pytest.mark.timeout(3000)
def test_batches_of_aggregations_that_are_computed_ahead(folder: Path) -> None:
    """Begun before the batch that they build on is computed; that one fails, is computed again, or never; and the
    process is killed while they wait."""
    total = Counts()
    for seed in range(30_000, 30_000 + HISTORIES // 3):
        (folder / str(seed)).mkdir()
        dangers = Dangers(dies=0.12, unfit=0.04, crash=0.01, asks=0.1)
        total = total.plus(play(seed, folder / str(seed), 400, dangers, AGGREGATES))
    assert total.ahead > HISTORIES // 3, total
    assert min(total.dropped, total.crashes_ahead) > 0, total


def test_a_source_that_hangs_leaves_no_view_between_maintained_and_halted(folder: Path) -> None:
    """A view that fails is halted although nobody can look whether its source knows a better reason."""
    total = Counts()
    for seed in range(20_000, 20_000 + HISTORIES // 6):
        (folder / str(seed)).mkdir()
        dangers = Dangers(unfit=0.08, hangs=frozenset({"watch"}))
        total = total.plus(play(seed, folder / str(seed), 120, dangers))
    assert total.halts > HISTORIES // 6


def caught(folder: Path, histories: int = 60, among: tuple[ViewName, ...] = tuple(PLANS)) -> str:
    """What is found wrong first."""
    for seed in range(histories):
        (folder / str(seed)).mkdir()
        try:
            play(seed, folder / str(seed), among=among)
        except AssertionError as error:
            return str(error).splitlines()[0]
    return ""


def test_a_view_that_is_shown_too_far_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Merging, "frontier", lambda self, key: self.numbered if key in self._open else None)
    assert caught(folder)


@pytest.mark.soak
def test_bounds_that_are_lost_when_families_unite_are_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def join(self: Family, other: Family) -> None:
        self.bounds = sorted(set(self.bounds) & set(other.bounds))
        self.stops = sorted({*self.stops, *other.stops})

    monkeypatch.setattr(Family, "join", join)
    assert "does not come to rest" in caught(folder, 400)


def test_groups_of_a_batch_that_is_not_computed_are_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ViewManager, "behind", lambda manager, job: False)
    assert "builds on" in caught(folder, among=AGGREGATES)


def test_groups_of_a_batch_that_failed_are_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for its retry is not computed, though nobody computes it now."""

    def behind(manager: ViewManager, job: Job) -> bool:
        before = [other for other in manager.jobs if other.batch.hi < job.batch.hi]
        return manager.view.plan.auxiliary is not None and any(other.future is not None for other in before)

    monkeypatch.setattr(ViewManager, "behind", behind)
    assert "builds on" in caught(folder, 400, AGGREGATES)


def test_a_commit_that_is_forgotten_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Ledger.record
    monkeypatch.setattr(Ledger, "record", lambda self, *events: record(self, *events[1:]) if len(events) > 1 else None)
    assert caught(folder)
