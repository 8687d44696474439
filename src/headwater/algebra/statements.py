"""A file of views, cut into its statements.

    CREATE MATERIALIZED VIEW name [WITH (option = value, …)] AS SELECT … ;

This is syntax only: no name is looked up, nothing is refused but what cannot be read. The statement's head is read
token by token, so that its errors speak of views; the query is sqlglot's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headwater.algebra.dialect import ViewSql
from headwater.model.errors import ViewSqlError

_SHAPE = "write CREATE MATERIALIZED VIEW name [WITH (consistency = 'complete')] AS SELECT …"
_WORD = re.compile(r"[\w.]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True)
class ParsedView:
    """A view as written. Lines count from 1 in its file; `tokens` are the query's, `text` is the query."""

    name: str
    options: Mapping[str, str]
    select: exp.Expr
    text: str
    file: str
    line: int
    tokens: tuple[Token, ...] = field(repr=False)
    option_lines: Mapping[str, int] = field(default_factory=dict, repr=False)

    def place(self, node: exp.Expr | None = None, keyword: str = "") -> str:
        """`file:line` of a node, or of a keyword where the node itself carries no position."""
        return f"{self.file}:{self._line_of(node, keyword)}"

    def error(self, what: str, fix: str, node: exp.Expr | None = None, keyword: str = "") -> ViewSqlError:
        return ViewSqlError(f"{self.place(node, keyword)}: view {self.name}: {what}", fix)

    def option_place(self, option: str) -> str:
        """`file:line` of an option; of the statement if it is not written there."""
        return f"{self.file}:{self.option_lines.get(option, self.line)}"

    def option_error(self, option: str, what: str, fix: str) -> ViewSqlError:
        return ViewSqlError(f"{self.option_place(option)}: view {self.name}: {what}", fix)

    def _line_of(self, node: exp.Expr | None, keyword: str) -> int:
        parts = [part.meta for part in node.walk() if "line" in part.meta] if node is not None else []
        end = max((meta["end"] for meta in parts), default=None)
        words = [t for t in self.tokens if t.text.upper() == keyword.upper()] if keyword else []
        if words:
            before = [t.line for t in words if end is not None and t.start <= end]
            return before[-1] if before else words[0].line
        if parts:
            return int(min(meta["line"] for meta in parts))
        if node is not None and node.parent is not None:
            return self._line_of(node.parent, "")
        return self.tokens[0].line


def parse_views(text: str, file: str) -> list[ParsedView]:
    """Every view of a file, in order. A file without statements holds no views."""
    try:
        tokens = ViewSql().tokenize(text)
    except TokenError as error:
        raise _unreadable_token(error, text, file) from None
    views: list[ParsedView] = []
    for statement in _split(tokens):
        view = _Statement(statement, text, file).read()
        for earlier in views:
            if earlier.name.lower() == view.name.lower():
                raise ViewSqlError(
                    f"{file}:{view.line}: view {view.name} is defined twice, first in line {earlier.line}",
                    "rename one of them",
                )
        views.append(view)
    return views


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [s for s in statements if s]


class _Statement:
    """Reads one statement's tokens from left to right."""

    def __init__(self, tokens: list[Token], text: str, file: str) -> None:
        self.tokens, self.text, self.file, self.next = tokens, text, file, 0

    def read(self) -> ParsedView:
        line = self.tokens[0].line
        self._expect("CREATE")
        if self._accept("OR"):
            raise self._unexpected(
                "CREATE OR REPLACE is not for views kept in files",
                "write CREATE MATERIALIZED VIEW; to change a view, edit its file",
                self.tokens[self.next - 1],
            )
        self._expect("MATERIALIZED")
        self._expect("VIEW")
        if self._accept("IF"):
            raise self._unexpected(
                "IF NOT EXISTS is not for views kept in files",
                "write CREATE MATERIALIZED VIEW name AS …",
                self.tokens[self.next - 1],
            )
        name = self._name()
        options = self._options() if self._accept("WITH") else {}
        values = {option: value for option, (value, _) in options.items()}
        lines = {option: place for option, (_, place) in options.items()}
        self._expect("AS")
        query = self.tokens[self.next :]
        if not query:
            raise self._unexpected(f"view {name} has no query after AS", _SHAPE, self.tokens[-1])
        return ParsedView(
            name,
            values,
            self._query(query),
            self.text[query[0].start : query[-1].end + 1],
            self.file,
            line,
            tuple(query),
            lines,
        )

    def _name(self) -> str:
        token = self._take("a view name")
        if not _NAME.fullmatch(token.text) or token.text.startswith("__"):
            raise self._unexpected(
                f"{token.text!r} cannot name a view",
                "use letters, digits and _, not starting with a digit or with __, at most 100 of them",
                token,
            )
        if self._peek(".", "("):
            raise self._unexpected(
                f"view {token.text} must have a plain name, without schema or column list",
                "name the columns in the SELECT with AS; " + _SHAPE,
                self.tokens[self.next],
            )
        return token.text

    def _options(self) -> dict[str, tuple[str, int]]:
        """Each option's value and line."""
        options: dict[str, tuple[str, int]] = {}
        self._expect("(")
        while True:
            token = self._take("an option")
            self._expect("=")
            value = self._value(token.text)
            if token.text.lower() in options:
                raise self._unexpected(f"option {token.text!r} is given twice", "keep one of them", token)
            options[token.text.lower()] = value, token.line
            if self._accept(")"):
                return options
            self._expect(",")

    def _value(self, option: str) -> str:
        """One number (with its sign), one word, or one text in quotes."""
        token = self._take(f"a value for {option}")
        sign = token.text if token.token_type in (TokenType.DASH, TokenType.PLUS) else ""
        if sign:
            token = self._take(f"a value for {option}")
        quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        if not quoted and not _WORD.fullmatch(token.text):
            raise self._unexpected(
                f"found {token.text!r} where a value for {option} should stand",
                f"write {option} = a number, or text in quotes: {option} = '…'",
                token,
            )
        if self.next < len(self.tokens) and not self._peek(",", ")"):
            after = self.tokens[self.next]
            raise self._unexpected(
                f"the value of {option} goes on where , or ) should stand",
                f"write one number, or text in quotes: {option} = '…'",
                after,
            )
        return sign + token.text

    def _query(self, tokens: list[Token]) -> exp.Expr:
        try:
            (query,) = ViewSql().parser().parse(tokens, self.text)
        except ParseError as error:
            raise _unreadable(error, tokens, self.text, self.file) from None
        if query is None:
            raise self._unexpected("there is no query after AS", _SHAPE, tokens[0])
        return query

    def _take(self, what: str) -> Token:
        if self.next >= len(self.tokens):
            raise self._unexpected(f"the statement ends where {what} should stand", _SHAPE, self.tokens[-1])
        self.next += 1
        return self.tokens[self.next - 1]

    def _peek(self, *texts: str) -> bool:
        return self.next < len(self.tokens) and self.tokens[self.next].text.upper() in texts

    def _accept(self, text: str) -> bool:
        if self._peek(text):
            self.next += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        token = self._take(text)
        if token.text.upper() != text:
            raise self._unexpected(f"found {token.text!r} where {text} should stand", _SHAPE, token)

    def _unexpected(self, what: str, fix: str, token: Token) -> ViewSqlError:
        return _pointing_at(token.start, what, fix, self.text, self.file)


def _unreadable(error: ParseError, tokens: Sequence[Token], text: str, file: str) -> ViewSqlError:
    detail = error.errors[0]
    lines = text.splitlines(keepends=True)
    # sqlglot's column is the offending token's last character
    column = max(int(detail["col"] or 1) - len(detail["highlight"] or " ") + 1, 1)
    start = sum(len(line) for line in lines[: int(detail["line"] or 1) - 1]) + column - 1
    misspelt = _misspelt(tokens, start)
    if misspelt is not None:
        token, meant = misspelt
        return _pointing_at(token.start, f"cannot read this: is {token.text} {meant}?", f"write {meant}", text, file)
    what = str(detail["description"])
    if what.startswith("Required keyword"):  # sqlglot speaks of its own classes there
        what = "something is missing here"
    return _pointing_at(start, f"cannot read this: {what}", "correct the SQL here", text, file)


_KEYWORDS = (
    "SELECT",
    "DISTINCT",
    "FROM",
    "INNER",
    "CROSS",
    "JOIN",
    "USING",
    "WHERE",
    "GROUP",
    "HAVING",
    "BETWEEN",
    "AND",
)


def _misspelt(tokens: Sequence[Token], start: int) -> tuple[Token, str] | None:
    """A word up to where reading failed that is almost a keyword, the nearest first: sqlglot takes `FRO` for a name,
    and stumbles over what follows."""
    before = [t for t in tokens if t.start <= start]
    after = tokens[len(before) : len(before) + 1]
    for token in (*after, *reversed(before[-3:]), before[0]):
        near = difflib.get_close_matches(token.text.upper(), _KEYWORDS, n=1, cutoff=0.75)
        if token.token_type == TokenType.VAR and near and near[0] != token.text.upper():
            return token, near[0]
    return None


def _unreadable_token(error: TokenError, text: str, file: str) -> ViewSqlError:
    cause = str(error.__cause__ or error)
    missing = re.search(r"Missing (.+) from \d+:(\d+)", cause)
    if missing:
        delimiter, start = missing[1], int(missing[2])
        return _pointing_at(
            start, f"a {delimiter} opened here is never closed", f"add the closing {delimiter}", text, file
        )
    start = (error.start or 0) + 50
    return _pointing_at(min(start, len(text)), "cannot read this", "correct the SQL here", text, file)


def _pointing_at(start: int, what: str, fix: str, text: str, file: str) -> ViewSqlError:
    """`file:line:column: what`, the line, and a caret under the offending place."""
    line = text.count("\n", 0, start) + 1
    begin = text.rfind("\n", 0, start) + 1
    source = text[begin:].split("\n", 1)[0].rstrip("\r").replace("\t", " ")
    column = start - begin + 1
    return ViewSqlError(f"{file}:{line}:{column}: {what}\n    {source}\n    {' ' * (column - 1)}^", fix)
