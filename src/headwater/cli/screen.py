"""Where output goes: results to stdout, everything said about them to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 1000
"""Nothing is wrapped or cut where a program reads."""


def results() -> Console:
    """Standard output."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=PIPED_WIDTH)


def messages() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def grid(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A quiet table: bold heads, no lines between rows."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return table


@contextmanager
def busy(text: str, quiet: bool = False) -> Iterator[None]:
    """A spinner on a terminal, nothing elsewhere."""
    screen = messages()
    if quiet or not screen.is_terminal:
        yield
        return
    with screen.status(f"{text} …", spinner="dots"):
        yield
