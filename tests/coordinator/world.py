"""One generated history: sources that change, threads that run in any order and fail, a run that is killed and started
again, views that come and go. Every cut is judged when it is written; at the end everything must have come to rest.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.history import History, State
from headwater.maintenance.strategies.contract import Label, Update
from headwater.model.consistency import Level
from headwater.model.errors import HeadwaterError, SourceUnavailable, WarehouseError
from headwater.model.names import FOREVER, SourceName, TableName, ViewName
from headwater.runtime import steps
from headwater.runtime.change.requests import Request, ask
from headwater.runtime.change.serving import Planned
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.engine import Engine
from headwater.runtime.ports import Machinery
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.plan import ViewPlan
from headwater.sources.memory import MemorySource
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, ViewState

from .machine import Computed, Died, MemoryCuts, MemoryTables, Task, Threads, Unfit, VirtualClock
from .truth import Truth
from .views import PLANS, SOURCES, TABLES, VIEWS, fresh, specs

DRAIN_TURNS = 600
"""So many turns of a run in which nothing fails must be enough for everything to be shown."""


class Crash(BaseException):
    """The process is gone."""


@dataclass(frozen=True)
class Dangers:
    """How likely it is, per chance, that something goes wrong."""

    dies: float = 0.03
    unfit: float = 0.01
    away: float = 0.03
    crash: float = 0.004
    asks: float = 1.0
    """How often somebody wants something, of the times that somebody could."""
    hangs: frozenset[str] = frozenset()
    """Threads of these pools never come back, nor does anything fail there."""


@dataclass
class Counts:
    cuts: int = 0
    crashes: int = 0
    halts: int = 0
    changes: int = 0
    failures: int = 0
    transactions: int = 0
    states: int = 0
    ahead: int = 0
    """Batches that were begun before the one that they build on was computed."""
    dropped: int = 0
    """Of these, the ones that nobody finished, a crash aside."""
    crashes_ahead: int = 0
    """Crashes while there were some."""
    moments: int = 0
    over_views: int = 0
    """Batches of views over views that were computed before the one ahead of them."""

    def plus(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass
class World:
    seed: int
    folder: Path
    dangers: Dangers = field(default_factory=Dangers)
    among: tuple[ViewName, ...] = tuple(PLANS)
    """The views that there may be."""
    counts: Counts = field(default_factory=Counts)
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random, self.ids = Random(self.seed), itertools.count(1)
        name, rng = f"history-{self.seed}", self.random
        self.databases = fresh(name)
        self.sources = specs(name)
        for source, spec in self.sources.items():
            MemorySource(spec).install([TableName(source, t) for t in TABLES[source]])
        self.config = Config(
            self.folder, self.sources, str(self.folder / "warehouse"), self.folder / "views",
            history=rng.choice((0, 5, 100_000)), batch_changes=rng.choice((2, 8, 1000)),
            parallel=rng.choice((1, 2, 3) if len(self.among) == len(PLANS) else (2, 3)), managers=rng.choice((1, 3, 8)),
            sequencing=rng.choice(("dependency", "dependency", "sequential", "batched")),
        )  # fmt: skip
        self.storage = Storage(self.config.warehouse)
        self.truth = Truth(VIEWS, self.databases)
        self.tables, self.clock = MemoryTables(), VirtualClock()
        self.cuts = MemoryCuts(self._judge)
        self.wanted = self._some_views()
        self.shown: dict[str, int] = {}
        self.loaded: dict[str, int] = {}
        self.quiet = False
        for _ in range(rng.randint(0, 6)):
            self._commit()

    # -------------------------------------------------------------------- play

    def play(self, events: int) -> None:
        """So many events, then rest."""
        with self._watched():
            self._start()
            for _ in range(events):
                self._survived(self._event)
            self.quiet = True
            self._drain()
        self._judge_the_end()
        self.engine.__exit__()

    def _survived(self, what: Callable[[], None]) -> None:
        """Do it; a run that ends for it is started again."""
        try:
            what()
        except (Crash, WarehouseError):
            self._crash()
        except HeadwaterError:  # what a run ends with that has nothing to maintain
            if self.engine.look().views:
                raise
            self._crash()

    def _event(self) -> None:
        roll = self.random.random()
        if roll < 0.30:
            self._commit()
        elif roll < 0.62:
            self._run_a_task()
        elif roll < 0.93:
            self._advance()
        elif roll < 0.965:
            self.clock.now += self.random.choice((0.05, 0.3, 1.1, 6.0, 31.0))
        elif self.dangers.asks == 1.0 or self.random.random() < self.dangers.asks:
            self._ask()

    def _advance(self) -> None:
        """One turn. The loop sleeps after it unless it was told not to: then another turn must have nothing to do."""
        self.engine.advance()
        self._learn()
        if self.engine.bell.rung:
            self.engine.bell.wait(0)
            return
        begun, cut = self._begun(), self.cuts.newest().number
        self.engine.advance()
        assert (self._begun(), self.cuts.newest().number) == (begun, cut), "the loop slept while there was work to do"

    def _begun(self) -> int:
        return sum(task.pool in ("wave", "commit") for task in self.threads.tasks)

    def _learn(self) -> None:
        self.truth.learn(self.engine._journal, self.engine._journal.segments)

    def _commit(self) -> None:
        """A transaction of one source: a few rows of one or all of its tables come, go or change."""
        source = self.random.choice(SOURCES)
        db, changes = self.databases[source], list[tuple[str, dict[str, int], int]]()
        for table in self.random.sample(TABLES[source], self.random.randint(1, len(TABLES[source]))):
            held = [row for row, count in db.now[table].items() if count > 0]
            row = dict(zip(("id", "k", "v"), (next(self.ids), *self._pair()), strict=True))
            if held and self.random.random() < 0.5:
                gone = dict(zip(("id", "k", "v"), self.random.choice(held), strict=True))
                changes.append((table, gone, -1))
                row = {**gone, "v": gone["v"] + 1}
            if not changes or changes[-1][2] > 0 or self.random.random() < 0.5:
                changes.append((table, row, 1))
        db.commit(changes)
        self.counts.transactions += 1
        self.done.append(f"{source} commits {changes}")

    def _pair(self) -> tuple[int, int]:
        return self.random.randint(1, 3), self.random.randint(1, 3)

    def _run_a_task(self) -> None:
        tasks = self._tasks()
        self.threads.tasks[:] = tasks
        if not tasks:
            return
        task = self.random.choice(tasks)
        failing = None if self.quiet else self._failure(task)
        if failing is not None:
            self.counts.failures += 1
        self.done.append(f"{task.pool}" + (f" fails: {failing}" if failing else ""))
        if failing is not None and task.pool == "wave" and self.random.random() < 0.3:
            self.computed.late, failing = failing, None
        task.run(failing)

    def _tasks(self) -> list[Task]:
        waiting = [task for task in self.threads.tasks if not task.future.done()]
        return [task for task in waiting if task.pool not in self.dangers.hangs]

    def _failure(self, task: Task) -> Exception | None:
        roll, dangers = self.random.random(), self.dangers
        if task.pool in ("wave", "build", "chores"):
            if roll < dangers.dies:
                return Died("a process died")
            if roll < dangers.dies + dangers.unfit and task.pool == "wave":
                return Unfit("a value cannot be computed")
        if task.pool in ("poll", "watch") and roll < dangers.away:
            return SourceUnavailable("source is away")
        return WarehouseError("no space left") if task.pool == "commit" and roll < dangers.crash else None

    def _ask(self) -> None:
        """Somebody wants something of the run."""
        cut = self.cuts.newest()
        halted = [n for n, s in cut.views.items() if s.state != "live"]
        resumable = [n for n in halted if cut.views[n].resumable]
        kind = self.random.choice(("apply", "apply", "rebuild", "resume"))
        if kind == "resume" and resumable:
            ask(self.storage, Request("resume", views=[self.random.choice(resumable)]))
        elif kind == "rebuild" and cut.views:
            ask(self.storage, Request("rebuild", views=[self.random.choice(halted or list(cut.views))]))
        else:
            self.wanted = self._some_views()
            ask(self.storage, Request("apply", wanted={n: PLANS[n].fingerprint for n in self.wanted}))
        self.counts.changes += 1
        self.done.append(f"somebody wants: {kind} {self.wanted}")

    def _some_views(self) -> list[ViewName]:
        chosen = set(self.random.sample(self.among, self.random.randint(1, min(5, len(self.among)))))
        return _with_parents(chosen)

    # --------------------------------------------------------------------- run

    def _start(self) -> None:
        self.threads = Threads()
        computed = self.computed = Computed(self.tables, self.truth, self.counts)
        machinery = Machinery(
            storage=self.storage, compute=computed, loader=computed, compactor=computed, plan=_no_plan,
            tables=self.tables, cuts=self.cuts, cancel=lambda: None,
            planner=lambda ledger: _Planner(self, ledger), pool=self.threads.pool, clock=self.clock,
        )  # fmt: skip
        self.engine = Engine(self.config, machinery, SourceCatalog(self.config))
        self.engine.__enter__()
        cut = self.cuts.newest()
        names = _with_parents({*cut.views, *self.wanted}) if cut.views else self.wanted
        self.engine.start({n: PLANS[n] for n in names}, replace=not cut.views)

    def _crash(self) -> None:
        """The process is gone with everything in memory, and another one begins."""
        self.counts.crashes += 1
        managers = self.engine._managers.all.values()
        self.counts.crashes_ahead += any(job.ahead is not None for m in managers for job in m.jobs)
        self.done.append("killed")
        self.engine._lock.release()  # as the kernel would
        self.tables.crashed()
        while True:
            try:
                self._start()
                return
            except Crash:
                self.engine._lock.release()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        def step(what: steps.Step) -> None:
            if not self.quiet and self.random.random() < self.dangers.crash:
                self.done.append(f"killed at: {what.value}")
                raise Crash

        steps.watch(step)
        try:
            yield
        finally:
            steps.watch(None)

    def _drain(self) -> None:
        """Nothing fails any more: everything must be shown before long."""
        for turn in range(DRAIN_TURNS):
            self._survived(self._advance)
            for task in self._tasks():
                task.run()
            self.threads.tasks.clear()
            self.clock.now += 31.0 if turn % 20 == 19 else 0.3
            if turn % 3 == 2 and self._at_rest():
                self._judge_moments()
                return
        raise AssertionError(f"it does not come to rest: {self.engine.look()}")

    def _at_rest(self) -> bool:
        now = self.engine.look()
        if now.building is not None or any(not m.shown or m.waits for m in now.managers):
            return False
        cut = self.cuts.newest()
        live = {n: s for n, s in cut.views.items() if s.state == "live"}
        used = {source for name in live for source in PLANS[name].sources}
        told = all(
            int(s.numbered) == len(self.databases[SourceName(s.name)].log) for s in now.sources if s.name in used
        )
        return told and all(state.seq >= self.truth.newest for state in live.values())

    def _judge_moments(self) -> None:
        """What cuts are said to have waited for: every step begins where the one before ended, none after the cut.
        (Commits are told by the sources' own clock.)"""
        for moment in self.engine.look().moments:
            self.counts.moments += 1
            for leg in moment.legs:
                times = (leg.numbered, leg.begun, leg.computed, moment.at)
                assert list(times) == sorted(times), f"{leg} in cut {moment.cut} at {moment.at}"

    # ------------------------------------------------------------------- judge

    def _judge(self, cut: Cut) -> None:
        """Every live view shows a state that existed, and each transaction is in all of its views or in none."""
        self._learn()
        self.counts.cuts += 1
        live = {name: state for name, state in cut.views.items() if state.state == "live"}
        merged = {n: s for n, s in live.items() if s.level != Level.CONVERGENT.value}
        for name, state in cut.views.items():
            if state.state == "halted":
                self.counts.halts += 1
                assert state.reason, f"{name} is halted without a reason"
                assert "unexpected" not in state.reason, f"{name} is halted: {state.reason}"
        for name, state in merged.items():
            self.loaded.setdefault(state.folder, state.horizon)
            assert state.seq >= self.shown.get(state.folder, 0), f"{name} goes back to {state.seq}"
            self.shown[state.folder] = state.seq
            self._same(name, state, state.seq)
        for (one, behind), (other, ahead) in itertools.permutations(merged.items(), 2):
            for seq in range(behind.seq + 1, ahead.seq + 1):
                if self.truth.concerns(one, seq) and self.truth.concerns(other, seq):
                    raise AssertionError(f"cut {cut.number}: transaction {seq} is in {other} and not in {one}")

    def _same(self, name: ViewName, state: ViewState, at: int) -> None:
        self.counts.states += 1
        got, wanted = (
            self.tables.state(state.folder, state.version, at),
            self.truth.view(name, min(at, self.truth.newest)),
        )
        assert got == wanted, f"{name} at {at}: {dict(got.counts)} instead of {dict(wanted.counts)}"

    def _judge_the_end(self) -> None:
        cut = self.cuts.newest()
        for name, state in cut.views.items():
            if state.state != "live":
                continue
            if state.level == Level.CONVERGENT.value:
                self._same(name, state, FOREVER)
            elif state.level == Level.COMPLETE.value:
                every = [s for s in range(state.horizon, state.seq + 1) if s % state.every == 0 or s == state.seq]
                if state.every == 1:
                    gaps = [s for lo, hi in state.gaps for s in range(lo + 1, hi)]
                    for seq in sorted(set(every) - set(gaps)):
                        self._same(name, state, seq)
        self._judge_by_the_lab(cut)

    def _judge_by_the_lab(self, last: Cut) -> None:
        """The cuts that readers saw, as histories for the lab's checker. It takes the order of a source's transactions
        as given; ours may show those of different tables in another one, where no view sees both (an equivalent
        schedule: multiple view consistency, section 2.3). So it judges views of the same tables together."""
        names = [n for n, s in last.views.items() if s.state == "live" and s.level != Level.CONVERGENT.value]
        for base in {PLANS[name].base for name in names}:
            self._judge_together(last, [name for name in names if PLANS[name].base == base])

    def _judge_together(self, last: Cut, names: Sequence[ViewName]) -> None:
        cuts: list[Cut] = []
        loaded = max(self.loaded[last.views[n].folder] for n in names)
        for cut in reversed(self.cuts.all):
            states = [cut.views.get(n) for n in names]
            same = [s is not None and s.folder == last.views[n].folder for n, s in zip(names, states, strict=True)]
            if not all(same) or any(s is None or s.state != "live" or s.seq < loaded for s in states):
                break
            cuts.insert(0, cut)
        if len(cuts) < 2:
            return
        verdict = check(self._history(names, cuts))
        holds = Consistency.STRONG in verdict.holds or Consistency.STRONG in verdict.undecided
        assert holds, f"{', '.join(names)}: {verdict.level} only: {verdict.witness}"

    def _history(self, names: Sequence[ViewName], cuts: Sequence[Cut]) -> History:
        first = cuts[0]
        lo, hi = min(first.views[n].seq for n in names), max(cuts[-1].views[n].seq for n in names)
        tables = sorted({t for n in names for t in PLANS[n].base})
        at = self.truth.at(lo)
        views = [VIEWS[n] for n in _with_parents(set(names))]
        shown = {str(n): self._content(first, n) for n in names}
        history = History(
            {t: self.truth.columns(t) for t in tables},
            tuple(views),
            {t: self.truth.table(t, at[t.source]) for t in tables},
            shown,
        )
        labels, numbers = list[tuple[int, Label]](), Counter[str]()
        for seq, source, number in self.truth.transactions(lo, hi):
            numbers[source] += 1
            label = Label(source, numbers[source])
            labels.append((seq, label))
            changes = {t: c for t, c in self.truth.changes(source, number).items() if t in tables}
            history.transactions.append(Update(label, changes, float(seq), "", ""))
        taken = 0
        for cut in cuts[1:]:
            now = {str(n): self._content(cut, n) for n in names}
            covers = []
            while taken < len(labels) and labels[taken][0] <= max(cut.views[n].seq for n in names):
                covers.append(labels[taken][1])
                taken += 1
            changes = tuple((n, now[n] - shown[n]) for n in now)
            history.states.append(State(float(cut.number), changes, tuple(covers)))
            shown = now
        return history

    def _content(self, cut: Cut, name: ViewName) -> Bag:
        state = cut.views[name]
        return self.tables.state(state.folder, state.version, state.seq)


class _Planner:
    """What requests mean here: the views the world wants."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world, self._ledger = world, ledger

    def plan(self, request: Request) -> Planned:
        if request.kind == "resume":
            return Planned(request)
        names: Sequence[ViewName] = self._world.wanted
        if request.kind == "rebuild":
            cut, found = self._ledger.cut, list[ViewName]()
            for name in [n for n in PLANS if n in cut.views]:
                if name in request.views or any(p in found for p in VIEWS[name].parents):
                    found.append(name)
            lacking = [p for n in found for p in VIEWS[n].parents if p not in cut.views]
            if lacking:
                raise HeadwaterError(f"no view {lacking[0]}")
            names = found
        return Planned(request, None, {n: PLANS[n] for n in names})

    def adopt(self, planned: Planned) -> None: ...


def _with_parents(names: set[ViewName]) -> list[ViewName]:
    """These and all they read, parents first."""
    found = set(names)
    for name in reversed(list(PLANS)):
        if name in found:
            found |= set(VIEWS[name].parents)
    return [name for name in PLANS if name in found]


def _no_plan(*_: object) -> ViewPlan:
    raise AssertionError("plans are known here")


def play(
    seed: int,
    folder: Path,
    events: int = 160,
    dangers: Dangers | None = None,
    among: tuple[ViewName, ...] = tuple(PLANS),
) -> Counts:
    world = World(seed, folder, dangers or Dangers(), among)
    try:
        world.play(events)
    except BaseException as error:
        lines = "\n".join(world.done[-60:])
        raise AssertionError(f"history {seed}: {error}\n--- what had happened\n{lines}") from error
    return world.counts
