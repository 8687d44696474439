"""The SQL that views are written in: Spark's, with ANSI quoting.

`"x"` and `` `x` `` are names, `'x'` is text, and `''` inside text is one quote. Everything is written back as Spark
SQL, because Spark evaluates it; so functions are carried over as written, not translated. sqlglot understands only
the aggregates that views maintain, and functions with a syntax of their own, such as DATEADD(DAY, …).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.parsers.spark import SparkParser

_UNDERSTOOD = (
    *("COUNT", "SUM", "AVG", "MIN", "MAX"),
    *("ARRAY", "MAP", "STRUCT"),
    *("DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF"),
)
_RENAMED = ("LISTAGG", "STRING_AGG", "GROUP_CONCAT")
"""sqlglot would call them all by one name; they are refused under the one that was written."""
_CARRIED = ("PERCENTILE",)
"""sqlglot would leave out the third argument."""


MOST_LEVELS = "most_levels"
"""Where the name of a query of WITH has its MAX RECURSION LEVEL."""


class ViewSql(Spark):
    """Registers itself with sqlglot as `viewsql`."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012 (sqlglot reads these as class attributes)
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        STRING_ESCAPES = ["'", "\\"]  # noqa: RUF012

    class Parser(SparkParser):
        FUNCTIONS = {name: build for name, build in SparkParser.FUNCTIONS.items() if name in _UNDERSTOOD}  # noqa: RUF012
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name not in (*_RENAMED, *_CARRIED)
        }

        def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
            """`WITH RECURSIVE t(x) MAX RECURSION LEVEL 200 AS …`: the level is left with the name."""
            alias = super()._parse_table_alias(*args, **kwargs)
            if alias is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
                level = self._parse_number()
                if level is None or not level.name.isdigit() or int(level.name) < 1:
                    self.raise_error("MAX RECURSION LEVEL wants a whole number")
                else:
                    alias.meta[MOST_LEVELS] = int(level.name)
            return alias


def each(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The node itself, with each of its parts changed."""
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(key, change(value))
        elif isinstance(value, list):
            node.set(key, [change(v) if isinstance(v, exp.Expr) else v for v in value])
    return node


def read_back(text: str) -> exp.Expr:
    """Spark SQL that was written here, as a tree. What sqlglot cannot read of it is no part of a tree anyway."""
    return sqlglot.parse_one(re.sub(r"MAX RECURSION LEVEL \d+", "", text), read="spark")


def spark_sql(node: exp.Expr) -> str:
    """Spark SQL text; raises sqlglot's UnsupportedError where sqlglot cannot say it in Spark SQL."""
    return node.sql("spark", comments=False, unsupported_level=ErrorLevel.RAISE)


def said(node: exp.Expr) -> str:
    """The same for messages, where approximate is good enough."""
    return node.sql("spark", comments=False, unsupported_level=ErrorLevel.IGNORE)


def column_of(name: str) -> exp.Column:
    """A column reference without a table, quoted."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def over_core(node: exp.Expr) -> exp.Expr:
    """A copy of a resolved expression in which `alias`.`column` has become the core's `alias.column`."""

    def rename(part: exp.Expr) -> exp.Expr:
        return column_of(f"{part.table}.{part.name}") if isinstance(part, exp.Column) else part

    return node.copy().transform(rename)
