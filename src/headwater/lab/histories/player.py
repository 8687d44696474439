"""Plays a hand-written history: the same strategies, but a script in place of the clock decides what happens next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.algebra.bag import Bag, Row
from headwater.lab.histories.history import History, Message, State
from headwater.lab.histories.read_committed import ReadCommitted
from headwater.lab.histories.script import Script, ScriptStep, changes_of, rows_of
from headwater.lab.worlds.source import SourceDatabase
from headwater.maintenance.strategies.contract import (
    Answer,
    Ask,
    Commit,
    Effects,
    Factory,
    Label,
    Node,
    Send,
    Update,
    Wake,
    Work,
    kind_of,
    weight_of,
)
from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.names import TableName

IDLE = 200
"""So often a strategy may wake up for nothing before it is taken to rest."""


@dataclass(frozen=True)
class Seen:
    """After a step: what the views hold, and whether what the step expected was so."""

    step: ScriptStep
    views: Mapping[str, Bag]
    right: bool = True
    wrong: str = ""


@dataclass
class Played:
    """A whole play: the history, what was seen after each step, and the script's names of its transactions."""

    history: History
    seen: list[Seen] = field(default_factory=list)
    names: dict[Label, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """The same text with transactions called as the script does."""
        known = {str(label): name for label, name in self.names.items()}
        return re.sub(r"\w+#\d+", lambda found: known.get(found[0], found[0]), text)

    @property
    def surprises(self) -> list[Seen]:
        """Steps whose expectation did not come true."""
        return [s for s in self.seen if not s.right]


def play(script: Script, factory: Factory, watch: Watch | None = None) -> Played:
    """All steps; raises UsageError where a step is impossible. `watch` is shown the player after each step, and after
    each of the things that 'the rest happens' stands for, with words for it."""
    return Player(script, factory, watch).run()


Watch = Callable[["Player", str], None]


@dataclass
class Flying:
    """A message under way."""

    sender: Node
    receiver: Node
    body: Any


@dataclass
class Asked:
    """A question that has reached its source. `read` are rows it has read already, with the counts they had."""

    asker: Node
    ask: Ask
    read: dict[TableName, dict[Row, int]] = field(default_factory=dict)


class Player:
    """One play. A step of kind K is done by the method _K, which gets what the step says."""

    def __init__(self, script: Script, factory: Factory, watch: Watch | None = None) -> None:
        world = script.world
        self._watch = watch or (lambda player, said: None)
        self.script = script
        self.strategy = factory(world.setting())
        self.history = History(world.columns, world.views, world.initial, world.content)
        self.played = Played(self.history)
        self.views = dict(world.content)
        self.now = 0.0
        self.flying: list[Flying] = []
        self.waiting: list[Asked] = []
        self.databases = {
            s: SourceDatabase(s, {t: b for t, b in world.initial.items() if t.source == s}) for s in world.sources
        }
        self.labels: dict[str, Label] = {}
        self.alarms: list[tuple[float, int, Node, Any]] = []
        self._alarms = 0

    def run(self) -> Played:
        for node, process in self.strategy.processes.items():
            self._do(node, process.start())
        for step in self.script.steps:
            self.now += 1
            wrong = getattr(self, f"_{step.kind}")(step, **step.said) or ""
            self.played.seen.append(Seen(step, dict(self.views), not wrong, wrong))
            self._watch(self, step.text)
        self.history.end = self.now
        return self.played

    # Steps

    def _commits(self, step: ScriptStep, source: str, name: str, changes: str) -> None:
        if source not in self.databases:
            raise self._error(step, f"there is no source {source}", f"there are: {', '.join(self.databases)}")
        if name in self.labels:
            raise self._error(step, f"{name} happened already", "give each transaction a name of its own")
        where = f"{self.script.file}:{step.line}"
        changed = changes_of(changes, source, self.script.world, where)
        try:
            update = self.databases[source].commit(changed, self.now)
        except HeadwaterError as error:
            raise self._error(step, error.what, error.fix) from None
        self.labels[name] = update.label
        self.played.names[update.label] = name
        self.history.transactions.append(update)
        for node in self.strategy.notified(source):
            self.flying.append(Flying(source, node, update))

    def _arrives(self, step: ScriptStep, name: str, node: str) -> None:
        self._deliver(self._flying_update(step, name, node))

    def _lost(self, step: ScriptStep, name: str) -> None:
        message = self._flying_update(step, name, "")
        self.flying.remove(message)
        self._log(message, None)

    def _reads(self, step: ScriptStep, source: str, row: str, name: str) -> None:
        waiting = self._question(step, source, name)
        where = f"{self.script.file}:{step.line}"
        for table, rows in changes_of(row, source, self.script.world, where).items():
            for values in rows.counts:
                held = self.databases[source].rows(table).count(values)
                waiting.read.setdefault(table, {})[values] = held

    def _answers(self, step: ScriptStep, source: str, name: str) -> None:
        self._answered(self._question(step, source, name))

    def _answer(self, step: ScriptStep, source: str, name: str) -> None:
        label = self._label(step, name)
        for message in self.flying:
            body = message.body
            if isinstance(body, Answer) and message.sender == source and (label in body.about or not body.about):
                return self._deliver(message)
        raise self._error(step, f"no answer of {source} to {name} is under way", self._under_way())

    def _pass(self, step: ScriptStep, time: str) -> None:
        until = self.now + float(time)
        while self.alarms and min(self.alarms)[0] <= until:
            self._strike()
        self.now = until

    def _rest(self, step: ScriptStep) -> None:
        """Strategies that wake themselves rest when they woke a few times for nothing."""
        states, idle = len(self.history.states), 0
        for _ in range(100_000):
            if self.flying:
                message = self.flying[0]
                self._deliver(message)
                self._watch(self, f"{_name(message.body, self.played.names)} arrives at {message.receiver}")
            elif self.waiting:
                asked = self.waiting[0]
                self._answered(asked)
                self._watch(self, f"{asked.ask.source} answers {_about(asked.ask.about, self.played.names)}")
            elif self.alarms and idle < IDLE:
                idle = idle + 1 if states == len(self.history.states) else 0
                states = len(self.history.states)
                self._strike()
            else:
                return
        raise self._error(step, "it never comes to rest")

    def _strike(self) -> None:
        """The next alarm goes off."""
        alarm = min(self.alarms)
        self.alarms.remove(alarm)
        self.now = max(self.now, alarm[0])
        node, body = alarm[2:]
        self._do(node, self.strategy.processes[node].receive(node, body, self.now))

    def _shows(self, step: ScriptStep, view: str, rows: str) -> str:
        held = self._view(step, view)
        return self._compared(step, rows, Bag({r: c for r, c in held if c > 0}), f"{view} shows")

    def _holds(self, step: ScriptStep, view: str, rows: str) -> str:
        return self._compared(step, rows, self._view(step, view), f"{view} holds")

    def _compared(self, step: ScriptStep, rows: str, is_: Bag, what: str) -> str:
        wanted = Bag.summed(rows_of(rows, step.line, self.script.file))
        return "" if wanted == is_ else f"{what} {shown(is_)}"

    # What steps are made of

    def _view(self, step: ScriptStep, view: str) -> Bag:
        if view not in self.views:
            raise self._error(step, f"there is no view {view}", f"there are: {', '.join(self.views)}")
        return self.views[view]

    def _label(self, step: ScriptStep, name: str) -> Label:
        if name not in self.labels:
            raise self._error(step, f"{name} has not happened", f"there are: {', '.join(self.labels) or 'none'}")
        return self.labels[name]

    def _flying_update(self, step: ScriptStep, name: str, node: str) -> Flying:
        label = self._label(step, name)
        for message in self.flying:
            body = message.body
            if isinstance(body, Update) and body.label == label and node in ("", message.receiver):
                return message
        raise self._error(step, f"{name} is not under way", self._under_way())

    def _question(self, step: ScriptStep, source: str, name: str) -> Asked:
        label = self._label(step, name)
        for waiting in self.waiting:
            if waiting.ask.source == source and (label in waiting.ask.about or not waiting.ask.about):
                return waiting
        raise self._error(step, f"{source} has not been asked anything for {name}", self._under_way())

    def _under_way(self) -> str:
        names = self.played.names
        said = [f"{m.sender} → {m.receiver}: {_name(m.body, names)}" for m in self.flying]
        said += [f"asked at {w.ask.source}: for {_about(w.ask.about, names)}" for w in self.waiting]
        hint = ""
        if any(not w.ask.about for w in self.waiting):
            hint = "; this strategy asks for batches, not for single updates: let 'the rest happens' go on"
        return "under way are: " + ("; ".join(said) or "no messages") + hint

    def _error(self, step: ScriptStep, what: str, fix: str = "") -> UsageError:
        return UsageError(f"{self.script.file}:{step.line}: {step.text}: {what}", fix)

    def _answered(self, waiting: Asked) -> None:
        self.waiting.remove(waiting)
        ask = waiting.ask
        value = ask.question.evaluate(ReadCommitted(self.databases[ask.source], waiting.read))
        self.flying.append(Flying(ask.source, waiting.asker, Answer(ask.source, ask.ticket, value, ask.about)))

    def _deliver(self, message: Flying) -> None:
        self.flying.remove(message)
        self._log(message, self.now)
        process = self.strategy.processes.get(message.receiver)
        if process is not None:
            self._do(message.receiver, process.receive(message.sender, message.body, self.now))

    def _log(self, message: Flying, arrived: float | None) -> None:
        body = message.body
        kind, about = kind_of(body), getattr(body, "about", ())
        if isinstance(body, Update):
            about = (body.label,)
        size = weight_of(body.value if isinstance(body, Answer) else body)
        self.history.messages.append(Message(self.now, arrived, message.sender, message.receiver, kind, size, about))

    def _do(self, node: Node, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Ask):
                size = effect.question.weight
                self.history.messages.append(
                    Message(self.now, self.now, node, effect.source, "question", size, effect.about)
                )
                self.waiting.append(Asked(node, effect))
            elif isinstance(effect, Commit):
                self.history.states.append(State(self.now, effect.changes, effect.covers))
                for view, change in effect.changes:
                    self.views[view] = self.views[view] + change
            elif isinstance(effect, Send):
                self.flying.append(Flying(node, effect.to, effect.body))
            elif isinstance(effect, Work):
                self.history.local_joins += effect.joins
            else:
                assert isinstance(effect, Wake)
                self.alarms.append((self.now + effect.after, self._alarms, node, effect.body))
                self._alarms += 1


def shown(bag: Bag) -> str:
    """Rows as the papers write them, with counts other than one."""
    rows = sorted(bag.counts.items(), key=lambda item: tuple((v is None, str(type(v)), v) for v in item[0]))
    said = [f"({', '.join('NULL' if v is None else str(v) for v in r)}){'' if c == 1 else f'[{c}]'}" for r, c in rows]
    return " ".join(said) or "nothing"


def _name(body: Any, names: Mapping[Label, str]) -> str:
    if isinstance(body, Update):
        return names.get(body.label, str(body.label))
    if isinstance(body, Answer):
        return f"answer to {_about(body.about, names)}"
    return type(body).__name__


def _about(about: tuple[Label, ...], names: Mapping[Label, str]) -> str:
    return ", ".join(names.get(label, str(label)) for label in about) or "no transaction in particular"
