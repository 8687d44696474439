"""What every published algorithm is written against: they ask sources and receive answers and updates; whoever runs
them decides when.

A *strategy* is one or more *processes*, each at a node: the warehouse, the machines of its cluster, agents beside the
sources. A process is told what arrives and returns what it wants done; it does no I/O and has no clock of its own.

    receives                                    wants done
    Update   a source committed a transaction   Ask      question a source; an Answer comes back
    Answer   a source answered                  Send     a message of its own to another process
    others   what processes send each other,    Wake     a message to itself, later
             or itself (Wake)                   Work     local joins, which take the node's time
                                                Commit   change views, as one state

A node that stands beside a source has the source's name; what passes between the two is not a message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Find, Key, Partial, Spj, weight
from headwater.model.names import TableName

Node = str
WAREHOUSE: Node = "warehouse"
Wanted = Callable[[], Collection[Key]]


class Label(NamedTuple):
    """Which update: the `number`th transaction of a source, from 1."""

    source: Node
    number: int

    def __str__(self) -> str:
        return f"{self.source}#{self.number}"


class Update(NamedTuple):
    """A committed transaction of one source: what changed, table by table, as signed bags over the table's columns.

    `tid` is the source's own identifier of the transaction (Moro and Sartori's TID), `at` its commit time, `part_of`
    the transaction over several sources that it is a part of, if any.
    """

    label: Label
    changes: Mapping[TableName, Bag]
    at: float
    tid: str = ""
    part_of: str = ""

    @property
    def source(self) -> Node:
        return self.label.source

    @property
    def number(self) -> int:
        return self.label.number

    @property
    def weight(self) -> int:
        return sum(weight(bag) for bag in self.changes.values())


class Database(Protocol):
    """A source's own view of itself, which questions are evaluated against, all at one moment."""

    @property
    def position(self) -> int:
        """How many transactions have been committed."""
        ...

    def find(self, table: TableName, positions: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        """Rows of a table by the key at these positions, now; whole rows of the table. `wanted` tells the keys that
        will be looked up, where they are known: who is far away asks for all of them at once."""
        ...

    def rows(self, table: TableName) -> Bag:
        """A table, now."""
        ...

    def as_of(self, table: TableName, positions: tuple[int, ...], position: int) -> Find:
        """Like `find`, after the first `position` transactions instead of now."""
        ...

    def log(self, after: int) -> Sequence[Update]:
        """The transactions after the first `after`, in commit order."""
        ...

    def delta(self) -> Mapping[str, Update]:
        """The delta tables, by TID: committed transactions that nobody has removed yet."""
        ...

    def forget(self, tids: Iterable[str]) -> None:
        """Remove these from the delta tables."""
        ...


class Question(Protocol):
    """What a source is asked. `weight` is the number of values that travel to it."""

    @property
    def weight(self) -> int: ...

    def evaluate(self, database: Database) -> Any:
        """The answer; has a `weight` or is a bag."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """ComputeJoin(ΔV, R) of PVM's figure 13: the partial joined with occurrence j as it is when the source gets to
    it. The answer is the longer partial."""

    view: Spj
    partial: Partial
    j: int

    @property
    def weight(self) -> int:
        return weight(self.partial.bag)

    def evaluate(self, database: Database) -> Partial:
        view, j = self.view, self.j
        far = view.raw_positions(j, view.join(self.partial.over, j).far)
        found = database.find(view.tables[j], far, lambda: view.keys(self.partial, j))
        return view.extend(self.partial, j, view.as_occurrence(j, found))


class Ask(NamedTuple):
    """Question a source. `ticket` is the asker's own number of it; `about` says which updates it serves."""

    source: Node
    question: Question
    ticket: int
    about: tuple[Label, ...] = ()


class Answer(NamedTuple):
    """What a source said to the question with this ticket."""

    source: Node
    ticket: int
    value: Any
    about: tuple[Label, ...] = ()


def weight_of(value: Any) -> int:
    """How many values travel with an answer or a message: a bag's, or the `weight` it has."""
    return weight(value) if isinstance(value, Bag) else int(value.weight)


def kind_of(body: Any) -> str:
    """What histories call a message with this body: what it says itself, else the name of its class."""
    return str(getattr(body, "kind", type(body).__name__.lower()))


class Send(NamedTuple):
    """A message to another process; `body` has a `weight`."""

    to: Node
    body: Any


class Wake(NamedTuple):
    """`body` comes back to the process after so much time."""

    after: float
    body: Any


class Work(NamedTuple):
    """So many local joins (PVM's C_local each) were needed for what follows."""

    joins: int = 1


class Commit(NamedTuple):
    """Change these views, all at once: one state of the warehouse. `covers` says which updates it brings in."""

    changes: tuple[tuple[str, Bag], ...]
    covers: tuple[Label, ...] = ()


Effect = Ask | Send | Wake | Work | Commit
Effects = Iterable[Effect]


class Process(Protocol):
    """Whoever takes part."""

    def start(self) -> Effects:
        """Called once, before anything happens."""
        ...

    def receive(self, sender: Node, body: Any, now: float) -> Effects: ...


@dataclass(frozen=True)
class Strategy:
    """The processes by node, and who is told of the sources' commits: `notified(source)`, by default the warehouse."""

    processes: Mapping[Node, Process]
    notified: Callable[[Node], tuple[Node, ...]] = field(default=lambda source: (WAREHOUSE,))


@dataclass(frozen=True)
class StrategySetting:
    """What a strategy knows when it begins: the view, at which source each occurrence is, and what was there. A view
    that it reads is an occurrence at the warehouse.

    `tables` are the initial contents; only what an algorithm materializes may be computed from them (the view itself,
    auxiliary views): anything else must be asked for. `types` are the columns', in the order of the tables', where the
    sources tell them.
    """

    view: Spj
    homes: tuple[Node, ...]
    tables: Mapping[TableName, Bag]
    types: Mapping[TableName, pa.Schema] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[Node, ...]:
        """Every source once, in the order of the view."""
        return tuple(dict.fromkeys(self.homes))

    def content(self) -> Bag:
        """The view's rows at the beginning."""
        return self.view.evaluate(self.tables)


Factory = Callable[[StrategySetting], Strategy]
ViewsFactory = Callable[[Sequence[StrategySetting]], Strategy]
"""For several views at once."""
