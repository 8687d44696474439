"""lab judge: record and check in one go, nothing is kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli.options import HERE, Json, Project
from headwater.cli.rows import write_lines
from headwater.cli.screen import busy, results, said
from headwater.cli.values import to_json

if TYPE_CHECKING:
    from headwater.lab.stepping.frames import Judgement

LAST = 500


def judge(
    view: Annotated[str, typer.Argument(help="A view.")],
    last: Annotated[int, typer.Option("--last", min=1, help="The last N transactions.")] = LAST,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Which consistency level a view really had, over its last transactions: 'lab record' and 'lab check' in one.

    Of a complete view every transaction is a state that is judged; of others, what their cuts showed. Starts no JVM,
    and keeps nothing. The exit code is 1 if the level is below what the view promises.

    Example:  headwater lab judge open_orders --last 1000
    """
    from headwater.api import open_warehouse
    from headwater.cli.recording import recorded
    from headwater.lab.checker.cuts import check_cuts
    from headwater.lab.checker.levels import Consistency
    from headwater.lab.checker.verdict import check
    from headwater.lab.stepping.recording import judgement
    from headwater.runtime.reading.recording import record

    opened = open_warehouse(project).project
    with busy("recording", as_json):
        recording = record(opened, [view], last)
        history = recorded(recording)
    with busy("checking", as_json):
        name = str(opened.cut().named(view))
        verdict = check(history, [name]) if history.states else check_cuts(history).each[name]
    numbers = zip(recording.transactions, history.transactions, strict=True)
    found = judgement(verdict, {str(update.label): f"transaction {one.seq}" for one, update in numbers})
    promised = _PROMISED[opened.cut().views[opened.cut().named(view)].level]
    kept = promised in {level.value for level in Consistency if level in verdict.holds}
    states = [seq for seq, _ in recording.states] or [min(cut.shows.values()) for cut in recording.cuts]
    facts = {"view": name, "ok": kept, "promised": promised, "transactions": len(history.transactions)}
    facts |= {"first": recording.transactions[0].seq if recording.transactions else 0, "states": states[-_DRAWN:]}
    if as_json:
        write_lines([to_json({**facts, **asdict(found)})])
    else:
        _show(facts, found)
    if not kept:
        raise typer.Exit(1)


_DRAWN = 60
"""So many states are told, the newest."""
_PROMISED = {
    "complete": "complete consistency",
    "strong": "strong consistency",
    "periodic": "strong consistency",
    "convergent": "convergence",
}


def _show(facts: dict[str, Any], found: Judgement) -> None:
    screen = results()
    style = "green" if facts["ok"] else "bold red"
    screen.print(Text.assemble((f"{found.level}", style), f" over {facts['transactions']:,} transactions"))
    for reason in found.reasons:
        screen.print(said(f"  not {reason.level}: {reason.sentence}"), soft_wrap=True)
