"""The pages of docs/ that are made from the code, so that they say what is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from typer.main import get_command

from headwater.algebra.aggregates import AGGREGATES
from headwater.algebra.functions import NONDETERMINISTIC, OTHER_AGGREGATES, UNNESTING
from headwater.algebra.methods import METHODS
from headwater.algebra.promise import _OVER, AUXILIARY, LEVELS, OPTIONS
from headwater.algebra.refusals import REFUSED
from headwater.algebra.relations import JoinKind
from headwater.algebra.select import aggregates as settling
from headwater.cli.main import app
from headwater.lab.checker.levels import Consistency
from headwater.maintenance.operators.writing import OPERATORS
from headwater.model import errors
from headwater.model.consistency import Level, promise_of
from headwater.model.errors import HeadwaterError
from headwater.page.metrics import _COUNTS, metrics
from headwater.runtime.project import source_config
from headwater.runtime.project.settings import reference as settings
from headwater.warehouse.cuts import Cut

DOCS = Path(__file__).parent.parent
_MADE = "Made from the code by `make docs`.\n"


def commands() -> str:
    lines = ["# Commands", "", _MADE]
    _command(get_command(app), "headwater", lines)
    return "\n".join(lines).rstrip() + "\n"


def _command(command: Any, path: str, lines: list[str]) -> None:
    if path != "headwater":
        lines += [f"## {path}", ""]
    lines += [_plain(command.help or ""), ""]
    rows = [_parameter(p) for p in command.params if getattr(p, "name", "") not in ("help", "install_completion")]
    if rows:
        lines += ["| | |", "| --- | --- |", *rows, ""]
    for name, inner in getattr(command, "commands", {}).items():
        _command(inner, f"{path} {name}", lines)


def _parameter(parameter: Any) -> str:
    if parameter.opts[0].startswith("-"):
        name = ", ".join(f"`{option}`" for option in parameter.opts)
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    else:
        name, value = f"`{(parameter.metavar or parameter.name or '').upper()}`", ""
    return f"| {name}{value} | {_plain(getattr(parameter, 'help', '') or '').replace('|', '&#124;')} |"


def _plain(text: str) -> str:
    """What rich's markup says, without it."""
    return re.sub(r"\\(\[)", r"\1", text).strip()


def error_page() -> str:
    lines = [
        "# Errors", "", _MADE,
        "Every error says what happened and what to do. Exit codes: 2 the input is wrong, 1 the data or the run is not",
        "good, 130 interrupted. With `--json` it is one object on standard error: `error`, `fix`.", "",
        "| error | exit code | trying again helps | |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, HeadwaterError):
            about = " ".join((inspect.getdoc(kind) or "").split()).replace("|", "&#124;")
            lines.append(f"| `{name}` | {kind.exit_code} | {'yes' if kind.retry_helps else ''} | {about} |")
    return "\n".join(lines) + "\n"


def metric_page() -> str:
    """The families of one look at a run that has everything."""
    now = SimpleNamespace(
        running=SimpleNamespace(fence=1, since=0.0),
        report={"at": 0.0, "totals": {"counts": dict.fromkeys(_COUNTS, 0)}},
        cut=Cut(), by_view={}, verdicts=(), at=0.0, told_of_source=lambda name: None,
    )  # fmt: skip
    config = SimpleNamespace(sources={}, freshness={})
    lines = ["# Metrics", "", _MADE, "At `/metrics` of the page, and of `headwater run --metrics-port`.", ""]
    lines += ["| metric | kind | labels | |", "| --- | --- | --- | --- |"]
    for family in metrics(now, config, {}):  # type: ignore[arg-type]
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(getattr(family, "_labelnames", ()))
        lines.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(lines) + "\n"


def source_page() -> str:
    about = inspect.getdoc(source_config) or ""
    _, _, rest = about.partition("\n\n")
    example, _, words = rest.partition("\n\n")
    lines = ["# Sources", "", _MADE, "What `[sources.NAME]` of headwater.toml may say:", "", "```toml"]
    lines += [line.strip() if line.startswith("    ") else line for line in example.split("\n")]
    lines += ["```", "", words, "", "Kinds of url: " + ", ".join(f"`{s}://`" for s in source_config.SCHEMES[:-1]) + "."]
    return "\n".join(lines) + "\n"


def level_page() -> str:
    """What may be asked for, over what, and what the papers call it."""
    lines = ["# Levels", "", _MADE, "`CREATE MATERIALIZED VIEW v WITH (consistency = '…') AS SELECT …`", ""]
    lines += ["| `consistency =` | what you get | may read views that are |", "| --- | --- | --- |"]
    for level in Level:
        said = f"`'{level.value}'`" + (" (default)" if level.value == LEVELS[0] else "")
        over = ", ".join(other.value for other in _OVER[level])
        lines.append(f"| {said} | {promise_of(level.value)} | {over} |")
    lines += [
        "",
        "- `every = 100`, of `'complete'`: every 100th transaction is a state; what there is also shows after a second",
        "  of quiet. Over views whose own number divides it.",
        "- `schedule = '10 minutes'`, or five fields of cron, of `'periodic'`. Over periodic views of that schedule.",
        "- `maintenance = '…'`: who keeps the promise. No more can be promised than the method gives:",
        "",
        "| `maintenance =` | | gives at most | why not more |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| `'{name}'` | {m.title} | {m.level.value} | {m.why} |" for name, m in METHODS.items()]
    lines += ["", _REAL, "", "## In the papers", ""]
    lines += ["`headwater lab check` and `headwater lab judge` find the strongest of these that a history has:", ""]
    lines += ["| level | what must hold | implies | defined in |", "| --- | --- | --- | --- |"]
    for one in reversed(Consistency):
        implied = ", ".join(other.value for other in Consistency if other in one.implies - {one, Consistency.NONE})
        lines.append(f"| {one.value} | {one.meaning} | {implied} | {one.citation} |")
    return "\n".join(lines) + "\n"


_REAL = """A state is *real* if it is the view's query over states that the sources had, all transactions of one number up to it and
none after it. Views that share sources and promise `strong` or more are shown together: no reader sees two of them at
different states ([decision 8](../decisions/0008-many-views.md)). What it means: [the levels](../explanation/levels.md)."""  # noqa: E501 # as the page has it

_SAID = {
    "Table": "FROM source.table, source.schema.table, or another view",
    "Values": "VALUES (…), …",
    "Filter": "WHERE, HAVING, QUALIFY; comparisons of a column with now() and current_date",
    "Project": "expressions of SELECT, in Spark SQL",
    "Generate": "LATERAL VIEW, " + ", ".join(name.upper() for name in UNNESTING),
    "Union": "UNION ALL",
    "Join": "JOIN, EXISTS, IN, ANY, ALL, scalar subqueries, LATERAL; as " + ", ".join(k.value for k in JoinKind),
    "SetOperation": "UNION, INTERSECT, EXCEPT, with and without ALL",
    "Aggregate": "GROUP BY, GROUPING SETS, ROLLUP, CUBE, FILTER, DISTINCT",
    "Window": "OVER (…), ORDER BY … LIMIT, DISTINCT ON",
    "Recursion": "WITH RECURSIVE … UNION ALL",
}
"""How a view says each operator. One without an entry here ends the build."""


def sql_page() -> str:
    lines = [
        "# SQL",
        "",
        _MADE,
        "```sql",
        "CREATE MATERIALIZED VIEW name [WITH (option = 'value', …)] AS SELECT …;",
        "```",
        "",
    ]
    lines += [
        "A view is a deterministic SELECT of Spark SQL over tables of the sources and other views. WITH, derived tables"
    ]
    lines += [
        "and subqueries nest as you like. How to write one: [write a view](../howto/views.md).",
        "",
        "## Options",
        "",
    ]
    values = {"consistency": LEVELS, "auxiliary": AUXILIARY, "maintenance": tuple(METHODS)}
    lines += ["| option | values |", "| --- | --- |"]
    for option in OPTIONS:
        shown = [f"`'{value}'`" for value in values[option]] if option in values else [_FREE[option]]
        lines.append(f"| `{option}` | {', '.join(shown)} |")
    lines += ["", "## Operators", "", "| a view says | maintained by | in its own words |", "| --- | --- | --- |"]
    for node, operator in OPERATORS.items():
        module = inspect.getmodule(type(operator))
        idea = _sentence(inspect.getdoc(module) or "")
        file = (getattr(module, "__name__", "").rpartition(".")[2]) + ".py"
        lines.append(f"| {_SAID[node.__name__]} | `{node.__name__}` (`operators/{file}`) | {idea} |")
    lines += ["", "## Aggregates", "", "At the root of a view, groups are continued from what they keep:", ""]
    lines += ["| aggregate | a group keeps, of its values |", "| --- | --- |"]
    lines += [f"| `{name.upper()}` | {how.keeps.value} |" for name, how in AGGREGATES.items()]
    lines += [
        "",
        "With DISTINCT, each of them. Elsewhere the group that a transaction touches is computed anew. So is one with",
    ]
    lines += [_names(settling.SETTLED - set(AGGREGATES)) + ". What a query leaves open is settled:", "", "```"]
    lines += [*(inspect.getdoc(settling) or "").partition("\n\n")[2].split("\n"), "```", ""]
    lines += [
        "Other aggregates are refused: " + _names(OTHER_AGGREGATES - settling.SETTLED - {"grouping", "grouping_id"})
    ]
    lines[-1] += ". `grouping` and `grouping_id` say which grouping set a row is of."
    lines += ["", "## Refused", "", "With the line, the reason and what to write instead:", ""]
    lines += ["| construct | why | instead |", "| --- | --- | --- |"]
    lines += [f"| {one.construct} | {one.why} | {one.instead} |" for one in REFUSED]
    lines += ["", "Functions whose result is not one of the sources alone (of these, `now()`, `current_timestamp` and"]
    lines += ["`current_date` may be compared with a column in WHERE and HAVING): "]
    lines[-1] += _names(NONDETERMINISTIC) + "."
    return "\n".join(lines) + "\n"


_FREE = {
    "every": "a whole number: every N-th transaction is a state, of `'complete'`",
    "schedule": "`'10 minutes'`, or five fields of cron, of `'periodic'`",
    "groups": "a whole number: how many groups of tables `'equal'` and `'frequency'` make",
    "parallel": "a whole number: how many updates at once, of the algorithms that work in parallel",
    "window": "a span of time such as `'10 s'`: how often agents pass their updates on, along chains",
}


def _names(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))


def _sentence(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "&#124;")


PAGES = {
    "reference/sql.md": sql_page,
    "reference/commands.md": commands,
    "reference/levels.md": level_page,
    "reference/errors.md": error_page,
    "reference/metrics.md": metric_page,
    "reference/sources.md": source_page,
    "settings.md": settings,
}


def main() -> None:
    for path, made in PAGES.items():
        (DOCS / path).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
