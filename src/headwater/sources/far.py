"""A source as if it were far away: every question takes longer, by the time that a message and its answer travel.

Polls, scans and everything else take as long as they do. For measuring what questions cost where the network is what
costs, on one machine: `[sources.x] delay_ms = 20`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from headwater.model.names import Position
from headwater.model.source import JoinQuestion, Question, Source


class FarSource:
    """Another source, asked over a slow line."""

    def __init__(self, near: Source, seconds: float) -> None:
        self._near, self._seconds = near, seconds

    def ask(self, question: Question, at: Position) -> Iterator[pa.RecordBatch]:
        time.sleep(self._seconds)
        yield from self._near.ask(question, at)

    def ask_join(self, question: JoinQuestion, at: Position) -> Iterator[pa.RecordBatch]:
        time.sleep(self._seconds)
        yield from self._near.ask_join(question, at)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._near, name)
