"""The view update table, drawn as the paper draws it: rows of transactions, columns V1, V2, …, and what waits in WT."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwater.cli.screen import plain
from headwater.runtime.reading.values import duration

if TYPE_CHECKING:
    from headwater.warehouse.cuts import Cut

SHOWN = 20
_STYLES = {"w": ("○", "bold"), "r": ("●", "bold red"), "g": ("●", "bright_black"), "b": ("·", "dim")}


def draw_groups(report: Mapping[str, Any], cut: Cut) -> RenderableType:
    """One table for every group that has something waiting, and a line for those that have not."""
    age = duration(max(0.0, time.time() - report["at"]))
    numbers = (f"{cut.number:,}", f"{cut.seq:,}", f"{report['numbered']:,}")
    parts: list[RenderableType] = [
        Text.from_markup(
            f"cut [bold]{numbers[0]}[/] at transaction [bold]{numbers[1]}[/], numbered up to [bold]{numbers[2]}[/]"
            f"   [dim]{age} ago[/]"
        )
    ]
    for number, group in enumerate(report["groups"], 1):
        parts += [Text(), Text.assemble((f"group {number}", "bold"), plain(f"  {', '.join(group['sources'])}  "),
                                        (group["algorithm"], "cyan"))]  # fmt: skip
        columns = _columns(group["views"])
        parts.append(
            Columns([Text.assemble((f"V{n}", "bold"), plain(f" {name}")) for n, name in enumerate(columns.values(), 1)])
        )
        if not group["rows"]:
            parts.append(Text("nothing waits", "green"))
            continue
        parts.append(_draw(group, list(columns)))
        hidden = group["waiting"] - min(SHOWN, len(group["rows"]))
        if hidden > 0:
            parts.append(Text(f"… and {hidden:,} more rows", "dim"))
    legend = (("w", "waits for the view's change"), ("r", "has it, waits for others"), ("b", "no concern of the view"))
    said = [Text.assemble(_mark(color), f" {says}") for color, says in legend]
    said.append(Text.assemble(_mark("r"), ("7", "red"), " one change with row 7"))
    parts += [Text(), Text("   ").join(said)]
    return Group(*parts)


def _draw(group: Mapping[str, Any], keys: list[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("row", justify="right", min_width=3)
    table.add_column("transactions", min_width=12)
    for n in range(1, len(keys) + 1):
        table.add_column(f"V{n}", min_width=3)
    table.add_column("WT", min_width=2, style="red")
    table.add_column("waits", justify="right", style="dim", min_width=6)
    table.add_column("tables", style="dim", overflow="fold", max_width=30)
    shown = group["rows"][:SHOWN]
    number = {row["hi"]: n for n, row in enumerate(shown, 1)}
    for n, row in enumerate(shown, 1):
        first, last = row["lo"] + 1, row["hi"]
        label = f"{first:,}" if first == last else f"{first:,}–{last:,}"
        cells = [_cell(row["entries"].get(key), last, number) for key in keys]
        here = sorted(keys.index(key) + 1 for key in set(row["actions"]) if key in keys)
        age = duration(max(0.0, time.time() - row["since"]))
        table.add_row(str(n), label, *cells, " ".join(map(str, here)), age, plain(", ".join(row["about"])))
    return table


def _columns(views: Mapping[str, str]) -> dict[str, str]:
    """Key → label of every column; a view that is being replaced has two, the new one with a prime."""
    seen: dict[str, int] = {}
    columns = {}
    for key, name in views.items():
        columns[key] = name + "′" * seen.get(name, 0)
        seen[name] = seen.get(name, 0) + 1
    return columns


def _cell(entry: list[Any] | None, last: int, number: Mapping[int, int]) -> Text:
    """The colour, and the row of its state where that is a later one: the two are intertwined."""
    color, at = entry if entry is not None else ("b", 0)
    mark = _mark(color)
    return Text.assemble(mark, (str(number.get(at, "…")), "red")) if at > last else mark


def _mark(color: str) -> Text:
    return Text(*_STYLES[color])
