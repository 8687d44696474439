"""What a client has prepared, and what it is reading: statements and portals by their names, cursors among them.

A portal is an answer whose rows wait, or a statement without rows that waits to be executed. There may be so many of
each: a client that closes nothing takes from itself only.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.serve.answers import Answer
from headwater.serve.errors import Refused
from headwater.serve.statements import Statement

MOST = 1_000


@dataclass(frozen=True)
class Prepared:
    """A statement that can be bound again and again; None: an empty one."""

    statement: Statement | None
    oids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Bound:
    """A statement that shows no rows, and what it was given; it waits to be executed."""

    statement: Statement
    values: list[str | None]
    oids: tuple[int, ...]


Portal = Answer | Bound | None


class Known:
    """Of one session."""

    def __init__(self) -> None:
        self.prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}

    def prepare(self, name: str, statement: Prepared) -> None:
        if name and name in self.prepared:
            raise Refused("42P05", f'prepared statement "{name}" already exists')
        if len(self.prepared) >= MOST:
            raise Refused("53400", f"a session may prepare {MOST:,} statements", "close some: DEALLOCATE ALL")
        self.prepared[name] = statement

    def statement(self, name: str) -> Prepared:
        if name not in self.prepared:
            raise Refused("26000", f'prepared statement "{name}" does not exist', "prepare it first")
        return self.prepared[name]

    def portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Refused("34000", f'portal "{name}" does not exist', "outside of BEGIN it ends with its statement")
        return self._portals[name]

    def keep(self, name: str, portal: Portal) -> None:
        self.drop(name)
        if len(self._portals) >= MOST:
            raise Refused("53400", f"a session may have {MOST:,} portals", "close some, or COMMIT")
        self._portals[name] = portal

    def drop(self, name: str) -> bool:
        """Whether it was there."""
        there = name in self._portals
        gone = self._portals.pop(name, None)
        if isinstance(gone, Answer):
            gone.close()
        return there

    def close(self) -> None:
        """All portals; what is prepared stays."""
        for name in list(self._portals):
            self.drop(name)
