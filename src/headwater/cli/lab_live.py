"""lab live: one published strategy on the real sources of a project, for one view, judged by the checker at the end."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli.interrupt import SIGNALS
from headwater.cli.screen import busy, grid, messages, results
from headwater.model.errors import CaptureMissing, UnknownName, UsageError, WarehouseError
from headwater.model.names import ViewName

if TYPE_CHECKING:
    from headwater.algebra.view import ViewDefinition
    from headwater.api import Warehouse
    from headwater.lab.algorithms import Algorithm
    from headwater.lab.checker.verdict import Verdict
    from headwater.lab.histories.history import History
    from headwater.lab.live.run import Live
    from headwater.model.source import Source

SECONDS = 10.0
REST = 0.05
"""Between two polls that bring nothing."""


def live(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="The project's folder.", show_default=False)],
    view: Annotated[str, typer.Argument(metavar="VIEW", help="One of its views: a join.", show_default=False)],
    strategy: Annotated[
        str, typer.Option("--strategy", help="The algorithm, with its options: 'pvm p=2'. See 'headwater lab list'.")
    ] = "sweep",
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="How long to follow the sources.", show_default="10")
    ] = None,
    transactions: Annotated[
        int | None, typer.Option("--transactions", min=1, help="Stop after this many transactions.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write the history, for 'headwater lab check'.")
    ] = None,
) -> None:
    """Run a published algorithm on a project's real sources, and judge what a reader would have seen.

    Follows the sources that VIEW reads while others write to them, keeps the view in memory by the algorithm's own
    rules, and lets the checker say which consistency level came out. Nothing is installed, trimmed or written:
    capture must be there ('headwater setup'), and no 'headwater run' of the project may be under way. What a source
    cannot tell apart counts as one transaction. Ctrl-C ends it early, with a verdict. Starts no JVM.

    Examples:  headwater lab live . open_orders   ·   headwater lab live . open_orders --strategy 'pvm p=4' --seconds 60
    """
    from headwater.api import open_warehouse
    from headwater.lab.algorithms import ALGORITHMS, factory
    from headwater.lab.checker.verdict import check
    from headwater.lab.live.run import Live

    name, *said = strategy.split() or [""]
    make = factory(name, dict(option.partition("=")[::2] for option in said))
    warehouse = open_warehouse(project)
    definition = _chosen(warehouse, view)
    sources = _captured(warehouse, definition)
    with busy("reading the tables as they are"):
        following = Live(sources, definition, make)
    limit = Limit(seconds if seconds is not None or transactions is not None else SECONDS, transactions)
    with _asked_to_stop() as stopped, busy(f"{strategy} follows the sources of {view} {limit}; Ctrl-C ends it"):
        began = time.monotonic()

        def more(step: int) -> bool:
            return not stopped and not limit.reached(time.monotonic() - began, len(following.history.transactions))

        history = following.run(more, lambda: time.sleep(REST))
    with busy("checking"):
        verdict = check(history)
    _print(following, history)
    _print_verdict(verdict, ALGORITHMS.get(name), bool(history.transactions))
    if out is not None:
        _write(following, history, out)


@dataclass(frozen=True)
class Limit:
    """When a run has seen enough: after a number of seconds or of transactions, whichever comes first."""

    seconds: float | None
    transactions: int | None

    def reached(self, seconds: float, transactions: int) -> bool:
        late = self.seconds is not None and seconds >= self.seconds
        return late or (self.transactions is not None and transactions >= self.transactions)

    def __str__(self) -> str:
        time = [f"for {self.seconds:g} s"] if self.seconds is not None else []
        number = [f"until {self.transactions:,} transactions were seen"] if self.transactions is not None else []
        return " or ".join([*time, *number])


def _chosen(warehouse: Warehouse, name: str) -> ViewDefinition:
    views: Mapping[ViewName, ViewDefinition] = warehouse.views
    if name not in views:
        raise UnknownName("view", name, map(str, views))
    view = views[ViewName(name)]
    if view.parents:
        raise UsageError(
            f"{name} reads other views: {', '.join(map(str, view.parents))}",
            "the published algorithms maintain joins of tables; choose such a view",
        )
    return view


def _captured(warehouse: Warehouse, view: ViewDefinition) -> Sequence[Source]:
    """The sources of the view, if what they capture is ours alone to read."""
    from headwater.warehouse.lock import holder

    who = holder(warehouse.storage)
    if who is not None:
        raise WarehouseError(
            f"process {who.pid} on {who.host} maintains these views, and forgets changes it has read",
            "stop it first: a history without some of its transactions cannot be judged",
        )
    sources = []
    for name in dict.fromkeys(table.source for table in view.base_tables):
        source = warehouse.catalog.source(name)
        capture = source.capture()
        wanted = [table for table in view.base_tables if table.source == name]
        missing = [table for table in wanted if capture is None or table not in capture.tables]
        if missing:
            broken = {} if capture is None else capture.broken
            why = "; ".join(f"{table}: {broken[table]}" for table in missing if table in broken)
            raise CaptureMissing(
                f"changes of {', '.join(map(str, missing))} are not captured{f' ({why})' if why else ''}",
                "run 'headwater setup' in the project first; this command installs nothing",
            )
        sources.append(source)
    return sources


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """Filled by the first Ctrl-C or SIGTERM; the second breaks off as usual."""
    asked: list[int] = []

    def stop(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {kind: signal.signal(kind, stop) for kind in SIGNALS}
    try:
        yield asked
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _print(following: Live, history: History) -> None:
    kinds = history.kinds()
    between = sum(count for kind, count in kinds.items() if kind not in ("update", "question", "answer"))
    first, last = (sum(bag.total() for bag in views.values()) for views in (history.content, history.final()))
    table = grid("", "")
    for what, count in (
        ("transactions at the sources", f"{len(history.transactions):,}"),
        ("states of the view after the first", f"{len(history.states):,}"),
        ("messages", f"{len(history.messages):,}"),
        ("  notices of transactions", f"{kinds['update']:,}"),
        ("  questions to sources", f"{kinds['question']:,}"),
        ("  answers", f"{kinds['answer']:,}"),
        ("  between processes", f"{between:,}"),
        ("rows that sources answered with", f"{following.rows_asked_for:,}"),
        ("local joins", f"{history.local_joins:,}"),
        ("rows of the view", f"{first:,} at first, {last:,} at last"),
    ):
        table.add_row(what, count)
    results().print(table)


def _print_verdict(verdict: Verdict, algorithm: Algorithm | None, happened: bool) -> None:
    screen = results()
    screen.print(Text.assemble(("\nverdict: ", "bold"), str(verdict)))
    if not happened:
        messages().print(
            "nothing was committed meanwhile, so nothing was at stake: write to the sources while it runs",
            style="yellow",
            markup=False,
        )
        return
    if algorithm is None:
        return
    promised = f"{algorithm.title} promises {algorithm.level.value}"
    if algorithm.level in verdict.holds:
        screen.print(f"{promised}, and kept it here", style="green", markup=False)
    elif algorithm.level in verdict.undecided:
        screen.print(f"{promised}; the checker could not decide whether it was kept", style="yellow", markup=False)
    else:
        needs = f"it needs {algorithm.needs}"
        screen.print(f"{promised}, and did not keep it here: {needs}", style="yellow", markup=False)


def _write(following: Live, history: History, out: Path) -> None:
    from headwater.lab.histories.recorded import write_history

    write_history(history, out, {t: {f.name: f.type for f in schema} for t, schema in following.schemas.items()})
    messages().print(f"{out}: the history; 'headwater lab check {out}' judges it again", markup=False)
