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
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from headwater.cli.printable import json_safe, message
from headwater.model.errors import HeadwaterError
from headwater.model.logged import event
from headwater.runtime.project.secrets import without_secrets

log = logging.getLogger(__name__)

INTERRUPTED = 130
ENGINE = ("cronsim", "deltalake", "duckdb", "obstore", "pyspark", "sqlglot", "starlette", "uvicorn")
"""What is not installed beside an agent."""
_STYLES = {"error": "bold red", "warning": "bold yellow"}


@contextmanager
def explained(as_json: bool, debug: bool) -> Iterator[None]:
    """Run a command; whatever it raises becomes a message and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except HeadwaterError as error:
        if debug:
            _say(traceback.format_exc())
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
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in ENGINE:
            what = f"this needs Headwater's engine, and {error.name} is not installed"
            show(
                [HeadwaterError(what, "pip install 'headwater[engine]'; an agent needs no more than there is")], as_json
            )
            raise typer.Exit(2) from None
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
            _say(traceback.format_exc())
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            what = f"{os.fsdecode(error.filename)}: {error.strerror[0].lower()}{error.strerror[1:]}"
            show([HeadwaterError(what, "check the path and who may use it")], as_json)
            raise typer.Exit(1) from None
        log.error("unexpected", exc_info=error, extra=event("command.failed"))
        words = without_secrets(" ".join(str(error).split()))[:500]  # whole ones first: a half is not recognised
        what = f"unexpected {type(error).__name__}: {words}" if words else f"unexpected {type(error).__name__}"
        hint = "the traceback is above" if debug else "this is a bug in Headwater; --debug shows where it happened"
        show([HeadwaterError(what, hint)], as_json)
        raise typer.Exit(1) from None


def show(errors: Sequence[HeadwaterError], as_json: bool) -> None:
    """Print errors to stderr."""
    for error in errors:
        log.error("%s", error.what, exc_info=error, extra=event("command.failed"))
        tell("error", {"error": error.what, "fix": error.fix}, as_json)


def tell(kind: str, facts: Mapping[str, Any], as_json: bool) -> None:
    """Say one thing on stderr: what it is (`facts[kind]`) and what to do (`fix`). Statements to paste, which follow the
    first line of a fix, stand alone on their lines."""
    if as_json:
        clean = {key: without_secrets(v) if isinstance(v, str) else v for key, v in facts.items()}
        print(json_safe(json.dumps(clean, ensure_ascii=False)), file=sys.stderr)
        return
    from rich.text import Text  # most commands have nothing to tell, and rich takes a while to load

    from headwater.cli.screen import messages, said

    screen = messages()
    screen.print(Text(f"{kind}:", _STYLES[kind]), said(facts[kind]), soft_wrap=True)
    first, *statements = facts["fix"].split("\n")
    if first:
        screen.print(Text("  →", "cyan"), said(first), soft_wrap=True)
    for line in statements:
        screen.print(said(f"    {line}"), soft_wrap=True)


def _usage(error: Exception) -> tuple[str, str] | None:
    """What typer says of wrong arguments, None for any other error."""
    said = getattr(error, "format_message", None)
    if said is None:
        return None
    context = getattr(error, "ctx", None)
    return str(said()), f"see '{context.command_path if context else 'headwater'} --help'"


def _say(text: str) -> None:
    print(message(text).rstrip("\n"), file=sys.stderr)


def _close_quietly() -> None:
    """The reader of our output has gone, and that is its right: no message, also not from the interpreter's exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
