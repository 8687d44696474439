"""The projects that share the capture of one file.

Each has its own tables and its own position up to which the log may be forgotten; what is forgotten is what all have
let go. Tables that nobody needs any longer are not captured any longer, and the last project leaves nothing behind.
A project at the place of another one (the same label, another warehouse) takes that one's place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.files import literal


@dataclass(frozen=True)
class Owner:
    """A project: who it is, and where, for people."""

    id: str
    label: str

    @property
    def shown(self) -> str:
        return self.label or self.id or "a project without a name"


@dataclass(frozen=True)
class Registered:
    owner: Owner
    trimmed: int
    tables: frozenset[str]


def registered(connection: Connection) -> dict[str, Registered]:
    return {
        owner: Registered(Owner(owner, label), trimmed, frozenset(json.loads(tables)))
        for owner, label, trimmed, tables in connection.rows(
            "SELECT owner, label, trimmed, tables FROM _headwater_owners ORDER BY label, owner"
        )
    }


def replaced_by(connection: Connection, owner: Owner) -> list[Owner]:
    """Projects whose place this one takes."""
    return [
        other.owner
        for other in registered(connection).values()
        if owner.label and other.owner.label == owner.label and other.owner.id != owner.id
    ]


def join(connection: Connection, owner: Owner, tables: frozenset[str]) -> None:
    """A new project needs nothing of what happened before it came."""
    for other in replaced_by(connection, owner):
        leave(connection, other)
    known = registered(connection).get(owner.id)
    if known is None:
        last = connection.rows("SELECT coalesce(max(id), 0) FROM _headwater_changes")[0][0]
        write(connection, Registered(owner, last, tables))
    elif known.owner.label != owner.label or not tables <= known.tables:
        write(connection, Registered(owner, known.trimmed, known.tables | tables))


def write(connection: Connection, project: Registered) -> None:
    leave(connection, project.owner)
    connection.execute(
        f"INSERT INTO _headwater_owners VALUES ({literal(project.owner.id)}, {literal(project.owner.label)},"
        f" {project.trimmed}, {literal(json.dumps(sorted(project.tables)))})"
    )


def leave(connection: Connection, owner: Owner) -> None:
    connection.execute(f"DELETE FROM _headwater_owners WHERE owner = {literal(owner.id)}")


def needed(connection: Connection) -> frozenset[str]:
    """Tables that some project needs."""
    return frozenset[str]().union(*(r.tables for r in registered(connection).values()))


def let_go(connection: Connection) -> int:
    """The id up to which all projects have let go."""
    return min((r.trimmed for r in registered(connection).values()), default=0)
