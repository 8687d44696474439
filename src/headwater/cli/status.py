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

from headwater.cli.options import HERE, Json, Project, Strict
from headwater.cli.reading import reasons, short, state
from headwater.cli.rows import write_lines
from headwater.cli.screen import grid, plain, results, said
from headwater.cli.values import to_json
from headwater.cli.vut import draw_groups
from headwater.model.errors import UsageError
from headwater.model.sizes import byte_size
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.reading.values import duration

if TYPE_CHECKING:
    from headwater.api import Warehouse
    from headwater.runtime.reading.status import Status, ViewStatus

WATCH_SECONDS = 1.0
SILENT_SECONDS = 15.0
"""A run that has not told anything for so long is said to be silent."""


def status(
    vut: Annotated[bool, typer.Option("--vut", help="Draw the view update table of the run.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Redraw every second until Ctrl-C.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Count the rows of large views too.")] = False,
    strict: Strict = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """How far sources, views and the warehouse are.

    Asks the sources how much is waiting there; a source that cannot be reached, or that the run cannot read, is shown
    with the reason. Lag is measured from commit to visible: how old the oldest change is that is not shown yet, or,
    when nothing waits, how long the last ones took. While 'headwater run' runs, it also says what each view waits for
    and since when.

    --strict exits with code 1 if a view is halted, a source is not ok, or nothing is maintained.

    --vut draws the view update table: a row for every round of transactions that is not yet shown, a column for every
    view; white waits for the view's change, red has it and waits for others, black does not concern the view.

    Examples:  headwater status --watch   ·   headwater status --vut --watch   ·   headwater status --strict --json
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    if watch and (as_json or strict):
        other = "--json writes once" if as_json else "--strict looks once"
        raise UsageError(f"--watch draws until it is stopped, {other}", "leave one of them out")
    if watch:
        _watch(warehouse, vut, rows)
        return
    found = warehouse.status(rows) if strict or as_json or not vut else None
    if as_json and found is not None:
        write_lines([to_json(status_json(found))])
    else:
        results().print(_table(warehouse) if found is None or vut else _all(found))
    if strict and found is not None and found.troubles:
        raise typer.Exit(1)


def _watch(warehouse: Warehouse, vut: bool, rows: bool) -> None:
    def draw() -> RenderableType:
        return _table(warehouse) if vut else _all(warehouse.status(rows))

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
        todo = "nothing is maintained yet: run [bold]headwater setup[/], then [bold]headwater run[/]"
        parts.append(Text.from_markup(todo))
    who = found.running
    parts.append(
        plain(f"maintained by process {who.pid} on {who.host}") if who else Text("nobody maintains it right now")
    )
    silent = time.time() - found.report["at"] if "at" in found.report else 0.0
    if silent > SILENT_SECONDS:
        parts.append(Text(f"it has told nothing for {duration(silent)}: what it does now is not known", "yellow"))
    parts += [*_building(found.report), Text()]
    sources = grid("source", "state", "waiting", "lag", "position", numbers=("waiting", "lag"))
    for source in found.sources:
        waiting = "" if source.waiting is None else f"{source.waiting:,}"
        lag = ("?" if source.waiting else "") if source.lag_seconds is None else duration(source.lag_seconds)
        where = "in chains" if source.chained else short(source.position)
        sources.add_row(plain(source.name), state(source.state), waiting, lag, plain(where))
    parts += [sources, *reasons(found.sources), *_chains(found), *_held(found)]
    if found.views:
        parts += [Text(), _views(found), *reasons(found.views), *_kept(found)]
    return Group(*parts)


def _views(found: Status) -> RenderableType:
    running = found.running is not None
    more = ("computed", "waits for") if running else ("history from",)
    aims = any(view.target is not None for view in found.views)
    numbers = ("seq", "rows", "computed", "history from", "freshness")
    table = grid("view", "state", "seq", *more, *(("freshness",) if aims else ()), "rows", "level", numbers=numbers)
    for view in found.views:
        computed = "" if view.computed is None else f"{view.computed:,}"
        extra = [computed, said(waits(view))] if running else [f"{view.horizon:,}"]
        rows = "many" if view.rows is None else f"{view.rows:,}"
        lag = [] if not aims else [_freshness(view)]
        table.add_row(plain(view.name), state(view.state), f"{view.seq:,}", *extra, *lag, rows, kind(view))
    if any(view.rows is None for view in found.views):
        return Group(table, Text("many: over a million; --rows counts them", "dim"))
    return table


def _chains(found: Status) -> list[Text]:
    """What the last windows of chains took."""
    lines = []
    for source in found.sources:
        if (last := source.chain) is not None:
            others = sum(last.letters.values()) - last.messages
            direct = f" ({last.messages_direct} directly between agents)" if last.messages_direct else ""
            lines.append(
                said(
                    f"{source.name}: window {last.window:,} of {last.members} agents, {duration(time.time() - last.at)}"
                    f" ago; {last.messages} messages{direct}, {others} requests and acknowledgements",
                    "dim",
                )
            )
    return lines


def _held(found: Status) -> list[Text]:
    """What servers keep of their logs until it is read."""
    lines = []
    for source in found.sources:
        if source.warning:
            lines.append(said(f"{source.name}: {source.warning}", "yellow"))
        elif source.held_bytes is not None:
            limit = "" if source.held_limit is None else f", of at most {byte_size(source.held_limit)}"
            kept = f"{source.name}: the server keeps {byte_size(source.held_bytes)} of its log for Headwater{limit}"
            lines.append(said(kept, "dim"))
    return lines


def _freshness(view: ViewStatus) -> Text:
    """How far behind it is, against its target."""
    if view.target is None:
        return Text("" if view.lag_seconds is None else duration(view.lag_seconds))
    lag = "?" if view.lag_seconds is None else duration(view.lag_seconds)
    late = view.lag_seconds is not None and view.lag_seconds > view.target
    return Text(f"{lag} / {duration(view.target)}", "yellow" if late else "")


def _kept(found: Status) -> list[Text]:
    """What is kept beside the views, and what it saved since the run began."""
    kept = [view for view in found.views if view.kept_for]
    if not kept:
        return []
    size = sum(view.bytes for view in kept)
    what = f"{len(kept)} views are" if len(kept) > 1 else "1 view is"
    said = f"{what} kept for others, in {byte_size(size)}"
    asked = [(v.questions, v.saved) for v in found.views if v.questions is not None and v.saved is not None]
    if asked:
        questions, saved = (sum(part) for part in zip(*asked, strict=True))
        said += (
            f"; since the run began {questions:,} questions went to sources, {saved:,} were answered by views or shared"
        )
    return [Text(), Text(said, "dim")]


def waits(view: ViewStatus) -> str:
    """What a view waits for, and for how long by now."""
    if not view.waits:
        return ""
    return f"{view.waits}, {duration(max(0.0, time.time() - view.since))}" if view.since else view.waits


def kind(view: ViewStatus) -> str:
    level = f"{view.level}, every {view.every:,}" if view.every > 1 else view.level
    level += f", by {view.maintenance}" if view.maintenance else ""
    return f"{level}, kept for {view.kept_for}" if view.kept_for else level


def _building(report: Mapping[str, Any]) -> list[Text]:
    lines = []
    change = report.get("building")
    if change:
        what = [*change["views"], *(f"−{name}" for name in change["drop"])]
        lines.append(said(f"building {', '.join(what)}: {change['phase']}", "yellow"))
    for name, why in report.get("not_built", {}).items():
        lines.append(said(f"{name} could not be built: {why}", "red"))
    for waiting in report.get("global", ()):
        parts = f"{waiting['have']} of {waiting['parts']} parts are here"
        lines.append(said(f"global transaction {waiting['global_id']}: {parts}", "yellow"))
    lines += [said(f"global transaction {text}", "yellow") for text in report.get("torn", ())]
    return lines


def status_json(found: Status) -> dict[str, Any]:
    cut = found.cut
    positions = dict(cut.positions)
    made = datetime.fromtimestamp(cut.at, UTC).isoformat() if cut.number else None
    return {
        "cut": {"number": cut.number, "seq": cut.seq, "at": made, "positions": positions} if cut.number else None,
        "running": None if found.running is None else asdict(found.running),
        "ok": not found.troubles,
        "troubles": found.troubles,
        "sources": [asdict(s) | {"reason": without_secrets(s.reason)} for s in found.sources],
        "views": [asdict(v) | {"reason": without_secrets(v.reason)} for v in found.views],
        "run": dict(found.report),
    }
