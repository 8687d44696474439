"""The view update table, drawn as the paper draws it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwater.cli.reading import duration

if TYPE_CHECKING:
    from headwater.warehouse.cuts import Cut

_STYLES = {"w": ("○", "bold"), "r": ("●", "bold red"), "g": ("●", "bright_black"), "b": ("·", "dim")}


def draw_groups(report: Mapping[str, Any], cut: Cut) -> RenderableType:
    """One table for every group that has something waiting, and a line for those that have not."""
    age = duration(max(0.0, time.time() - report["at"]))
    parts: list[RenderableType] = [
        Text.assemble(
            "cut ", (f"{cut.number:,}", "bold"), " at transaction ", (f"{cut.seq:,}", "bold"), ", numbered up to ",
            (f"{report['numbered']:,}", "bold"), (f"   as of {age} ago", "dim"),
        )
    ]  # fmt: skip
    for number, group in enumerate(report["groups"], 1):
        names = ", ".join(sorted(group["views"].values()))
        head = Text.assemble("\n", (f"group {number}", "bold"), f"  {group['algorithm']}  ", (names, "dim"))
        parts.append(head)
        parts.append(_draw(group) if group["rows"] else Text("  nothing waits", "green"))
        hidden = group["waiting"] - len(group["rows"])
        if hidden > 0:
            parts.append(Text(f"  … and {hidden:,} rows more", "dim"))
    parts.append(
        Text.assemble(
            "\n", _mark("w"), " waits for the view's change   ", _mark("r"), " has it, waits for others   ", _mark("b"),
            " does not concern the view",
        )
    )  # fmt: skip
    return Group(*parts)


def _draw(group: Mapping[str, Any]) -> Table:
    columns = _columns(group["views"])
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("transactions", no_wrap=True)
    for _, label in columns:
        table.add_column(label, justify="center")
    table.add_column("WT", style="red")
    table.add_column("waits", justify="right", style="dim")
    for row in group["rows"]:
        first, last = row["lo"] + 1, row["hi"]
        label = f"{first:,}" if first == last else f"{first:,}–{last:,}"
        cells = [_cell(row["entries"].get(key), last) for key, _ in columns]
        here = ", ".join(sorted({group["views"].get(key, "?") for key in row["actions"]}))
        age = duration(max(0.0, time.time() - row["since"]))
        table.add_row(Text.assemble(label, (f"  {', '.join(row['about'])}", "dim")), *cells, here, age)
    return table


def _columns(views: Mapping[str, str]) -> list[tuple[str, str]]:
    """Key and label of every column; a view that is being replaced has two, the new one with a prime."""
    seen: dict[str, int] = {}
    columns = []
    for key, name in views.items():
        columns.append((key, name + "′" * seen.get(name, 0)))
        seen[name] = seen.get(name, 0) + 1
    return columns


def _cell(entry: list[Any] | None, last: int) -> Text:
    color, at = entry if entry is not None else ("b", 0)
    mark = _mark(color)
    return Text.assemble(mark, (f" {at:,}", "red")) if at > last else mark  # intertwined with a later row


def _mark(color: str) -> Text:
    return Text(*_STYLES[color])
