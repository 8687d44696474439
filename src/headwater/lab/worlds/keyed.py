"""The chain of PVM's figure 20 with keys, as Strobe and C-Strobe need them: R1(K, A, B) … Rm(K, A, B), where K is the
key, R1.A = R2.B and so on, and the view shows all keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

from headwater.algebra.bag import Bag, Row
from headwater.lab.worlds.workload import Mix
from headwater.lab.worlds.world import PlannedUpdate, World
from headwater.model.names import TableName


def keyed_chain(m: int, rows: int = 10, domain: int = 4, seed: int = 0, sources: int = 0) -> World:
    """Over m sources IS1 … ISm, or over fewer in turn: ECA needs one. Keys are 0 … rows − 1 at the beginning."""
    random = Random(seed)
    empty = _empty(m, sources or m)
    held = {t: [(k, random.randrange(domain), random.randrange(domain)) for k in range(rows)] for t in empty.columns}
    return replace(empty, initial={t: Bag.of(rows) for t, rows in held.items()})


@cache
def _empty(m: int, sources: int) -> World:
    """The chain without rows: its SQL is read once."""
    tables = {f"IS{1 + i % sources}.R{i + 1}": ("K", "A", "B") for i in range(m)}
    select = ", ".join(f"R{i}.K AS K{i}" for i in range(1, m + 1))
    first, *others = tables
    joins = first + "".join(f" JOIN {name} ON R{i}.A = R{i + 1}.B" for i, name in enumerate(others, 1))
    return World.of(tables, {"V": f"SELECT {select} FROM {joins}"}, {})


def keys_of(world: World) -> dict[TableName, tuple[str, ...]]:
    """K is the key of every table."""
    return dict.fromkeys(world.columns, ("K",))


def keyed_updates(
    world: World, n: int, origins: Iterator[str], times: Iterator[float], seed: int = 0, mix: Mix | None = None
) -> World:
    """The world with n transactions. A key that is there is never inserted; one that was deleted may come back, with
    other values or the same."""
    random, mix = Random(seed), mix or Mix(domain=4)
    tables = {s: [t for t in world.columns if t.source == s] for s in world.sources}
    held = {t: {row[0]: row for row in bag.counts} for t, bag in world.initial.items()}
    most = {t: len(rows) + 2 for t, rows in held.items()}
    planned = []
    for _ in range(n):
        source = next(origins)
        changes: dict[TableName, list[tuple[Row, int]]] = {}
        for _ in range(mix.size):
            table = random.choice(tables[source])
            rows = held[table]
            if rows and random.random() < mix.deletes:
                changes.setdefault(table, []).append((rows.pop(random.choice(sorted(rows))), -1))
            else:
                dead = [k for k in range(most[table]) if k not in rows]
                if not dead:
                    dead = [most[table]]
                    most[table] += 1
                key = random.choice(dead)
                rows[key] = (key, random.randrange(mix.domain), random.randrange(mix.domain))
                changes.setdefault(table, []).append((rows[key], 1))
        summed = {t: Bag.summed(pairs) for t, pairs in changes.items()}
        planned.append(PlannedUpdate(next(times), source, {t: bag for t, bag in summed.items() if bag}))
    return world.having(planned)
