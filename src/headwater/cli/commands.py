"""The commands by name, each imported when it is asked for: whoever reads a row does not wait for the lab to load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from headwater.cli.helptext import show_docstrings

START, RUN, READ, CHECK, UNDERSTAND = "Start a project", "Maintain", "Read", "Check and tidy", "Understand"


@dataclass(frozen=True)
class Place:
    """Where a command is: its module below `headwater.cli`, its function or group there, its panel in the help."""

    module: str
    name: str
    panel: str


PLACES = {
    "init": Place("init", "init", START),
    "demo": Place("demo", "demo", START),
    "plan": Place("plan", "plan", RUN),
    "setup": Place("capture", "setup", RUN),
    "run": Place("run", "run", RUN),
    "apply": Place("apply", "apply", RUN),
    "resume": Place("mending", "resume", RUN),
    "rebuild": Place("mending", "rebuild", RUN),
    "status": Place("status", "status", READ),
    "ui": Place("ui", "ui", READ),
    "serve": Place("serve", "serve", READ),
    "read": Place("reading", "read", READ),
    "sql": Place("reading", "sql", READ),
    "log": Place("reading", "log", READ),
    "tail": Place("tail", "tail", READ),
    "check": Place("check", "check", CHECK),
    "verify": Place("checking", "verify", CHECK),
    "compact": Place("checking", "compact", CHECK),
    "publish": Place("checking", "publish", CHECK),
    "release": Place("capture", "release", CHECK),
    "teardown": Place("capture", "teardown", CHECK),
    "agent": Place("agent", "app", RUN),
    "lab": Place("lab", "app", UNDERSTAND),
}


class Commands(MutableMapping[str, Any]):
    """The commands as click wants them: by name, made when they are looked at."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name, PLACES[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]


@cache  # a group is one object, and its texts are made ready once: what is escaped twice shows its backslashes
def _command(name: str, place: Place) -> Any:
    found: typer.Typer | Callable[..., Any] = getattr(import_module(f"headwater.cli.{place.module}"), place.name)
    alone = typer.Typer(rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)
    alone.callback()(_nothing)  # else typer makes no group of one command
    if isinstance(found, typer.Typer):
        show_docstrings(found)
        alone.add_typer(found, name=name, rich_help_panel=place.panel)
    else:
        alone.command(name, rich_help_panel=place.panel)(found)
        show_docstrings(alone)
    return get_command(alone).commands[name]  # type: ignore[attr-defined] # a group's


def _nothing() -> None:
    pass
