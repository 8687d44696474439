"""A run at one moment, as values: what every display shows."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.runtime.engine import Engine
    from headwater.runtime.progress import Loading, Meter

RATE_SECONDS = 10.0


@dataclass(frozen=True)
class SourceNow:
    name: str
    state: str
    reason: str
    position: str
    transactions: int


@dataclass(frozen=True)
class ViewNow:
    name: str
    state: str
    reason: str
    seq: int
    level: str
    rows_changed: int


@dataclass(frozen=True)
class Snapshot:
    """`lag` is that of the newest batch, `lag_p50` the median of the last minute's: seconds from the commit of a
    batch's oldest transaction at its source until the cut that shows it."""

    seconds: float
    cut: int
    seq: int
    numbered: int
    transactions: int
    changes: int
    batches: int
    questions: int
    keys: int
    scans: int
    lag: float | None
    lag_p50: float | None
    sources: Sequence[SourceNow]
    views: Sequence[ViewNow]


def snapshot(meter: Meter, engine: Engine) -> Snapshot:
    now = time.time()
    recent = [lag for when, lag in meter.lags if when > now - 60]
    newest = engine.journal.newest
    return Snapshot(
        seconds=now - meter.started,
        cut=engine.cut.number,
        seq=engine.cut.seq,
        numbered=max(engine.cut.seq, newest.hi if newest else 0),
        transactions=meter.transactions,
        changes=meter.changes,
        batches=meter.batches,
        questions=meter.tally.questions,
        keys=meter.tally.keys,
        scans=meter.tally.scans,
        lag=meter.lags[-1][1] if meter.lags else None,
        lag_p50=statistics.median(recent) if recent else None,
        sources=[
            SourceNow(name, p.state.state, p.state.reason, p.position, meter.by_source.get(name, 0))
            for name, p in engine.pollers.items()
        ],
        views=[
            ViewNow(
                name,
                "waits" if name in meter.waiting_for else view.state.state,
                meter.waiting_for.get(name, view.state.reason),
                engine.cut.views[name].seq if name in engine.cut.views else view.state.seq,
                view.state.level,
                meter.rows_out.get(name, 0),
            )
            for name, view in engine.views.items()
        ],
    )


class Rate:
    """How fast a growing number grows, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, count: int) -> float:
        now = time.monotonic()
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[0][0] < now - RATE_SECONDS:
            self._seen.popleft()
        since, first = self._seen[0]
        return (count - first) / (now - since) if now - since > 0.5 else 0.0


def load_left(load: Loading) -> tuple[float, float | None]:
    """Rows a second, and seconds left of a first load's copying (None: not known)."""
    spent = time.time() - load.started
    rate = load.rows / spent if spent > 0.2 else 0.0
    left = (load.total - load.rows) / rate if load.total is not None and rate > 0 else None
    return rate, left
