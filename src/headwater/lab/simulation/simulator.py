"""Virtual time: a heap of events, run one after the other. The same seed gives the same history.

transactions   happen at their source when the world says so, and are told to whoever is notified
questions      wait at a source until one of its `capacity` servers is free, take `service` time there, and are
               evaluated at the end of it, just before the answer leaves: an answer is atomic
messages       go through the network's links
processes      answer what they receive with effects; local work takes the node's own time, one thing at a time
"""

from __future__ import annotations

import gc
import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from headwater.lab.histories.history import History, Message, Service, State
from headwater.lab.simulation.network import Delay, Link, Network, constant
from headwater.lab.worlds.source import SourceDatabase
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.maintenance.strategies.contract import (
    Answer,
    Ask,
    Commit,
    Effects,
    Factory,
    Node,
    Send,
    Strategy,
    Update,
    ViewsFactory,
    Wake,
    Work,
    kind_of,
    weight_of,
)

ONE = constant(1.0)

SELDOM = (500_000, 20, 20)
"""When Python looks for garbage: a run keeps what it makes, and walking over a history again and again was a quarter of
its time (profiled)."""


@dataclass(frozen=True)
class Capacity:
    """A source works on `q` questions at a time, each for `service` and `per_value` of its answer's values. It tells
    of a transaction `notice` after its commit: not in one step with it, as the real ones do."""

    q: int = 1
    service: Delay = ONE
    per_value: float = 0.0
    notice: float = 0.0


@dataclass(frozen=True)
class Conditions:
    """How a run goes, but for what it is about. `local` is the time of one local join (C_local)."""

    network: Network = field(default_factory=Network)
    capacity: Capacity = Capacity()
    capacities: Mapping[Node, Capacity] = field(default_factory=dict)
    local: float = 0.0
    until: float = float("inf")
    most_events: int = 50_000_000


def simulate(world: World, factory: Factory, conditions: Conditions | None = None, seed: int = 0) -> History:
    """Run one strategy for the first view of a world."""
    return Simulation(world, factory(world.setting()), conditions or Conditions(), seed).run()


def simulate_views(world: World, factory: ViewsFactory, conditions: Conditions | None = None, seed: int = 0) -> History:
    """Run one strategy for all views of a world."""
    return Simulation(world, factory(world.settings), conditions or Conditions(), seed).run()


class _Server:
    """A source's servers and the questions that wait for one."""

    __slots__ = ("busy", "capacity", "database", "waiting")

    def __init__(self, database: SourceDatabase, capacity: Capacity) -> None:
        self.database = database
        self.capacity = capacity
        self.busy = 0
        self.waiting: deque[tuple[Node, Ask]] = deque()


class Simulation:
    """One run of a strategy that may be for several views. `messages` is where messages are kept, if not in a list."""

    def __init__(
        self,
        world: World,
        strategy: Strategy,
        conditions: Conditions,
        seed: int = 0,
        messages: list[Message] | None = None,
    ) -> None:
        self.world = world
        self.strategy = strategy
        self.conditions = conditions
        self.now = 0.0
        self.history = History(world.columns, world.views, world.initial, world.content)
        self.history.messages = self._messages = [] if messages is None else messages
        self._random = Random(seed)
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._number = count()
        self._busy_until: dict[Node, float] = {}
        self._last: dict[tuple[Node, Node], float] = {}
        self._links: dict[tuple[Node, Node], Link] = {}
        self.servers: dict[Node, _Server] = {}
        for source in world.sources:
            tables = {t: bag for t, bag in world.initial.items() if t.source == source}
            capacity = conditions.capacities.get(source, conditions.capacity)
            self.servers[source] = _Server(SourceDatabase(source, tables), capacity)

    def run(self) -> History:
        for planned in self.world.transactions:
            self._at(planned.at, self._transaction, planned)
        for node, process in self.strategy.processes.items():
            self._do(node, process.start())
        thresholds = gc.get_threshold()
        gc.set_threshold(*SELDOM)
        try:
            self.history.events = self._loop()
        finally:
            gc.set_threshold(*thresholds)
        self.history.end = self.now
        return self.history

    def _loop(self) -> int:
        heap, until, most = self._heap, self.conditions.until, self.conditions.most_events
        events = 0
        pop = heapq.heappop
        while heap:
            at, _, happens, what = pop(heap)
            if at > until or events >= most:
                break
            events += 1
            self.now = at
            happens(what)
        return events

    def _at(self, time: float, happens: Callable[[Any], None], what: Any) -> None:
        heapq.heappush(self._heap, (time, next(self._number), happens, what))

    # Sources

    def _transaction(self, planned: PlannedUpdate) -> None:
        server = self.servers[planned.source]
        update = server.database.commit(planned.changes, self.now, planned.part_of)
        self.history.transactions.append(update)
        if server.capacity.notice:
            self._at(self.now + server.capacity.notice, self._tell, update)
        else:
            self._tell(update)

    def _tell(self, update: Update) -> None:
        for node in self.strategy.notified(update.source):
            self._send(update.source, node, "update", update, update.weight, (update.label,))

    def _asked(self, source: Node, asker: Node, ask: Ask) -> None:
        server = self.servers[source]
        if server.busy < server.capacity.q:
            self._serve(server, asker, ask)
        else:
            server.waiting.append((asker, ask))

    def _serve(self, server: _Server, asker: Node, ask: Ask) -> None:
        server.busy += 1
        takes = server.capacity.service(self._random)
        self._at(self.now + takes, self._answered, (server, asker, ask, self.now))

    def _answered(self, what: tuple[_Server, Node, Ask, float]) -> None:
        server, asker, ask, start = what
        value = ask.question.evaluate(server.database)
        if server.capacity.per_value:
            extra = server.capacity.per_value * weight_of(value)
            if extra:  # evaluated again when its time is over: the answer is of that moment
                self._at(self.now + extra, self._finished, (server, asker, ask, start))
                return
        self._leave(server, asker, ask, start, value)

    def _finished(self, what: tuple[_Server, Node, Ask, float]) -> None:
        server, asker, ask, start = what
        self._leave(server, asker, ask, start, ask.question.evaluate(server.database))

    def _leave(self, server: _Server, asker: Node, ask: Ask, start: float, value: Any) -> None:
        source = ask.source
        self.history.services.append(Service(source, start, self.now, asker, ask.about))
        self._send(source, asker, "answer", Answer(source, ask.ticket, value, ask.about), weight_of(value), ask.about)
        server.busy -= 1
        if server.waiting:
            self._serve(server, *server.waiting.popleft())

    # Messages

    def _send(self, sender: Node, receiver: Node, kind: str, body: Any, weight: int, about: tuple[Any, ...]) -> None:
        if sender == receiver:
            self._at(self.now, self._arrive, (sender, receiver, body))
            return
        ends = (sender, receiver)
        link = self._links.get(ends)
        if link is None:
            link = self._links[ends] = self.conditions.network.between(sender, receiver)
        sent = self.now
        while True:
            arrives = sent + link.delay(self._random)
            if link.per_value:
                arrives += link.per_value * weight
            if link.fifo:
                last = self._last.get(ends, 0.0)
                if last > arrives:
                    arrives = last
            lost = self._lost(link, ends, sent, arrives)
            arrived = None if lost else arrives
            self._messages.append(Message(sent, arrived, sender, receiver, kind, weight, about))
            if not lost:
                break
            if link.retransmit is None or sent + link.retransmit > self.conditions.until:
                return
            sent += link.retransmit  # what follows on a FIFO channel waits for it: `_last` is set when it arrives
        self._last[ends] = arrives
        heapq.heappush(self._heap, (arrives, next(self._number), self._arrive, (sender, receiver, body)))

    def _lost(self, link: Link, ends: tuple[Node, Node], sent: float, arrives: float) -> bool:
        if link.loss and self._random.random() < link.loss:
            return True
        network = self.conditions.network
        return bool(network.off) and not (network.reachable(ends[0], sent) and network.reachable(ends[1], arrives))

    def _arrive(self, what: tuple[Node, Node, Any]) -> None:
        sender, receiver, body = what
        if type(body) is Ask:
            self._asked(receiver, sender, body)
        else:
            process = self.strategy.processes.get(receiver)
            if process is not None:
                self._do(receiver, process.receive(sender, body, self.now))

    # Processes

    def _do(self, node: Node, effects: Effects) -> None:
        """Carry out what a process wants. Local work delays what follows it, and all that the node does later."""
        busy = self._busy_until.get(node, 0.0)
        for effect in effects:
            if isinstance(effect, Work):
                self.history.local_joins += effect.joins
                if self.conditions.local:
                    busy = max(busy, self.now) + effect.joins * self.conditions.local
                    self._busy_until[node] = busy
            elif busy > self.now:
                self._at(busy, self._effect, (node, effect))
            else:
                self._effect((node, effect))

    def _effect(self, what: tuple[Node, Any]) -> None:
        node, effect = what
        if isinstance(effect, Ask):
            self._send(node, effect.source, "question", effect, effect.question.weight, effect.about)
        elif isinstance(effect, Commit):
            self.history.states.append(State(self.now, effect.changes, effect.covers))
        elif isinstance(effect, Send):
            body = effect.body
            about = getattr(body, "about", ())
            self._send(node, effect.to, kind_of(body), body, body.weight, about)
        else:
            assert isinstance(effect, Wake)
            self._at(self.now + effect.after, self._arrive, (node, node, effect.body))
