"""Generated worlds and update processes: rate, distribution over the sources, runs of length c.

The chain is PVM's (figure 20): R1(A, B) … Rm(A, B), one relation per source, R1.A = R2.B and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from headwater.algebra.bag import Bag, Row
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.model.names import TableName


def chain(m: int, rows: int = 20, domain: int = 10, seed: int = 0) -> World:
    """PVM's figure 20 over m sources IS1 … ISm, each relation with `rows` different random rows of values below
    `domain`."""
    random = Random(seed)
    tables = {f"IS{i}.R{i}": ("A", "B") for i in range(1, m + 1)}
    select = ", ".join(f"R{i}.A AS A{i}" for i in range(1, m + 1))
    joins = "IS1.R1" + "".join(f" JOIN IS{i}.R{i} ON R{i - 1}.A = R{i}.B" for i in range(2, m + 1))
    pairs = [(a, b) for a in range(domain) for b in range(domain)]
    held = {name: random.sample(pairs, min(rows, len(pairs))) for name in tables}
    return World.of(tables, {"V": f"SELECT {select} FROM {joins}"}, held)


def paired_chain(m: int, rows: int, seed: int = 0) -> World:
    """The same chain, each value once in every column: a row has exactly one partner in each neighbour."""
    random, world = Random(seed), chain(m, 1, 1)
    values = range(rows)
    held = {t: Bag.of(zip(values, random.sample(values, rows), strict=True)) for t in world.columns}
    return replace(world, initial=held)


@dataclass(frozen=True)
class Mix:
    """What updates do: a fraction `deletes` of them delete a row that is there, the others insert one that is not.
    `size` rows per transaction, spread over the tables of its source."""

    deletes: float = 0.4
    size: int = 1
    domain: int = 10


def in_turn(sources: Sequence[str], c: int = 1) -> Iterator[str]:
    """PVM's distribution of updates: c consecutive ones from the first source, c from the next, and round again."""
    while True:
        for source in sources:
            for _ in range(c):
                yield source


def weighted(sources: Sequence[str], frequencies: Sequence[float], random: Random) -> Iterator[str]:
    """Each update from a source with probability proportional to its frequency."""
    while True:
        yield random.choices(sources, frequencies)[0]


def every(interval: float, start: float = 0.0) -> Iterator[float]:
    """Equally spaced times."""
    n = 0
    while True:
        yield start + n * interval
        n += 1


def poisson(rate: float, random: Random, start: float = 0.0) -> Iterator[float]:
    """Times of a Poisson process."""
    now = start
    while True:
        now += random.expovariate(rate)
        yield now


def updates(
    world: World,
    n: int,
    origins: Iterator[str],
    times: Iterator[float],
    seed: int = 0,
    mix: Mix | None = None,
    row: Callable[[Random, TableName], Row] | None = None,
) -> World:
    """The world with n transactions: from `origins`, at `times`."""
    random = Random(seed)
    writer = _Writer(world, random, mix or Mix(), row)
    planned = []
    for _ in range(n):
        source = next(origins)
        planned.append(PlannedUpdate(next(times), source, writer.transaction(source)))
    return world.having(planned)


class _Writer:
    """Makes transactions that are possible: deletes what is there."""

    def __init__(self, world: World, random: Random, mix: Mix, row: Callable[[Random, TableName], Row] | None) -> None:
        self._random = random
        self._mix = mix
        self._row = row
        self._width = {t: len(c) for t, c in world.columns.items()}
        self._tables = {s: [t for t in world.columns if t.source == s] for s in world.sources}
        self._held: dict[TableName, _Held] = {t: _Held(bag.counts) for t, bag in world.initial.items()}

    def transaction(self, source: str) -> dict[TableName, Bag]:
        changes: dict[TableName, list[tuple[Row, int]]] = {}
        for _ in range(self._mix.size):
            table = self._random.choice(self._tables[source])
            held = self._held[table]
            if held.rows and self._random.random() < self._mix.deletes:
                changes.setdefault(table, []).append((held.delete(self._random), -1))
            else:
                changes.setdefault(table, []).append((held.insert(self._fresh(table, held)), 1))
        summed = {t: Bag.summed(pairs) for t, pairs in changes.items()}
        return {t: bag for t, bag in summed.items() if bag}

    def _fresh(self, table: TableName, held: _Held) -> Row:
        for _ in range(100):
            row = self._any(table)
            if row not in held.places:
                return row
        return row  # a small domain that is full: once more, then

    def _any(self, table: TableName) -> Row:
        if self._row is not None:
            return self._row(self._random, table)
        return tuple(self._random.randrange(self._mix.domain) for _ in range(self._width[table]))


class _Held:
    """The rows of a table, of which any can be drawn."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self.places = Counter(self.rows)

    def insert(self, row: Row) -> Row:
        self.rows.append(row)
        self.places[row] += 1
        return row

    def delete(self, random: Random) -> Row:
        i = random.randrange(len(self.rows))
        self.rows[i], self.rows[-1] = self.rows[-1], self.rows[i]
        row = self.rows.pop()
        self.places[row] -= 1
        if not self.places[row]:
            del self.places[row]
        return row
