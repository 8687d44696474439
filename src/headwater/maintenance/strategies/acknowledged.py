"""Send until an acknowledgement comes: how Pull-Push (section 4.1, figure 1) lives with loss and disconnection.

    repeat Send msg; Wait Δt for an ACK until an ACK is received

The loop stands inside the procedure that received the message, so a node has one message under way to each receiver;
the others wait behind it. Messages therefore arrive in their order, whatever the network does, and a receiver knows a
message that it has already by its serial number: it acknowledges it again and does nothing else.

Invariant: the serials that a receiver has taken from a sender are 1 … k without a gap.

`acknowledged` gives the same to an algorithm that assumes reliable FIFO channels between sources and warehouse. What a
source sends is one stream, updates and answers together: SWEEP's compensation needs their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import weight
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Ask,
    Effect,
    Effects,
    Factory,
    Label,
    Node,
    Process,
    Send,
    Strategy,
    StrategySetting,
    Update,
    Wake,
)


class Acknowledgement(NamedTuple):
    """The message with this number has arrived."""

    of: int

    @property
    def weight(self) -> int:
        return 1


class Unanswered(NamedTuple):
    """Δt is over."""

    to: Node
    serial: int


class Post:
    """A node's messages to others. Bodies are named tuples with a `serial`, which is filled in here.

    Δt is `patience`, twice as long after each try, `longest` at most: what was lost is soon sent again, and who sleeps
    for a night is not sent the same thing all night."""

    def __init__(self, patience: float, longest: float | None = None) -> None:
        self._patience = patience
        self._longest = patience if longest is None else longest
        self._tries: dict[Node, int] = {}
        self._out: dict[Node, deque[Any]] = {}
        """To each receiver: the message under way, and those behind it."""
        self._sent: dict[Node, int] = {}
        self._taken: dict[Node, int] = {}

    def send(self, to: Node, body: Any) -> list[Effect]:
        serial = self._sent[to] = self._sent.get(to, 0) + 1
        queue = self._out.setdefault(to, deque())
        queue.append(body._replace(serial=serial))
        return self._transmit(to) if len(queue) == 1 else []

    def take(self, sender: Node, body: Any) -> tuple[list[Effect], bool]:
        """What the post does about something that arrived, and whether the process is to have it."""
        kind = type(body)
        if kind is Acknowledgement:
            return self._acknowledged(sender, body.of), False
        if kind is Unanswered:
            return (self._transmit(body.to) if self._waits_for(body.to, body.serial) else []), False
        serial = getattr(body, "serial", None)
        if serial is None:
            return [], True
        new = serial > self._taken.get(sender, 0)
        if new:
            self._taken[sender] = serial
        return [Send(sender, Acknowledgement(serial))], new

    def _transmit(self, to: Node) -> list[Effect]:
        body, tries = self._out[to][0], self._tries.get(to, 0)
        self._tries[to] = tries + 1
        wait = min(self._patience * 2 ** min(tries, 30), self._longest)
        return [Send(to, body), Wake(wait, Unanswered(to, body.serial))]

    def _waits_for(self, to: Node, serial: int) -> bool:
        queue = self._out.get(to)
        return bool(queue) and queue[0].serial == serial  # type: ignore[index]  # it is there

    def _acknowledged(self, sender: Node, serial: int) -> list[Effect]:
        if not self._waits_for(sender, serial):
            return []  # of a try before
        queue = self._out[sender]
        queue.popleft()
        self._tries[sender] = 0
        return self._transmit(sender) if queue else []


class Notice(NamedTuple):
    """An update, on its way to the warehouse."""

    update: Update
    serial: int = 0

    @property
    def weight(self) -> int:
        return self.update.weight

    @property
    def about(self) -> tuple[Label, ...]:
        return (self.update.label,)


class AcknowledgedQuery(NamedTuple):
    """A question, on its way to a source."""

    ask: Ask
    serial: int = 0

    @property
    def weight(self) -> int:
        return self.ask.question.weight

    @property
    def about(self) -> tuple[Label, ...]:
        return self.ask.about

    @property
    def kind(self) -> str:
        return "query"


class Reply(NamedTuple):
    """An answer, on its way back."""

    answer: Answer
    serial: int = 0

    @property
    def weight(self) -> int:
        value = self.answer.value
        return weight(value) if isinstance(value, Bag) else int(value.weight)

    @property
    def about(self) -> tuple[Label, ...]:
        return self.answer.about


def acknowledged(factory: Factory, patience: float = 0.2) -> Factory:
    """An algorithm of one process at the warehouse, over channels that lose, reorder and disconnect."""

    def make(setting: StrategySetting) -> Strategy:
        strategy = factory(setting)
        processes: dict[Node, Process] = {WAREHOUSE: _Warehouse(strategy.processes[WAREHOUSE], Post(patience))}
        for source in setting.sources:
            processes[source] = _Source(Post(patience), bool(strategy.notified(source)))
        return Strategy(processes, notified=lambda source: (source,))

    return make


class _Warehouse:
    """The process itself, and its mail."""

    def __init__(self, inner: Process, post: Post) -> None:
        self.inner = inner
        self.post = post

    def start(self) -> Effects:
        return self._mailed(self.inner.start())

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects, new = self.post.take(sender, body)
        if not new:
            return effects
        if isinstance(body, Notice):
            body = body.update
        elif isinstance(body, Reply):
            body = body.answer
        return [*effects, *self._mailed(self.inner.receive(sender, body, now))]

    def _mailed(self, effects: Iterable[Effect]) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Ask):
                out.extend(self.post.send(effect.source, AcknowledgedQuery(effect)))
            else:
                out.append(effect)
        return out


class _Source:
    """Mails its source's updates and answers."""

    def __init__(self, post: Post, tells: bool) -> None:
        self.post = post
        self.tells = tells

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects, new = self.post.take(sender, body)
        if not new:
            return effects
        if isinstance(body, Update):
            return self.post.send(WAREHOUSE, Notice(body)) if self.tells else ()
        if isinstance(body, AcknowledgedQuery):
            return [*effects, body.ask]
        assert isinstance(body, Answer), body
        return self.post.send(WAREHOUSE, Reply(body))
