"""The command line: one line per command, each in the module of its group. Spark is imported by those that need it."""

from __future__ import annotations

import io
import sys
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headwater.cli import (
    agent,
    apply,
    capture,
    check,
    checking,
    demo,
    init,
    lab,
    mending,
    plan,
    reading,
    run,
    serve,
    status,
    tail,
    ui,
)
from headwater.cli.errors import explained
from headwater.cli.helptext import show_docstrings
from headwater.cli.logs import log_threads, start_log, taken_out

EPILOG = "Start with 'headwater demo', or with 'headwater init my-project'."


class Commands(TyperGroup):
    """The group of all commands: their errors are explained here; --debug and --log may stand anywhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["json"] = "--json" in args
        ctx.meta["debug"] = "--debug" in args
        with explained(ctx.meta["json"], ctx.meta["debug"]):
            args, log = taken_out(args)
            start_log(log)
        return super().parse_args(ctx, [a for a in args if a != "--debug"])

    def invoke(self, ctx: Any) -> Any:
        with explained(ctx.meta["json"], ctx.meta["debug"]):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, rich_markup_mode="rich", epilog=EPILOG,
    pretty_exceptions_enable=False,
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        print("headwater", metadata.version("headwater"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_version)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
    log: Annotated[
        str,
        typer.Option(
            "--log",
            metavar="FILE|json|text",
            help="Write what is decided and what fails to a file, or to standard error as JSON lines or as text; may"
            " stand anywhere.",
        ),
    ] = "",
    log_format: Annotated[
        str, typer.Option("--log-format", metavar="FORMAT", help="text or json; may stand anywhere.")
    ] = "text",
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error; may stand anywhere.")
    ] = "info",
) -> None:
    """Materialized views over many databases, kept up to date incrementally, at a stated consistency level.

    A project is a folder with a headwater.toml, which names the databases, and views/*.sql. Commands find it from the
    current folder upward, or take it from --project.
    """


_START, _RUN, _READ, _CHECK = "Start a project", "Maintain", "Read", "Check and tidy"

for panel, functions in {
    _START: (init.init, demo.demo),
    _RUN: (plan.plan, capture.setup, run.run, apply.apply, mending.resume, mending.rebuild),
    _READ: (status.status, ui.ui, serve.serve, reading.read, reading.sql, reading.log, tail.tail),
    _CHECK: (check.check, checking.verify, checking.compact, checking.publish, capture.release, capture.teardown),
}.items():
    for function in functions:
        app.command(rich_help_panel=panel)(function)

for commands in (app, lab.app, agent.app):
    show_docstrings(commands)
app.add_typer(agent.app, name="agent", rich_help_panel=_RUN)
app.add_typer(lab.app, name="lab", rich_help_panel="Understand")


def main() -> None:
    log_threads()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✓ or § shows a ? instead of failing
    app(prog_name="headwater")


if __name__ == "__main__":
    main()
