"""The live screen of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headwater.cli.display import source_news
from headwater.cli.rates import Rate, load_left
from headwater.cli.reading import reasons, short, state
from headwater.cli.screen import grid, plain, results, said
from headwater.runtime.reading.values import duration
from headwater.runtime.snapshot import Loading, RunSnapshot

if TYPE_CHECKING:
    from headwater.warehouse.cuts import Cut

REDRAW_SECONDS = 0.2


class LiveScreen:
    """Redrawn a few times a second; notes scroll by above it."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._body: RenderableType = Text("planning the views", style="dim")
        self._spinner = Spinner("dots", style="cyan")
        self._started = time.time()
        self._next = 0.0
        self._rate = Rate()
        self._states: dict[str, str] = {}
        self._stopping = False
        self._latest: Callable[[], RunSnapshot] | None = None
        self._ended = False
        self._live = Live(console=results(), refresh_per_second=8, get_renderable=self._render)

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        self._live.stop()

    def loading(self, load: Loading) -> None:
        self._body = self._load(load)

    def running(self, look: Callable[[], RunSnapshot]) -> None:
        self._latest = look
        if time.monotonic() >= self._next:
            self._next, now = time.monotonic() + REDRAW_SECONDS, look()
            for line in source_news(self._states, now):
                self.note(line)
            self._draw(now)

    def note(self, text: str) -> None:
        stamp = (datetime.now().strftime("%H:%M:%S "), "dim")
        self._live.console.print(Text.assemble(stamp, said(text)), soft_wrap=True)

    def stopping(self) -> None:
        self._stopping = True

    def stopped(self, cut: Cut, how: str) -> None:
        if self._latest:
            self._draw(self._latest())
        self._ended = True
        self._live.stop()
        self._live.console.print(f"\n{how} at cut [bold]{cut.number:,}[/], transaction [bold]{cut.seq:,}[/]")

    def _draw(self, now: RunSnapshot) -> None:
        loading: list[RenderableType] = [self._load(now.load), Text()] if now.load is not None else []
        rate = self._rate.of(now.totals.counts.transactions)
        self._body = Group(*loading, _numbers(now, rate), Text(), _sources(now), Text(), _views(now))

    def _render(self) -> RenderableType:
        """Called by Live's own thread, so it only puts finished parts together."""
        return self._body if self._ended else Group(self._head(), Text(), self._body)

    def _head(self) -> Table:
        hint = "stopping …" if self._stopping else "Ctrl-C stops it, safely"
        self._spinner.update(text=Text.assemble(plain(self._title, "bold"), (f"   {hint}", "dim")))
        head = Table.grid(expand=True)
        head.add_column()
        head.add_column(justify="right")
        spent = int(time.time() - self._started)
        head.add_row(self._spinner, Text(f"{spent // 3600}:{spent // 60 % 60:02}:{spent % 60:02}", style="dim"))
        return head

    def _load(self, load: Loading) -> Table:
        rate, left = load_left(load)
        copying = load.step == "copying"
        bar = ProgressBar(
            total=load.total, completed=load.rows, width=30, pulse=not copying or not load.total, finished_style="green"
        )
        total = "" if load.total is None else f" of about {load.total:,}"
        ahead = f", {duration(left)} left" if copying and left is not None and left > 0.5 else ""
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_row(plain(load.step, "cyan"), bar, Text(f"{load.rows:,}{total} rows, {rate:,.0f} rows/s{ahead}"))
        whole = Table.grid()
        whole.add_row(Text.assemble("loading ", plain(", ".join(load.views), "bold")))
        whole.add_row(row)
        return whole


def _numbers(now: RunSnapshot, rate: float) -> Table:
    totals, counts = now.totals, now.totals.counts
    lag = "–" if totals.lag is None else duration(totals.lag)
    median = "" if totals.lag_p50 is None else f" (p50 {duration(totals.lag_p50)})"
    waiting = f", {now.numbered - now.seq:,} on their way" if now.numbered > now.seq else ""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    cut = Text.assemble((f"{now.cut:,}", "bold"), " at transaction ", (f"{now.seq:,}", "bold"), waiting)
    table.add_row("cut", cut)
    table.add_row("lag", f"{lag}{median}")
    table.add_row("in", f"{counts.transactions:,} transactions, {counts.changes:,} changes, {rate:,.0f} transactions/s")
    scans = f", {counts.scans:,} of them scans" if counts.scans else ""
    table.add_row("asked", f"{counts.questions:,} questions in {counts.batches:,} batches, {counts.keys:,} keys{scans}")
    return table


def _sources(now: RunSnapshot) -> RenderableType:
    table = grid("source", "state", "transactions in", "position", numbers=("transactions in",))
    for source in now.sources:
        name, position = plain(source.name), plain(short(source.position))
        table.add_row(name, state(source.state), f"{source.transactions:,}", position)
    return Group(table, *reasons(now.sources))


def _views(now: RunSnapshot) -> RenderableType:
    table = grid("view", "state", "seq", "rows changed", "level", numbers=("seq", "rows changed"))
    for view in now.views:
        table.add_row(plain(view.name), state(view.state), f"{view.seq:,}", f"{view.rows_changed:,}", view.level)
    return Group(table, *reasons(now.views))
