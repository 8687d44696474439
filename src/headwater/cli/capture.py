"""setup and teardown: change capture at the sources, installed and removed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

import typer
from rich.text import Text

from headwater.cli.errors import show
from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import busy, plain, results, said
from headwater.cli.values import to_json
from headwater.model.errors import HeadwaterError, UsageError, WarehouseError
from headwater.model.names import SourceName, TableName
from headwater.model.source import Source
from headwater.runtime.project.secrets import without_secrets


def setup(
    printed: Annotated[
        bool, typer.Option("--print", help="Write the SQL for somebody else to run, and change nothing.")
    ] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Install change capture for every table that a view uses.

    Triggers and change tables, all under one schema (PostgreSQL: headwater) or prefix (SQLite: _headwater_). What is
    there already stays; 'headwater plan' shows beforehand what will be done, 'headwater teardown' removes it all. Says
    for every source what was done there; one that fails does not keep the others from theirs.

    --print is for a database whose DBA installs things: it writes to stdout what is to be run there, and changes
    nothing. Once the DBA has run it, 'headwater setup' finds everything in place.

    Examples:  headwater setup   ·   headwater setup --print > capture.sql
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    with busy("reading views and tables", as_json):
        tables = warehouse.tables()
        if not printed:
            warehouse.project.claim()
    if printed:
        _print_scripts(tables, warehouse.catalog.source, as_json)
        return
    sources = warehouse.catalog.source
    _each("installing capture at", tables, lambda name: sources(name).install(tables[name]), as_json)
    if not as_json:
        results().print("\nnext: [bold]headwater run[/]")


def _print_scripts(
    tables: Mapping[SourceName, Sequence[TableName]], source: Callable[[SourceName], Source], as_json: bool
) -> None:
    """Plain text, to be piped into a client of the database. A source that fails keeps no other from its turn."""
    written: dict[str, list[str]] = {}
    errors: list[HeadwaterError] = []
    for name in tables:
        script: Callable[[Sequence[TableName]], list[str]] | None = getattr(source(name), "script", None)
        try:
            with busy(f"looking at {name}", as_json):
                written[name] = script(tables[name]) if script is not None else []
        except HeadwaterError as error:
            errors.append(error)
            continue
        if not written[name] and not as_json:
            todo = "everything is in place" if script is not None else "'headwater setup' needs nobody's help there"
            written[name] = ["", f"-- source {name}: nothing to run, {todo}"]
    if as_json:
        write_lines([to_json({"sources": written})])
    else:
        write_lines(line for lines in written.values() for line in lines)
    if errors:
        sys.stdout.flush()
        show(errors, as_json)
        raise typer.Exit(max(e.exit_code for e in errors))


def release(project: Project = HERE, as_json: Json = False) -> None:
    """Stop capturing tables that no view of this project uses any more.

    Capture that other projects need stays. 'headwater teardown' gives up all of this project's capture.
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    with busy("reading views and tables", as_json):
        used = warehouse.tables_in_use()
    sources = warehouse.catalog.source
    _each("releasing capture at", used, lambda name: sources(name).release(used[name]), as_json)


def teardown(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Remove this project's change capture from all sources; capture that other projects use stays.

    The warehouse stays, and its views can still be read. After a new setup they are loaded again.
    """
    from headwater.api import open_warehouse
    from headwater.warehouse.lock import holder

    warehouse = open_warehouse(project)
    who = holder(warehouse.storage)
    if who is not None:
        raise WarehouseError(f"process {who.pid} on {who.host} maintains these views", "stop it first")
    names = list(warehouse.config.sources)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError("teardown removes capture and must be confirmed", "add --yes")
        if not typer.confirm(f"Remove change capture from {', '.join(names)}? Views must then be loaded anew."):
            results().print("nothing was changed")
            return
    _each("removing capture from", names, lambda name: warehouse.catalog.source(name).remove(), as_json)


def _each(what: str, names: Iterable[SourceName], do: Callable[[SourceName], list[str]], as_json: bool) -> None:
    """Do it at every source and say what was done: one that fails keeps no other from its turn."""
    done: dict[str, list[str]] = {}
    errors: dict[str, HeadwaterError] = {}
    for name in names:
        try:
            with busy(f"{what} {name}", as_json):
                done[name] = do(name)
        except HeadwaterError as error:
            errors[name] = error
    if as_json:
        failed = {name: without_secrets(error.what) for name, error in errors.items()}
        write_lines([to_json({"sources": done, **({"failed": failed} if failed else {})})])
    else:
        _report(done, errors)
    if errors:
        sys.stdout.flush()
        show(list(errors.values()), as_json)
        raise typer.Exit(max(e.exit_code for e in errors.values()))


def _report(done: Mapping[str, Sequence[str]], failed: Iterable[str]) -> None:
    screen = results()
    for name, lines in done.items():
        screen.print(plain(name, "bold"))
        for line in lines or ["nothing to do"]:
            screen.print(said(f"  {line}"), soft_wrap=True)
    for name in failed:
        screen.print(Text.assemble(plain(name, "bold"), ("\n  failed: nothing was changed here", "red")))
