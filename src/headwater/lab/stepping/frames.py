"""What one looks at: a play is a list of frames, and a frame is everything that is there after one step.

Frames are made of what the lab's own objects hold while they run (`recording`), nothing is told that did not happen.
All values are text and numbers: they are drawn elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    """Something that stands in a queue. `done`: it waits only for those before it."""

    text: str
    done: bool = False


@dataclass(frozen=True)
class Queue:
    """A queue or a set of a process, by the name that its paper gives it."""

    name: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Rows:
    """What a table or a view holds."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Actor:
    """A node: a source with its tables, the warehouse with its views, or both."""

    name: str
    tables: tuple[Rows, ...] = ()
    queues: tuple[Queue, ...] = ()


@dataclass(frozen=True)
class Flight:
    """A message under way. `text` says which transactions it is about."""

    sender: str
    receiver: str
    kind: str
    text: str


@dataclass(frozen=True)
class Cell:
    """An entry of the view update table: a colour, and the state that it leads to (0: none)."""

    view: str
    colour: str
    state: int


@dataclass(frozen=True)
class TableRow:
    """A row of the view update table, with the action lists that are there."""

    number: int
    cells: tuple[Cell, ...]
    lists: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """After a step. `states` is how many states the warehouse has had, the first included."""

    at: float
    text: str
    actors: tuple[Actor, ...] = ()
    flights: tuple[Flight, ...] = ()
    painted: tuple[TableRow, ...] = ()
    states: int = 1

    def shows_the_same(self, other: Frame) -> bool:
        """But for the time and the words."""
        mine = (self.actors, self.flights, self.painted, self.states)
        return mine == (other.actors, other.flights, other.painted, other.states)


@dataclass(frozen=True)
class Reason:
    """Why a level does not hold: the sentence, and the number of the state that it speaks of (0: the first)."""

    level: str
    sentence: str
    state: int
    extra: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """What the checker found. `path` has, for each state, how many transactions of each source it shows."""

    level: str
    meaning: str
    reasons: tuple[Reason, ...] = ()
    sources: tuple[str, ...] = ()
    path: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Play:
    """A play from its first frame to its last. `idea` is how the algorithm's own file opens."""

    name: str
    title: str
    paper: str
    algorithm: str
    idea: str
    view: str = ""
    about: str = ""
    frames: tuple[Frame, ...] = field(default=())
    judgement: Judgement | None = None
