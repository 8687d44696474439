"""From the SQL of another engine to ours: names are looked up, views put in place of their names, columns named.

    SELECT sum(v.x) FROM v          v: SELECT x FROM public.t
    SELECT SUM(v.x) AS sum FROM (SELECT x FROM s.t AS t) AS v

A query that is rewritten so is said twice: in Spark SQL, which is what a view of Headwater is written in, and in
DuckDB's, which says what its answer is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import sqlglot
from sqlglot import exp, transforms
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.generators.spark import SparkGenerator

from .definitions import Head

SOURCE = "s"
_ROOTS = frozenset({"public", "main", "materialize", "dev", "memory", "test", "postgres"})
"""Schemas and databases that are where one is."""


_KEPT = (exp.WithinGroup, exp.PercentileCont, exp.PercentileDisc)
"""What Spark SQL has, and sqlglot writes otherwise: PERCENTILE_APPROX, which is something else."""


class WrittenSpark(Spark):
    """Spark SQL as Headwater reads it, which has DISTINCT ON, QUALIFY, and WITH in subqueries. Registers itself with
    sqlglot."""

    class Generator(SparkGenerator):
        EXPRESSIONS_WITHOUT_NESTED_CTES = set()  # noqa: RUF012 (sqlglot reads these as class attributes)
        TRANSFORMS = {  # noqa: RUF012
            **{kind: write for kind, write in SparkGenerator.TRANSFORMS.items() if kind not in _KEPT},
            exp.Select: transforms.preprocess([transforms.unnest_to_explode, transforms.any_to_exists]),
        }


class Unknown(Exception):
    """A query reads what is neither a table nor a view of the script."""


@dataclass(frozen=True)
class Tables:
    """What names mean at one moment of a script: tables, and views by their rewritten queries."""

    tables: frozenset[str]
    views: Mapping[str, exp.Query]

    def name(self, table: exp.Table) -> str:
        """A database that is not known is the one where one is."""
        found = name_of(table)
        return found if found in self.tables or found in self.views else table.name.lower()


def key(parts: list[str]) -> str:
    """A table's name in one word."""
    lowered = [part.lower() for part in parts]
    return "_".join([part for part in lowered[:-1] if part not in _ROOTS] + lowered[-1:])


def name_of(table: exp.Table) -> str:
    return key([part.name for part in table.parts])


def parsed(text: str, dialect: str) -> exp.Query:
    """One query, as it is written."""
    found = [one for one in sqlglot.parse(text, read=dialect) if one is not None]
    if len(found) == 1 and isinstance(found[0], exp.Values):
        return exp.select("*").from_(exp.Subquery(this=found[0], alias=exp.TableAlias(this=exp.to_identifier("q_"))))
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise ParseError("not one query")
    return found[0]


def defined(head: Head, dialect: str, known: Tables) -> exp.Query:
    """A view's query over tables alone, with names for all its columns."""
    query = rewritten(parsed(head.query, dialect), known)
    named(query)
    if head.columns:
        alias = exp.TableAlias(this=exp.to_identifier("q_"), columns=[exp.to_identifier(c) for c in head.columns])
        query = exp.select("*").from_(exp.Subquery(this=query, alias=alias))
    return query


def rewritten(query: exp.Query, known: Tables) -> exp.Query:
    """The same query, reading `s.table`; a view is put in as a subquery. Raises Unknown."""
    query = query.copy()
    for table in list(query.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or _is_cte(table):
            continue
        name = known.name(table)
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        if name in known.views:
            inner = exp.Subquery(this=known.views[name].copy(), alias=alias.copy(), joins=table.args.get("joins"))
            table.replace(inner)
        elif name in known.tables:
            table.set("this", exp.to_identifier(name, quoted=True))
            table.set("db", exp.to_identifier(SOURCE))
            table.set("catalog", None)
            table.set("alias", alias.copy())
        else:
            raise Unknown(".".join(part.name for part in table.parts))
    for column in query.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    return query


def _is_cte(table: exp.Table) -> bool:
    if len(table.parts) > 1:
        return False
    around: exp.Expr | None = table
    while around is not None:
        clause = around.args.get("with_")
        if clause is not None and any(one.alias.lower() == table.name.lower() for one in clause.expressions):
            return True
        around = around.parent
    return False


def named(query: exp.Query) -> None:
    """Names the columns of a query that have none as PostgreSQL does, each differently."""
    root: exp.Expr = query
    while isinstance(root, exp.SetOperation | exp.Subquery):
        root = root.this
    if not isinstance(root, exp.Select):
        return
    taken = {item.alias_or_name.lower() for item in root.expressions if item.alias_or_name}
    for i, item in enumerate(root.expressions):
        if isinstance(item, exp.Alias | exp.Column | exp.Star | exp.Aliases) or item.is_star:
            continue
        said = _called(item)
        name = said if said and said not in taken else f"{said or 'column'}_{i + 1}"
        taken.add(name)
        root.expressions[i].replace(exp.alias_(item.copy(), name, quoted=True))


def _called(item: exp.Expr) -> str:
    plain = item.unnest()
    while isinstance(plain, exp.Cast | exp.Filter | exp.Window):
        plain = plain.this.unnest()
    if isinstance(plain, exp.Column):
        return plain.name.lower()
    if isinstance(plain, exp.Case):
        return "case"
    call = re.match(r"(\w+)\(", plain.sql("postgres")) if isinstance(plain, exp.Func) else None
    return call[1].lower() if call else ""


def in_spark(query: exp.Query) -> str:
    """Raises sqlglot's UnsupportedError where Spark SQL has no words that sqlglot knows."""
    return query.transform(_exploded).sql(WrittenSpark, comments=False, unsupported_level=ErrorLevel.RAISE)


def _exploded(node: exp.Expr) -> exp.Expr:
    """A series in FROM, which sqlglot says in words that nobody reads."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.GenerateSeries | exp.ExplodingGenerateSeries):
        return node
    series, alias = node.this, node.args.get("alias")
    name = alias.name if alias is not None and alias.name else "generate_series"
    columns = alias.columns if alias is not None and alias.columns else [exp.to_identifier(name)]
    end = series.args["end"].copy()
    end = exp.Sub(this=exp.paren(end), expression=exp.Literal.number(1)) if series.args.get("is_end_exclusive") else end
    step = [series.args["step"].copy()] if series.args.get("step") else []
    numbers = exp.Anonymous(this="SEQUENCE", expressions=[series.args["start"].copy(), end, *step])
    made = exp.TableAlias(this=exp.to_identifier(name), columns=[c.copy() for c in columns])
    rest = {key: value for key, value in node.args.items() if key not in ("this", "alias")}
    return exp.Table(this=exp.Anonymous(this="EXPLODE", expressions=[numbers]), alias=made, **rest)


def in_duckdb(query: exp.Query) -> str:
    return query.sql("duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)


@cache
def spark_in_duckdb(sql: str) -> str:
    """Spark SQL that a tree is made of, for DuckDB to evaluate."""
    tree = sqlglot.parse_one(sql, read="spark").transform(_unfolded)
    return tree.sql("duckdb", unsupported_level=ErrorLevel.IGNORE).replace("RAISE_ERROR(", "ERROR(")


def _unfolded(node: exp.Expr) -> exp.Expr:
    """A sum, mean or deviation, which a tree folds in the order of the values, as DuckDB's own in that order."""
    if not isinstance(node, exp.Reduce):
        return node
    finish = node.args["finish"].sql() if node.args.get("finish") is not None else ""
    collected = node.this.find(exp.Filter, exp.ArrayAgg, exp.ArrayUniqueAgg)
    call = collected.this if isinstance(collected, exp.Filter) else collected
    argument = exp.Distinct(expressions=[call.this.copy()]) if isinstance(call, exp.ArrayUniqueAgg) else call.this
    ordered = exp.Order(this=argument.copy(), expressions=[exp.Ordered(this=call.this.copy(), nulls_first=True)])
    made = exp.Anonymous(this=_fold(finish, node.args["merge"].sql()), expressions=[ordered])
    return exp.Filter(this=made, expression=collected.expression.copy()) if collected is not call else made


def _fold(finish: str, merge: str) -> str:
    """Which of `select.aggregates.folded` it is."""
    if not finish:
        return "SUM"
    if "a_.m" not in merge.lower():
        return "AVG"
    return ("STDDEV" if "SQRT" in finish else "VAR") + ("_SAMP" if " - " in finish else "_POP")
