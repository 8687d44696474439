"""Letters that have come to an agent, from the hub and from neighbours, until its chains answer them.

Invariant: no more than so many are held; who brings one that finds no room learns it. What is here is in memory: an
agent that is killed says that it has begun anew, and a new epoch begins.
"""

from __future__ import annotations

import threading
from collections import deque

from headwater.chain.letter import Letter

MOST_LETTERS, MOST_BYTES = 1000, 256 * 1024 * 1024


class Inbox:
    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self._bytes = 0
        self._changed = threading.Condition()

    def put(self, letter: Letter, wait: float = 0.0) -> bool:
        """Whether it is here now: there was room within so many seconds, or it was here before."""
        with self._changed:
            if letter in self._letters:
                return True
            if not self._changed.wait_for(self._room, wait):
                return False
            self._letters.append(letter)
            self._bytes += len(letter.body)
            self._changed.notify_all()
            return True

    def take(self, wait: float) -> Letter | None:
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._letters), wait):
                return None
            letter = self._letters.popleft()
            self._bytes -= len(letter.body)
            self._changed.notify_all()
            return letter

    def _room(self) -> bool:
        return len(self._letters) < MOST_LETTERS and self._bytes < MOST_BYTES
