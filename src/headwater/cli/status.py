"""status: how far everything is, what waits for what, and the view update table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from headwater.cli.options import HERE, Json, Project
from headwater.cli.reading import duration, reasons, short, state
from headwater.cli.rows import write_lines
from headwater.cli.screen import grid, results
from headwater.cli.values import to_json
from headwater.cli.vut import draw_groups
from headwater.model.errors import UsageError

if TYPE_CHECKING:
    from headwater.runtime.project import Status, ViewStatus, Warehouse

WATCH_SECONDS = 1.0


def status(
    vut: Annotated[bool, typer.Option("--vut", help="Draw the view update table of the run.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Redraw every second until Ctrl-C.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """How far sources, views and the warehouse are.

    Asks the sources how much is waiting there; a source that cannot be reached is shown as such. While 'headwater run'
    runs, it also says what each view waits for and since when. --vut draws the view update table: a row for every
    round of transactions that is not yet shown, a column for every view; white waits for the view's change, red has it
    and waits for others, black does not concern the view.

    Examples:  headwater status --watch   ·   headwater status --vut --watch
    """
    from headwater.runtime.project import open_warehouse

    warehouse = open_warehouse(project)
    if as_json:
        if watch:
            raise UsageError("--watch draws on a terminal, --json writes once", "leave one of them out")
        write_lines([to_json(status_json(warehouse.status()))])
    elif watch:
        _watch(warehouse, vut)
    else:
        results().print(_table(warehouse) if vut else _all(warehouse.status()))


def _watch(warehouse: Warehouse, vut: bool) -> None:
    def draw() -> RenderableType:
        return _table(warehouse) if vut else _all(warehouse.status())

    try:
        with Live(draw(), console=results(), refresh_per_second=4, screen=results().is_terminal) as live:
            while True:
                time.sleep(WATCH_SECONDS)
                live.update(draw())
    except KeyboardInterrupt:
        return


def _table(warehouse: Warehouse) -> RenderableType:
    from headwater.runtime.report import read_report
    from headwater.warehouse.lock import holder

    report = read_report(warehouse.storage) if holder(warehouse.storage) is not None else None
    if report is None:
        return Text("nothing runs right now: the view update table is empty")
    return draw_groups(report, warehouse.cut(create=True))


def _all(found: Status) -> RenderableType:
    cut, parts = found.cut, list[RenderableType]()
    if cut.number:
        made = datetime.fromtimestamp(cut.at).astimezone().isoformat(" ", "seconds")
        parts.append(Text.from_markup(f"[bold]cut[/] {cut.number:,} at transaction [bold]{cut.seq:,}[/], made {made}"))
    else:
        said = "nothing is maintained yet: run [bold]headwater setup[/], then [bold]headwater run[/]"
        parts.append(Text.from_markup(said))
    who = found.running
    parts.append(
        Text(f"maintained by process {who['pid']} on {who['host']}" if who else "nobody maintains it right now")
    )
    parts += [*_building(found.report), Text()]
    sources = grid("source", "state", "waiting", "lag", "position", numbers=("waiting", "lag"))
    for source in found.sources:
        waiting = "" if source.waiting is None else f"{source.waiting:,}"
        lag = "" if source.lag_seconds is None else duration(source.lag_seconds)
        sources.add_row(source.name, state(source.state), waiting, lag, short(source.position))
    parts += [sources, *reasons(found.sources)]
    if found.views:
        parts += [Text(), _views(found), *reasons(found.views)]
    return Group(*parts)


def _views(found: Status) -> RenderableType:
    running = found.running is not None
    more = ("computed", "waits for") if running else ("history from",)
    table = grid("view", "state", "seq", *more, "rows", "level", numbers=("seq", "rows", "computed", "history from"))
    for view in found.views:
        computed = "" if view.computed is None else f"{view.computed:,}"
        extra = [computed, waits(view)] if running else [f"{view.horizon:,}"]
        table.add_row(view.name, state(view.state), f"{view.seq:,}", *extra, f"{view.rows:,}", kind(view))
    return table


def waits(view: ViewStatus) -> str:
    """What a view waits for, and for how long by now."""
    if not view.waits:
        return ""
    return f"{view.waits}, {duration(max(0.0, time.time() - view.since))}" if view.since else view.waits


def kind(view: ViewStatus) -> str:
    return f"{view.level}, every {view.every:,}" if view.every > 1 else view.level


def _building(report: Mapping[str, Any]) -> list[Text]:
    lines = []
    change = report.get("building")
    if change:
        what = [*change["views"], *(f"−{name}" for name in change["drop"])]
        lines.append(Text(f"building {', '.join(what)}: {change['phase']}", "yellow"))
    for name, why in report.get("not_built", {}).items():
        lines.append(Text(f"{name} could not be built: {why}", "red"))
    for waiting in report.get("global", ()):
        said = f"{waiting['have']} of {waiting['parts']} parts are here"
        lines.append(Text(f"global transaction {waiting['global_id']}: {said}", "yellow"))
    lines += [Text(f"global transaction {said}", "yellow") for said in report.get("torn", ())]
    return lines


def status_json(found: Status) -> dict[str, Any]:
    cut = found.cut
    positions = dict(cut.positions)
    made = datetime.fromtimestamp(cut.at, UTC).isoformat() if cut.number else None
    return {
        "cut": {"number": cut.number, "seq": cut.seq, "at": made, "positions": positions} if cut.number else None,
        "running": found.running,
        "sources": [asdict(s) for s in found.sources],
        "views": [asdict(v) for v in found.views],
        "run": dict(found.report),
    }
