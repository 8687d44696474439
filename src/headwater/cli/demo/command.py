"""demo: everything from nothing to verified views, in about a minute."""

from __future__ import annotations

import fcntl
import random
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Annotated

import typer

from headwater.cli.interrupt import interruptible
from headwater.cli.options import Json
from headwater.cli.rows import write_lines
from headwater.cli.screen import busy, messages, results
from headwater.cli.values import to_json
from headwater.model.errors import HeadwaterError, UsageError

if TYPE_CHECKING:
    from headwater.api import Warehouse
    from headwater.runtime.progress import Meter
    from headwater.runtime.reading.verify import Verification

MARKER = ".headwater-demo"
PER_SECOND = 150.0
SLOWLY = 4.0


def demo(
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the demo's project goes.")] = Path(
        "demo-project"
    ),
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long the writers write.")] = 25,
    serve: Annotated[
        bool, typer.Option("--serve", help="Start an earlier demo's PostgreSQL again, with a little life in it.")
    ] = False,
    stay: Annotated[bool, typer.Option("--stay", help="Leave the live page open at the end, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Watch it work: three real databases, concurrent writers, three views, verified at the end.

    Starts a PostgreSQL (from its wheel) and two SQLite files, loads three views over them, applies a few thousand
    transactions while the views are maintained, verifies every view against its sources and says what to look at
    next. Its live page is open meanwhile, at the address that is printed. Takes about a minute, needs no services, and
    stays inside its own folder.
    """
    folder = folder.absolute()
    with _terminable(), _claimed(folder, fresh=not serve):
        if serve:
            _serve(folder)
        else:
            with ExitStack() as beside:
                _play(folder, seconds, as_json, beside)
                if stay:
                    _stay()


def _stay() -> None:
    messages().print("\nthe page stays open; Ctrl-C ends it")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _show_page(folder: Path, beside: ExitStack) -> None:
    """The live page, while the demo goes on; a machine on which none can be opened has a demo without."""
    from headwater.cli.beside import page_beside

    try:
        address = beside.enter_context(page_beside(folder, "127.0.0.1", 0))
    except HeadwaterError as error:
        messages().print(f"[dim]{error.what}[/]")
        return
    messages().print(f"[bold]watch it live[/]: {address}")


def _play(folder: Path, seconds: float, as_json: bool, beside: ExitStack) -> None:
    from headwater.api import open_warehouse
    from headwater.cli.demo.postgres import Postgres
    from headwater.cli.demo.world import fill, write_project

    started = time.monotonic()
    server = Postgres(folder / "postgres")
    with _said("PostgreSQL for source shop, SQLite for crm and stock", as_json):
        server.create()
        stack = server.running()
        stack.__enter__()
    try:
        with _said("a few thousand customers, products and orders", as_json):
            fill(folder, server.url("postgres"), server.url("shop"), random.Random(1))
            write_project(folder, server.url("shop"))
        warehouse = open_warehouse(folder)
        with _said("change capture at all three (headwater setup)", as_json):
            warehouse.setup()
        with _said("Spark, and the plans of three views", as_json):
            warehouse.plans()
        if not as_json:
            _show_page(folder, beside)
        with interruptible():
            played = _maintain(warehouse, folder, server.url("shop"), seconds, as_json)
            checked = _verify(warehouse, as_json)
    finally:
        stack.__exit__(None, None, None)
    _report(warehouse, played, checked, as_json)
    if not as_json:
        messages().print(f"[dim]{time.monotonic() - started:.0f} s in all; PostgreSQL is stopped[/]")
    if not all(v.ok for v in checked):
        raise typer.Exit(1)
    if not as_json:
        _next_steps(folder, warehouse.cut().seq)


@dataclass(frozen=True)
class Played:
    """What the writers committed per source, and what became of it after the views were loaded."""

    meter: Meter
    written: Mapping[str, int]
    cuts: int


def _maintain(warehouse: Warehouse, folder: Path, shop_url: str, seconds: float, as_json: bool) -> Played:
    """Load, let the writers write, and drain."""
    from headwater.cli.demo.writers import WriterProcess
    from headwater.cli.display import display_for

    writers = WriterProcess(folder, shop_url, seconds, PER_SECOND)
    display = display_for(sys.stdout, as_json, "headwater demo")
    with display, warehouse.engine(display) as engine:
        try:
            engine.start(warehouse.plans())
            engine.build()  # until they are shown: what is measured below is maintenance, not loading
            engine.meter.lags.clear()
            loaded = engine.cut.number
            display.note(f"views are loaded; four writers start, for {seconds:.0f} s")
            writers.start()
            while writers.busy:
                engine.step()
        finally:
            writers.stop()
        display.note("the writers are done; what is still on its way is taken in")
        engine.run(until_caught_up=True)
        display.stopped(engine.cut, "caught up")
    return Played(engine.meter, writers.committed, engine.cut.number - loaded)


def _verify(warehouse: Warehouse, as_json: bool) -> list[Verification]:
    from headwater.cli.checking import counting, report

    with counting("recomputing every view from its sources", as_json) as progress:
        checked = warehouse.verify(progress=progress)
    if not as_json:
        results().print("\n[bold]recomputed from the sources as of exactly this cut[/]")
        report(checked, as_json=False)
    return checked


def _report(warehouse: Warehouse, played: Played, checked: Sequence[Verification], as_json: bool) -> None:
    meter, written = played.meter, played.written
    p50 = statistics.median(lag for _, lag in meter.lags) if meter.lags else 0.0
    facts = {
        "transactions": sum(written.values()),
        "cuts": played.cuts,
        "questions": meter.tally.questions,
        "batches": meter.batches,
        "lag_p50_seconds": round(p50, 3),
        "verified": all(v.ok for v in checked),
    }
    if as_json:
        write_lines([to_json({"event": "summary", **facts, "project": str(warehouse.config.folder)})])
        return
    per_source = ", ".join(f"{name} {count:,}" for name, count in written.items())
    results().print(
        f"\n[bold]{sum(written.values()):,}[/] transactions ({per_source}) became [bold]{played.cuts:,}[/] cuts."
        f"\nThat took [bold]{meter.tally.questions:,}[/] questions to the sources, in {meter.batches:,} batches."
        f"\nHalf of the batches were visible within [bold]{p50:.1f} s[/] of their oldest transaction's commit."
    )


def _next_steps(folder: Path, seq: int) -> None:
    headwater = "headwater" if shutil.which("headwater") else str(Path(sys.argv[0]).absolute())
    where = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    query = "SELECT city, sum(amount) AS amount FROM open_orders GROUP BY city ORDER BY 2 DESC"
    screen = results()
    screen.print("\n[bold]Look around[/] (no server needed):\n")
    for line in (
        f"cd {where}",
        f"{headwater} ui                                   # the live page, in a browser",
        f"{headwater} status",
        f"{headwater} read open_orders --limit 5",
        f"{headwater} read busy_categories --at {seq // 2}        # an older state",
        f'{headwater} sql "{query}"',
        f"{headwater} log --from {max(1, seq - 4)}",
    ):
        screen.print(f"  {line}", markup=False, soft_wrap=True)
    screen.print("\nWith its PostgreSQL running again (the first line in a terminal of its own):\n")
    for line in (f"demo --serve --dir {folder}", "plan", "run --ui", "verify"):
        screen.print(f"  {headwater} {line}", markup=False, soft_wrap=True)


def _serve(folder: Path) -> None:
    from headwater.cli.demo.postgres import Postgres
    from headwater.cli.demo.writers import WriterProcess

    if not (folder / "headwater.toml").exists():
        raise UsageError(f"no demo has been played in {folder}", "run 'headwater demo' first")
    server = Postgres(folder / "postgres")
    with server.running():
        writers = WriterProcess(folder, server.url("shop"), float("inf"), SLOWLY)
        screen = results()
        screen.print(f"PostgreSQL runs, and about {SLOWLY:.0f} transactions a second are applied, until Ctrl-C.")
        screen.print(f"In another terminal: cd {folder}, then headwater run, plan, verify …", markup=False)
        try:
            writers.start()
            while writers.busy:
                time.sleep(0.2)
        except KeyboardInterrupt:
            screen.print("\nPostgreSQL is stopped")
        finally:
            writers.stop()


@contextmanager
def _claimed(folder: Path, fresh: bool) -> Iterator[None]:
    """The demo's folder, for us alone. Only a folder that a demo made is ever emptied: its marker says so."""
    marker = folder / MARKER
    if folder.exists() and not marker.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already and no demo made it", "choose another one with --dir")
    if not fresh and not marker.exists():
        raise UsageError(f"no demo has been played in {folder}", "run 'headwater demo' first")
    folder.mkdir(parents=True, exist_ok=True)
    with open(marker, "a") as held:
        _hold(held, folder)
        if fresh:
            _empty(folder, keep=marker)
        yield


def _hold(marker: IO[str], folder: Path) -> None:
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HeadwaterError(f"a demo runs in {folder} already", "stop it first, or choose another --dir") from None


def _empty(folder: Path, keep: Path) -> None:
    from headwater.cli.demo.postgres import Postgres

    if (folder / "postgres").exists():
        Postgres(folder / "postgres").stop()
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry != keep:
            entry.unlink()


@contextmanager
def _said(what: str, as_json: bool) -> Iterator[None]:
    started = time.monotonic()
    with busy(what, as_json):
        yield
    if not as_json:
        results().print(f"[green]✓[/] {what} [dim]{time.monotonic() - started:.1f} s[/]")


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM and a closed terminal end it like Ctrl-C, so that PostgreSQL is stopped then too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {kind: signal.signal(kind, interrupt) for kind in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
