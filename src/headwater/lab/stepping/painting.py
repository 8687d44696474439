"""MVC's examples, event by event: the view update table of the merge process that the engine runs."""

from __future__ import annotations

import re

from headwater.lab.experiments.mvc_examples import VIEWS, Example
from headwater.lab.stepping.frames import Actor, Cell, Frame, Item, Queue, TableRow
from headwater.merge import ActionList, ViewUpdateTable, WarehouseTransaction

_ROWS = re.compile(r"rows? \(?([\d, ]+)\)?(?= )")


def of_example(example: Example) -> list[Frame]:
    """A frame for every change of the table that the algorithm makes, within an event too."""
    views = VIEWS if example.number > 1 else VIEWS[:2]
    table = ViewUpdateTable(views)
    frames: list[Frame] = []
    released: list[WarehouseTransaction] = []

    def keep(said: str) -> None:
        done = Queue("warehouse transactions", tuple(Item(_rows(t.rows)) for t in released))
        actors = (Actor("merge process", (), (done,)),)
        frames.append(Frame(len(frames), said, actors, painted=_drawn(table, views), states=1 + len(released)))

    event = ""

    def changed(said: str) -> None:
        nonlocal event
        keep(event + _ROWS.sub(lambda found: _rows(tuple(map(int, found[1].strip(",").split(",")))), said))
        event = ""

    merge = example.painting(table, changed)
    keep("the beginning: an empty table")
    for told in example.events:
        if told.startswith("U"):
            number, concerned = told[1:].split(": ")
            event = said = f"REL_{number} came, U{number} concerns {concerned.replace(' ', ' and ')}: "
            done = merge.relevance(int(number), concerned.split())
        else:
            _, row, view = told.split()
            event = said = f"AL_{row}^{view} came, the change of V{view} for U{row}: "
            done = merge.action_list(ActionList(f"V{view}", int(row), f"AL_{row}^{view}"))
        released += done
        if done:
            keep("; ".join(f"{_rows(t.rows)} {'go' if len(t.rows) > 1 else 'goes'} to the warehouse" for t in done))
        elif event:
            keep(f"{said}nothing changes")
    return frames


def _drawn(table: ViewUpdateTable, views: tuple[str, ...]) -> tuple[TableRow, ...]:
    rows = []
    for number, _, lists in table.snapshot():
        entries = [(view, table.entry(number, view)) for view in views]
        cells = tuple(Cell(view, entry.color.name.lower(), entry.state) for view, entry in entries)
        rows.append(TableRow(number, cells, tuple(str(al.actions) for al in lists)))
    return tuple(rows)


def _rows(rows: tuple[int, ...]) -> str:
    return " and ".join(f"U{row}" for row in rows)
