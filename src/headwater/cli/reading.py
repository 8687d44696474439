"""read, sql, log: what is there. None of them starts a JVM."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import pyarrow as pa
import typer

from headwater.cli.options import HERE, At, Json, Project, Strict
from headwater.cli.rows import print_rows, write_lines
from headwater.cli.values import field, text, to_json
from headwater.cli.warned import heard, warn
from headwater.model.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from headwater.runtime.reading.sessions import Session

Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="Show at most N rows.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="COLUMN=VALUE", help="Only rows with this value, looked up; \\N is NULL."),
]
NEWEST = 20
"""How many transactions `log` shows on a terminal unless asked for others."""


def read(
    view: Annotated[str, typer.Argument(help="The view's name.", show_default=False)],
    at: At = None,
    limit: Limit = None,
    where: Where = None,
    strict: Strict = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """The rows of a view, at the newest cut or at any state that is kept.

    In a pipe: tab-separated with a header line, NULL as \\N, and \\t, \\n, \\r, \\\\ escaped. A view that is halted is
    said to be so on stderr.

    Examples:  headwater read open_orders   ·   headwater read open_orders --at 1042 --json
               headwater read open_orders --where customer=17
    """
    session = _session(project, at)
    wanted = tuple(where or ())

    def rows() -> pa.Table:
        return session.rows(view, limit, wanted_values(wanted, session.columns(view)) if wanted else None)

    _show(rows, as_json, limit is not None, strict)


def _session(project: Path, at: str | None) -> Session:
    """The newest cut as it is read here: without the rest of the library, which takes longer to load than to answer."""
    from headwater.runtime.project.config import load_config
    from headwater.runtime.project.project import Project as Opened
    from headwater.runtime.reading.sessions import Session

    opened = Opened(load_config(project))
    return Session(opened, opened.cut(), at)


def wanted_values(said: Sequence[str], columns: pa.Schema) -> dict[str, object]:
    """What --where says, as values of the view's columns."""
    found: dict[str, object] = {}
    for one in said:
        name, equals, value = one.partition("=")
        name = next((n for n in columns.names if n.lower() == name.strip().lower()), name.strip())
        if not equals:
            raise UsageError(f"--where {one!r} is not COLUMN=VALUE", f"write --where {columns.names[0]}=…")
        if name not in columns.names:
            raise UnknownName("column", name, columns.names, "in the view")
        kind = columns.field(name).type
        try:
            found[name] = None if value == r"\N" else _value(value, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(
                f"{value!r} is no value of column {name} ({kind})", "write it as 'read' shows it"
            ) from error
    return found


_WHOLE = re.compile(r"-?[0-9]{1,9}")


def _value(said: str, kind: pa.DataType) -> object:
    """What a text means as a value of a type. Short numbers and text need nothing that must be loaded first."""
    if pa.types.is_string(kind):
        return said
    if (pa.types.is_int64(kind) or pa.types.is_int32(kind)) and _WHOLE.fullmatch(said):
        return int(said)
    return pa.array([said], pa.string()).cast(kind)[0].as_py()


def sql(
    query: Annotated[str, typer.Argument(help="A SELECT over the project's views.", show_default=False)],
    at: At = None,
    limit: Limit = None,
    strict: Strict = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Any SQL over all views, all at one state.

    The dialect is DataFusion's (close to PostgreSQL's). A halted view that the query reads is named on stderr.

    Example:  headwater sql "SELECT name, sum(amount) FROM open_orders GROUP BY name ORDER BY 2 DESC"
    """
    session = _session(project, at)

    def rows() -> pa.Table:
        found = session.query(query)
        return found if limit is None else found.slice(0, limit)

    _show(rows, as_json, limit is not None, strict)


def _show(read: Callable[[], pa.Table], as_json: bool, limited: bool, strict: bool) -> None:
    """Print rows, and what must be known of them: after them on a screen, where it stays in sight; before them in a
    pipe, whose reader may leave early."""
    with heard() as warnings:
        rows = read()
    last = not as_json and sys.stdout.isatty()
    if not last:
        warn(warnings, as_json)
    print_rows(rows, as_json, limited)
    if last:
        warn(warnings, as_json)
    if warnings and strict:
        raise typer.Exit(1)


def log(
    first: Annotated[int | None, typer.Option("--from", metavar="SEQ", min=1, help="The first transaction.")] = None,
    last: Annotated[int | None, typer.Option("--to", metavar="SEQ", min=1, help="The last transaction.")] = None,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """The numbered source transactions with their changes, as far as they are kept.

    On a terminal without --from and --to: the newest 20. In a pipe: a tab-separated line per change.

    Examples:  headwater log --from 1000 --to 1010   ·   headwater log --json | jq .source
    """
    from headwater.api import open_warehouse
    from headwater.cli.screen import messages

    warehouse = open_warehouse(project)
    on_screen = not as_json and sys.stdout.isatty()
    newest = on_screen and first is None and last is None
    if newest:
        first = max(1, warehouse.numbered() - NEWEST + 1)
    transactions = warehouse.log(first, last)
    if as_json:
        write_lines(to_json(t) for t in transactions)
    elif on_screen:
        shown = _print_log(transactions)
        if newest and shown:
            messages().print(f"[dim]the newest {shown}; --from SEQ shows older ones[/]")
        elif not shown:
            messages().print("[dim]no transaction in that range is kept[/]")
    else:
        write_lines(["\t".join(("seq", "source", "transaction", "committed_at", "table", "count", "row"))])
        write_lines(_log_fields(transactions))


def _log_fields(transactions: Iterator[dict[str, Any]]) -> Iterator[str]:
    for t in transactions:
        head = [field(t[k]) for k in ("seq", "source", "transaction", "committed_at")]
        for change in t["changes"] or [{"table": None, "count": 0, "row": None}]:
            row = None if change["row"] is None else to_json(as_stored(change))
            yield "\t".join([*head, *(field(v) for v in (change["table"], change["count"], row))])


def _print_log(transactions: Iterator[dict[str, Any]]) -> int:
    from rich.padding import Padding
    from rich.text import Text

    from headwater.cli.screen import plain, results

    screen, shown = results(), 0
    for shown, t in enumerate(transactions, 1):  # noqa: B007 # the number of the last one is the answer
        at = "" if t["committed_at"] is None else t["committed_at"].astimezone().isoformat(" ", "milliseconds")
        part = f"  part of {t['global']}" if t["global"] else ""
        words = plain(f"{t['transaction']}  {at}{part}", "dim")
        screen.print(Text.assemble((f"{t['seq']:>8,}", "bold"), plain(f"  {t['source']} "), words), soft_wrap=True)
        for change in t["changes"]:
            sign, style = ("+", "green") if change["count"] > 0 else ("−", "red")
            times = f"{abs(change['count'])}× " if abs(change["count"]) > 1 else ""
            where = plain(f"{change['table']}  ", "cyan")
            line = Text.assemble((f"{sign} {times}", style), where, row_line(as_stored(change)))
            screen.print(Padding(line, (0, 0, 0, 10), expand=False), overflow="fold")
    return shown


def as_stored(change: Mapping[str, Any]) -> dict[str, Any]:
    """A changed row, with values that its columns' types cannot represent as the source holds them."""
    return {**change["row"], **{c: f"{value} (cannot be represented)" for c, value in change.get("unfit", {}).items()}}


def row_line(row: Mapping[str, Any]) -> Text:
    """A row on one line, or as many as it needs."""
    from headwater.cli.screen import plain

    return plain(", ".join(f"{k}={'NULL' if v is None else text(v)}" for k, v in row.items()))


def state(word: str) -> Text:
    """A state in its colour."""
    from rich.text import Text

    good, bad = ("ok", "live"), ("unreachable", "failing", "halted")
    return Text(word, style="green" if word in good else "red" if word in bad else "yellow")


class Reasoned(Protocol):
    """Something whose state may need words."""

    @property
    def name(self) -> str: ...

    @property
    def reason(self) -> str: ...


def reasons(things: Sequence[Reasoned]) -> list[Text]:
    """A line for each that has something to explain."""
    from headwater.cli.screen import said

    return [said(_reason(t), "red") for t in things if t.reason]


def _reason(thing: Reasoned) -> str:
    why = thing.reason if thing.name in thing.reason else f"{thing.name}: {thing.reason}"
    fix = getattr(thing, "fix", "")
    return f"{why}\n  → {fix}" if fix else why


def short(position: str) -> str:
    """A position that fits a column."""
    return position if len(position) <= 24 else position[:23] + "…"
