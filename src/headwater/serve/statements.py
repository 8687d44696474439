"""Statements: taken apart, and queries put from PostgreSQL's words into those of the engine.

A query is parsed once (by sqlglot), its words are changed where the two differ (`rewriting`), and its parameters get
their values (`parameters`). What is known of a text is kept for the next time.

Invariant: what reaches the engine is one query that only reads, and `tables` names every view that it can read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from headwater.serve import catalog
from headwater.serve.errors import Refused, read_only
from headwater.serve.parameters import Template
from headwater.serve.plain import Plain, plain
from headwater.serve.rewriting import Seen

DATABASE = catalog.DATABASE
_READS = {"SELECT", "WITH", "VALUES", "TABLE", "FROM", "("}
_WRITES = {
    "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE", "COPY", "GRANT", "REVOKE", "COMMENT",
    "VACUUM", "ANALYZE", "REFRESH", "REINDEX", "CLUSTER", "LOCK", "CALL", "DO", "IMPORT", "SECURITY", "NOTIFY",
    "REPLACE", "ATTACH", "DETACH", "INSTALL", "LOAD", "EXPORT", "PRAGMA", "CHECKPOINT", "USE", "PREPARE", "EXECUTE",
}  # fmt: skip
REMEMBERED = 20_000
"""What is known of a text is kept for the next time, if it is no longer than that."""
MOST_TEXT, MOST_SELECTS = 1_000_000, 1_000
"""A longer statement, or one of more queries, is refused: to look at it would take longer than others should wait."""


@dataclass(frozen=True)
class Statement:
    """`verb` is its first word in capitals, `words` are all."""

    text: str
    verb: str
    words: tuple[str, ...]

    @property
    def reads(self) -> bool:
        return self.verb in _READS

    def check(self) -> None:
        """Refuses what writes."""
        if self.verb in _WRITES:
            raise read_only(" ".join(w.upper() for w in self.words[:2]) if self.verb == "CREATE" else self.verb)


@dataclass(frozen=True)
class Query:
    """A query for the engine. `tables` are views that it names; `perhaps` are those whose name also stands for a
    WITH; `catalogued` says whether it looks into the catalogue; `plain` is set where it needs no engine."""

    tables: tuple[str, ...]
    perhaps: tuple[str, ...]
    catalogued: bool
    plain: Plain | None
    template: Template

    @property
    def parameters(self) -> int:
        return self.template.parameters

    def bound(self, values: Sequence[str | None], oids: Sequence[int]) -> str:
        """As the engine takes it, with these values for $1, $2, …"""
        return self.template.bound(values, oids)


def split(sql: str) -> Sequence[Statement]:
    """The statements of a text, without comments and empty ones."""
    if len(sql) > MOST_TEXT:
        raise Refused("54000", f"a statement may have {MOST_TEXT:,} characters", "ask in parts")
    return _split_before(sql) if len(sql) <= REMEMBERED else _split(sql)


def _split(sql: str) -> Sequence[Statement]:
    try:
        tokens = sqlglot.tokenize(sql, dialect="postgres")
    except SqlglotError as error:
        raise Refused("42601", f"syntax error: {_first(error)}", "see that quotes and comments are closed") from None
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return tuple(
        Statement(sql[part[0].start : part[-1].end + 1], part[0].text.upper(), tuple(t.text for t in part))
        for part in parts
        if part
    )


_split_before = lru_cache(maxsize=512)(_split)


def translated(text: str) -> Query:
    """A statement that reads, for the engine."""
    return _translated_before(text) if len(text) <= REMEMBERED else _translated(text)


def _translated(text: str) -> Query:
    tree = _parsed(text)
    for node in tree.find_all(exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Into, exp.Lock, exp.DDL):
        if not isinstance(node, exp.Query):
            raise read_only({exp.Into: "SELECT INTO", exp.Lock: "SELECT FOR UPDATE"}.get(type(node), node.key.upper()))
    if isinstance(tree, exp.Values):
        row = tree.expressions[0]
        names = [f"column{n + 1}" for n in range(len(row.expressions) if isinstance(row, exp.Tuple) else 1)]
        tree = exp.select("*").from_(exp.alias_(tree, "v", table=names))
    if not isinstance(tree, exp.Query):
        raise Refused("42601", "this is no query", "ask a SELECT")
    if sum(1 for _ in tree.find_all(exp.Select)) > MOST_SELECTS:
        raise Refused("54001", f"a statement may have {MOST_SELECTS:,} queries in it", "ask in parts")
    _name_columns(tree)
    seen = Seen({cte.alias.lower() for cte in tree.find_all(exp.CTE)})
    for node in reversed(list(tree.walk())):
        new = seen.changed(node)
        if new is not node:
            if node is tree:
                tree = new
            else:
                node.replace(new)
    only = () if seen.catalogued or seen.perhaps else tuple(seen.tables)
    return Query(tuple(seen.tables), tuple(seen.perhaps), seen.catalogued, plain(tree, only), Template(tree))


_translated_before = lru_cache(maxsize=512)(_translated)


def _parsed(text: str) -> Any:
    try:
        return sqlglot.parse_one(text, dialect="postgres")
    except (SqlglotError, RecursionError) as error:
        for written, dialect in ((_labelled, "postgres"), (str, "duckdb")):
            try:
                return sqlglot.parse_one(written(text), dialect=dialect)
            except (SqlglotError, RecursionError):
                continue
        raise Refused("42601", f"syntax error: {_first(error)}") from None


def _labelled(text: str) -> str:
    """With quotes around words that PostgreSQL takes as a label after AS, and sqlglot for the beginning of something:
    AS select."""
    tokens = sqlglot.tokenize(text, dialect="postgres")
    found = [
        (word.start, word.end + 1)
        for before, word, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False)
        if before.token_type == TokenType.ALIAS and word.text.isalpha() and text[word.start] != '"'
        if after is None or after.text.upper() in (",", ")", "FROM")
    ]
    for start, end in reversed(found):
        text = f'{text[:start]}"{text[start:end].lower()}"{text[end:]}'
    return text


def _name_columns(tree: exp.Query) -> None:
    """The names that PostgreSQL gives to columns of an answer that have none."""
    first: Any = tree
    while isinstance(first, (exp.SetOperation, exp.Subquery)):
        first = first.this
    if not isinstance(first, exp.Select):
        return
    for shown in first.expressions:
        plain = shown.expression if isinstance(shown, exp.Dot) else shown
        while isinstance(plain, (exp.Cast, exp.Paren)):
            plain = plain.this
        if (plain is shown and isinstance(plain, (exp.Column, exp.Alias, exp.Star))) or shown.is_star:
            continue
        name = "case" if isinstance(plain, exp.Case) else "?column?"
        if isinstance(plain, exp.Column):
            name = plain.name
        elif isinstance(plain, exp.Func) and not isinstance(plain, (exp.Case, exp.Connector)):
            name = (plain.name if isinstance(plain, exp.Anonymous) else plain.sql_name()).lower()
        shown.replace(exp.alias_(shown.copy(), _NAMES.get(name, name), quoted=True))


_NAMES = {
    "current_version": "version",
    "count_if": "count",
    "timestamp_trunc": "date_trunc",
    "current_timestamp": "now",
}


def _first(error: Exception) -> str:
    said = re.sub(r"\x1b\[\d*m", "", str(error).strip()).splitlines()
    return said[0][:300] if said else type(error).__name__
