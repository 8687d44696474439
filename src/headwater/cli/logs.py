"""--log FILE: what a command decides and what fails, with tracebacks; on the screen the same is a sentence."""

from __future__ import annotations

import logging
from pathlib import Path

from headwater.model.errors import UsageError
from headwater.runtime.project.secrets import without_secrets

LEVELS = ("debug", "info", "warning", "error")
OPTIONS = ("--log", "--log-level")


class _WithoutSecrets(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


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
            raise UsageError(f"{name} needs a value", "--log run.log" if name == "--log" else "--log-level info")
        found[name] = value
    return left, found


def start_log(file: str, level: str) -> None:
    """Write to this file from now on, after what it holds already."""
    if level.lower() not in LEVELS:
        raise UsageError(f"there is no log level {level!r}", f"one of {', '.join(LEVELS)}")
    try:
        handler = logging.FileHandler(Path(file), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {file}: {error.strerror}", "choose another file") from error
    handler.setFormatter(_WithoutSecrets("%(asctime)s %(levelname)-7s %(threadName)s %(name)s: %(message)s"))
    logger = logging.getLogger("headwater")
    logger.setLevel(level.upper())
    logger.addHandler(handler)
