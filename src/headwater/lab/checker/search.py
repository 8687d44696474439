"""Ways through the lattice of source states that pass given contents: what consistency and completeness ask for.

Consecutive contents differ. A way for consistency need not show every state it passes, so smaller is better: from a
vector, everything is reachable that is reachable from a larger one. One vector at a time, those first that have met
most of the contents in order (`best_first`), such a way is often found soon if there is one. That there is none takes
longer: for linear views it is enough to keep, content by content, the least vectors where the way can be (`by_boxes`).

A way for completeness shows everything: each step leads to the same content or to the next one, which leaves little to
visit (`step_by_step`).

Except for `by_boxes` contents are hashes here; whoever calls confirms with real rows what is found.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.lab.checker.boxes import Boxes
from headwater.lab.checker.lattice import Vector, below
from headwater.lab.checker.source_states import MASK, Contents, SourceStates, Spent


@dataclass
class Found:
    """How many of the contents a way passes in order, at most, and the vectors where it does. If it does not pass all:
    vectors that have a content, by its place in the list, and which is the first that no vector has.

    What was not `decided` is only what was found so far."""

    met: int
    way: list[Vector]
    decided: bool
    visited: int
    places: dict[int, list[Vector]] = field(default_factory=dict)
    unreal: int | None = None
    unreal_decided: bool = True


Known = Mapping[int, Vector]
"""Vectors that are known to have a content, by its place in the list."""


@dataclass
class Hashes:
    """The hash of each vector that was asked for, from that of one below it."""

    states: SourceStates
    known: dict[Vector, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bottom = self.states.lattice.bottom
        self.known[bottom] = self.states.marks.all(self.states.contents(bottom))

    def at(self, vector: Vector, under: Vector) -> int:
        found = self.known.get(vector)
        if found is None:
            more = self.states.marks.all(self.states.difference(under, vector))
            found = self.known[vector] = (self.known[under] + more) & MASK
        return found


def by_boxes(boxes: Boxes, changes: Sequence[Contents], known: Known) -> Found:
    """Contents are given by what is different in each from the one before. First a vector for each of them; if one has
    none, that is the end. Then a way."""
    found = each_by_boxes(boxes, changes, known)
    if found.unreal is None or not found.unreal_decided:
        before = boxes.renew()
        _look_for_way(found, boxes, changes)
        found.visited = before + boxes.visited
    return found


def each_by_boxes(boxes: Boxes, changes: Sequence[Contents], known: Known) -> Found:
    """A vector for each content, up to the first that has none; takes little where they are known."""
    boxes.renew()
    found = Found(0, [], True, 0)
    try:
        for i, content in enumerate(boxes.wanted(changes)):
            found.places[i] = [known[i]] if i in known else boxes.least(content, boxes.lattice.bottom, 1)
            if not found.places[i]:
                found.unreal = i
                break
    except Spent:
        found.unreal, found.unreal_decided = i, False
    found.visited = boxes.visited
    return found


def _look_for_way(found: Found, boxes: Boxes, changes: Sequence[Contents]) -> None:
    """Content by content the least vectors that have it and are above one of those that have the one before, up to the
    first that no way reaches; of that one, all the least there are."""
    least: list[list[Vector]] = []
    bottom = boxes.lattice.bottom
    try:
        for i, content in enumerate(boxes.wanted(changes)):
            reached: dict[Vector, None] = {}
            for low in least[-1] if least else [bottom]:
                reached |= dict.fromkeys(boxes.least(content, low))
            if not reached:
                found.places[i] = [*found.places.get(i, ()), *boxes.least(content, bottom)]
                break
            least.append([v for v in reached if not any(o != v and below(o, v) for o in reached)])
    except Spent:
        found.decided = False
    found.met, found.way = len(least), _back(least)


class _Node(NamedTuple):
    """A vector that a way has reached, how much it has met by then, and where it came from."""

    vector: Vector
    met: int
    under: _Node | None


def best_first(hashes: Hashes, contents: Sequence[int], known: Known, budget: int) -> Found:
    """One vector at a time: those first that have met most; among them those that are closest to where they met it, and
    on the way there kept to the order of the commits."""
    lattice = hashes.states.lattice
    most: dict[Vector, int] = {}
    """How much was met at a vector or below it."""
    places: dict[int, list[Vector]] = {content: [] for content in contents}
    heap: list[tuple[int, int, int, _Node]] = []
    best = _Node(lattice.bottom, 0, None)
    visited = 0

    def arrive(vector: Vector, under: _Node | None, far: int) -> None:
        nonlocal best, visited
        met = under.met if under else 0
        content = hashes.at(vector, under.vector if under else vector)
        if content == contents[met]:
            met, far = met + 1, 0
        if most.get(vector, -1) >= met:
            return
        visited += 1
        if vector not in most and content in places:
            places[content].append(vector)
        most[vector] = met
        node = _Node(vector, met, under)
        if met > best.met:
            best = node
        heapq.heappush(heap, (-met, far, visited, node))

    arrive(lattice.bottom, None, 0)
    while heap and best.met < len(contents) and visited < budget:
        _, far, _, node = heapq.heappop(heap)
        if most[node.vector] == node.met:  # else it has met more there since
            for turn, up in enumerate(lattice.steps(node.vector)):
                arrive(up, node, far + 1 + 2 * turn)
                if best.met == len(contents):
                    break
    decided = best.met == len(contents) or not heap
    for i, vector in known.items():
        places[contents[i]].append(vector)
    found = Found(best.met, _met(best), decided, visited, {i: places[c] for i, c in enumerate(contents)})
    found.unreal = next((i for i, c in enumerate(contents) if not places[c]), None)
    found.unreal_decided = decided or found.unreal is None
    return found


def step_by_step(hashes: Hashes, contents: Sequence[int], budget: int) -> Found:
    """A way from the bottom to the top, every step of which leads to the same content or to the next. Here `way` is
    all of it."""
    lattice = hashes.states.lattice
    if hashes.known[lattice.bottom] != contents[0]:
        return Found(0, [], True, 1)
    start, goal = (lattice.bottom, 0), (lattice.top, len(contents) - 1)
    came_from: dict[tuple[Vector, int], tuple[Vector, int] | None] = {start: None}
    stack = [start]
    visited, most = 1, 0
    while stack and goal not in came_from:
        if visited >= budget:
            return Found(most + 1, [], False, visited)
        vector, i = stack.pop()
        most = max(most, i)
        for up in reversed(lattice.steps(vector)):
            content = hashes.at(up, vector)
            visited += 1
            same = content == contents[i]
            if same or (i + 1 < len(contents) and content == contents[i + 1]):
                step = (up, i if same else i + 1)
                if step not in came_from:
                    came_from[step] = (vector, i)
                    stack.append(step)
    way: list[Vector] = []
    at = goal if goal in came_from else None
    while at is not None:
        way.append(at[0])
        at = came_from[at]
    return Found(len(contents) if way else most + 1, way[::-1], True, visited)


def _back(least: Sequence[list[Vector]]) -> list[Vector]:
    """A way through these vectors, from the last to the first."""
    way: list[Vector] = []
    for vectors in reversed(least):
        way.append(next(v for v in vectors if not way or below(v, way[-1])))
    return way[::-1]


def _met(node: _Node | None) -> list[Vector]:
    """The vectors on the way here where something was met."""
    way: list[Vector] = []
    while node is not None:
        if node.met > (node.under.met if node.under else 0):
            way.append(node.vector)
        node = node.under
    return way[::-1]
