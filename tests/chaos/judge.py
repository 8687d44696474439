"""The verdict: what Headwater shows, against what the sources went through.

For every state s that a complete view keeps: Headwater's log says which source transactions lie up to s. They must be
the first ones of that source in true commit order, and the view's rows at s must be those of a plain recomputation at
exactly these states. A view that was loaded late begins at some state of each source that only its load knows; all
that are possible are tried, and those that a later state contradicts are dropped: one must remain.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .business import VIEWS, Bag, Tables, View
from .history import History, Place, Unknown
from .reader import Reader, Told, Unreadable

BEGINNINGS = 20_000
"""So many vectors of states a load may have begun at are tried; the newest ones, if there are more."""


class Wrong(Exception):
    """What Headwater did wrong, in words."""


def difference(got: Bag, want: Bag) -> str:
    missing, extra = want - got, got - want
    return f"missing {_some(missing)}, extra {_some(extra)}"


def _some(bag: Bag) -> str:
    shown = ", ".join(str(row) + (f" ×{n}" if n > 1 else "") for row, n in list(bag.items())[:4])
    return (shown or "nothing") + (f" and {len(bag) - 4} more" if len(bag) > 4 else "")


Vector = Mapping[str, int]


@dataclass
class _Epoch:
    """A view from one of its loads on."""

    horizon: int
    bases: list[Vector]
    checked: int


@dataclass
class Judge:
    histories: Mapping[str, History]
    reader: Reader
    told: list[tuple[int, str, list[int]]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """What was wrong and left the rest judgeable."""
    states_checked: int = 0
    _found: set[str] = field(default_factory=set)
    _wrong: frozenset[str] = frozenset()
    _seen: int = 0
    _high: dict[str, list[int]] = field(default_factory=dict)
    _epochs: dict[str, _Epoch] = field(default_factory=dict)
    _results: dict[Any, tuple[Tables, Bag]] = field(default_factory=dict)

    def forget_warehouse(self) -> None:
        """It was removed: numbers begin anew."""
        self.told, self._seen, self._high, self._epochs = [], 0, {}, {}

    @property
    def numbered(self) -> int:
        return self._seen

    # ------------------------------------------------------------------ order

    def take_log(self) -> list[Told]:
        """Read what was numbered since, and judge its order."""
        new = self.reader.log(self._seen + 1)
        for seq, source, label in new:
            self._seen = max(self._seen, seq)
            if not self.histories[source].commits:
                continue
            try:
                indexes = self.histories[source].places(seq, label)
            except Unknown as part:
                known = f"{source} has no committed transaction {part} (state {seq} of the log tells {label})"
                self.findings.append(f"the log tells what never happened: {known}")
                continue
            self._judge_order(seq, source, indexes)
            self.told.append((seq, source, indexes))
        return new

    def _find(self, text: str, about: str) -> None:
        """The first of its kind says it all."""
        if about not in self._found:
            self._found.add(about)
            self.findings.append(text)

    def _judge_order(self, seq: int, source: str, indexes: list[int]) -> None:
        history, before = self.histories[source], self._high.setdefault(source, [])
        for index in indexes:
            one = history.commits[index]
            for earlier in before:
                other = history.commits[earlier]
                if earlier > index and (one.storm < 0 or one.storm != other.storm):
                    self.findings.append(
                        f"order: the log tells transaction {one.label} of {source} at {seq}, after {other.label}"
                        f" which was committed later\n  {one.label}: {one.what}\n  {other.label}: {other.what}"
                    )
        before[:] = [i for i in before if history.commits[i].storm >= 0 or i == max(before)] + indexes
        told = frozenset(i for i in before if history.commits[i].storm >= 0)
        for storm in {history.commits[i].storm for i in told}:
            left = history.left_out(frozenset(i for i in told if history.commits[i].storm == storm))
            if left is not None and max(before) in told:
                self._find(
                    f"order: state {seq} has transaction {left[1].label} of {source} and lacks {left[0].label},"
                    " which had been committed before",
                    f"{source} {left[0].label}",
                )

    # ----------------------------------------------------------------- states

    def expected(self, view: View, vector: Mapping[str, Place]) -> Bag:
        states = {s: self.histories[s].state(place) for s, place in vector.items()}
        tables: Tables = {f"{s}.{t}": bag for s, state in states.items() for t, bag in state.items()}
        key = (view.name, *(id(tables[t]) for t in view.uses))
        if any(place.members for place in vector.values()):
            return view.rows(tables)
        if key not in self._results:  # the tables are kept beside it: their ids must stay theirs
            self._results[key] = (tables, view.rows(tables))
        return self._results[key][1]

    def now(self, view: View) -> Bag:
        return self.expected(view, {s: Place(self.histories[s].newest.index) for s in view.sources})

    def check_states(self, status: Mapping[str, Any]) -> None:
        """Judge every state of every view that was not judged yet."""
        for known in status["views"]:
            view = VIEWS.get(known["name"])
            if view is not None and view.level != "convergent":
                try:
                    self._check_view(view, known["horizon"], known["seq"])
                except Unreadable as error:
                    said = (
                        f"{view.name} has state {known['seq']}, says its status ({known['state']}), and then: {error}"
                    )
                    self._find(said, f"{view.name} unreadable")

    def _check_view(self, view: View, horizon: int, newest: int) -> None:
        epoch = self._epochs.get(view.name)
        if epoch is None or epoch.horizon != horizon:
            epoch = self._epochs[view.name] = _Epoch(horizon, list(self._bases(view, horizon)), horizon - 1)
        if newest < epoch.checked:
            self._find(
                f"{view.name} went back: it was shown at {epoch.checked}, and now at {newest}", f"{view.name} back"
            )
            epoch.checked = newest
        if view.level == "complete":
            told = {seq for seq, source, _ in self.told if source in view.sources}
            wanted = [
                s
                for s in range(epoch.checked + 1, newest + 1)
                if s in told or s + 1 in told or s in (newest, horizon) or s % 7 == 0
            ]
        else:  # it keeps some states; the newest is one of them
            wanted = [newest] if newest > epoch.checked else []
        vectors = self._vectors(view, wanted)
        for s, got in zip(wanted, self.reader.kept([(view.name, s) for s in wanted]), strict=True):
            if got is None:
                continue
            right = [base for base in epoch.bases if self.expected(view, _later(base, vectors[s])) == got]
            self.states_checked += 1
            if right:
                epoch.bases = right
            elif view.name not in self._wrong:  # the first wrong state says it all, until it is right again
                self.findings.append(self._told_wrong(view, s, got, epoch.bases, vectors[s]))
            self._wrong = self._wrong - {view.name} if right else self._wrong | {view.name}
        epoch.checked = newest

    def _told_wrong(self, view: View, s: int, got: Bag, bases: Sequence[Vector], vector: Mapping[str, Place]) -> str:
        if not bases:
            return f"{view.name} was loaded with rows that no state of its sources has: {_some(got)} at {s}"
        places = _later(bases[-1], vector)
        want = self.expected(view, places)
        said = [f"{view.name} at {s}: {difference(got, want)}"]
        for source, place in places.items():
            commit = self.histories[source].commits[place.index]
            said.append(f"  {source} after {commit.label or 'no'} ({commit.what})")
        return "\n".join(said)

    def _bases(self, view: View, horizon: int) -> Iterator[Vector]:
        told = self._vectors(view, [horizon])[horizon]
        each = int(BEGINNINGS ** (1 / len(view.sources)))
        ranges = []
        for source in sorted(view.sources):
            newest = self.histories[source].newest.index
            ranges.append([(source, i) for i in range(max(told[source].index, newest - each), newest + 1)])
        for combination in itertools.product(*ranges):
            yield dict(combination)

    def _vectors(self, view: View, wanted: Sequence[int]) -> dict[int, dict[str, Place]]:
        """Per state: how far each source of the view is by what the log told."""
        found: dict[int, dict[str, Place]] = {}
        now = {s: Place(0) for s in view.sources}
        entries = iter(sorted(self.told, key=lambda entry: entry[0]))
        entry = next(entries, None)
        for s in sorted(wanted):
            while entry is not None and entry[0] <= s:
                if entry[1] in now:
                    now[entry[1]] = self._moved(self.histories[entry[1]], now[entry[1]], entry[2])
                entry = next(entries, None)
            found[s] = dict(now)
        return found

    def _moved(self, history: History, place: Place, indexes: list[int]) -> Place:
        newest = max(indexes)
        storm = history.commits[newest].storm
        if storm < 0:
            return Place(max(newest, place.index))
        old = {i for i in place.members if history.commits[i].storm == storm}
        new = {i for i in indexes if history.commits[i].storm == storm}
        return Place(max(newest, place.index), frozenset(old | new))


def _later(base: Vector, told: Mapping[str, Place]) -> dict[str, Place]:
    return {s: place if place.index >= base[s] else Place(base[s]) for s, place in told.items()}
