"""tail: what happens to a view, transaction by transaction."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli.options import HERE, Json, Project
from headwater.cli.reading import row_line
from headwater.cli.screen import plain, results
from headwater.cli.values import field, to_json

if TYPE_CHECKING:
    from headwater.runtime.reading.changes import Change

NEWEST = 10
"""How many transactions are shown unless told where to begin."""


def tail(
    view: Annotated[str, typer.Argument(help="The view's name.", show_default=False)],
    first: Annotated[
        int | None, typer.Option("--from", metavar="SEQ", min=0, help="Go on after this transaction.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """The changes of a view, each transaction that made one once and in order.

    Without --from: the newest 10. To go on later where one left off, remember the last seq and give it to --from: no
    change is told twice and none is left out. What was told is never taken back.

    In a pipe: a tab-separated line per changed row; with --json a line per transaction.

    Examples:  headwater tail open_orders --follow   ·   headwater tail open_orders --from 1042 --json | jq .seq
    """
    from headwater.runtime.project.config import load_config
    from headwater.runtime.project.project import Project as Opened
    from headwater.runtime.reading.changes import change_json, changes, newest

    opened = Opened(load_config(project))
    begin = newest(opened, view, NEWEST) if first is None else first
    found = changes(opened, view, begin, follow)
    try:
        if as_json:
            _write(to_json(change_json(change)) for change in found)
        elif sys.stdout.isatty():
            _draw(found)
        else:
            _write(["\t".join(("seq", "count", "source", "transaction", "row"))])
            _write(line for change in found for line in _fields(change))
    except KeyboardInterrupt:
        if not follow:
            raise


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()  # who follows wants it now


def _fields(change: Change) -> Iterator[str]:
    sources = "+".join(t.source for t in change.transactions)
    named = "+".join(t.transaction for t in change.transactions)
    for count, row in change.rows:
        yield "\t".join(field(value) for value in (change.seq, count, sources, named, to_json(row)))


def _draw(found: Iterable[Change]) -> None:
    screen = results()
    for change in found:
        said = ", ".join(f"{t.source} {t.transaction}" for t in change.transactions) or "a transaction since forgotten"
        at = next((t.committed_at for t in change.transactions if t.committed_at is not None), None)
        when = "" if at is None else at.astimezone().isoformat(" ", "milliseconds")
        screen.print(Text.assemble((f"{change.seq:>8,}", "bold"), plain(f"  {said}  {when}", "dim")), soft_wrap=True)
        for count, row in change.rows:
            sign, style = ("+", "green") if count > 0 else ("−", "red")
            times = f"{abs(count)}× " if abs(count) > 1 else ""
            screen.print(Text.assemble("          ", (f"{sign} {times}", style), row_line(row)), soft_wrap=True)
