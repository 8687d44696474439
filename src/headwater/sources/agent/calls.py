"""What an agent can be asked for: the operations of the source port, by name.

A call says whose source it is (its name and owner there), which columns are expected, the operation and its arguments.
It can be made twice: every operation of the port may be repeated, and those that tell say as of which position.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.names import TableName
from headwater.model.schema import Identities
from headwater.model.source import Source
from headwater.sources.agent.frames import Kind, frame, frames
from headwater.sources.agent.values import as_arrow, heard, told, told_error

log = logging.getLogger(__name__)

STREAMED = ("ask", "ask_join", "scan")
"""Operations whose answer is rows, as they come."""

TOLD = (
    "describe", "resolve", "capture", "advice", "plan_install", "install", "release", "remove", "identities", "check",
    "commit_times", "position", "poll", "chunks", "trim", "waiting",
)  # fmt: skip
"""Operations whose answer is one value."""

CHAIN = "chain"
"""An operation of chains (`chain.windows`); its answer is one value, and it is not the adapter's to perform."""

_PIECE_ROWS = 16_384
"""Rows of one frame of a stream: a slow line should see progress, and nobody should hold much."""


@dataclass(frozen=True)
class Call:
    """`options` are those of the source's settings that an adapter there needs: owner and how to capture."""

    source: str
    options: tuple[tuple[str, str], ...]
    operation: str
    arguments: tuple[Any, ...]
    expected: dict[TableName, Identities]

    def told(self) -> Iterator[bytes]:
        yield from told([self.source, self.options, self.operation, self.arguments, self.expected])
        yield frame(Kind.END)


def read_call(body: bytes) -> Call:
    source, options, operation, arguments, expected = heard(frames([body]))
    return Call(source, options, operation, arguments, expected)


def perform(
    call: Call, adapter: Callable[[Call], Source], beside: Mapping[str, Callable[[], object]] = MappingProxyType({})
) -> Iterator[bytes]:
    """Do it, and tell the answer; what goes wrong is told too. Operations `beside` the source port are the agent's
    own."""
    try:
        if call.operation in beside:
            yield from told(beside[call.operation]())
            yield frame(Kind.END)
            return
        if call.operation not in (*STREAMED, *TOLD):
            raise UsageError(f"an agent cannot {call.operation!r}", "bring hub and agent to one version")
        source = adapter(call)
        if call.operation != "remove":
            source.expect(call.expected)
        answer = getattr(source, call.operation)(*call.arguments)
        if call.operation in STREAMED:
            yield from told(None)
            yield from (frame(Kind.ROWS, as_arrow(piece)) for piece in _pieces(answer))
        else:
            yield from told(answer)
        yield frame(Kind.END)
    except HeadwaterError as error:
        yield told_error(error)
    except Exception as error:  # a defect of ours, or a driver's: whoever asked must not wait for ever
        log.exception("%s: a defect", call.operation)
        yield told_error(HeadwaterError(f"unexpected {type(error).__name__} at the agent", "see its log"))


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(
        (batch.slice(at, _PIECE_ROWS) for at in range(0, batch.num_rows, _PIECE_ROWS)) for batch in batches
    )
