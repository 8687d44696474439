"""How the page answers: JSON, and streams of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from headwater.runtime.reading.values import jsonable

LOOK_SECONDS = 0.1
"""How often those who watch are looked for news for."""
GLANCE_SECONDS = 0.02
"""How often they are looked for a new cut for, which costs next to nothing."""
TROUBLE_SECONDS = 1.0
"""How often something is looked for that could not be read."""
BEAT_SECONDS = 10.0
"""A quiet stream says at least so often that it is there."""
STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Headers of a stream."""


def answer(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(jsonable(value)), status, media_type="application/json")


def event(kind: str, value: Mapping[str, Any], number: int | None = None) -> bytes:
    """One of a stream; a browser that comes back says the last `number` it had."""
    head = f"event: {kind}\n" + (f"id: {number}\n" if number is not None else "")
    return head.encode() + b"data: " + msgspec.json.encode(jsonable(value)) + b"\n\n"
