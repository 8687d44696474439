"""When a source is asked again: the pace of one poller, under a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, cast

import pytest

from headwater.model.names import Position, SourceName, TableName
from headwater.model.source import TRANSACTIONS, Poll, Source
from headwater.runtime.intake.pollers import LONGEST_REST, Poller, PollScope

PAUSE = 0.2
SCOPE = PollScope({TableName(SourceName("s"), "t", ""): ["a"]}, 100, {})


class AtOnce(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Slow:
    """A clock, and a source whose polls take `seconds` of it."""

    name = SourceName("s")

    def __init__(self, seconds: float, more: bool = False) -> None:
        self.seconds, self.more, self.now = seconds, more, 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def expect(self, tables: object) -> None:
        pass

    def poll(self, after: Position, tables: object, limit: int) -> Poll:
        self.now += self.seconds
        return Poll(after, TRANSACTIONS.empty_table(), {}, self.more)


@pytest.mark.parametrize(
    ("took", "more", "rest"),
    [(0.01, False, PAUSE), (1.5, False, 1.5), (60.0, False, LONGEST_REST), (60.0, True, 0.0)],
    ids=["a pause", "as long as it took", "no longer than that", "a backlog waits for nothing"],
)
def test_a_source_is_left_alone_as_long_as_it_took(took: float, more: bool, rest: float) -> None:
    slow = Slow(took, more)
    source = cast("Source", slow)
    poller = Poller(source, source, AtOnce(), Position("0"), slow)
    assert poller.due
    poller.start(SCOPE)
    assert isinstance(poller.finish(PAUSE), Poll)
    slow.now += rest - 0.001
    assert poller.due == (rest == 0)
    slow.now += 0.002
    assert poller.due
