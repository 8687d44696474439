"""What shows that a captured table is still the one that was captured, and that its triggers were there all the time.

    stored     the ids under which InnoDB stores it: others after TRUNCATE, OPTIMIZE and whatever rebuilds it
    kept       the same of its table of changes
    made       when its definition was last written: another moment after any ALTER TABLE, in seconds
    triggers   ours, with the moments at which they were created

TRUNCATE fires no trigger, and a column that is dropped and added again has lost its values without one. Neither can be
told from what is harmless (OPTIMIZE, an index), so each of them counts as a gap. `made` has seconds only: capture
begins when the second of the last alteration is over.

**Invariant.** A reader touches its tables within its snapshot before it looks here. From then on nobody alters them,
and an alteration between snapshot and touch is what it finds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.sources.mariadb.connection import Connection, quoted, rows
from headwater.sources.mariadb.triggers.layout import changes_of

_STORED = "SELECT NAME, TABLE_ID FROM information_schema.INNODB_SYS_TABLES WHERE NAME LIKE %s OR NAME LIKE %s"
_NAMES = (
    "SELECT HEX(CONVERT(DATABASE() USING filename)), HEX(CONVERT(%s USING filename)), HEX(CONVERT(%s USING filename))"
)
"""As InnoDB spells them: those of files."""
_MADE = """
SELECT DATE_FORMAT(CREATE_TIME, '%%Y-%%m-%%d %%H:%%i:%%s') FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s
"""
_TRIGGERS = """
SELECT TRIGGER_NAME, DATE_FORMAT(CREATED, '%%Y-%%m-%%d %%H:%%i:%%s.%%f') FROM information_schema.TRIGGERS
WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = %s
    AND LEFT(TRIGGER_NAME, 11) = '_headwater_'
"""


@dataclass(frozen=True)
class Facts:
    stored: tuple[int, ...]
    kept: tuple[int, ...]
    made: str
    triggers: tuple[tuple[str, str], ...]

    def text(self) -> str:
        return json.dumps([self.stored, self.kept, self.made, self.triggers], ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> Facts:
        stored, kept, made, triggers = json.loads(text)
        return cls(tuple(stored), tuple(kept), made, tuple((name, created) for name, created in triggers))

    def broken(self, now: Facts) -> str:
        """Why what is there now cannot be relied on; empty if it can."""
        if not now.made:
            return "the table is gone"
        if not now.stored:
            return "the server does not say where it is stored"
        there = dict(now.triggers)
        for name, created in self.triggers:
            if name not in there:
                return f"its trigger {name} was dropped"
            if there[name] != created:
                return f"its trigger {name} was dropped and made again"
        if self.kept != now.kept:
            return "its table of changes was dropped or emptied"
        if self.stored != now.stored:
            return "it was emptied by TRUNCATE, or rebuilt: nothing tells which"
        if self.made != now.made:
            return f"it was altered at {now.made} UTC, and nothing tells how"
        return ""


def touch(connection: Connection, table: str) -> None:
    """From here until the transaction ends, nobody alters it."""
    rows(connection, f"SELECT 1 FROM {quoted(table)} LIMIT 0")


def facts(connection: Connection, table: str) -> Facts:
    (names,) = rows(connection, _NAMES, [table, changes_of(table)])
    database, *tables = (bytes.fromhex(name).decode("ascii") for name in names)
    paths = [f"{database}/{name}" for name in tables]
    likes = [path.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%") for path in paths]
    there = rows(connection, _STORED, [f"{likes[0]}%", likes[1]])
    stored, kept = (sorted(int(n) for name, n in there if name.partition("#")[0] == path) for path in paths)
    made = rows(connection, _MADE, [table])
    triggers = sorted((str(n), str(created)) for n, created in rows(connection, _TRIGGERS, [table]))
    return Facts(tuple(stored), tuple(kept), str(made[0][0]) if made else "", tuple(triggers))
