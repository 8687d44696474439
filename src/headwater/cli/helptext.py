"""What --help shows is what the docstring says: underscores, backslashes and brackets mean themselves, and the ends of
lines in a paragraph are those of the screen."""

from __future__ import annotations

import inspect
import re

import typer


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
    return "\n\n".join(_literal(" ".join(part.split("\n"))) for part in text.split("\n\n"))


_TAG = re.compile(r"(\\*)(\[[a-z#/@][^[]*?])")


def _literal(text: str) -> str:
    """As `rich.markup.escape` has it, without loading rich: most commands show no help."""
    text = _TAG.sub(lambda found: f"{found[1] * 2}\\{found[2]}", text)
    return f"{text}\\" if text.endswith("\\") and not text.endswith("\\\\") else text
