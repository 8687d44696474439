"""Statements: taken apart, and queries put from PostgreSQL's words into those of the engine.

A query is parsed once (by sqlglot) and changed where the two differ:

public.people, headwater.public.people     people
pg_catalog.pg_class, pg_class              the tables of `catalog`, which hold what PostgreSQL's clients look for
pg_catalog.format_type(…)                  the functions of `catalog`
x OPERATOR(pg_catalog.~) y, COLLATE        what they mean
$1                                         its value, as a literal (`parameters`)

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

from headwater.model.errors import UnknownName
from headwater.serve import catalog, types
from headwater.serve.errors import Refused, read_only
from headwater.serve.parameters import Template
from headwater.serve.plain import Plain, plain

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
_WHO = (exp.CurrentUser, exp.SessionUser)
_CLOCKS_HERE: dict[type[exp.Expression], str] = {
    exp.CurrentTimestamp: "now", exp.CurrentDate: "today", exp.CurrentTime: "get_current_time",
}  # fmt: skip
_CLOCKS = tuple(_CLOCKS_HERE)
_SAID = {
    "version": catalog.VERSION_TEXT, "current_database": DATABASE, "current_catalog": DATABASE,
    "current_schema": "public", "current_user": catalog.OWNER, "session_user": catalog.OWNER,
}  # fmt: skip
"""Functions that always say the same, where they are called by their schema."""
_CALLED = {
    "json_build_object": "json_object", "jsonb_build_object": "json_object", "json_agg": "json_group_array",
    "jsonb_agg": "json_group_array", "json_build_array": "json_array", "jsonb_build_array": "json_array",
}  # fmt: skip
"""What the engine calls them."""


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
    seen = _Seen({cte.alias.lower() for cte in tree.find_all(exp.CTE)})
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
        for other, dialect in ((_labelled(text), "postgres"), (text, "duckdb")):
            try:
                return sqlglot.parse_one(other, dialect=dialect)
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


class _Seen:
    """What is found on the way through a query."""

    def __init__(self, named: set[str]) -> None:
        self._named = named
        self.tables: dict[str, None] = {}
        self.perhaps: dict[str, None] = {}
        self.catalogued = False

    def changed(self, node: Any) -> Any:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return self._table(node)
        if isinstance(node, exp.Table):
            return _function(node)
        if isinstance(node, exp.Column) and node.args.get("db") is not None:
            node.set("db", None)
            node.set("catalog", None)
        elif isinstance(node, exp.Collate):
            return node.this
        elif isinstance(node, exp.Operator):
            return _operator(node)
        elif isinstance(node, exp.Cast):
            return self._cast(node)
        elif isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
            return node.expression if node.this.name.lower() in catalog.TABLES else node
        elif isinstance(node, exp.Anonymous) and node.name.lower() in _SAID and not node.expressions:
            return exp.Literal.string(_SAID[node.name.lower()])
        elif isinstance(node, _WHO) or (type(node) is exp.Column and node.name == "user" and _is_bare(node)):
            return exp.Literal.string(catalog.OWNER)
        elif isinstance(node, (exp.CurrentDatabase, exp.CurrentCatalog)):
            return exp.Literal.string(DATABASE)
        elif isinstance(node, exp.CurrentSchemas):
            self.catalogued = True
            return exp.Anonymous(this="hw_current_schemas", expressions=[node.this or exp.true()])
        elif isinstance(node, exp.CurrentSchema):
            return exp.Literal.string("public")
        elif isinstance(node, _CLOCKS):  # the engine's functions: their words would mean a column of that name
            return exp.Anonymous(this=_CLOCKS_HERE[type(node)], expressions=[])
        elif isinstance(node, exp.CurrentVersion):
            return exp.Literal.string(catalog.VERSION_TEXT)
        elif isinstance(node, exp.Anonymous) and node.name.lower() == "current_setting" and _known(node) is not None:
            return exp.Literal.string(_known(node) or "")
        elif isinstance(node, exp.Anonymous) and node.name.lower() in _CALLED:
            node.set("this", _CALLED[node.name.lower()])
        elif isinstance(node, exp.Anonymous) and node.name.lower() in catalog.FUNCTIONS:
            self.catalogued = True
            node.set("this", f"hw_{node.name.lower()}")
        return node

    def _table(self, node: exp.Table) -> exp.Table:
        schema, name = node.text("db").lower(), node.name
        if node.text("catalog") and node.text("catalog").lower() != DATABASE:
            raise Refused("0A000", f"there is no database {node.text('catalog')!r}", f"this one is {DATABASE!r}")
        node.set("catalog", None)
        system = schema or ("pg_catalog" if name.lower() in catalog.TABLES["pg_catalog"] else "public")
        if system in catalog.TABLES:
            if name.lower() not in catalog.TABLES[system]:
                raise UnknownName("table", f"{system}.{name}", [f"{system}.{t}" for t in catalog.TABLES[system]])
            self.catalogued = True
            node.set("db", exp.to_identifier(catalog.SCHEMAS[system]))
        elif system != "public":
            raise Refused("3F000", f"there is no schema {system!r}", "views are in schema public")
        else:
            node.set("db", None)
            (self.perhaps if name.lower() in self._named and not schema else self.tables)[name] = None
        return node

    def _cast(self, node: exp.Cast) -> Any:
        kind = node.to.sql(dialect="postgres").lower().replace('"', "")
        kind = kind.removeprefix("pg_catalog.").removeprefix("information_schema.")
        if kind in ("regclass", "regtype", "regproc", "regnamespace", "regrole"):
            self.catalogued = True
            if node.this.is_string:
                return exp.Anonymous(this=f"hw_{kind}_oid", expressions=[node.this])
            named = isinstance(node.parent, exp.Cast) and node.parent.to.sql().lower().endswith(("text", "varchar"))
            return exp.Anonymous(this=f"hw_{kind}_name", expressions=[node.this]) if named else node.this
        if kind.endswith("[]") and node.this.is_string and node.this.name.startswith("{"):
            listed = [exp.Null() if v is None else exp.Literal.string(v) for v in types.read_array(node.this.name)]
            node.set("this", exp.Array(expressions=listed))
        plain = _PLAIN.get(kind.removesuffix("[]"))
        if plain:
            node.set("to", exp.DataType.build(plain + ("[]" if kind.endswith("[]") else ""), dialect="duckdb"))
        return node


def _is_bare(node: exp.Column) -> bool:
    """Whether a column is written as one word, without quotes."""
    return not node.table and isinstance(node.this, exp.Identifier) and not node.this.quoted


def _known(node: exp.Anonymous) -> str | None:
    """The setting that is asked for, if it is one that is known here."""
    first = node.expressions[0] if node.expressions else None
    return catalog.SHOWN.get(first.name.lower()) if isinstance(first, exp.Literal) else None


def _function(node: exp.Table) -> Any:
    """A function in FROM. Its name there is also that of its column; one that makes one value makes one row."""
    if node.text("db").lower() in catalog.TABLES:
        node.set("db", None)
    alias = node.args.get("alias")
    if alias is not None and not alias.args.get("columns"):
        if isinstance(node.this, exp.StringToArray):
            return exp.Subquery(this=exp.select(exp.alias_(node.this.copy(), alias.name)), alias=alias.copy())
        if isinstance(node.this, (exp.ExplodingGenerateSeries, exp.GenerateSeries)):
            alias.set("columns", [exp.to_identifier(alias.name)])
    return node


_PLAIN = {
    "name": "VARCHAR", "char": "VARCHAR", "text": "VARCHAR", "varchar": "VARCHAR", "oid": "BIGINT", "xid": "BIGINT",
    "int2vector": "BIGINT[]", "oidvector": "BIGINT[]", "sql_identifier": "VARCHAR", "character_data": "VARCHAR",
    "yes_or_no": "VARCHAR", "cardinal_number": "INTEGER", "cstring": "VARCHAR", "unknown": "VARCHAR",
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "jsonb": "JSON",
}  # fmt: skip


def _operator(node: exp.Operator) -> Any:
    sign = str(node.args["operator"]).removeprefix("pg_catalog.")
    left, right = node.this, node.expression
    known: dict[str, Any] = {
        "~": exp.RegexpLike, "~*": exp.RegexpILike, "~~": exp.Like, "~~*": exp.ILike, "=": exp.EQ, "<>": exp.NEQ,
        "<": exp.LT, ">": exp.GT, "<=": exp.LTE, ">=": exp.GTE, "+": exp.Add, "-": exp.Sub, "*": exp.Mul,
        "||": exp.DPipe,
    }  # fmt: skip
    bare = sign.removeprefix("!")
    if bare not in known:
        raise Refused("42883", f"there is no operator {sign}")
    found = known[bare](this=left, expression=right)
    return exp.Not(this=exp.Paren(this=found)) if sign.startswith("!") else found
