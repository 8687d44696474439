"""The published algorithms on real databases: one strategy for one view over `Source` adapters.

The strategies are those of the simulation, line by line; what is real here is that sources change whenever they like.
`between` is called before each step, and once more in the middle of every question: it says when to stop, and a test
that writes to the databases does so there (or in a thread of its own, at any time).

    poll       what a source has committed becomes Updates, which it sends to whoever is notified
    question   the source is polled; the answer is evaluated *as of where that poll ended*, whatever happens meanwhile
    message    the head of any channel is delivered; which one is drawn at random
    the end    once `between` has nothing more to do each source is polled a last time, and the run ends when that is
               handled: writers that never rest do not keep it

Invariant: a channel from a source carries its updates up to a position p, then the answers as of p, then later updates.
So an answer contains exactly the updates that arrive before it: assumption 1 of SWEEP and PVM, by construction.

What is not promised. Transactions are those that the adapter tells: SQLite writers that do not mark theirs are seen as
coarser ones, and commits at different sources have no order but that of the polls. Everything is kept in memory, for
ever, so there is no restart. The delta tables of the TID rules are what was polled and not yet forgotten, kept here:
`forget` does not trim the source, which others may read. A Wake waits until there is nothing else to do; if the run may
`rest`, also for the time that it names, else it comes at once. A strategy that never rests (`tid_rules(session=0)`)
never ends. Pure-Push and Pull-Push have agents beside
the sources, told of each commit in the same moment. A poll from afar is no such thing: they are refused.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Spj, weight
from headwater.algebra.view import ViewDefinition
from headwater.lab.histories.history import History, Message, State
from headwater.lab.live.database import LiveDatabase
from headwater.maintenance.strategies.contract import (
    Answer,
    Ask,
    Effects,
    Factory,
    Node,
    Send,
    StrategySetting,
    Update,
    Wake,
    Work,
    kind_of,
)
from headwater.model.errors import UsageError
from headwater.model.names import TableName
from headwater.model.schema import TableSchema
from headwater.model.source import Source

Between = Callable[[int], bool]
"""Called with the number of the step. Says whether it has more to do: a run does not end before it has not."""
Rest = Callable[[], None]
"""Called when there is nothing to do but to poll again."""


class Live:
    """One run of a strategy for a view. Capture of its tables is installed; the view begins as it is over what they
    hold at this moment. Only columns that it uses are read."""

    def __init__(self, sources: Sequence[Source], definition: ViewDefinition, factory: Factory, seed: int = 0) -> None:
        self.schemas = {
            table: _schema(definition, table, schema)
            for source in sources
            for table, schema in source.describe().items()
            if table in definition.tables
        }
        view = Spj(definition, {table: schema.names for table, schema in self.schemas.items()})
        self._databases: dict[Node, LiveDatabase] = {
            str(source.name): LiveDatabase(source, {t: s for t, s in self.schemas.items() if t.source == source.name})
            for source in sources
            if any(table.source == source.name for table in view.tables)
        }
        tables = {table: self._databases[str(table.source)].rows(table) for table in view.columns}
        homes = tuple(str(table.source) for table in view.tables)
        setting = StrategySetting(view, homes, tables, {table: self.schemas[table] for table in view.columns})
        self._strategy = factory(setting)
        beside = sorted(set(self._strategy.processes) & set(self._databases))
        if beside:
            raise UsageError(
                f"this strategy has agents beside {', '.join(beside)}, told of each commit in the same moment",
                "play it in the simulation; real sources are polled",
            )
        self.history = History(view.columns, (definition,), tables, {view.name: setting.content()})
        self._random = Random(seed)
        self._channels: dict[tuple[Node, Node], deque[tuple[float, str, Any]]] = {}
        self._number = count()
        self._wakes: list[tuple[float, int, Node, Any]] = []
        self._between: Between = lambda step: False
        self._over = False
        self._loaded = self.rows_read

    @property
    def rows_read(self) -> int:
        """Rows that sources have answered with so far, those of the beginning included."""
        return sum(database.rows_read for database in self._databases.values())

    @property
    def rows_asked_for(self) -> int:
        """Without those of the beginning."""
        return self.rows_read - self._loaded

    def run(self, between: Between | None = None, rest: Rest | None = None) -> History:
        """Until `between` has nothing more to do, all is handled, and waking the processes brings nothing new."""
        self._between = between or self._between
        for node, process in self._strategy.processes.items():
            self._do(node, process.start())
        woken = None
        while True:
            more = self._pause() and not self._over
            if not more:
                self._close()
            ready = [ends for ends, waiting in self._channels.items() if waiting]
            if ready:
                choices: list[Node | tuple[Node, Node]] = [*ready, *self._databases]
                self._step(self._random.choice(choices))
                continue
            for source in self._databases:
                self._poll(source)
            if any(self._channels.values()):
                continue
            reached = (len(self.history.transactions), len(self.history.states))
            if not more and (reached == woken or not self._wakes):
                self.history.end = time.time()
                return self.history
            woken = reached
            if more and rest is not None:
                rest()
            for _, _, node, body in self._due(at_once=rest is None or not more):
                self._receive(node, node, body)

    def _close(self) -> None:
        """What has been committed by now counts, and nothing after it."""
        if not self._over:
            for source in self._databases:
                self._poll(source)
            self._over = True

    def _due(self, at_once: bool) -> list[tuple[float, int, Node, Any]]:
        now = time.time()
        due = sorted(wake for wake in self._wakes if at_once or wake[0] <= now)
        self._wakes = [wake for wake in self._wakes if wake not in due]
        return due

    def _pause(self) -> bool:
        self.history.events += 1
        return self._between(self.history.events - 1)

    def _step(self, chosen: Node | tuple[Node, Node]) -> None:
        if isinstance(chosen, str):
            self._poll(chosen)
            return
        sender, receiver = chosen
        sent, kind, body = self._channels[chosen].popleft()
        carried = body.question if isinstance(body, Ask) else body.value if isinstance(body, Answer) else body
        weighs = weight(carried) if isinstance(carried, Bag) else carried.weight
        about = (body.label,) if isinstance(body, Update) else getattr(body, "about", ())
        self.history.messages.append(Message(sent, time.time(), sender, receiver, kind, weighs, about))
        if isinstance(body, Ask):
            self._answer(sender, body)
        else:
            self._receive(sender, receiver, body)

    def _poll(self, source: Node) -> None:
        if self._over:
            return
        for update in self._databases[source].poll():
            self.history.transactions.append(update)
            for node in self._strategy.notified(source):
                self._send(source, node, "update", update)

    def _answer(self, asker: Node, ask: Ask) -> None:
        """The poll says what "now" is and sends what led there; then the source may go on."""
        self._poll(ask.source)
        self._pause()
        value = ask.question.evaluate(self._databases[ask.source])
        self._send(ask.source, asker, "answer", Answer(ask.source, ask.ticket, value, ask.about))

    def _send(self, sender: Node, receiver: Node, kind: str, body: Any) -> None:
        self._channels.setdefault((sender, receiver), deque()).append((time.time(), kind, body))

    def _receive(self, sender: Node, receiver: Node, body: Any) -> None:
        self._do(receiver, self._strategy.processes[receiver].receive(sender, body, time.time()))

    def _do(self, node: Node, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Ask):
                self._send(node, effect.source, "question", effect)
            elif isinstance(effect, Send):
                self._send(node, effect.to, kind_of(effect.body), effect.body)
            elif isinstance(effect, Wake):
                self._wakes.append((time.time() + effect.after, next(self._number), node, effect.body))
            elif isinstance(effect, Work):
                self.history.local_joins += effect.joins
            else:
                self.history.states.append(State(time.time(), effect.changes, effect.covers))


def _schema(view: ViewDefinition, table: TableName, schema: TableSchema) -> pa.Schema:
    """The columns that the view uses; all of them if it only counts rows."""
    used = {c for o in view.occurrences if o.table == table for c in (*o.columns, *(k.column for k in o.conditions))}
    return pa.schema([(c.name, c.type) for c in schema.supported() if c.name in used or not used])
