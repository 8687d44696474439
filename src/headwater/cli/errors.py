"""What a person sees when something goes wrong, decided in one place.

    HeadwaterError       error: what happened
                         → what to do                 exit code of the error: 2 the input, 1 the data or the run
    Ctrl-C               interrupted                  130
    anything else        one line and a way to the traceback, 1

Under --json the same as one JSON object on stderr.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from headwater.cli.screen import messages
from headwater.model.errors import HeadwaterError

INTERRUPTED = 130


@contextmanager
def explained(as_json: bool, debug: bool) -> Iterator[None]:
    """Run a command; whatever it raises becomes a message and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except HeadwaterError as error:
        if debug:
            _say(without_secrets(traceback.format_exc()))
        show([error], as_json)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        show([HeadwaterError("interrupted")], as_json)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _close_quietly()
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            _close_quietly()
            return
        usage = _usage(error)
        if usage and not as_json:
            raise  # typer shows these well, with the command's usage
        if usage:
            show([HeadwaterError(*usage)], as_json)
            raise typer.Exit(2) from None
        if debug:
            _say(without_secrets(traceback.format_exc()))
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            what = f"{os.fsdecode(error.filename)}: {error.strerror[0].lower()}{error.strerror[1:]}"
            show([HeadwaterError(what, "check the path and who may use it")], as_json)
            raise typer.Exit(1) from None
        said = without_secrets(" ".join(str(error).split()))[:500]
        what = f"unexpected {type(error).__name__}: {said}" if said else f"unexpected {type(error).__name__}"
        hint = "the traceback is above" if debug else "this is a bug in Headwater; --debug shows where it happened"
        show([HeadwaterError(what, hint)], as_json)
        raise typer.Exit(1) from None


def show(errors: Sequence[HeadwaterError], as_json: bool) -> None:
    """Print errors to stderr."""
    for error in errors:
        if as_json:
            _say(json.dumps({"error": error.what, "fix": error.fix}, ensure_ascii=False))
            continue
        screen = messages()
        screen.print("[bold red]error:[/]", end=" ")
        screen.print(error.what, markup=False, highlight=False, soft_wrap=True)
        if error.fix:
            screen.print("  [cyan]→[/]", end=" ")
            screen.print(error.fix, markup=False, highlight=False, soft_wrap=True)


def without_secrets(text: str) -> str:
    """Passwords in URLs and connection strings are never shown, not even those in other people's messages."""
    text = re.sub(r"(\w+://[^\s:/@]*):[^\s@]+@", r"\1:***@", text)
    return re.sub(r"(?i)(password\s*=\s*)('[^']*'|\S+)", r"\1***", text)


def _usage(error: Exception) -> tuple[str, str] | None:
    """What typer says of wrong arguments, None for any other error."""
    said = getattr(error, "format_message", None)
    if said is None:
        return None
    context = getattr(error, "ctx", None)
    return str(said()), f"see '{context.command_path if context else 'headwater'} --help'"


def _say(text: str) -> None:
    print(text.rstrip("\n"), file=sys.stderr)


def _close_quietly() -> None:
    """The reader of our output has gone, and that is its right: no message, also not from the interpreter's exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
