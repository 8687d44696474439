"""resume and rebuild: what to do with a view that is halted, or no longer trusted."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.apply import phases
from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import results
from headwater.cli.values import to_json

Views = Annotated[list[str], typer.Argument(metavar="VIEW…", help="Which views.", show_default=False)]


def resume(views: Views, project: Project = HERE, as_json: Json = False) -> None:
    """Let halted views go on from where they stopped.

    For views that met a value they could not take: correct it at its source first. Everything since is taken as one
    state, so a bad change that was corrected is passed over; a complete view has no states in between. A view whose
    columns or source are not what they were cannot go on: 'headwater rebuild' or 'headwater apply' loads it again.

    Example:  headwater resume open_orders
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    with phases(as_json) as heard:
        warehouse.resume(views, heard)
    _say(as_json, {"resumed": views}, f"resumed {', '.join(views)}")


def rebuild(views: Views, project: Project = HERE, as_json: Json = False) -> None:
    """Load views again from their sources, and those that read them, while the others go on.

    They stay readable as they are until the new ones are there; their history then begins anew.

    Example:  headwater rebuild open_orders
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    with phases(as_json) as heard:
        warehouse.rebuild(views, heard)
    _say(as_json, {"rebuilt": views}, f"rebuilt {', '.join(views)}")


def _say(as_json: bool, facts: dict[str, list[str]], text: str) -> None:
    if as_json:
        write_lines([to_json(facts)])
    else:
        results().print(text, markup=False)
