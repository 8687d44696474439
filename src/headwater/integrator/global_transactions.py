"""Assembling global transactions: which of what the sources told may be numbered now.

An application that commits one logical transaction at several sources tags its parts with one id and their number. All
parts get one `seq`, so no view ever shows half of it. For that they must be numbered in one round, and a source's order
must be kept. Hence:

    a part may pass when all parts are at hand and each is the first at its source that has not passed;
    what a source told before its first part that may not pass goes on, the rest is held back.

That is a merge of the sources' orders, as far as it goes. It stops before a part that still has to come, or at a
**conflict**: g1 before g2 at one source and g2 before g1 at another. No number serves both, so one of them is given up:
its parts are numbered separately, as any transactions, and that is reported. The same happens when a part does not
come within `patience` seconds of the first (a late one is then numbered alone), and when the parts contradict each
other. So nothing is held for ever: after `patience` every part at hand has passed or is given up. Sources that are away
for long may be given more patience of their own.

Held sources need no further poll: if each of them waits for a part that lies behind what another one holds, their
orders conflict; otherwise the missing part is at a source that holds nothing, and is polled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.names import SourceName
from headwater.model.source import ORDINAL, Poll

REMEMBERED = 10_000
"""How many given-up ids are known when a part of one comes late."""


class Kind(StrEnum):
    MISSING = "missing"
    LATE = "late"
    DISAGREE = "disagree"


@dataclass(frozen=True)
class PartReport:
    """A global transaction whose parts are not numbered as one, and why."""

    global_id: str
    kind: Kind
    text: str


@dataclass(frozen=True)
class Ready:
    """`polls` are to be numbered now, with the ids in `alone` as separate transactions; empty if there is nothing to
    number. `held` stays at hand for the next call. A poll may be in both: cut in two, its first part in `polls`."""

    polls: Mapping[SourceName, Poll]
    held: Mapping[SourceName, Poll] = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    reports: tuple[PartReport, ...] = ()


class Waiting(NamedTuple):
    """An incomplete global transaction: how many of its parts are here, and since when the first is."""

    global_id: str
    have: int
    parts: int
    since: float


class _Part(NamedTuple):
    ordinal: int
    global_id: str
    parts: int


_Parts = Mapping[SourceName, list[_Part]]


class Assembly:
    """Remembers between calls when an id was first seen, and which ids were given up. Any clock will do that rises."""

    def __init__(self, patience: float, own: Mapping[SourceName, float] = MappingProxyType({})) -> None:
        self.patience, self._own = patience, own
        self._since: dict[str, float] = {}
        self._waiting: list[Waiting] = []
        self._given_up: dict[str, set[SourceName]] = {}
        """Id → the sources whose part was told of; in the order of giving up."""

    def waiting(self) -> list[Waiting]:
        return list(self._waiting)

    def ready(self, polls: Mapping[SourceName, Poll], now: float) -> Ready:
        """What may be numbered of everything at hand: what the last call held, and what came since."""
        tagged = {s: found for s in sorted(polls) if (found := _tagged(polls[s]))}
        if not tagged:
            self._since, self._waiting = {}, []
            return Ready(polls)
        reports = self._late(tagged)
        at_hand = _by_id(tagged)
        for global_id, parts in at_hand.items():
            self._since.setdefault(global_id, now)
            wrong = None if global_id in self._given_up else self._wrong(parts, self._since[global_id], now)
            if wrong is not None:
                reports.append(self._give_up(global_id, *wrong, parts))
        blocked: set[SourceName] = set()
        while True:
            open_parts = {s: [p for p in ps if p.global_id not in self._given_up] for s, ps in tagged.items()}
            first_held, conflicts = _merge(open_parts, blocked)
            for global_id, other in conflicts:
                why = f"it and {other} come in different orders at different sources"
                reports.append(self._give_up(global_id, Kind.DISAGREE, why, at_hand[global_id]))
            uncut = {s for s, n in first_held.items() if n and _label(polls[s], n) not in polls[s].before}
            if not uncut:
                break
            blocked |= uncut  # a poll that cannot be cut there is held whole, and so are all parts of what is in it
        self._remember(at_hand, open_parts, first_held)
        alone = frozenset(g for g in at_hand if g in self._given_up)
        while len(self._given_up) > REMEMBERED:
            del self._given_up[next(iter(self._given_up))]
        return _split(polls, first_held, alone, tuple(reports))

    def _late(self, tagged: _Parts) -> list[PartReport]:
        reports = []
        for source, parts in tagged.items():
            for global_id in dict.fromkeys(p.global_id for p in parts):
                told = self._given_up.get(global_id)
                if told is not None and source not in told:
                    told.add(source)
                    text = f"{global_id}: its part at {source} came after it was given up, and is numbered on its own"
                    reports.append(PartReport(global_id, Kind.LATE, text))
        return reports

    def _wrong(self, parts: Mapping[SourceName, list[int]], since: float, now: float) -> tuple[Kind, str] | None:
        """Why these parts will not be one transaction, if that is certain."""
        twice = [s for s, stated in parts.items() if len(stated) > 1]
        stated = {n for counts in parts.values() for n in counts}
        here = ", ".join(parts)
        if twice:
            return Kind.DISAGREE, f"{twice[0]} has more than one part of it"
        if len(stated) > 1:
            each = ", ".join(f"{s} says {n[0]}" for s, n in parts.items())
            return Kind.DISAGREE, f"its parts state different numbers of parts ({each})"
        wanted = min(stated)
        if len(parts) > wanted:
            return Kind.DISAGREE, f"it has parts at {len(parts)} sources ({here}) and says {wanted}"
        patience = self._patience(parts)
        if len(parts) < wanted and now - since >= patience:
            return Kind.MISSING, f"{len(parts)} of {wanted} parts came within {patience:g} s ({here})"
        return None

    def _patience(self, parts: Iterable[SourceName]) -> float:
        """A part that is missing may be at any source that has told none: the most patient of them counts."""
        return max([self.patience, *(seconds for source, seconds in self._own.items() if source not in parts)])

    def _give_up(self, global_id: str, kind: Kind, why: str, parts: Iterable[SourceName]) -> PartReport:
        self._given_up[global_id] = set(parts)
        return PartReport(global_id, kind, f"{global_id}: {why}; its parts are numbered separately")

    def _remember(
        self, at_hand: Mapping[str, Mapping[SourceName, list[int]]], tagged: _Parts, held: Mapping[SourceName, int]
    ) -> None:
        """Forget the first-seen times of what has passed or is given up."""
        kept = {p.global_id for s, n in held.items() for p in tagged[s] if p.ordinal >= n}
        self._since = {g: since for g, since in self._since.items() if g in kept}
        lacking = {g: next(iter(parts.values()))[0] for g, parts in at_hand.items() if g in kept}
        self._waiting = [
            Waiting(g, len(at_hand[g]), parts, self._since[g])
            for g, parts in lacking.items()
            if len(at_hand[g]) < parts
        ]


def _tagged(poll: Poll) -> list[_Part]:
    ids = poll.transactions.column("global_id")
    if ids.null_count == len(ids):
        return []
    ordinals = np.flatnonzero(pc.is_valid(ids).to_numpy())
    found = poll.transactions.select(["global_id", "parts"]).take(pa.array(ordinals))
    return [
        _Part(*part)
        for part in zip(
            ordinals.tolist(), found.column("global_id").to_pylist(), found.column("parts").to_pylist(), strict=True
        )
    ]


def _by_id(tagged: _Parts) -> dict[str, dict[SourceName, list[int]]]:
    """Id → its sources at hand → the number each part there states."""
    found: dict[str, dict[SourceName, list[int]]] = {}
    for source, parts in tagged.items():
        for part in parts:
            found.setdefault(part.global_id, {}).setdefault(source, []).append(part.parts)
    return found


def _merge(tagged: _Parts, blocked: set[SourceName]) -> tuple[dict[SourceName, int], list[tuple[str, str]]]:
    """Let parts pass while any may; returns each held source's first ordinal that may not pass (0 for `blocked`
    sources, which hold everything), and the conflicts: the id to give up and one it conflicts with."""
    places: dict[str, dict[SourceName, int]] = {}
    for source, parts in tagged.items():
        for place, one in enumerate(parts):
            places.setdefault(one.global_id, {})[source] = place
    heads = dict.fromkeys(tagged, 0)
    conflicts: dict[str, str] = {}

    def head(source: SourceName) -> _Part | None:
        """The first part there that has neither passed nor is given up."""
        parts = tagged[source]
        while heads[source] < len(parts) and parts[heads[source]].global_id in conflicts:
            heads[source] += 1
        return parts[heads[source]] if heads[source] < len(parts) else None

    def complete(part: _Part) -> bool:
        return len(places[part.global_id]) == part.parts and not blocked & places[part.global_id].keys()

    look = list(tagged)
    while True:
        while look:
            part = head(look.pop())
            if part is None or not complete(part):
                continue
            sources = places[part.global_id]
            if all(head(s) == tagged[s][place] for s, place in sources.items()):
                for source in sources:
                    heads[source] += 1
                look += sources
        stuck = {s: p.global_id for s in tagged if (p := head(s)) is not None and complete(p)}
        conflict = _conflict(places, heads, stuck)
        if conflict is None:
            break
        conflicts[conflict[0]] = conflict[1]
        look = list(places[conflict[0]])
    held = {s: p.ordinal for s in tagged if (p := head(s)) is not None}
    return {**held, **dict.fromkeys(blocked, 0)}, list(conflicts.items())


def _conflict(
    places: Mapping[str, Mapping[SourceName, int]], heads: Mapping[SourceName, int], stuck: Mapping[SourceName, str]
) -> tuple[str, str] | None:
    """`stuck` are first ids of sources: complete, yet each behind another id elsewhere. Going from each to one it is
    behind ends at a part that is waited for, or goes round: a conflict. Of such a ring the one that lies farthest
    behind is given up: as a rule it is the one that strayed, and the others need not go."""
    behind = {
        g: [stuck[s] for s, place in sorted(places[g].items()) if place > heads[s] and s in stuck]
        for g in sorted(set(stuck.values()))
    }
    while ends := [g for g, others in behind.items() if not others]:
        behind = {g: [o for o in others if o not in ends] for g, others in behind.items() if g not in ends}
    if not behind:
        return None
    ring = [next(iter(behind))]
    while (following := behind[ring[-1]][0]) not in ring:
        ring.append(following)
    ring = ring[ring.index(following) :]
    strayed = max(ring, key=lambda g: (max(place - heads[s] for s, place in places[g].items()), g))
    return strayed, ring[ring.index(strayed) - 1]


def _split(
    polls: Mapping[SourceName, Poll],
    first_held: Mapping[SourceName, int],
    alone: frozenset[str],
    reports: tuple[PartReport, ...],
) -> Ready:
    go = {s: poll for s, poll in polls.items() if s not in first_held}
    held = {}
    for source, n in first_held.items():
        head, held[source] = _cut(polls[source], n)
        if head is not None:
            go[source] = head
    if held and not any(poll.transactions.num_rows for poll in go.values()):
        go = {}
    return Ready({s: go[s] for s in polls if s in go}, held, alone, reports)


def _label(poll: Poll, ordinal: int) -> str:
    return str(poll.transactions.column("transaction")[ordinal].as_py())


def _cut(poll: Poll, n: int) -> tuple[Poll | None, Poll]:
    """The first n transactions, and the rest. The first poll may be empty: then it only says where the source is."""
    end = poll.before.get(_label(poll, n))
    if end is None:
        assert n == 0, "cut where the poll names no position"
        return None, poll
    early, late = {}, {}
    for table, rows in poll.changes.items():
        ordinals = rows.column(ORDINAL)
        early[table] = rows.filter(pc.less(ordinals, n))
        kept = rows.filter(pc.greater_equal(ordinals, n))
        shifted = pc.subtract(kept.column(ORDINAL), pa.scalar(n, pa.int64()))
        late[table] = kept.set_column(kept.column_names.index(ORDINAL), ORDINAL, shifted)
    head = Poll(end, poll.transactions.slice(0, n), early, more=True)
    return head, Poll(poll.end, poll.transactions.slice(n), late, poll.more, poll.before)
