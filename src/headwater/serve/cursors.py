"""Cursors: DECLARE, FETCH and CLOSE. A cursor is a portal with a name that lives in a transaction; it goes forward."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.serve.answers import Answer
from headwater.serve.errors import Refused

_NAME = r'("(?:[^"]|"")+"|\w+)'
_DECLARE = re.compile(
    rf"DECLARE\s+{_NAME}\s+(.*?)CURSOR\s+(?:WITH(?:OUT)?\s+HOLD\s+)?FOR\s+(.+)", re.IGNORECASE | re.DOTALL
)
_FETCH = re.compile(
    rf"FETCH\s+(?:(?:FORWARD\s+)?(ALL|NEXT|\(?\s*\d+\s*\)?)\s+)?(?:FORWARD\s+)?(?:FROM\s+|IN\s+)?{_NAME}", re.IGNORECASE
)


def declared(text: str) -> tuple[str, str]:
    """The name and the query of a DECLARE."""
    found = _DECLARE.fullmatch(text.strip())
    if found is None:
        raise Refused("42601", "this DECLARE is not understood", "write DECLARE name CURSOR FOR SELECT …")
    if "SCROLL" in found[2].upper() and "NO SCROLL" not in found[2].upper():
        raise Refused("0A000", "cursors only go forward", "leave out SCROLL")
    return unquoted(found[1]), found[3]


def fetched(text: str) -> tuple[str, int]:
    """The cursor that a FETCH names, and how many rows it wants; 0: all."""
    found = _FETCH.fullmatch(text.strip())
    if found is None:
        raise Refused("0A000", "this FETCH is not understood", "write FETCH 100 FROM name: cursors only go forward")
    count = (found[1] or "1").strip("() ").upper()
    most = {"ALL": 0, "NEXT": 1}.get(count)
    return unquoted(found[2]), int(count) if most is None else most


def unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


class Fetched(Answer):
    """The next rows of a cursor, as an answer of their own."""

    def __init__(self, cursor: Answer, most: int) -> None:
        super().__init__(cursor.columns, (), (), "FETCH")
        self._cursor, self._most = cursor, most
        self.formats = cursor.formats

    def fetch(self, most: int = 0) -> Iterator[bytes]:
        before = self._cursor.sent
        for some in self._cursor.fetch(self._most):
            self.sent = self._cursor.sent - before
            yield some
        self.sent, self.done = self._cursor.sent - before, True
