"""What a statement in the log does to tables: which columns are, from there on, others than before.

Rows are in the log one by one; statements that change tables are there as text, and the rows that they take away or
rewrite are not. `TRUNCATE` empties a table in silence, `RENAME` puts another one in its place, `MODIFY` may rewrite
every value. So after such a statement the table's columns, or those that it names, are other columns, and views that
use them are loaded again. What leaves every value as it was (an index, a default, a new column) concerns nobody.

What is not understood is taken for the worst. So is a change of rows that a session chose to log as a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwater.sources.mariadb.events import Statement

EVERY = "*"
"""In place of a table: all of the database. In place of a column: all of the table."""


@dataclass(frozen=True)
class Altered:
    """A column that is another one from now on, and why."""

    table: str
    column: str = EVERY
    why: str = ""

    def concerns(self, table: str, columns: Iterable[str]) -> bool:
        mine = self.table == EVERY or self.table.lower() == table.lower()
        return mine and (self.column == EVERY or self.column.lower() in {c.lower() for c in columns})


_NOTHING = frozenset(
    [
        "OPTIMIZE",
        "ANALYZE",
        "CHECK",
        "REPAIR",
        "GRANT",
        "REVOKE",
        "SET",
        "FLUSH",
        "INSTALL",
        "UNINSTALL",
        "XA",
        "BINLOG",
        "ROLLBACK",
        "CACHE",
        "SHUTDOWN",
    ]
)
_ELSEWHERE = frozenset(
    [
        "INDEX",
        "UNIQUE",
        "FULLTEXT",
        "SPATIAL",
        "VIEW",
        "TRIGGER",
        "PROCEDURE",
        "FUNCTION",
        "EVENT",
        "USER",
        "ROLE",
        "SERVER",
        "SEQUENCE",
        "PACKAGE",
        "DEFINER",
        "SQL",
        "AGGREGATE",
        "TEMPORARY",
        "ALGORITHM",
        "TABLESPACE",
        "LOGFILE",
    ]
)
"""What CREATE, DROP and ALTER may be about that is no table."""
_HARMLESS = frozenset(
    [
        "COMMENT",
        "AUTO_INCREMENT",
        "ROW_FORMAT",
        "FORCE",
        "ALGORITHM",
        "LOCK",
        "ENABLE",
        "DISABLE",
        "ORDER",
        "KEY_BLOCK_SIZE",
        "CHECKSUM",
        "MAX_ROWS",
        "MIN_ROWS",
        "AVG_ROW_LENGTH",
        "PACK_KEYS",
        "DEFAULT",
        "CHARSET",
        "CHARACTER",
        "COLLATE",
        "STATS_PERSISTENT",
        "STATS_AUTO_RECALC",
        "STATS_SAMPLE_PAGES",
        "WAIT",
        "NOWAIT",
    ]
)
_KEYS = frozenset(["INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "PRIMARY", "CONSTRAINT", "FOREIGN", "CHECK"])


def altered(statement: Statement, database: str) -> list[Altered]:
    """What a statement alters in this database."""
    words = _Words([Token(t) for t in _TOKEN.findall(_EXECUTED.sub(" ", statement.text)) if not t.startswith("/*")])
    found = [(place or statement.database, table, column) for place, table, column in _read(words, statement.database)]
    said = " ".join(statement.text.split())
    why = f"was altered by {said[:57] + '…' if len(said) > 60 else said}"
    return [Altered(table, column, why) for place, table, column in dict.fromkeys(found) if place == database]


_EXECUTED = re.compile(r"/\*M?!\d*|(?<!\S)\*/")
"""What only looks like a comment."""
_TOKEN = re.compile(
    r"""/\*.*?\*/|`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|[\w$]+|\S""",
    re.DOTALL,
)


class Token(str):
    """A word, a quoted name, a text or a sign, as it is written."""

    __slots__ = ()

    @property
    def word(self) -> str:
        """As a keyword; empty if it is quoted."""
        return "" if self[0] in "`'\"" else self.upper()

    @property
    def name(self) -> str:
        return self[1:-1].replace(self[0] * 2, self[0]) if self[0] in "`'\"" else str(self)


class _Words:
    """Tokens, read from left to right."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self.at = tokens, 0

    def __bool__(self) -> bool:
        return self.at < len(self._tokens)

    @property
    def word(self) -> str:
        """The next one as a keyword; empty if it is quoted, or nothing."""
        return self._tokens[self.at].word if self else ""

    def take(self) -> str:
        self.at += 1
        return self._tokens[self.at - 1].name if self.at <= len(self._tokens) else ""

    def skip(self, *words: str) -> bool:
        """Whether any of them came next; all that do are skipped."""
        begun = self.at
        while self and self.word in words:
            self.at += 1
        return self.at > begun

    def name(self) -> tuple[str, str]:
        """A table: its database, empty if it is not said, and its name."""
        first = self.take()
        if self.word != ".":
            return "", first
        self.take()
        return first, self.take()

    def clauses(self) -> Iterator[_Words]:
        """What is left, divided by commas that are in no parentheses."""
        depth, part = 0, list[Token]()
        for token in self._tokens[self.at :]:
            depth += {"(": 1, ")": -1}.get(token, 0)
            if token == "," and depth == 0:
                yield _Words(part)
                part = []
            else:
                part.append(token)
        yield _Words(part)

    def rest(self) -> list[str]:
        return [token.word for token in self._tokens[self.at :]]


Found = tuple[str, str, str]
"""Database, table and column."""


def _read(words: _Words, database: str) -> Iterator[Found]:
    first = words.take().upper()
    if first == "SET" and words.word == "STATEMENT":
        while words and words.word != "FOR":
            words.take()
        words.take()
        first = words.take().upper()
    if first == "TRUNCATE":
        words.skip("TABLE")
        yield (*words.name(), EVERY)
    elif first in ("CREATE", "DROP", "ALTER"):
        words.skip("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE")
        if words.word in ("DATABASE", "SCHEMA"):
            words.take()
            words.skip("IF", "EXISTS")
            if first == "DROP":
                yield words.take(), EVERY, EVERY
        elif words.skip("TABLE", "TABLES"):
            yield from _table(first, words)
        elif words.word not in _ELSEWHERE:
            yield database, EVERY, EVERY
    elif first == "RENAME":
        if words.skip("TABLE", "TABLES"):
            words.skip("IF", "EXISTS")
            for clause in words.clauses():
                yield (*clause.name(), EVERY)
                while clause and clause.word != "TO":
                    clause.take()
                clause.skip("TO")
                yield (*clause.name(), EVERY)
    elif first == "DELETE" and len(words.rest()) in (2, 4):  # a table in memory that a restart emptied
        words.skip("FROM")
        yield (*words.name(), EVERY)
    elif first not in _NOTHING:
        yield database, EVERY, EVERY


def _table(first: str, words: _Words) -> Iterator[Found]:
    kept = first == "CREATE" and words.word == "IF"
    words.skip("IF", "NOT", "EXISTS")
    if first == "DROP":
        for clause in words.clauses():
            yield (*clause.name(), EVERY)
        return
    table = words.name()
    if first == "CREATE":
        if not kept:
            yield (*table, EVERY)
        return
    words.skip("WAIT", "NOWAIT")
    for clause in words.clauses():
        for column in _columns(clause):
            if isinstance(column, tuple):
                yield (*column, EVERY)
            else:
                yield (*table, column)


def _columns(clause: _Words) -> Iterator[str | tuple[str, str]]:
    """The columns of the altered table that a clause makes others; a pair is the new name of the table."""
    verb = clause.take().upper()
    if verb == "ADD":
        yield from _added(clause)
    elif verb == "DROP":
        if clause.word in ("PARTITION", "SYSTEM", "PERIOD"):
            yield EVERY
        elif clause.word not in _KEYS:
            clause.skip("COLUMN", "IF", "EXISTS")
            yield clause.take()
    elif verb in ("MODIFY", "CHANGE"):
        clause.skip("COLUMN", "IF", "EXISTS")
        yield clause.take()
        if verb == "CHANGE":
            yield clause.take()
    elif verb == "RENAME":
        if clause.skip("COLUMN"):
            clause.skip("IF", "EXISTS")
            yield clause.take()
            clause.skip("TO")
            yield clause.take()
        elif clause.word not in ("INDEX", "KEY"):
            clause.skip("TO", "AS")
            yield EVERY
            yield clause.name()
    elif verb == "ENGINE":
        if "INNODB" not in clause.rest():
            yield EVERY
    elif verb not in _HARMLESS and verb != "ALTER":
        yield EVERY


def _added(clause: _Words) -> Iterator[str]:
    if clause.word in ("PARTITION", "SYSTEM", "PERIOD"):
        yield EVERY
        return
    if clause.word in _KEYS:
        said = clause.rest()
        if "FOREIGN" in said and ("CASCADE" in said or "NULL" in said):
            yield EVERY  # rows will go without being in the log
        return
    clause.skip("COLUMN", "IF", "NOT", "EXISTS")
    if clause.skip("("):
        for column in clause.clauses():
            yield column.take()
    else:
        yield clause.take()
