"""apply: bring the maintained views in line with views/, while the others go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli.errors import INTERRUPTED, show, tell
from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import busy, grid, messages, plain, results, said
from headwater.cli.values import to_json
from headwater.model.errors import UsageError

if TYPE_CHECKING:
    from headwater.runtime.change.applying import ApplyPlan

_STYLES = {"create": "green", "replace": "yellow", "rebuild": "yellow", "drop": "red"}


def apply(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Create, replace and drop views while the others are maintained.

    Compares views/ with what is maintained, shows what would be done and what it costs, and does it once confirmed. A
    running 'headwater run' picks it up without stopping: new and changed views are loaded in the background, catch up,
    and appear in one step, together. Ctrl-C then leaves it to the run, which completes it. If nothing runs, it is
    done here and now.

    Examples:  headwater apply   ·   headwater apply --yes
    """
    from headwater.api import open_warehouse

    warehouse = open_warehouse(project)
    with busy("comparing", as_json):
        plan = warehouse.plan_apply()
    show(list(plan.refused.values()), as_json)
    if not plan:
        for warning in plan.warnings if not as_json else ():
            results().print(said(f"note: {warning}", "yellow"), soft_wrap=True)
        facts = {"changes": [], "applied": False, "warnings": list(plan.warnings)}
        _say(as_json, facts, "nothing to do: the maintained views are those of views/")
        return
    if not as_json:
        _show(plan)
    if not yes:
        if as_json or not sys.stdin.isatty():
            if as_json:
                write_lines([to_json(_plan_json(plan) | {"applied": False})])
            raise UsageError("this changes what is maintained and must be confirmed", "add --yes")
        if not typer.confirm("Do it?"):
            results().print("nothing was changed")
            return
    phase = ""
    try:
        with phases(as_json) as shown:

            def heard(now: str) -> None:
                nonlocal phase
                phase = now
                shown(now)

            warehouse.apply(plan, heard)
    except KeyboardInterrupt:
        tell("warning", _interrupted(phase), as_json)
        raise typer.Exit(INTERRUPTED) from None
    _say(as_json, _plan_json(plan) | {"applied": True}, "done: shown in one step")


def _interrupted(phase: str) -> dict[str, str]:
    """What became of a change whose maker left."""
    from headwater.runtime.change.requests import HERE_AND_NOW, UNSEEN

    if phase in ("", UNSEEN):
        return {"warning": "interrupted before the run took it up", "fix": "'headwater apply' asks again"}
    if phase == HERE_AND_NOW:
        what = "interrupted: what was not shown yet is not there"
        return {"warning": what, "fix": "'headwater apply' or 'headwater run' goes on with it"}
    what = "you left, and 'headwater run' goes on with it: the change appears when it is ready"
    return {"warning": what, "fix": "'headwater status --watch' shows how far it is"}


def _show(plan: ApplyPlan) -> None:
    screen = results()
    table = grid("view", "", "why")
    for change in plan.changes:
        table.add_row(plain(change.view), Text(change.action, _STYLES[change.action]), said(change.why))
    screen.print(table)
    screen.print()
    if any(change.action != "drop" for change in plan.changes):
        copied = sorted({str(t) for change in plan.changes for t in change.reads})
        rows = "an unknown number of" if plan.rows is None else f"about {plan.rows:,}"
        screen.print(plain(f"copies {rows} rows of {', '.join(copied) or 'views only'}"), soft_wrap=True)
    for source, lines in plan.capture.items():
        for line in lines:
            screen.print(said(f"at {source}: {line}"), soft_wrap=True)
    for warning in plan.warnings:
        screen.print(said(f"note: {warning}", "yellow"), soft_wrap=True)


@contextmanager
def phases(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Tell of every phase: a spinner on a terminal, lines elsewhere."""
    screen, last = messages(), [""]
    if quiet:
        yield lambda phase: None
        return
    if screen.is_terminal:
        with screen.status("applying …") as spinner:
            yield lambda phase: spinner.update(plain(f"{phase} …"))
        return

    def line(phase: str) -> None:
        if phase != last[0]:
            last[0] = phase
            screen.print(said(phase), soft_wrap=True)

    yield line


def _say(as_json: bool, facts: dict[str, Any], text: str) -> None:
    if as_json:
        write_lines([to_json(facts)])
    else:
        results().print(text)


def _plan_json(plan: ApplyPlan) -> dict[str, Any]:
    return {
        "changes": [{"view": c.view, "action": c.action, "why": c.why} for c in plan.changes],
        "rows": plan.rows,
        "capture": {source: list(lines) for source, lines in plan.capture.items()},
        "warnings": list(plan.warnings),
    }
