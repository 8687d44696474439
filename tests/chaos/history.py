"""The oracle's own record of a source: every commit in the order in which it happened, with the state after it.

The world executes one statement at a time, whatever the number of connections, so its commits have an order, and the
state after each is read plainly from the tables. Only a *storm* commits from several threads at once: there the server
says in which order (its log, through a logical slot), and a commit counts as before another only if it had returned
before the other was asked for. Every state of a storm is the one before it with the changes of some of its members.

A source has *lives*. A restore, a crash that lost commits, and a new capture begin another one: the same label then
means another transaction. `since` says from which number of Headwater's log on a life's labels are meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .business import Bag, State


@dataclass(frozen=True)
class Commit:
    """`label` is what Headwater would call it; `span` when its commit was asked for and when it had returned."""

    index: int
    label: str
    what: str
    state: State
    storm: int = -1
    span: tuple[float, float] = (0.0, 0.0)
    delta: Mapping[str, Bag] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A state of the source: after a commit, or inside a storm after these of its members."""

    index: int
    members: frozenset[int] = frozenset()


@dataclass
class _Life:
    since: int
    labels: dict[str, int] = field(default_factory=dict)


class Unknown(Exception):
    """A label that no commit of this life has."""


class History:
    def __init__(self, source: str, first: State) -> None:
        self.source = source
        self.commits = [Commit(0, "", "the beginning", first)]
        self._lives = [_Life(0)]
        self._storms = 0

    @property
    def newest(self) -> Commit:
        return self.commits[-1]

    def commit(self, label: str, state: State, what: str) -> None:
        """The next commit. One that Headwater cannot have noticed has the label of the last, or none."""
        kept = {t: old if (old := self.newest.state[t]) == bag else bag for t, bag in state.items()}
        self.commits.append(Commit(len(self.commits), label, what, kept))
        if label:
            self._lives[-1].labels.setdefault(label, self.newest.index)

    def storm(self, members: Sequence[tuple[str, tuple[float, float], Mapping[str, Bag], str]], after: State) -> None:
        """Commits that overlapped, in the order of the server's log: label, span, changes, what."""
        self._storms += 1
        tables = {t: Counter(bag) for t, bag in self.newest.state.items()}
        for label, span, delta, what in members:
            for table, changes in delta.items():
                tables[table] = Counter(tables[table])
                tables[table].update(changes)
                tables[table] = Counter({row: n for row, n in tables[table].items() if n})
            index = len(self.commits)
            self.commits.append(Commit(index, label, what, dict(tables), self._storms, span, delta))
            self._lives[-1].labels[label] = index
        assert all(self.newest.state[t] == after[t] for t in after), "the storm's changes are not what it left behind"

    def lose(self, after: int) -> None:
        """A crash took back every commit beyond this one."""
        for commit in self.commits[after + 1 :]:
            self._lives[-1].labels.pop(commit.label, None)
        del self.commits[after + 1 :]

    @property
    def labels(self) -> Mapping[str, int]:
        """What was committed in this life, to be kept with a copy of the source."""
        return dict(self._lives[-1].labels)

    def new_life(self, since: int, state: State, what: str, kept: Mapping[str, int]) -> None:
        """From now on in another past: of the labels so far only those in `kept` still mean what they did."""
        self.commits.append(Commit(len(self.commits), "", what, state))
        self._lives.append(_Life(since, dict(kept)))

    def places(self, seq: int, label: str) -> list[int]:
        """The commits that a label of Headwater's log stands for: several, joined by +, are told as one. Of many it
        names the first and the last; those in between are meant as well."""
        life = next(life for life in reversed(self._lives) if life.since < seq or life.since == 0)
        found = []
        parts = label.partition(" ")[0].split("+")
        for part in parts:
            if part == "…":
                continue
            if part not in life.labels:
                raise Unknown(part)
            found.append(life.labels[part])
        return list(range(min(found), max(found) + 1)) if "…" in parts else found

    def state(self, place: Place) -> State:
        commit = self.commits[place.index]
        if commit.storm < 0 or not place.members:
            return commit.state
        first = min(c.index for c in self.commits if c.storm == commit.storm)
        tables = dict(self.commits[first - 1].state)
        for index in place.members:
            for table, changes in self.commits[index].delta.items():
                summed = Counter(tables[table])
                summed.update(changes)
                tables[table] = Counter({row: n for row, n in summed.items() if n})
        return tables

    def left_out(self, members: frozenset[int]) -> tuple[Commit, Commit] | None:
        """In a storm: one of these commits, and one before it that is not among them."""
        for index in members:
            one = self.commits[index]
            for other in self.commits:
                told = other.index in members or not any(any(bag.values()) for bag in other.delta.values())
                if other.storm == one.storm and not told and other.span[1] < one.span[0]:
                    return other, one
        return None
