"""How `headwater apply` speaks to a running `headwater run`: a request is a file in the warehouse, so is its answer.

    requests/ID.json          what is wanted: views as views/ has them ({view: fingerprint}, as the person confirmed),
                              some views loaded again, some views resumed
    requests/ID.answer.json   how far it is: planning, building (with its phase), done, failed (with the reason)

The run reads views/ itself and refuses if it finds something else than what was confirmed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headwater.model.names import ViewName
from headwater.storage import Storage
from headwater.storage.records import decode, encode

FOLDER = "requests"
_ANSWER = ".answer.json"
OLD_SECONDS = 3600.0
UNSEEN = "waiting for the run"
"""The phase in which Ctrl-C withdraws the request; later the run completes it anyway."""
HERE_AND_NOW = "nothing runs: doing it here"
OTHERWISE = "the views changed after they were confirmed"
"""Why a run refuses a change: what it finds in views/ is not what somebody agreed to. `auxiliary = 'auto'` weighs what
questions cost at present, and may come to another end, too."""


@dataclass(frozen=True)
class Answer:
    """`state` is "planning", "building", "done" or "failed"; `said` the phase or the reason, `fix` what to do."""

    state: str
    said: str = ""
    fix: str = ""

    @property
    def final(self) -> bool:
        return self.state in ("done", "failed")


def ask(storage: Storage, request: Request) -> str:
    """Ask the run to do something with its views; returns the request's id."""
    identity = f"{int(time.time())}-{uuid.uuid4().hex[:8]}"
    storage.put(f"{FOLDER}/{identity}.json", encode(request))
    return identity


def answer(storage: Storage, identity: str) -> Answer | None:
    """What the run has answered so far; None if it has not seen the request yet."""
    text = storage.get(f"{FOLDER}/{identity}{_ANSWER}")
    return None if text is None else decode(text, Answer, storage.uri(f"{FOLDER}/{identity}{_ANSWER}"))


def forget(storage: Storage, identity: str) -> None:
    for name in (f"{identity}.json", f"{identity}{_ANSWER}"):
        storage.delete(f"{FOLDER}/{name}")


@dataclass(frozen=True)
class Request:
    """What a person wants of the run: that its views become those of views/ (`wanted`, as confirmed), or that some
    `views` are loaded again or go on from where they stopped."""

    kind: Literal["apply", "rebuild", "resume"]
    wanted: Mapping[ViewName, str] = field(default_factory=dict)
    views: Sequence[str] = ()


def unanswered(storage: Storage) -> tuple[str, Request] | None:
    """The oldest request that nobody has answered yet; those that are very old are forgotten."""
    for name in sorted(storage.names(FOLDER)):
        if not name.endswith(".json"):
            continue  # being written
        identity = name.removesuffix(_ANSWER).removesuffix(".json")
        if int(identity.partition("-")[0]) < time.time() - OLD_SECONDS:
            forget(storage, identity)
        elif not name.endswith(_ANSWER) and answer(storage, identity) is None:
            text = storage.get(f"{FOLDER}/{name}")
            if text is not None:  # else withdrawn
                return identity, decode(text, Request, storage.uri(f"{FOLDER}/{name}"))
    return None


def say(storage: Storage, identity: str, said: Answer) -> None:
    """Answer a request."""
    storage.put(f"{FOLDER}/{identity}{_ANSWER}", encode(said))
