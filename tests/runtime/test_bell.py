"""Whoever waits for any of many tasks is woken by the first, and misses none that ended before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.runtime.threads import Bell

LONG = 30.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_a_task_that_ends_wakes_who_waits(pool: ThreadPoolExecutor) -> None:
    bell, go = Bell(), threading.Event()
    future = bell.heard_in(pool).submit(go.wait, LONG)
    threading.Timer(0.05, go.set).start()
    begun = time.monotonic()
    bell.wait(LONG)
    assert future.done()
    assert time.monotonic() - begun < LONG


@pytest.mark.parametrize("fails", [False, True])
def test_what_ended_before_is_not_missed(pool: ThreadPoolExecutor, fails: bool) -> None:
    bell = Bell()
    future = bell.heard_in(pool).submit((lambda: 1 / 0) if fails else (lambda: 1.0))
    while not bell.rung:
        time.sleep(0.001)
    assert future.done()
    bell.wait(LONG)
    assert not bell.rung, "who was woken waits again"


def test_a_task_that_is_cancelled_rings_too(pool: ThreadPoolExecutor) -> None:
    bell, go = Bell(), threading.Event()
    heard = bell.heard_in(pool)
    held = [heard.submit(go.wait, LONG) for _ in range(2)]
    assert heard.submit(time.sleep, 0).cancel()
    assert bell.rung
    go.set()
    assert all(future.result() for future in held)
