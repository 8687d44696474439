"""The messages of Pure-Push and Pull-Push as values that can travel between machines: plain ones, and tables.

Rows are as exact as in the sources' answers: they leave as Arrow columns of the chain's types (`values`). What arrives
is made into one of the messages named here, or refused.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial
from headwater.maintenance.strategies.acknowledged import Acknowledgement
from headwater.maintenance.strategies.contract import Label
from headwater.maintenance.strategies.pull_push import Backward, Forward, PullRequest
from headwater.maintenance.strategies.pure_push import PushedBatch, Tagged
from headwater.maintenance.strategies.time_tags import ALWAYS, NEVER, Tags
from headwater.maintenance.strategies.values import EXACT
from headwater.model.chain import Chain
from headwater.model.changelog import COUNT


class Failed(NamedTuple):
    """What an agent could not do, told to the warehouse: `kind` is the error's class."""

    kind: str
    what: str
    fix: str


class Restarted(NamedTuple):
    """A member's agent has begun anew, and knows nothing of messages that were under way: said by the hub."""


class Begun(NamedTuple):
    """An epoch has begun, and the view has everything up to here: told to members that nobody asks for anything."""

    upto: float
    serial: int = 0


KINDS = frozenset(["request", "forward", "backward", "batch", "acknowledgement", "failed", "restarted", "begun"])
"""How they are called on their envelopes."""

Body = PullRequest | Forward | Backward | PushedBatch | Acknowledgement | Failed | Restarted | Begun


def to_values(body: Body, chain: Chain) -> list[Any]:
    """Something made of numbers, texts, lists and tables only."""
    match body:
        case PullRequest():
            return ["request", body.t_k, body.t_k1, body.serial]
        case Forward() | Backward():
            terms = [[i, *_partial(partial, chain)] for i, partial in body.terms]
            way = "forward" if isinstance(body, Forward) else "backward"
            return [way, body.t_k, body.t_k1, body.serial, _labels(body.about), terms]
        case PushedBatch():
            tuples = [[_time(one.tags.cr), _time(one.tags.dr), *_partial(one.change, chain)] for one in body.tuples]
            return ["batch", body.t_k, body.t_k1, body.serial, _labels(body.about), tuples, body.i]
        case Acknowledgement():
            return ["acknowledgement", body.of]
        case Failed():
            return ["failed", *body]
        case Restarted():
            return ["restarted"]
        case Begun():
            return ["begun", body.upto, body.serial]


def from_values(said: Any, chain: Chain) -> Body:
    """The message; ValueError, TypeError or IndexError if it is none."""
    kind, *rest = said
    if kind == "request":
        t_k, t_k1, serial = rest
        return PullRequest(float(t_k), float(t_k1), int(serial))
    if kind in _WAYS:
        t_k, t_k1, serial, about, found = rest
        terms = tuple((int(i), _read_partial(over, rows, chain)) for i, over, rows in found)
        return _WAYS[kind](terms, float(t_k), float(t_k1), _read_labels(about), int(serial))
    if kind == "batch":
        t_k, t_k1, serial, about, found, i = rest
        tuples = tuple(Tagged(_read_tags(cr, dr), _read_partial(over, rows, chain)) for cr, dr, over, rows in found)
        return PushedBatch(tuples, float(t_k), float(t_k1), int(i), _read_labels(about), int(serial))
    if kind == "acknowledgement":
        return Acknowledgement(int(rest[0]))
    if kind == "failed":
        what, why, fix = map(str, rest)
        return Failed(what, why, fix)
    if kind == "begun":
        upto, serial = rest
        return Begun(float(upto), int(serial))
    if kind == "restarted":
        return Restarted()
    raise ValueError(f"a message of kind {kind!r}")


_WAYS: dict[str, type[Forward] | type[Backward]] = {"forward": Forward, "backward": Backward}


def _time(t: float) -> float | None:
    """JSON has no infinity: None is always, or never."""
    return t if math.isfinite(t) else None


def _read_tags(cr: Any, dr: Any) -> Tags:
    return Tags(ALWAYS if cr is None else float(cr), NEVER if dr is None else float(dr))


def _labels(about: tuple[Label, ...]) -> list[list[Any]]:
    return [[label.source, label.number] for label in about]


def _read_labels(about: Any) -> tuple[Label, ...]:
    return tuple(Label(str(source), int(number)) for source, number in about)


def _partial(partial: Partial, chain: Chain) -> list[Any]:
    """Over which members it is, and its rows."""
    kinds = [kind for i in partial.over for kind in chain.members[i].types]
    rows = list(partial.bag.counts)
    columns = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    arrays = [EXACT.decoded(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    arrays.append(pa.array(partial.bag.counts.values(), pa.int64()))
    return [list(partial.over), pa.table(arrays, names=[*map(str, range(len(kinds))), COUNT])]


def _read_partial(over: Any, rows: pa.Table, chain: Chain) -> Partial:
    places = tuple(int(i) for i in over)
    if not all(0 <= i < len(chain.members) for i in places) or list(places) != sorted(set(places)):
        raise ValueError("rows of a table that is not in the chain")
    kinds = [kind for i in places for kind in chain.members[i].types]
    schema = pa.schema([*((str(n), kind) for n, kind in enumerate(kinds)), (COUNT, pa.int64())])
    if not rows.schema.equals(schema):
        raise ValueError("rows of other columns than the chain's")
    return Partial(places, Bag.summed(EXACT.rows(rows, schema.names[:-1])))
