"""A worker process's connections to the sources, kept from task to task.

Whoever asks several questions side by side asks each in a lane of its own: a connection answers one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import headwater.chain  # noqa: F401 # chains are sources, too
from headwater.model.errors import ConfigError, SourceUnavailable
from headwater.model.source import Source, SourceSpec
from headwater.sources import connect

DESK = 64
"""Lanes of one who asks: as many questions may be under way side by side, each over a connection of its own."""

_connected: dict[tuple[SourceSpec, int], Source] = {}


@contextmanager
def reachable() -> Iterator[None]:
    """In a task, a source that is not there is one that has gone away: the driver has seen it. Trying again helps."""
    try:
        yield
    except ConfigError as error:
        raise SourceUnavailable(error.what, error.fix) from error


def connected(spec: SourceSpec, lane: int = 0) -> Source:
    """This process's connection to a source; one for each of the lanes in which it is asked side by side."""
    if (spec, lane) not in _connected:
        _connected[spec, lane] = connect(spec)
    return _connected[spec, lane]


def disconnect(lanes: Iterable[int]) -> None:
    """Close this process's connections in these lanes; they are made anew when they are needed."""
    ended = frozenset(lanes)
    for spec, lane in [key for key in _connected if key[1] in ended]:
        with suppress(Exception):  # what breaks in closing is of no use to anyone
            _connected.pop((spec, lane)).close()
