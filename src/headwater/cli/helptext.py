"""What --help shows is what the docstring says: underscores, backslashes and brackets mean themselves, and the ends of
lines in a paragraph are those of the screen."""

from __future__ import annotations

import inspect

import typer
from rich.markup import escape


def show_docstrings(app: typer.Typer) -> None:
    """Give every command of an app its docstring as help, made ready for typer's "rich" mode."""
    for command in app.registered_commands:
        command.help = _paragraphs(command.help or inspect.getdoc(command.callback) or "")
    callback = app.registered_callback
    if callback is not None:
        callback.help = _paragraphs(inspect.getdoc(callback.callback) or "")
    elif isinstance(app.info.help, str):
        app.info.help = _paragraphs(inspect.cleandoc(app.info.help))


def _paragraphs(text: str) -> str:
    return "\n\n".join(escape(" ".join(part.split("\n"))) for part in text.split("\n\n"))
