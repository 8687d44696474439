"""Rows on the screen, in a pipe, and as JSON lines.

On a screen nothing is left out in silence: a table that is too wide folds its long texts over lines, and one whose
columns do not fit even so is shown row by row, a line for every column. Numbers and times are never broken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headwater.cli.printable import cell
from headwater.cli.values import field, text, to_json

if TYPE_CHECKING:  # rich is loaded by who has a screen, pyarrow by who has rows
    import pyarrow as pa
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

SHOWN = 100
"""How many rows a terminal shows unless asked for more; pipes and JSON get all."""
NARROW = 16
"""A folded column is at least so wide: narrower ones are hard to read."""
GAP = 3
"""Cells between two columns."""


def print_rows(table: pa.Table, as_json: bool, limited: bool) -> None:
    """Print an Arrow table. `limited` says that the user chose how many rows there are."""
    from headwater.runtime.reading.values import records

    if as_json:
        write_lines(to_json(row) for row in records(table))
    elif sys.stdout.isatty():
        from headwater.cli.screen import results

        shown, screen = table if limited else table.slice(0, SHOWN), results()
        screen.print(framed(shown, screen.width))
        _say_count(table.num_rows, shown.num_rows)
    else:
        write_lines(["\t".join(field(n) for n in table.column_names)])
        write_lines("\t".join(field(v) for v in row.values()) for row in records(table))


def write_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def framed(table: pa.Table, width: int) -> RenderableType:
    """The rows as they fit this width."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    names = [cell(name) for name in table.column_names]
    rows = [[_cell(value) for value in row] for row in _values(table)]
    wanted = [max([cell_len(name), *(r[n].cell_len for r in rows)]) for n, name in enumerate(names)]
    least = [w if _rigid(kind) else min(w, NARROW) for w, kind in zip(wanted, table.schema.types, strict=True)]
    widths = fit(wanted, least, width - GAP * max(0, len(names) - 1))
    if widths is None:
        return _one_by_one(names, rows)
    framed = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, GAP // 2), header_style="bold", show_edge=False)
    for name, kind, cells in zip(names, table.schema.types, widths, strict=True):
        justify = "right" if _number(kind) else "left"
        framed.add_column(Text(name), justify=justify, width=cells, overflow="fold")  # type: ignore[arg-type]  # a Literal
    for row in rows:
        framed.add_row(*row)
    return framed


def fit(wanted: Sequence[int], least: Sequence[int], width: int) -> list[int] | None:
    """Column widths that fit, the widest columns narrowed first; None if they cannot."""
    if sum(least) > width:
        return None
    widths = [max(low, min(w, width)) for w, low in zip(wanted, least, strict=True)]
    while sum(widths) > width:
        widest = max((n for n, w in enumerate(widths) if w > least[n]), key=lambda n: widths[n])
        widths[widest] -= 1
    return widths


def _one_by_one(names: Sequence[str], rows: Sequence[Sequence[Text]]) -> Table:
    """A line for every column of every row, as psql's \\x shows them."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold", ratio=1)
    for number, row in enumerate(rows, 1):
        table.add_row(Text(f"── {number:,}", "dim"), "")
        for name, value in zip(names, row, strict=True):
            table.add_row(Text(name), value)
    return table


def _values(table: pa.Table) -> Iterable[Sequence[Any]]:
    """The rows' values in order; also where two columns have one name."""
    from headwater.runtime.reading.values import records

    numbered = table.rename_columns([str(n) for n in range(table.num_columns)])
    return ([row[str(n)] for n in range(table.num_columns)] for row in records(numbered))


def _cell(value: Any) -> Text:
    from rich.text import Text

    return Text("NULL", style="dim italic") if value is None else Text(cell(text(value)))


def _number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _rigid(kind: pa.DataType) -> bool:
    """Whether values of this type mislead when they are broken over lines."""
    import pyarrow as pa

    return _number(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)


def _say_count(total: int, shown: int) -> None:
    from headwater.cli.screen import messages

    rows = "1 row" if total == 1 else f"{total:,} rows"
    more = f", the first {shown:,} shown; --limit N shows more, a pipe gets all" if shown < total else ""
    messages().print(f"[dim]{rows}{more}[/]")
