"""From view SQL to a view taken apart.

parse_views   text          → statements           syntax
define        statement     → ViewDefinition       names resolved, checked, taken apart
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from headwater.algebra.aggregation import aggregation
from headwater.algebra.conditions import Pieces, take_apart
from headwater.algebra.dialect import over_core, spark_sql
from headwater.algebra.names import Bound, Catalog, Names
from headwater.algebra.query import Query, resolve_query
from headwater.algebra.refusals import check
from headwater.algebra.statements import ParsedView, parse_views
from headwater.algebra.view import Occurrence, Output, ViewDefinition
from headwater.model.consistency import Level
from headwater.model.errors import UnknownName
from headwater.model.names import ViewName

__all__ = ["Catalog", "ParsedView", "define", "parse_views"]

OPTIONS = {"consistency": tuple(level.value for level in Level)}
"""The options of a view, and the values each may have; the first is the default."""


def define(parsed: ParsedView, catalog: Catalog) -> ViewDefinition:
    """What a view means over the tables the catalog knows; raises ViewSqlError or UnknownName."""
    options = _options(parsed)
    select = check(parsed).copy()
    assert isinstance(select, exp.Select)
    query = resolve_query(select, Names(parsed, catalog))
    try:
        pieces = take_apart(query.conditions, query.scope)
        grouped = aggregation(query, parsed)
        outputs = () if grouped else tuple(Output(name, spark_sql(over_core(tree))) for name, tree in query.outputs)
        return ViewDefinition(
            name=ViewName(parsed.name),
            level=Level(options["consistency"]),
            occurrences=tuple(_occurrence(bound, query, pieces, parsed) for bound in query.scope.bounds),
            equalities=tuple(pieces.equalities),
            residual=tuple(pieces.residual),
            outputs=outputs,
            aggregation=grouped,
            recompute=spark_sql(query.select),
            text=parsed.text,
            file=parsed.file,
            line=parsed.line,
        )
    except UnsupportedError as error:
        raise parsed.error(f"cannot be said in Spark SQL: {error}", "use another function of Spark SQL") from None


def _options(parsed: ParsedView) -> dict[str, str]:
    options = {name: values[0] for name, values in OPTIONS.items()}
    for name, value in parsed.options.items():
        where = f"of view {parsed.name} at {parsed.place()}"
        if name not in OPTIONS:
            raise UnknownName("option", name, OPTIONS, where)
        if value.lower() not in OPTIONS[name]:
            raise UnknownName(f"value of option {name}", value, OPTIONS[name], where)
        options[name] = value.lower()
    return options


def _occurrence(bound: Bound, query: Query, pieces: Pieces, parsed: ParsedView) -> Occurrence:
    used = {c.name for c in query.select.find_all(exp.Column) if c.table == bound.alias}
    columns = [c.name for c in bound.schema.columns if c.name in used]
    if not columns:
        columns = [c.name for c in bound.schema.supported()[:1]]
    if not columns:
        raise parsed.error(
            f"table {bound.schema.name} has no column that Headwater can represent", "leave the table out"
        )
    spellings = {c.lower(): c for c in columns}
    twin = next((c for c in columns if spellings[c.lower()] != c), None)
    if twin:
        raise parsed.error(
            f"columns {twin!r} and {spellings[twin.lower()]!r} of {bound.alias} differ only in case",
            "use one of them: Spark ignores case",
        )
    return Occurrence(bound.alias, bound.schema.name, tuple(columns), tuple(pieces.conditions[bound.index]))
