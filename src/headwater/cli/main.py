"""The command line: what holds for all commands. Each is in the module of its group, and loaded when it is asked for
(`commands`); so is Spark, by those that need it."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headwater import __version__
from headwater.cli.commands import Commands
from headwater.cli.errors import explained
from headwater.cli.helptext import show_docstrings
from headwater.cli.imports import without_others
from headwater.cli.logs import log_threads, start_log, taken_out

EPILOG = "Start with 'headwater demo', or with 'headwater init my-project'."

ONLY_READ = frozenset({"agent", "log", "read", "sql", "status", "tail"})
"""Commands that hand rows to no other library."""
OWN_PROCESS = object()
"""What a context carries where the process is the command's own."""


class Group(TyperGroup):
    """The group of all commands: their errors are explained here; --debug and --log may stand anywhere."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self.commands = Commands()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["json"] = "--json" in args
        ctx.meta["debug"] = "--debug" in args
        with explained(ctx.meta["json"], ctx.meta["debug"]):
            args, log = taken_out(args)
            start_log(log)
        return super().parse_args(ctx, [a for a in args if a != "--debug"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.obj is OWN_PROCESS and args[0] in ONLY_READ:
            without_others()
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with explained(ctx.meta["json"], ctx.meta["debug"]):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Group, no_args_is_help=True, add_completion=False, rich_markup_mode="rich", epilog=EPILOG,
    pretty_exceptions_enable=False,
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        print("headwater", __version__)
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


show_docstrings(app)


def main() -> None:
    log_threads()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✓ or § shows a ? instead of failing
    app(prog_name="headwater", obj=OWN_PROCESS)


if __name__ == "__main__":
    main()
