"""Which statements define a view, and what they say.

    CREATE [OR REPLACE] [INCREMENTAL] MATERIALIZED VIEW v [(a, b)] [WITH (…)] AS SELECT …
    CREATE [OR REPLACE] [TEMP] VIEW v [(a, b)] AS SELECT …
    SELECT pgivm.create_immv('v(a, b)', 'SELECT …')

The head is read token by token: what the engines put between a view's name and AS has nothing to do with the query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlglot
from sqlglot.tokenizer_core import Token, TokenType

_VIEW = re.compile(
    r"\s*CREATE\s+(OR\s+REPLACE\s+)?(TEMP(ORARY)?\s+)?((INCREMENTAL\s+)?(?P<kept>MATERIALIZED)\s+)?VIEW\s+"
    r"(IF\s+NOT\s+EXISTS\s+)?",
    re.IGNORECASE,
)
_IMMV = re.compile(r"\s*SELECT\s+(?:\w+\.)?create_immv\s*\(", re.IGNORECASE)
_TAIL = re.compile(r"\s+WITH\s+(NO\s+)?DATA\s*;?\s*$|\s+EMIT\s+ON\s+WINDOW\s+CLOSE\s*;?\s*$", re.IGNORECASE)
_HINTS = re.compile(r"\bOPTIONS\s*\([^()]*\)", re.IGNORECASE)


@dataclass(frozen=True)
class Head:
    """A view as it is defined: its name (lower case, parts with dots), its columns if they are listed, its query."""

    name: str
    columns: tuple[str, ...]
    query: str
    kept: bool
    """Whether the engine keeps it up to date: it is materialized."""


def read_head(text: str, dialect: str) -> Head | None:
    """The definition that a statement is; None if it is none. Raises SqlglotError where its words cannot be told."""
    called = _IMMV.match(text)
    if called is not None:
        return _immv(text[called.end() :])
    begun = _VIEW.match(text)
    if begun is None:
        return None
    tokens = sqlglot.tokenize(text[begun.end() :], read=dialect)
    at = _as(tokens)
    if at is None:
        return None
    rest = text[begun.end() :]
    query = _HINTS.sub("", _TAIL.sub("", rest[tokens[at + 1].start :])).rstrip().rstrip(";")
    name, columns = _name(tokens[:at])
    return Head(name, columns, query, begun["kept"] is not None)


def is_definition(text: str) -> bool:
    """Whether it defines a view that is kept up to date, as far as its first words say."""
    begun = _VIEW.match(text)
    return _IMMV.match(text) is not None or (begun is not None and begun["kept"] is not None)


def _as(tokens: list[Token]) -> int | None:
    """Where AS stands, outside all parentheses."""
    depth = 0
    for i, token in enumerate(tokens[:-1]):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.text.upper() == "AS" and i:
            return i
    return None


def _name(tokens: list[Token]) -> tuple[str, tuple[str, ...]]:
    parts, columns, at = [tokens[0].text], [], 1
    while at + 1 < len(tokens) and tokens[at].token_type == TokenType.DOT:
        parts.append(tokens[at + 1].text)
        at += 2
    if at < len(tokens) and tokens[at].token_type == TokenType.L_PAREN:
        end = next(i for i in range(at, len(tokens)) if tokens[i].token_type == TokenType.R_PAREN)
        columns = [t.text for t in tokens[at + 1 : end] if t.token_type != TokenType.COMMA]
    return ".".join(parts).lower(), tuple(columns)


def _immv(arguments: str) -> Head | None:
    strings = [t.text for t in sqlglot.tokenize(arguments, read="postgres") if t.token_type in _STRINGS]
    if len(strings) < 2:
        return None
    name, columns = _name(sqlglot.tokenize(strings[0], read="postgres"))
    return Head(name, columns, _TAIL.sub("", strings[1]).strip().rstrip(";"), True)


_STRINGS = (TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)

__all__ = ["Head", "is_definition", "read_head"]
