"""Which tables may be written while one of their own rows is being written, and by whom.

A trigger on a table, or a foreign key's action on its children, may write other tables, whose triggers may write
others, until one of them writes the first table again. In between a row may be changed twice, and what SQLite calls
OLD is then no longer what the change takes away. Such a table is **entangled**, and captured with more care
(`pool.py`).

What a trigger may write is read off its text: every table or view whose name appears in its body. That says too much
rather than too little. TEMP triggers belong to one connection of the application and are not in the file: nobody can
see them from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.tables import PREFIX

_NAME = re.compile(r'"((?:[^"]|"")*)"|\[([^\]]*)\]|`((?:[^`]|``)*)`|' r"'((?:[^']|'')*)'|([^\W\d][\w$]*)")
_BODY = re.compile(r"\bBEGIN\b(.*)", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(r"\b(BEFORE|AFTER|INSTEAD\s+OF|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)


@dataclass(frozen=True)
class UserTrigger:
    """A trigger of the application. `age` grows with every one that is made: SQLite fires the youngest first."""

    name: str
    table: str
    sql: str
    age: int

    @property
    def after(self) -> bool:
        """SQLite takes a trigger that does not say when it fires as one that fires before."""
        head = self.sql[: self.sql.lower().find(" on ")] if " on " in self.sql.lower() else self.sql
        return any(word.upper() == "AFTER" for word in _HEADER.findall(_without_comments(head)))

    def writes(self) -> frozenset[str]:
        """Names in its body, in lower case."""
        body = _BODY.search(_without_comments(self.sql))
        found = _NAME.findall(body[1] if body else self.sql)
        return frozenset(next(filter(None, groups), "").replace('""', '"').lower() for groups in found)


def _without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)


@dataclass(frozen=True)
class Entanglement:
    """Who may write whom, in the whole file. Names are in lower case."""

    triggers: Mapping[str, Sequence[UserTrigger]]
    """Table or view → the application's triggers on it."""
    children: Mapping[str, Sequence[str]]
    """Table → tables whose foreign keys act when it is written."""

    def ways_back(self, table: str) -> str:
        """Through what a row of this table may be written while another one is; empty if through nothing."""
        start = table.lower()
        for trigger in self.triggers.get(start, ()):
            if start in trigger.writes() or self._leads(trigger.writes(), start):
                return f"trigger {trigger.name}"
        for child in self.children.get(start, ()):
            if child == start or self._leads([child], start):
                return f"the foreign key of {child}"
        return ""

    def _leads(self, names: Sequence[str] | frozenset[str], goal: str) -> bool:
        seen: set[str] = set()
        waiting = [name for name in names if name in self.triggers or name in self.children]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            reached = {w for t in self.triggers.get(name, ()) for w in t.writes()} | set(self.children.get(name, ()))
            if goal in reached:
                return True
            waiting += reached & (self.triggers.keys() | self.children.keys())
        return False


def entanglement(connection: Connection) -> Entanglement:
    triggers: dict[str, list[UserTrigger]] = {}
    for name, table, sql, age in connection.rows(
        "SELECT name, tbl_name, sql, rowid FROM sqlite_master WHERE type = 'trigger'"
        f" AND name NOT GLOB '{PREFIX}*' ORDER BY rowid"
    ):
        triggers.setdefault(table.lower(), []).append(UserTrigger(name, table, sql, age))
    children: dict[str, list[str]] = {}
    for child, parent in connection.rows(
        'SELECT DISTINCT lower(t.name), lower(f."table") FROM pragma_table_list t JOIN pragma_foreign_key_list(t.name)'
        " f WHERE t.schema = 'main' AND t.type = 'table'"
        " AND NOT (f.on_update IN ('NO ACTION', 'RESTRICT') AND f.on_delete IN ('NO ACTION', 'RESTRICT'))"
    ):
        children.setdefault(parent, []).append(child)
    return Entanglement(triggers, children)
