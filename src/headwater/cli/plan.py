"""plan: what would be done, and whether it can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.cli.errors import show
from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import busy, plain, results, said
from headwater.cli.values import to_json
from headwater.runtime.project.secrets import without_secrets

if TYPE_CHECKING:
    from headwater.cli.planning import PlannedView, ProjectPlan
    from headwater.cli.walking import Lookup, Meeting, Together


def plan(project: Project = HERE, as_json: Json = False) -> None:
    """Check everything and show how each view will be maintained; changes nothing.

    Checks configuration, connections, privileges, schemas and SQL, and reports every problem it finds; privileges that
    are missing as statements to paste. Shows per view its relations, the order in which a change of each of them meets
    the others, what is asked of which source, its columns, what capture 'headwater setup' will install, and what to
    know of each source beforehand.
    """
    from headwater.api import open_warehouse
    from headwater.cli.planning import make_plan

    warehouse = open_warehouse(project)
    with busy("checking sources and views", as_json):
        made = make_plan(warehouse)
    if as_json:
        write_lines([to_json(_as_json(made))])  # errors are in it
    else:
        _print(made)
        show(made.errors, as_json=False)
    if made.errors:
        raise typer.Exit(max(e.exit_code for e in made.errors))


def _print(made: ProjectPlan) -> None:
    screen = results()
    for view in made.views:
        _print_view(screen, view)
    if made.sources:
        screen.print("[bold]capture[/]")
    for source in made.sources:
        for table in source.captured:
            screen.print(Text.assemble(plain(f"  {source.name}: "), plain(f"{table} is captured", "green")))
        for line in source.install:
            screen.print(Text.assemble(plain(f"  {source.name}: "), said(line)))
    for warning in made.warnings:
        screen.print(Text.assemble(("\nwarning: ", "yellow"), said(warning)), soft_wrap=True)
    if not made.errors:
        todo = any(s.install for s in made.sources)
        screen.print(f"\nall good; next: [bold]headwater {'setup' if todo else 'run'}[/]")


def _print_view(screen: Console, view: PlannedView) -> None:
    screen.print(Text.assemble(plain(view.name, "bold cyan"), f"  {view.level}  ", plain(view.where, "dim")))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for number, relation in enumerate(view.relations):
        rows = "size unknown" if relation.rows is None else f"about {relation.rows:,} rows"
        line = Text.assemble(plain(relation.alias, "bold"), plain(f" is {relation.table}, {rows}"))
        if relation.conditions:
            line.append_text(plain(f", only {' and '.join(relation.conditions)}"))
        table.add_row("  relations" if not number else "", line)
    for number, operator in enumerate(view.tree):
        table.add_row("  tree" if not number else "", plain(operator))
    for number, (origin, meetings) in enumerate(view.orders.items()):
        table.add_row("  a change of" if not number else "", _order(origin, meetings))
    asks = [*(_together(joined) for joined in view.together), *map(_lookup, view.lookups)]
    for number, line in enumerate(asks):
        table.add_row("  asks" if not number else "", line)
    if view.maintenance:
        table.add_row("  maintained by", plain(view.maintenance))
    asked = f"{view.questions} questions a batch, however many transactions it holds"
    if view.for_themselves:
        asked += f"; up to {view.for_themselves} more if tables changed that are asked together"
    if view.evaluations:
        asked += f"; Spark evaluates expressions {view.evaluations} times within it"
    if not view.maintenance:
        table.add_row("  cost", asked if view.questions else "no questions: changes of one table say it all")
    if view.questions and not view.maintenance:
        table.add_row("", plain(view.example))
    for number, kept in enumerate(view.keeps):
        table.add_row("  keeps" if not number else "", plain(kept))
    for number, reason in enumerate(view.weighed):
        table.add_row("  auto" if not number else "", plain(reason))
    if view.by_spark:
        table.add_row("  Spark checks", plain(" and ".join(view.by_spark)))
    if view.aggregation:
        table.add_row("  aggregates", plain(view.aggregation))
    table.add_row("  columns", plain(", ".join(f"{name} {kind}" for name, kind in view.columns.items())))
    screen.print(table)
    screen.print()


def _order(origin: str, meetings: Sequence[Meeting]) -> Text:
    line = Text.assemble(plain(origin, "bold"))
    for meeting in meetings:
        on = f" on {' and '.join(meeting.on)}" if meeting.on else ", all of it"
        line.append(" → ").append_text(plain(meeting.alias, "bold")).append_text(plain(on, "dim"))
    return line


def _together(joined: Together) -> Text:
    return plain(f"{joined} by {', '.join(joined.columns)}, in one question")


def _lookup(lookup: Lookup) -> Text:
    pushed = f", with {' and '.join(lookup.conditions)}" if lookup.conditions else ""
    if not lookup.columns:
        return Text.assemble(plain(f"{lookup.table}: all rows{pushed}, "), ("always scans", "yellow"))
    if lookup.table.is_view:
        return Text.assemble(plain(f"{lookup.table} by {', '.join(lookup.columns)}: looked up in the warehouse"))
    found = ("by its files' statistics", "yellow") if not lookup.indexable else ("no index", "yellow")
    index = ("index", "green") if lookup.index else found
    by = f"{lookup.table} by {', '.join(lookup.columns)} ("
    return Text.assemble(
        plain(by), index, plain(f"){pushed}"), f": asks for up to {lookup.asks:,} keys, scans for more"
    )


def _as_json(made: ProjectPlan) -> dict[str, Any]:
    return {
        "ok": not made.errors,
        "views": [_view_json(v) for v in made.views],
        "sources": [{**asdict(s), "captured": list(map(str, s.captured))} for s in made.sources],
        "warnings": made.warnings,
        "errors": [{"error": without_secrets(e.what), "fix": without_secrets(e.fix)} for e in made.errors],
    }


def _view_json(view: PlannedView) -> dict[str, Any]:
    raw = asdict(view)
    raw["relations"] = [{**asdict(r), "table": str(r.table)} for r in view.relations]
    raw["together"] = [{"tables": list(map(str, j.tables)), "columns": j.columns} for j in view.together]
    raw["lookups"] = [{**asdict(look), "table": str(look.table)} for look in view.lookups]
    return {"view": raw.pop("name"), **raw, "example": view.example}
