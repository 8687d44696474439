"""Freshness over time, from what the warehouse keeps: also of a run that has ended.

The journal says when each transaction was committed at its source, the cut records say which cut showed it first in
which view, and when. So for a view and a cut

    freshness = cut.at − committed_at       of the transactions that this cut showed first and that the view reads

told as p50 and p99 for each cut, or for as many cuts in a row as make `POINTS` points.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.integrator.journal import transactions_between
from headwater.model.changelog import SEQ
from headwater.model.names import ViewName
from headwater.page.look import Look, Now
from headwater.warehouse.cuts import Cut

POINTS = 240
CELLS = 200_000
"""So many (cut, view) pairs are remembered: of many views fewer cuts."""
MOST_CUTS = 3_000


@dataclass(frozen=True)
class Shown:
    """A cut, as far as it matters here. `seqs` are those of its views."""

    number: int
    seq: int
    at: float
    seqs: Mapping[ViewName, int]


@dataclass(frozen=True)
class Committed:
    """Transactions, by number: when each was committed and at which source."""

    seqs: npt.NDArray[np.int64]
    at: npt.NDArray[np.float64]
    source: npt.NDArray[np.object_]

    def within(self, lo: int, hi: int) -> slice:
        return slice(*np.searchsorted(self.seqs, [lo, hi], side="right"))


class Past:
    """What a page remembers of cuts and transactions; only what is new is read."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._cuts: deque[Shown] = deque()
        self._committed = Committed(np.array([], np.int64), np.array([]), np.array([], object))

    def get(self) -> tuple[list[Shown], Committed]:
        with self._lock:
            self._refresh(self._look.now())
            return list(self._cuts), self._committed

    def _refresh(self, now: Now) -> None:
        known = self._cuts[-1].number if self._cuts else 0
        if now.cut.number <= known:
            return
        most = max(50, min(MOST_CUTS, CELLS // max(1, len(now.cut.views))))
        self._cuts.extend(_shown(cut) for cut in self._look.cuts_since(known, most))
        while len(self._cuts) > most:
            self._cuts.popleft()
        low, read = self._cuts[0].seq, int(self._committed.seqs[-1]) if len(self._committed.seqs) else 0
        new = transactions_between(self._look.project.storage, max(low, read), now.cut.seq)
        self._committed = _joined(self._committed, new, low)


def freshness(cuts: Sequence[Shown], committed: Committed, view: str | None, sources: Iterable[str]) -> dict[str, Any]:
    """Points of (time, p50, p99, transactions, cuts), oldest first; of everything that a cut shows where no view is
    named."""
    reads = set(sources)
    size = max(1, -(-(len(cuts) - 1) // POINTS))
    points: list[dict[str, Any]] = []
    lags: list[npt.NDArray[np.float64]] = []
    passed = made = 0
    for number, (before, after) in enumerate(pairwise(cuts), 1):
        lo, hi = _seq(before, view), _seq(after, view)
        if lo is not None and hi is not None:
            found = committed.within(lo, hi)
            own = np.isin(committed.source[found], list(reads)) if reads else slice(None)
            at = committed.at[found][own]
            passed += len(at)
            lags.append(np.maximum(0.0, after.at - at[~np.isnan(at)]))
        made += 1
        if number % size == 0 or number == len(cuts) - 1:
            points.append(_point(after.at, lags, passed, made))
            lags, passed, made = [], 0, 0
    return {"points": points, "all": _quantiles(points)}


def of_view(look: Look, past: Past, view: str | None) -> dict[str, Any]:
    """The series of one view, or of all together."""
    now = look.now()
    cuts, committed = past.get()
    if view is None:
        return {"view": None, "target": None, **freshness(cuts, committed, None, ())}
    name = now.cut.named(view)
    target = look.project.config.freshness.get(name)
    return {"view": name, "target": target, **freshness(cuts, committed, name, now.cut.views[name].sources)}


def _seq(cut: Shown, view: str | None) -> int | None:
    return cut.seq if view is None else cut.seqs.get(ViewName(view))


def _point(at: float, lags: list[npt.NDArray[np.float64]], passed: int, made: int) -> dict[str, Any]:
    every = np.concatenate(lags) if lags else np.array([])
    p50, p99 = np.quantile(every, [0.5, 0.99]) if len(every) else (None, None)
    return {
        "at": at,
        "p50": None if p50 is None else float(p50),
        "p99": None if p99 is None else float(p99),
        "transactions": passed,
        "cuts": made,
    }


def _quantiles(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Of the points, weighed by what they stand for: good enough for a headline."""
    known = [(p["p50"], p["p99"], p["transactions"]) for p in points if p["p50"] is not None]
    if not known:
        return {"p50": None, "p99": None}
    halves = np.repeat([k[0] for k in known], [max(1, k[2]) for k in known])
    return {"p50": float(np.median(halves)), "p99": max(k[1] for k in known)}


def _shown(cut: Cut) -> Shown:
    return Shown(cut.number, cut.seq, cut.at, {name: state.seq for name, state in cut.views.items()})


def _joined(known: Committed, new: Iterable[pa.Table], low: int) -> Committed:
    seqs, at, source = [known.seqs], [known.at], [known.source]
    for told in new:
        times = pc.divide(told.column("committed_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1e6)
        seqs.append(told.column(SEQ).to_numpy())
        at.append(times.to_numpy(zero_copy_only=False).astype(float))
        source.append(np.array(told.column("source").to_pylist(), object))
    numbers = np.concatenate(seqs)
    keep = numbers > low
    order = np.argsort(numbers[keep], kind="stable")
    return Committed(numbers[keep][order], np.concatenate(at)[keep][order], np.concatenate(source)[keep][order])
