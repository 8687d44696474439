"""Messages of the algorithms as letters, and back."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.chain.letter import Letter
from headwater.maintenance.strategies.chain_messages import Body, from_values, to_values
from headwater.maintenance.strategies.contract import WAREHOUSE, Node
from headwater.model.chain import Chain
from headwater.sources.agent.frames import Kind, Malformed, frame, frames
from headwater.sources.agent.values import heard, told

PATIENCE, LONGEST_PATIENCE = 1.0, 30.0
"""Δt: so long one waits for an acknowledgement before a message is sent again, at first and at most."""

AHEAD = 100
"""So many windows with changes a member of Pure-Push may be ahead of the view; then the next one grows instead. It is
told where the view is every quarter of that, so all members together never wait for what they do not cut."""


def sealed(chain: Chain, epoch: int, to: Node, body: Body) -> Letter:
    said = to_values(body, chain)
    return Letter(chain.source, epoch, "", to, str(said[0]), b"".join(_framed(said)))


def opened(letter: Letter, chain: Chain) -> Body:
    """The message; Malformed if it is none."""
    try:
        return from_values(heard(frames([letter.body])), chain)
    except (ValueError, TypeError, IndexError, AttributeError):
        raise Malformed("a message that is none of a chain's", "are hub and agents of one version?") from None


def restarted(chain: str, epoch: int, node: Node) -> Letter:
    """What the hub tells a warehouse of a member that has begun anew."""
    said: list[object] = ["restarted"]
    return Letter(chain, epoch, node, WAREHOUSE, str(said[0]), b"".join(_framed(said)))


def _framed(said: list[object]) -> Iterator[bytes]:
    yield from told(said)
    yield frame(Kind.END)
