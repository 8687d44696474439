"""Pure-Push and Pull-Push over real databases, without hub and engine: whatever happens to letters and processes, every
state that is reached is the join of the tables as they were at the pins of its window."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.chain.letter import Letter
from headwater.chain.letters import sealed
from headwater.chain.line import EpochOver
from headwater.chain.member import Member
from headwater.chain.pins import PinBook
from headwater.chain.warehouse import ChainWarehouse, Reached
from headwater.chain.windows import MemberWindows
from headwater.maintenance.strategies.acknowledged import Acknowledgement, Notice, Post
from headwater.maintenance.strategies.chain_messages import Restarted
from headwater.maintenance.strategies.contract import Label, Update, Wake
from headwater.model.chain import Chain, ChainEpoch, ChainMember
from headwater.model.conditions import Condition
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.source import COUNT, SourceSpec
from headwater.sources import connect
from runtime.world import Sqlite

NAMES = ("a", "b", "c")
COLUMNS = (("id", "k", "v"), ("id", "k", "j"), ("id", "j", "w"))
LOST = 90.0
CONDITION = Condition("v", "<>", 3)


def joined(rows: list[list[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (a, b, c, v, w)
        for a, k, v in rows[0]
        for b, k2, j in rows[1]
        for c, j2, w in rows[2]
        if k == k2 and j == j2 and v is not None and v != CONDITION.value
    )


class World:
    """Three databases in a chain a.k = b.k, b.j = c.j; letters that get lost, repeated, late and out of order; members
    and a warehouse that are killed."""

    def __init__(self, folder: Path, how: str, seed: int, trouble: float) -> None:
        self.chance, self.folder, self.trouble = Random(seed), folder, trouble
        self.now = 0.0
        tables = [TableName(SourceName(name), "t") for name in NAMES]
        self.sources = []
        for name, columns in zip(NAMES, COLUMNS, strict=True):
            with Sqlite(folder / f"{name}.db") as db:
                db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns[1]} INT, {columns[2]} INT)")
            self.sources.append(connect(SourceSpec(SourceName(name), f"sqlite:///{folder}/{name}.db")))
            self.sources[-1].install([tables[len(self.sources) - 1]])
        for _ in range(30):
            self.write()
        described = {t: s.describe()[t] for t, s in zip(tables, self.sources, strict=True)}
        members = [ChainMember(t, c) for t, c in zip(tables, COLUMNS, strict=True)]
        members[0] = ChainMember(tables[0], COLUMNS[0], (CONDITION,))
        self.chain = Chain(
            ViewName("v"), how, 1.0, tuple(members), ((0, "k", 1, "k"), (1, "j", 2, "j")),
            (("a", 0, "id"), ("b", 1, "id"), ("c", 2, "id"), ("v", 0, "v"), ("w", 2, "w")),
        ).typed(described)  # fmt: skip
        self.books = [PinBook(folder / name) for name in NAMES]
        for place in range(3):
            self.windows(place).begin(1)
        self.window, self.view, self.epochs = 1, self.state(1), 0
        self.boxes: dict[str, list[Letter]] = {name: [] for name in (*NAMES, "warehouse")}
        self.members: dict[str, Member] = {}
        self.reached: list[Reached] = []
        self.begin()

    def windows(self, place: int) -> MemberWindows:
        return MemberWindows(self.books[place], self.chain, place, self.sources[place])

    def state(self, window: int) -> Counter[tuple[Any, ...]]:
        """The join of the tables at the pins of a window, by hand."""
        rows = []
        for place, source in enumerate(self.sources):
            member, at = self.chain.members[place], self.books[place].pin(self.chain.source, window).position
            told: Counter[tuple[Any, ...]] = Counter()
            for chunk in source.chunks(member.table, 1000):
                for batch in source.scan(chunk, member.columns, at, member.conditions):
                    for row in batch.to_pylist():
                        told[tuple(row[c] for c in member.columns)] += row[COUNT]
            rows.append(list(told.elements()))
        return joined(rows)

    def write(self) -> None:
        place = self.chance.randrange(3)
        names, (key, value) = COLUMNS[place], (self.chance.randrange(4), self.chance.randrange(5))
        with Sqlite(self.folder / f"{NAMES[place]}.db") as db:
            number = self.chance.randrange(12)
            match self.chance.randrange(4):
                case 0:
                    db.execute("DELETE FROM t WHERE id = ?", (number,))
                case 1:
                    db.execute(f"UPDATE t SET {names[1]} = ? WHERE id = ?", (key, number))
                case _:
                    db.execute("INSERT OR REPLACE INTO t VALUES (?, ?, ?)", (number, key, value))

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        self.epochs, self.begun = self.epochs + 1, self.now
        first = max(self.window, *(self.windows(place).newest for place in range(3))) + 1
        self.epoch = ChainEpoch(self.epochs, self.window, first, self.chain, NAMES, ((), (), ()))
        for box in self.boxes.values():
            box.clear()
        self.members.clear()
        self.side = ChainWarehouse(self.epoch, lambda letter: self.post("warehouse", letter), lambda: self.now)

    def post(self, sender: str, letter: Letter) -> None:
        sent = Letter(letter.chain, letter.epoch, sender, letter.to, letter.kind, letter.body)
        times = self.chance.choices([0, 1, 2], [self.trouble, 1, self.trouble])[0]
        self.boxes[letter.to] += [sent] * times

    def fetched(self, owner: str) -> Letter | None:
        box = self.boxes[owner]
        return box.pop(self.chance.randrange(len(box)) if self.chance.random() < self.trouble else 0) if box else None

    def turn(self) -> None:
        self.now += self.chance.choices([0.01, 0.1, 0.5, 20.0], [10, 10, 10, 1])[0]
        busy = [name for name, box in self.boxes.items() if box] if self.chance.random() < 0.8 else []
        name = self.chance.choice(busy or list(self.boxes))
        letter = self.fetched(name)
        if name == "warehouse":
            try:
                if self.side.late > LOST:
                    raise EpochOver("something got lost", "")
                for reached in (self.side.wake(), self.side.receive(letter) if letter is not None else None):
                    if reached is not None:
                        self.take_in(reached)
            except EpochOver:
                self.begin()
            return
        if letter is not None and name not in self.members:
            place = NAMES.index(name)
            self.members[name] = Member(
                self.epoch, place, self.windows(place), lambda letter: self.post(name, letter), lambda: self.now
            )
        if name in self.members:
            self.members[name].wake()
            if letter is not None:
                self.members[name].receive(letter)

    def live(self, turns: int) -> None:
        for step in range(turns):
            if step % 3 == 0:
                self.write()
            self.turn()

    def kill(self) -> None:
        who = self.chance.choice([*NAMES, "warehouse"])
        if who == "warehouse":
            self.begin()
        elif self.members.pop(who, None) is not None:
            self.post(who, sealed(self.chain, self.epoch.number, "warehouse", Restarted()))

    def take_in(self, reached: Reached) -> None:
        self.begun = self.now
        view = Counter(self.view)
        for row, count in reached.change:
            view[row] += count
        assert all(count >= 0 for count in view.values()), "a row was taken back that was not there"
        self.view = +view
        self.window = reached.window
        assert self.view == self.state(reached.window), f"window {reached.window} is not a state of the sources"
        self.reached.append(reached)


@pytest.mark.parametrize(
    ("how", "seed", "trouble"),
    [
        ("pull-push", 1, 0.0),
        ("pull-push", 2, 0.1),
        ("pull-push", 3, 0.3),
        ("pure-push", 1, 0.0),
        ("pure-push", 2, 0.1),
        *(
            pytest.param(how, 3 + n, 0.3, marks=pytest.mark.soak)
            for how in ("pull-push", "pure-push")
            for n in range(5)
        ),
    ],
)
def test_every_state_is_one_of_the_sources(tmp_path: Path, how: str, seed: int, trouble: float) -> None:
    world = World(tmp_path, how, seed, trouble)
    while sum(bool(reached.change) for reached in world.reached) < 4:
        if world.chance.random() < 0.2:
            world.write()
        if trouble and world.chance.random() < 0.01:
            world.kill()
        if world.chance.random() < 0.01:
            for place in range(3):
                world.windows(place).truncate(world.window)
        world.turn()
    last = max(world.windows(place).newest for place in range(3))
    while world.window <= last:  # nothing is written any more: it comes to rest where the sources are
        world.turn()
    rows = []
    for name, columns in zip(NAMES, COLUMNS, strict=True):
        with Sqlite(tmp_path / f"{name}.db") as db:
            rows.append(db.execute(f"SELECT {', '.join(columns)} FROM t"))
    assert world.view == joined(rows)


def test_the_oracle_bites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined with the tables as they are now, and not as they were, it would be wrong."""
    ask = MemberWindows.ask

    def now(self: MemberWindows, question: Any, window: int) -> Any:
        self._book.write(self._chain, self.newest + 1000, self._source.position(), self._nothing())
        return ask(self, question, self.newest)

    monkeypatch.setattr(MemberWindows, "ask", now)
    world = World(tmp_path, "pull-push", 2, 0.0)
    with pytest.raises(AssertionError):
        world.live(500)


def test_nights_without_changes_leave_two_files(tmp_path: Path) -> None:
    world = World(tmp_path, "pull-push", 1, 0.0)
    while world.window < 20:
        world.turn()
    assert all(len(book.windows(world.chain.source)) <= 3 for book in world.books)


def test_members_that_begin_by_themselves_are_told_of_an_epoch_until_they_are_heard(tmp_path: Path) -> None:
    """One whose letter was lost would hold up its chain until the epoch is given up."""
    world = World(tmp_path, "pure-push", 1, 0.0)
    for name in NAMES:
        world.boxes[name].clear()
    begun = world.now
    while world.window < 3:
        world.turn()
    assert world.epochs == 1
    assert world.now - begun < LOST / 3


def test_members_that_begin_by_themselves_wait_for_the_view_and_not_for_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may hold any number of windows. Members once counted those too, cut no more when there were too many,
    and the view, which they waited for, waited for them."""
    for module in ("member", "warehouse"):
        monkeypatch.setattr(f"headwater.chain.{module}.AHEAD", 4)
    monkeypatch.setitem(globals(), "LOST", math.inf)  # no new epoch comes to their help
    world = World(tmp_path, "pure-push", 1, 0.0)
    for _ in range(3):
        until, begun = world.window + 15, world.now
        while world.window < until:
            world.write()
            world.turn()
            assert world.now - begun < 1500, "nobody goes on"
        assert len(world.books[0].windows(world.chain.source)) > 4
        world.begin()


def test_who_begins_a_window_every_ten_minutes_is_late_after_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch was given up after 90 s, before anybody had cut."""
    monkeypatch.setitem(globals(), "LOST", math.inf)
    world = World(tmp_path, "pure-push", 1, 0.0)
    world.chain = replace(world.chain, window=600.0)
    world.begin()
    begun = world.now
    for passed, late in ((500, 0), (600, 0), (700, 100)):
        world.now = begun + passed
        assert world.side.late == late
    while world.window < world.epoch.first:
        world.turn()
    assert world.side.late == 0
    world.now += 650
    assert world.side.late == pytest.approx(50, abs=21), "and so with every window"


def test_windows_that_are_skipped_cost_nothing(tmp_path: Path) -> None:
    """The first window of an epoch may be thousands after the last one that a member has pinned."""
    world = World(tmp_path, "pure-push", 1, 0.0)
    windows, before = world.windows(0), world.windows(0).pinned(1).position
    with Sqlite(tmp_path / "a.db") as db:
        db.execute("INSERT OR REPLACE INTO t VALUES (100, 1, 1)")
    pin = windows.ensure(1_000_000)
    assert len(world.books[0].windows(world.chain.source)) == 3
    assert pin.position == windows.pinned(2).position == windows.pinned(777).position != before
    assert windows.changes(1, 1_000_000).num_rows == windows.changes(1, 2).num_rows == 1
    assert windows.changes(2, 1_000_000).num_rows == 0


def test_what_is_not_acknowledged_is_sent_again_soon_at_first_and_seldom_later() -> None:
    post = Post(1.0, 30.0)
    effects = post.send("b", Notice(Update(Label("a", 1), {}, 0.0)))
    waits = []
    for _ in range(7):
        wake = next(effect for effect in effects if isinstance(effect, Wake))
        waits.append(wake.after)
        effects = post.take("a", wake.body)[0]
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert not post.take("b", Acknowledgement(1))[0]
    assert [e.after for e in post.send("b", Notice(Update(Label("a", 2), {}, 0.0))) if isinstance(e, Wake)] == [1.0]
    assert not post.take("a", wake.body)[0], "it was acknowledged meanwhile"
