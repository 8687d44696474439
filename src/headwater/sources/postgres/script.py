"""What is done to a database, done or written down.

Setting up capture looks at the database and changes it. Whoever may not change it has what would be done written down,
for somebody who may: the same functions, handed a page in place of a connection. So they look first, and what they do
does not depend on what they have done.
"""

from __future__ import annotations

from typing import Any, Protocol

import psycopg
from psycopg.sql import Composable

from headwater.sources.postgres.connection import Connection


class Do(Protocol):
    """Carries out a statement."""

    def __call__(self, statement: str | Composable, values: Any = None, /) -> object: ...


def doing(connection: Connection) -> Do:
    """At once."""

    def do(statement: str | Composable, values: Any = None, /) -> object:
        return connection.execute(statement, values)  # type: ignore[arg-type]  # our own text

    return do


class Page:
    """Statements that somebody else is to run, with their values in them."""

    def __init__(self, connection: Connection) -> None:
        self._cursor = psycopg.ClientCursor(connection)
        self.lines: list[str] = []

    def __call__(self, statement: str | Composable, values: Any = None, /) -> None:
        text = self._cursor.mogrify(statement, values)  # type: ignore[arg-type]  # our own text
        self.lines.append(f"{text.strip().rstrip(';')};")

    def say(self, comment: str) -> None:
        self.lines += ["", *(f"-- {line}" for line in comment.splitlines())]
