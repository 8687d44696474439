"""Where output goes: results to stdout, everything said about them to stderr.

Whatever goes through these consoles can be looked at: a character that would command the terminal is written out, and
`:1234:` stays what it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from headwater.cli.printable import cell, message, printable_lines

PIPED_WIDTH = 1000
"""Nothing is wrapped or cut where a program reads."""


class SafeConsole(Console):
    """The last net: text that nobody made printable becomes so here. (Its width was not reckoned with, so those who
    show data in columns do it themselves.)"""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=printable_lines(segment.text)) for segment in buffer
        )


def results() -> Console:
    """Standard output."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return SafeConsole(highlight=False, emoji=False, width=width)


def messages() -> Console:
    """Standard error."""
    return SafeConsole(stderr=True, highlight=False, emoji=False)


def plain(text: str, style: str = "") -> Text:
    """A name or a value as it is: brackets in it are no markup."""
    return Text(cell(text), style=style)


def said(text: str, style: str = "") -> Text:
    """A sentence that may quote data or other people's messages."""
    return Text(message(text), style=style)


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
    with screen.status(plain(f"{text} …"), spinner="dots"):
        yield
