"""Frames of what the lab's own objects do: a hand-written history as it is played, a simulation event by event.

Nothing is computed for the picture: sources are asked for their rows, processes for their queues, the heap of the
simulation for what is under way. The checker judges the very history that was recorded.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping
from typing import Any

from headwater.algebra.bag import Bag
from headwater.lab.checker.verdict import Verdict, check
from headwater.lab.histories.history import History
from headwater.lab.histories.player import Played, Player, play, shown
from headwater.lab.histories.script import Script
from headwater.lab.simulation.simulator import Conditions, Simulation
from headwater.lab.stepping.frames import Actor, Flight, Frame, Item, Judgement, Queue, Reason, Rows
from headwater.lab.stepping.queues import Named, about_of, asked, queues_of
from headwater.lab.worlds.source import SourceDatabase
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.acknowledged import Acknowledgement, Unanswered
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Ask,
    Factory,
    Label,
    Node,
    Process,
    Strategy,
    Update,
    kind_of,
)

MOST_FRAMES = 400
"""A play that is longer is no longer looked at step by step."""


def of_script(script: Script, factory: Factory) -> tuple[list[Frame], Played]:
    """A frame for the beginning, and one after each step."""
    frames: list[Frame] = []

    def watch(player: Player, said: str) -> None:
        stage = _Stage(script.world, player.strategy, player.databases, lambda label: _name(player, label))
        flights = [stage.flight(m.sender, m.receiver, m.body) for m in player.flying]
        actors = stage.actors(player.views, [w.ask for w in player.waiting])
        frames.append(Frame(player.now, said, actors, tuple(flights), states=1 + len(player.history.states)))

    watch(Player(script, factory), "the beginning")
    played = play(script, factory, watch)
    return frames[:MOST_FRAMES], played


def _name(player: Player, label: Label) -> str:
    return player.played.names.get(label, str(label))


def of_simulation(world: World, factory: Factory, conditions: Conditions) -> tuple[list[Frame], History, Named]:
    """A frame for the beginning, and one after each event that changed what is seen."""
    run = _Watched(world, factory(world.setting()), conditions)
    history = run.run()
    return run.frames, history, run.name


class _Watched(Simulation):
    """A simulation that keeps a frame after each event."""

    def __init__(self, world: World, strategy: Strategy, conditions: Conditions) -> None:
        super().__init__(world, strategy, conditions)
        self.frames: list[Frame] = []
        self._views: dict[str, Bag] = dict(world.content)
        self._applied = 0

    def name(self, label: Label) -> str:
        """DU1, DU2 …: the transactions in the order of their commits."""
        for number, update in enumerate(self.history.transactions, 1):
            if update.label == label:
                return f"DU{number}"
        return str(label)

    def _loop(self) -> int:
        self._keep("the beginning")
        events = 0
        while self._heap and len(self.frames) < MOST_FRAMES:
            at, _, happens, what = heapq.heappop(self._heap)
            if at > self.conditions.until:
                break
            events += 1
            self.now = at
            happens(what)
            if not (happens.__name__ == "_arrive" and isinstance(what[2], Acknowledgement | Unanswered)):
                self._keep(self._words(happens.__name__, what))
        return events

    def _keep(self, said: str) -> None:
        for state in self.history.states[self._applied :]:
            for view, change in state.changes:
                self._views[view] = self._views[view] + change
        self._applied = len(self.history.states)
        stage = _Stage(self.world, self.strategy, {n: s.database for n, s in self.servers.items()}, self.name)
        flying = [what for _, _, happens, what in sorted(self._heap, key=lambda e: e[:2]) if _is(happens, "_arrive")]
        flights = [stage.flight(*what) for what in flying if what[0] != what[1] and not _is_post(what[2])]
        busy = [what[2] for _, _, happens, what in self._heap if _is(happens, "_answered") or _is(happens, "_finished")]
        waiting = [ask for server in self.servers.values() for _, ask in server.waiting]
        actors = stage.actors(self._views, [*busy, *waiting])
        frame = Frame(self.now, said, actors, tuple(flights), states=1 + len(self.history.states))
        if not self.frames or not frame.shows_the_same(self.frames[-1]):
            self.frames.append(frame)

    def _words(self, kind: str, what: Any) -> str:
        if kind == "_transaction":
            label = self.history.transactions[-1].label
            return f"{what.source} commits {self.name(label)}: {_changes(what.changes)}"
        if kind in ("_answered", "_finished"):
            return f"{what[2].source} answers {asked(what[2], self.name)}, asked by {what[1]}"
        if kind == "_arrive":
            sender, receiver, body = what
            if sender == receiver and not isinstance(body, Update | Answer | Ask):
                return f"{receiver}: {_spaced(type(body).__name__)}"
            return _arrival(sender, receiver, body, self.name)
        return f"{what[0]} goes on" if kind == "_effect" else kind.strip("_")


class _Stage:
    """Everything that is there, at one moment."""

    def __init__(
        self, world: World, strategy: Strategy, databases: Mapping[Node, SourceDatabase], named: Named
    ) -> None:
        self.world, self.strategy, self.databases, self.named = world, strategy, databases, named

    def actors(self, views: Mapping[str, Bag], questions: Iterable[Ask]) -> tuple[Actor, ...]:
        """The warehouse first, then the sources in their order, then other machines."""
        waiting: dict[Node, list[Ask]] = {}
        for ask in questions:
            waiting.setdefault(ask.source, []).append(ask)
        processes = self.strategy.processes
        columns = {view.name: view.columns for view in self.world.views}
        shows = tuple(Rows(name, tuple(columns[name]), _rows(bag)) for name, bag in views.items())  # type: ignore[index]
        actors = [Actor(WAREHOUSE, shows, self._queues(processes.get(WAREHOUSE)))]
        for source, database in self.databases.items():
            tables = [t for t in self.world.columns if t.source == source]
            held = tuple(Rows(t.table, self.world.columns[t], _rows(database.rows(t))) for t in tables)
            queue = Queue("questions", tuple(Item(asked(a, self.named)) for a in waiting.get(source, ())))
            actors.append(Actor(source, held, (queue, *self._queues(processes.get(source)))))
        others = [n for n in processes if n != WAREHOUSE and n not in self.databases]
        return (*actors, *(Actor(n, (), self._queues(processes[n])) for n in others))

    def flight(self, sender: Node, receiver: Node, body: Any) -> Flight:
        kind = "question" if isinstance(body, Ask) else kind_of(body)
        return Flight(sender, receiver, kind, _text(body, self.named))

    def _queues(self, process: Process | None) -> tuple[Queue, ...]:
        return queues_of(process, self.named) if process is not None else ()


def judged(history: History, named: Mapping[str, str]) -> Judgement:
    """The checker's verdict on all views together."""
    return judgement(check(history), named)


def judgement(verdict: Verdict, named: Mapping[str, str]) -> Judgement:
    """A verdict to be shown; `named` maps what it calls transactions to what they are called there."""

    def said(text: str) -> str:
        return re.sub(r"\w+#\d+", lambda found: named.get(found[0], found[0]), text)

    reasons = tuple(
        Reason(w.level.adjective, said(w.sentence), w.state, _rows(w.extra), _rows(w.missing))
        for w in verdict.witnesses
    )
    return Judgement(verdict.level.value, verdict.level.meaning, reasons, tuple(verdict.sources), verdict.path)


def _arrival(sender: Node, receiver: Node, body: Any, named: Named) -> str:
    if isinstance(body, Update):
        return f"{named(body.label)} arrives at {receiver}"
    if isinstance(body, Ask):
        return f"the question for {asked(body, named)} reaches {receiver}"
    if isinstance(body, Answer):
        return f"{sender}'s answer to {about_of(body.about, named, 'the batch')} arrives at {receiver}"
    return f"{_spaced(kind_of(body))} message of {sender} arrives at {receiver}"


def _text(body: Any, named: Named) -> str:
    if isinstance(body, Update):
        return f"{named(body.label)}: {_changes(body.changes)}"
    if isinstance(body, Ask):
        return asked(body, named)
    return (
        about_of(body.about, named, "the batch" if isinstance(body, Answer) else "no update")
        if hasattr(body, "about")
        else ""
    )


def _changes(changes: Mapping[Any, Bag]) -> str:
    said = []
    for table, bag in changes.items():
        for row, count in bag:
            values = ", ".join("NULL" if v is None else str(v) for v in row)
            said.append(f"{'+' if count > 0 else '−'}{table.table}({values})")
    return " ".join(said)


def _rows(bag: Bag) -> tuple[str, ...]:
    return tuple(shown(Bag({row: count})) for row, count in sorted(bag.counts.items(), key=lambda p: str(p[0])))


def _is(happens: Any, name: str) -> bool:
    return getattr(happens, "__name__", "") == name


def _is_post(body: Any) -> bool:
    """Acknowledgements are the post's own; they would hide the rest."""
    return isinstance(body, Acknowledgement)


def _spaced(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() and i else c for i, c in enumerate(name)).replace("_", " ").strip()
