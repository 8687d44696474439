"""The states that a view of a script is maintained over: what the script does to its tables, and then more.

Scripts mostly insert, and often say nothing after a definition. So rows are taken away, put back, doubled and changed
until there are transactions enough; values come from the table's own rows and from the constants of the query. A large
table is thinned first. Whatever makes the query itself fail (a division by zero) is not made to happen.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from random import Random

import pyarrow as pa
from sqlglot import exp

from .source import Bag, Defined, Row, Shape, Story

MOST = 6
"""Transactions of the script."""
LEAST = 7
"""Transactions in all."""
GENERATED = 3
"""Of those that are generated, at least."""
ROWS = 80
"""Of a table, at most."""
_TRIES = 6

State = Mapping[str, Bag]

_POOLS: tuple[tuple[Callable[[pa.DataType], bool], tuple[object, ...]], ...] = (
    (pa.types.is_integer, (0, 1, 2, 3)),
    (pa.types.is_floating, (0.0, 0.5, 1.0, 2.5)),
    (pa.types.is_decimal, (Decimal(0), Decimal(1), Decimal(2), Decimal(5))),
    (pa.types.is_boolean, (True, False)),
    (pa.types.is_string, ("a", "b", "ab", "")),
    (pa.types.is_date, (dt.date(2024, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 1))),
    (pa.types.is_binary, (b"a", b"b")),
)
_MOMENTS = (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 10, 30), dt.datetime(2024, 2, 29, 12))


@dataclass(frozen=True)
class History:
    """`states[k]` are the tables after transaction k, which did `changes[k − 1]`."""

    shapes: Mapping[str, Shape]
    states: list[State]
    changes: list[State]


def history_of(view: Defined, story: Story, random: Random, allowed: Callable[[list[State]], bool]) -> History:
    """`allowed` says of states whether the query has an answer in the last of them."""
    shapes = {name: shape for name, (shape, _) in view.tables.items()}
    history = History(shapes, [{name: _thinned(bag, random) for name, (_, bag) in view.tables.items()}], [])
    for transaction in story.transactions[view.since : view.until]:
        change = _clipped(history.states[-1], {n: bag for n, bag in transaction.items() if n in shapes})
        if any(change.values()):
            history.changes.append(change)
            history.states.append(_after(history.states[-1], change))
            if not allowed(history.states):
                history.changes.pop()
                history.states.pop()
                break
        if len(history.changes) >= MOST:
            break
    make = _Generator(shapes, _constants(view.query), random)
    wanted = max(LEAST, len(history.changes) + GENERATED) if shapes else 0
    tries = 0
    while len(history.changes) < wanted and tries < wanted * _TRIES:
        tries += 1
        change = _clipped(history.states[-1], make.transaction(history.states[-1], tries))
        if not any(change.values()):
            continue
        history.changes.append(change)
        history.states.append(_after(history.states[-1], change))
        if not allowed(history.states):
            history.changes.pop()
            history.states.pop()
    return history


def _thinned(bag: Bag, random: Random) -> Bag:
    rows = sorted(bag.elements(), key=repr)
    return Counter(rows if len(rows) <= ROWS else random.sample(rows, ROWS))


def _clipped(state: State, change: State) -> State:
    """Only what is there can go; no more comes than a table may hold."""
    found: dict[str, Bag] = {}
    for name, bag in change.items():
        kept = {row: max(n, -state[name][row]) for row, n in bag.items()}
        come = [row for row, n in kept.items() if n > 0]
        for row in come[ROWS:]:
            del kept[row]
        found[name] = Counter({row: n for row, n in kept.items() if n})
    return found


def _after(state: State, change: State) -> State:
    new = dict(state)
    for name, bag in change.items():
        rows = state[name].copy()
        rows.update(bag)
        new[name] = Counter({row: n for row, n in rows.items() if n})
    return new


class _Generator:
    """Makes transactions of one to three edits."""

    def __init__(self, shapes: Mapping[str, Shape], constants: list[str], random: Random) -> None:
        self._shapes, self._constants, self._random = shapes, constants, random
        self._gone: list[tuple[str, Bag]] = []

    def transaction(self, state: State, number: int) -> State:
        change: dict[str, Bag] = {}
        empty = [name for name in self._shapes if not state[name]]
        if empty and number == 1:
            for name in empty:
                change[name] = Counter(self._new(name, state) for _ in range(4))
            return change
        for _ in range(self._random.choice((1, 1, 2, 3))):
            name = self._random.choice(sorted(self._shapes))
            change.setdefault(name, Counter()).update(self._edit(name, state))
        return change

    def _edit(self, name: str, state: State) -> dict[Row, int]:
        random, there = self._random, sorted(state[name], key=repr)
        if self._gone and random.random() < 0.35:
            name_gone, bag = self._gone.pop()
            if name_gone == name:
                return dict(bag)
        if not there or random.random() < 0.25:
            return {self._new(name, state): 1}
        row = random.choice(there)
        chance = random.random()
        if chance < 0.06:
            self._gone.append((name, state[name]))
            return {old: -n for old, n in state[name].items()}
        if chance < 0.4:
            self._gone.append((name, Counter({row: 1})))
            return {row: -1}
        if chance < 0.5:
            return {row: 1}
        new = self._new(name, state)
        mixed = tuple(b if random.random() < 0.4 else a for a, b in zip(row, new, strict=True))
        return {row: -1, mixed: 1} if mixed != row else {row: -1}

    def _new(self, name: str, state: State) -> Row:
        there, fields = sorted(state[name], key=repr), self._shapes[name].arrow
        return tuple(self._value(field.type, [row[i] for row in there]) for i, field in enumerate(fields))

    def _value(self, kind: pa.DataType, known: list[object]) -> object:
        random = self._random
        chance = random.random()
        if chance < 0.08:
            return None
        fitting = [value for text in self._constants if (value := _as(text, kind)) is not None]
        if chance < 0.4 and fitting:
            return random.choice(fitting)
        if chance < 0.75 and known:
            return random.choice(known)
        return random.choice(_pool(kind))


def _pool(kind: pa.DataType) -> tuple[object, ...]:
    if pa.types.is_timestamp(kind):
        return tuple(m.replace(tzinfo=dt.UTC) if kind.tz else m for m in _MOMENTS)
    return next((pool for test, pool in _POOLS if test(kind)), (None,))


def _constants(query: exp.Query | None) -> list[str]:
    found = [literal.name for literal in query.find_all(exp.Literal)] if query is not None else []
    return list(dict.fromkeys(found))[:40]


def _as(text: str, kind: pa.DataType) -> object:
    """A constant as a value of a column; None if it is none."""
    try:
        if pa.types.is_string(kind):
            return text
        if pa.types.is_date(kind):
            return dt.date.fromisoformat(text)
        if pa.types.is_timestamp(kind):
            return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC if kind.tz else None)
        value: object = None
        if pa.types.is_integer(kind):
            value = int(text)
        elif pa.types.is_floating(kind):
            value = float(text)
        elif pa.types.is_decimal(kind):
            value = Decimal(text)
        return pa.scalar(value, kind).as_py()
    except (ValueError, InvalidOperation, OverflowError, pa.ArrowException):
        return None
