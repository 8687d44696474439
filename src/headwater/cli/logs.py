"""The log of a command: what it decides and what fails, with tracebacks; on the screen the same is a sentence.

    --log FILE                        lines of text, after what the file holds already
    --log FILE --log-format json      the same as JSON lines
    --log json | --log text           on standard error, for whoever collects that of a process

Of JSON one line is one event, whatever it holds: time, level, event, message, logger, thread, the facts that the code
has (view, source, seq, batch …), and error and traceback of what was raised. Invariant: no secret is in any line, and
no traceback is written to a terminal.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.cli.printable import json_safe, printable_lines
from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.logged import EVENT, FACTS
from headwater.runtime.project.secrets import without_secrets

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
OPTIONS = {"--log": "--log run.log", "--log-format": "--log-format json", "--log-level": "--log-level info"}
"""With an example of each."""
_TEXT = "%(asctime)s %(levelname)-7s %(threadName)s %(name)s: %(message)s"
_OWN = ("time", "level", "event", "message", "logger", "thread", "error", "fix", "traceback")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _TextOnATerminal(_Text):
    def formatException(self, ei: Any) -> str:  # noqa: N802 # logging's name
        return ""

    def format(self, record: logging.LogRecord) -> str:
        text, record.exc_text = super().format(record).rstrip("\n"), None  # else the next handler leaves it out, too
        return printable_lines(text)


class JsonLines(logging.Formatter):
    """One object a line. Secrets are taken out of every text before it is quoted: afterwards it could be cut in two."""

    def __init__(self, tracebacks: bool = True) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, EVENT, None) or record.name.removeprefix("headwater."),
            "message": record.getMessage(),
            "logger": record.name,
            "thread": record.threadName,
        }
        facts: Mapping[str, object] = getattr(record, FACTS, None) or {}
        line |= {f"{key}_" if key in _OWN else key: value for key, value in facts.items()}
        line |= self._raised(record)
        return json_safe(json.dumps(_clean(line), ensure_ascii=False))

    def _raised(self, record: logging.LogRecord) -> dict[str, object]:
        if not isinstance(record.exc_info, tuple) or record.exc_info[1] is None:
            return {}
        error = record.exc_info[1]
        said: dict[str, object] = {"error": type(error).__name__}
        if isinstance(error, HeadwaterError) and error.fix:
            said["fix"] = error.fix
        if self._tracebacks:
            said["traceback"] = self.formatException(record.exc_info)
        return said


def _clean(value: object) -> object:
    """What JSON can hold of it, without secrets; anything unknown as its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)  # JSON has no other numbers
    if isinstance(value, Mapping):
        return {str(_clean(str(key))): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(inner) for inner in value]
    return without_secrets(str(value))


def taken_out(args: list[str]) -> tuple[list[str], dict[str, str]]:
    """These options may stand anywhere: the other arguments, and what they say."""
    left, found, rest = list[str](), dict[str, str](), iter(args)
    for arg in rest:
        name, sign, value = arg.partition("=")
        if name not in OPTIONS:
            left.append(arg)
            continue
        if not sign:
            value = next(rest, "")
        if not value:
            raise UsageError(f"{name} needs a value", OPTIONS[name])
        found[name] = value
    return left, found


def start_log(options: Mapping[str, str]) -> None:
    """Write to where these options say from now on; nothing if they name no place, whatever a library says of logging:
    one that logs by no logger puts everybody's lines on the screen, unless the root has a handler."""
    logging.getLogger().addHandler(logging.NullHandler())
    where, level = options.get("--log"), options.get("--log-level", "info").lower()
    if where is None:
        if options:
            raise UsageError(f"{next(iter(options))} needs --log", "--log run.log, or --log json for standard error")
        return
    kind = options.get("--log-format", where if where in FORMATS else "text").lower()
    if level not in LEVELS:
        raise UsageError(f"there is no log level {level!r}", f"one of {', '.join(LEVELS)}")
    if kind not in FORMATS:
        raise UsageError(f"there is no log format {kind!r}", f"one of {', '.join(FORMATS)}")
    handler = _handler(where)
    terminal = where in FORMATS and sys.stderr.isatty()
    if kind == "json":
        handler.setFormatter(JsonLines(tracebacks=not terminal))
    else:
        handler.setFormatter((_TextOnATerminal if terminal else _Text)(_TEXT))
    logger = logging.getLogger("headwater")
    logger.setLevel(level.upper())
    logger.addHandler(handler)


def _handler(where: str) -> logging.Handler:
    if where in FORMATS:
        return logging.StreamHandler(sys.stderr)
    try:
        return logging.FileHandler(Path(where), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"cannot write to {where}: {error.strerror}", "choose another file") from error


def log_threads() -> None:
    """A thread that nobody waits for ends with a line of the log, not with a traceback on the screen."""

    def ended(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            name = args.thread.name if args.thread is not None else "a thread"
            logging.getLogger("headwater").error("%s ended: %s", name, args.exc_value, exc_info=args.exc_value)

    threading.excepthook = ended
