"""Rows on the screen, in a pipe, and as JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from rich import box
from rich.table import Table
from rich.text import Text

from headwater.cli.screen import messages, results
from headwater.cli.values import field, records, text, to_json

SHOWN = 100
"""A terminal gets so many rows unless asked for more; pipes and JSON get all."""


def print_rows(table: pa.Table, as_json: bool, limited: bool) -> None:
    """Print an Arrow table. `limited` says that the user chose how many rows there are."""
    if as_json:
        write_lines(to_json(row) for row in records(table))
    elif sys.stdout.isatty():
        shown = table if limited else table.slice(0, SHOWN)
        results().print(_framed(shown))
        _say_count(table.num_rows, shown.num_rows)
    else:
        write_lines(["\t".join(field(n) for n in table.column_names)])
        write_lines("\t".join(field(v) for v in row.values()) for row in records(table))


def write_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def _framed(table: pa.Table) -> Table:
    framed = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in table.schema:
        numeric = any(test(column.type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
        framed.add_column(Text(column.name), justify="right" if numeric else "left", no_wrap=True, overflow="ellipsis")
    for row in records(table):
        framed.add_row(*(_cell(v) for v in row.values()))
    return framed


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim italic")
    return Text(text(value).replace("\r", "").replace("\n", "↵").replace("\t", "⇥"))


def _say_count(total: int, shown: int) -> None:
    rows = "1 row" if total == 1 else f"{total:,} rows"
    more = f", the first {shown:,} shown; --limit N shows more, a pipe gets all" if shown < total else ""
    messages().print(f"[dim]{rows}{more}[/]")
