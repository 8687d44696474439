"""The ViewUpdateTable as the paper prints it, so that a test can stand beside the page."""

from __future__ import annotations

from headwater.merge import ActionList, ViewUpdateTable

VIEWS = ("V1", "V2", "V3")


def al(row: int, view: int) -> ActionList[str]:
    """AL_row^view."""
    return ActionList(f"V{view}", row, f"AL_{row}^{view}")


def colors(table: ViewUpdateTable) -> str:
    """One colour per entry (Simple Painting)."""
    return _shown(table, states=False)


def states(table: ViewUpdateTable) -> str:
    """Colour and state (Painting)."""
    return _shown(table, states=True)


def text(drawn: str) -> str:
    """A table written in a test, with the blanks that only make it pretty taken out."""
    return "\n".join(" ".join(line.split()) for line in drawn.strip().splitlines())


def _shown(table: ViewUpdateTable, *, states: bool) -> str:
    lines = [" ".join([*table.views, "WT"])]
    for row, _, lists in table.snapshot():
        entries = [table.entry(row, view) for view in table.views]
        cells = [f"({e.color.value},{e.state})" if states else e.color.value for e in entries]
        saved = "{" + ", ".join(a.actions for a in lists) + "}"
        lines.append(" ".join([f"U{row}", *cells, saved]))
    return "\n".join(lines)
