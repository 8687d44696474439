"""run: load and maintain, with something to watch."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.interrupt import SIGNALS, cancel_jobs
from headwater.cli.options import HERE, Json, Project
from headwater.cli.screen import busy
from headwater.cli.ui import LOOPBACK, PORT
from headwater.model.errors import UsageError
from headwater.runtime.threads import left_behind

if TYPE_CHECKING:
    from headwater.api import Warehouse
    from headwater.cli.display import Display
    from headwater.runtime.engine import Engine
    from headwater.runtime.snapshot import Loading, RunSnapshot


def run(
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Take in everything that is waiting, then exit.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="First make the maintained views those of views/, as 'apply' would.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="SOURCE",
            help="With --until-caught-up: do not wait for this source, nor for views that read it; can be repeated.",
        ),
    ] = None,
    ui: Annotated[bool, typer.Option("--ui", help="Serve the live page beside it, on this machine.")] = False,
    ui_port: Annotated[int, typer.Option("--ui-port", min=0, max=65535, help="The page's port; 0: any.")] = PORT,
    metrics: Annotated[
        str, typer.Option("--metrics-port", metavar="[HOST:]PORT", help="Serve /metrics for Prometheus there.")
    ] = "",
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Load new views, then maintain all of them until Ctrl-C.

    Views whose files were edited or deleted go on as they are, and it is said: 'headwater apply' (or --apply here)
    replaces and drops them. Views that were halted by a value that has been corrected go on by themselves.

    Stopping is safe at any moment, and so is being killed: the next run goes on from the last cut. On a terminal a
    live display shows sources, views and lag; elsewhere a line is printed when something happened, and with --json
    every event is a JSON line. --ui serves the live page meanwhile, as 'headwater ui' does at any time.
    """
    from headwater.api import open_warehouse
    from headwater.cli.display import display_for

    if without and not until_caught_up:
        raise UsageError("--without is for --until-caught-up", "a run that goes on waits for nobody")
    warehouse = open_warehouse(project)
    display = display_for(sys.stdout, as_json, f"headwater run · {warehouse.config.folder.name}")
    try:
        with ExitStack() as beside:
            warehouse.check_free()
            seen = _seen(beside, warehouse, ui_port if ui else None, metrics)
            with busy("reading views and starting Spark", as_json):
                _ = warehouse.spark
            with display, Stoppable(display).listening() as watched:
                for line in seen:
                    display.note(line)
                cut = warehouse.run(until_caught_up, watched, watched.begin, apply, without or ())
                display.stopped(cut, "caught up" if until_caught_up and not watched.asked else "stopped")
    except KeyboardInterrupt:  # before the loop began, during a load, or the second time
        display.stopped(warehouse.cut(create=True), "interrupted")
    finally:
        end_without(left_behind())


def _seen(beside: ExitStack, warehouse: Warehouse, ui_port: int | None, metrics: str) -> list[str]:
    """Start what others look at while it runs; a line about each."""
    said = []
    if ui_port is not None:
        from headwater.cli.beside import page_beside

        url = beside.enter_context(page_beside(warehouse.config.folder, LOOPBACK, ui_port))
        said.append(f"the page is at {url}")
    if metrics:
        from headwater.page.metrics import serving_metrics
        from headwater.runtime.project.project import Project as Opened

        url = beside.enter_context(serving_metrics(Opened(warehouse.config), metrics))
        said.append(f"metrics are at {url}")
    return said


def end_without(threads: list[str]) -> None:
    """A thread that hangs in a connection would keep the process for ever: it holds nothing that could be lost."""
    if threads and sys.exc_info()[0] is None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class Stoppable:
    """Watches a run for its display, and stops it on Ctrl-C or SIGTERM: the first lets the loop end cleanly, or breaks
    off a load (which the next run resumes); the second breaks off whatever is going on."""

    def __init__(self, display: Display) -> None:
        self.asked = False
        self._display = display
        self._engine: Engine | None = None
        self._looping = False

    def begin(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def listening(self) -> Iterator[Stoppable]:
        before = {kind: signal.signal(kind, self._signalled) for kind in SIGNALS}
        try:
            yield self
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def loading(self, load: Loading) -> None:
        if self.asked and not self._looping and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt  # it was asked for before the load began
        self._display.loading(load)

    def running(self, look: Callable[[], RunSnapshot]) -> None:
        self._looping = True
        self._display.running(look)

    def note(self, text: str) -> None:
        self._display.note(text)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        first, self.asked = not self.asked, True
        if self._engine is not None:
            self._engine.stop()
            if self._looping and first:
                self._display.stopping()
                return
        cancel_jobs()
        raise KeyboardInterrupt
