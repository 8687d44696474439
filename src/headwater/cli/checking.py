"""verify, compact, publish."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from headwater.cli.interrupt import interruptible
from headwater.cli.options import HERE, At, Json, Project
from headwater.cli.reading import row_line
from headwater.cli.rows import write_lines
from headwater.cli.screen import busy, grid, messages, plain, results, said
from headwater.cli.values import to_json
from headwater.cli.warned import heard, warn

if TYPE_CHECKING:
    from headwater.runtime.reading.verify import Verification


def verify(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW", help="Which views; else all.")] = None,
    at: At = None,
    told: Annotated[bool, typer.Option("--progress", hidden=True, help="Tell how far it is, as JSON lines.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Recompute views from their sources as of exactly one cut, and compare as bags.

    Prints the rows that differ; the exit code is 1 if any do. Works while 'headwater run' runs. As of an older state,
    changes since then are taken back with the journal.

    Examples:  headwater verify   ·   headwater verify open_orders --at 1042
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    started = time.monotonic()
    with busy("starting Spark", as_json):
        warehouse.cut()
        _ = warehouse.spark
    with interruptible(), counting("recomputing", as_json) as progress:
        found = warehouse.verify(views or (), at, _tell if told else progress)
    report(found, as_json)
    if not as_json:
        messages().print(f"[dim]{time.monotonic() - started:.1f} s[/]")
    if not all(v.ok for v in found):
        raise typer.Exit(1)


def _tell(rows: int, total: int | None) -> None:
    """For a program that started us."""
    print(to_json({"event": "progress", "rows": rows, "of": total}), file=sys.stderr, flush=True)


def compact(project: Project = HERE, as_json: Json = False) -> None:
    """Fold the history of every view up to the horizon.

    The setting `history` says how far back that is; no state above it changes. 'headwater run' does the same by itself
    from time to time.
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    warehouse.check_free()
    with busy("compacting", as_json):
        warehouse.cut()
        _ = warehouse.spark
        with interruptible():
            done = warehouse.compact()
    if as_json:
        write_lines([to_json({"views": [{"view": n, "before": b, "after": a} for n, (b, a) in done.items()]})])
        return
    table = grid("view", "rows of history", "after", numbers=("rows of history", "after"))
    for name, (before, after) in done.items():
        table.add_row(plain(name), f"{before:,}", f"{after:,}")
    results().print(table)


def publish(project: Project = HERE, as_json: Json = False) -> None:
    """Refresh the plain Delta tables (no bookkeeping columns) that other engines read, at the newest cut.

    A halted view is published as it was when it was halted, and named on stderr.
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    with busy("publishing", as_json), heard() as warnings:
        places = warehouse.publish()
    warn(warnings, as_json)
    if as_json:
        write_lines([to_json({"views": [{"view": n, "path": p} for n, p in places.items()]})])
        return
    table = grid("view", "Delta table")
    for name, place in places.items():
        table.add_row(plain(name), plain(place))
    results().print(table)


def report(found: Sequence[Verification], as_json: bool) -> None:
    """Verdicts, and the rows that differ."""
    if as_json:
        write_lines([to_json({"ok": all(v.ok for v in found), "views": [_verdict(v) for v in found]})])
        return
    screen = results()
    table = grid("view", "state", "rows", "", numbers=("state", "rows"))
    for v in found:
        verdict = Text("equal to its sources", "green")
        if not v.ok:
            only = v.problem and not v.differing
            verdict = said(v.problem, "bold red") if only else Text(f"{v.differing:,} rows differ", "bold red")
        table.add_row(plain(v.view), f"{v.seq:,}", f"{v.rows:,}", verdict)
    screen.print(table)
    for v in found:
        for title, rows in (("missing", v.missing), ("extra", v.extra)):
            if rows:
                screen.print(Text.assemble("\n", plain(v.view, "bold"), f": {_MEANING[title]}"))
                for row in rows:
                    screen.print(Text.assemble("  ", row_line(row)), soft_wrap=True)
        left = v.differing - len(v.missing) - len(v.extra)
        if left > 0:
            screen.print(f"  … and {left:,} more")


_MEANING = {
    "missing": "rows that should be in the view and are not",
    "extra": "rows that are in the view and should not be",
}


def _verdict(v: Verification) -> dict[str, Any]:
    return {
        "view": v.view,
        "seq": v.seq,
        "ok": v.ok,
        "rows": v.rows,
        "differing": v.differing,
        "problem": v.problem,
        "missing": list(v.missing),
        "extra": list(v.extra),
    }


@contextmanager
def counting(what: str, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar over rows on a terminal, nothing elsewhere."""
    screen = messages()
    if quiet or not screen.is_terminal:
        yield lambda rows, total: None
        return
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda rows, total: bar.update(task, completed=rows, total=total)
