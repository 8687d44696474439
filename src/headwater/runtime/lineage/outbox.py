"""Where lineage goes: an HTTP endpoint, or a file of JSON lines; by a thread of its own.

Invariant: `put` never waits. What does not fit into the queue, because the endpoint is away or slow, is dropped and
counted, and nothing that happens here reaches the run.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from headwater.model.errors import HeadwaterError
from headwater.model.logged import event as logged
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.threads import PREFIX

log = logging.getLogger(__name__)

MOST = 1_000
"""So many events wait at most."""
LONGEST_PAUSE = 30.0
CLOSING_SECONDS = 2.0
"""So long a run that ends waits for the events that are still here."""
_PATIENCE = urllib3.Timeout(connect=3, read=5)
_AGAIN = (408, 425, 429)

Send = Callable[[bytes], None]


class Refused(HeadwaterError):
    """The endpoint wants none of it: the same event would be refused again."""


def to_endpoint(url: str, token: str = "") -> Send:
    """POST each event; raises what kept it from being taken."""
    pool = urllib3.PoolManager(1, timeout=_PATIENCE, retries=False)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def send(body: bytes) -> None:
        answer = pool.request("POST", url, body=body, headers=headers, redirect=False)
        if 200 <= answer.status < 300:
            return
        kind = Refused if 300 <= answer.status < 500 and answer.status not in _AGAIN else HeadwaterError
        raise kind(f"the endpoint answers {answer.status}")

    return send


def to_file(path: Path) -> Send:
    """A line for each event, after what the file holds already."""

    def send(body: bytes) -> None:
        with path.open("ab") as file:
            file.write(body + b"\n")

    return send


class Outbox:
    """Holds events until they are sent. `sent` and `dropped` count what became of them."""

    def __init__(self, send: Send, most: int = MOST) -> None:
        self.sent = self.dropped = 0
        self._send, self._away = send, False
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(most)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"{PREFIX}lineage", daemon=True)
        self._thread.start()

    def put(self, event: dict[str, Any]) -> None:
        """Have it sent, or drop it: at once."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Send what is left, as far as that takes no longer than this; the rest is dropped."""
        until = time.monotonic() + seconds
        self._closing.set()
        with suppress(queue.Full):  # then there is too much to send in the time anyway
            self._waiting.put(None, timeout=seconds)
        self._thread.join(max(0.0, until - time.monotonic()))
        left = [one for one in list(self._waiting.queue) if one is not None]
        self.dropped += len(left) + (1 if self._thread.is_alive() else 0)
        facts = logged("lineage.ended", sent=self.sent, dropped=self.dropped)
        level = logging.WARNING if self.dropped else logging.INFO
        log.log(level, "lineage: %d events are sent, %d dropped", self.sent, self.dropped, extra=facts)

    def _work(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._deliver(json.dumps(event, ensure_ascii=False).encode(errors="replace"))
            except Exception:  # an event that cannot be written is our defect; the next one may be fine
                self.dropped += 1
                log.exception("an event of lineage could not be sent: a defect")

    def _deliver(self, body: bytes) -> None:
        """Until it is taken, or refused, or the run ends."""
        pause = 0.5
        while True:
            try:
                self._send(body)
            except Refused as error:
                self.dropped += 1
                self._trouble(error)
                return
            except (HeadwaterError, OSError, urllib3.exceptions.HTTPError) as error:
                self._trouble(error)
                if self._closing.is_set():
                    self.dropped += 1
                    return
                self._closing.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
                continue
            self.sent += 1
            if self._away:
                self._away = False
                log.info("lineage is sent again", extra=logged("lineage.back"))
            return

    def _trouble(self, error: Exception) -> None:
        if not self._away:  # once, until it is over
            said = without_secrets(str(error))
            log.warning("lineage cannot be sent: %s", said, extra=logged("lineage.away", reason=said))
        self._away = True
