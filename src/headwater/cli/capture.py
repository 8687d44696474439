"""setup and teardown: change capture at the sources, installed and removed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headwater.cli.errors import show
from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import busy, results
from headwater.cli.values import to_json
from headwater.model.errors import HeadwaterError, UsageError, WarehouseError


def setup(project: Project = HERE, as_json: Json = False) -> None:
    """Install change capture for every table that a view uses.

    Triggers and change tables, all under one schema (PostgreSQL: headwater) or prefix (SQLite: _headwater_). What is
    there already stays; 'headwater plan' shows beforehand what will be done, 'headwater teardown' removes it all.
    """
    from headwater.runtime.project import open_warehouse

    warehouse = open_warehouse(project)
    with busy("installing capture", as_json):
        done = warehouse.setup()
    _report({str(name): lines for name, lines in done.items()}, as_json)
    if not as_json:
        results().print("\nnext: [bold]headwater run[/]")


def release(project: Project = HERE, as_json: Json = False) -> None:
    """Stop capturing tables that no view of this project uses any more.

    Capture that other projects need stays. 'headwater teardown' gives up all of this project's capture.
    """
    from headwater.runtime.project import open_warehouse

    warehouse = open_warehouse(project)
    with busy("releasing capture", as_json):
        done = warehouse.release()
    _report({str(name): lines for name, lines in done.items()}, as_json)


def teardown(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Remove all change capture from all sources; nothing of Headwater stays there.

    The warehouse stays, and its views can still be read. After a new setup they are loaded again.
    """
    from headwater.runtime.project import open_warehouse
    from headwater.warehouse.lock import holder

    warehouse = open_warehouse(project)
    who = holder(warehouse.storage)
    if who is not None:
        raise WarehouseError(f"process {who.get('pid')} on {who.get('host')} maintains these views", "stop it first")
    names = list(warehouse.config.sources)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError("teardown removes capture and must be confirmed", "add --yes")
        if not typer.confirm(f"Remove change capture from {', '.join(names)}? Views must then be loaded anew."):
            results().print("nothing was changed")
            return
    done: dict[str, list[str]] = {}
    errors: list[HeadwaterError] = []
    for name in names:  # one source that is away keeps no other from being cleaned
        try:
            with busy(f"removing capture from {name}", as_json):
                done[name] = warehouse.catalog.source(name).remove()
        except HeadwaterError as error:
            errors.append(error)
    _report(done, as_json)
    if errors:
        show(errors, as_json)
        raise typer.Exit(max(e.exit_code for e in errors))


def _report(done: dict[str, list[str]], as_json: bool) -> None:
    if as_json:
        write_lines([to_json({"sources": done})])
        return
    screen = results()
    for name, lines in done.items():
        screen.print(f"[bold]{name}[/]")
        for line in lines or ["nothing to do"]:
            screen.print(f"  {line}", markup=False)
