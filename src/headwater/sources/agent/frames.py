"""What travels between a hub and its agents: frames, one after the other.

    J   a value, as JSON           A   rows, as an Arrow stream
    E   an error, as JSON          Z   the end

A frame is its letter, the length of its body (four bytes, the largest first) and its body. A message that does not end
with Z or E was cut off on its way, and counts as not having arrived: nothing is done with half of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from headwater.model.errors import HeadwaterError, SourceUnavailable

LARGEST = 256 * 1024 * 1024
"""No frame is larger: whoever announces one does not speak this language."""
_HEAD = 5


class Kind(Enum):
    VALUE = b"J"
    ROWS = b"A"
    ERROR = b"E"
    END = b"Z"


Frame = tuple[Kind, bytes]


class Malformed(HeadwaterError):
    """Something that is no message of this kind."""


def frame(kind: Kind, body: bytes = b"") -> bytes:
    if len(body) > LARGEST:
        raise HeadwaterError(
            f"one row, or one part of an answer, has {len(body):,} bytes: more than can be sent at once",
            "make it shorter",
        )
    return kind.value + len(body).to_bytes(4, "big") + body


def frames(pieces: Iterable[bytes]) -> Iterator[Frame]:
    """The frames of a message, however it was cut into pieces. SourceUnavailable if its end is missing."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= _HEAD:
            kind, size = _kind(held[:1]), int.from_bytes(held[1:_HEAD], "big")
            if size > LARGEST:
                raise Malformed(f"a part of {size:,} bytes was announced", "is that an agent of Headwater?")
            if len(held) < _HEAD + size:
                break
            body = bytes(held[_HEAD : _HEAD + size])
            del held[: _HEAD + size]
            yield kind, body
            if kind in (Kind.END, Kind.ERROR):
                if held:
                    raise Malformed("a message goes on after its end", "is that an agent of Headwater?")
                return
    raise SourceUnavailable("an answer was cut off on its way", "it is asked for again")


def together(pieces: Iterable[bytes], size: int = 256 * 1024) -> Iterator[bytes]:
    """The same bytes in larger pieces: each costs a round of the network's own."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= size:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def _kind(letter: bytes | bytearray) -> Kind:
    try:
        return Kind(bytes(letter))
    except ValueError:
        raise Malformed("a message of an unknown kind", "is that an agent of Headwater?") from None
