"""Words of PostgreSQL's SQL, as the engine says them.

public.people, headwater.public.people     people
pg_catalog.pg_class, pg_class              the tables of `catalog`, which hold what PostgreSQL's clients look for
pg_catalog.format_type(…)                  the functions of `catalog`
x OPERATOR(pg_catalog.~) y, COLLATE        what they mean
string_to_array(…) s, in FROM              (SELECT string_to_array(…) AS s) AS s
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from headwater.model.errors import UnknownName
from headwater.serve import catalog, types
from headwater.serve.errors import Refused

DATABASE = catalog.DATABASE
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


class Seen:
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
