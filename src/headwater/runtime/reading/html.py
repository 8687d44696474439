"""What a notebook shows of a warehouse and of a view: small tables in HTML. Pure: values in, text out.

Invariant: nothing in it is markup but what is written here. Values are escaped and shortened, and stand in a `bdi`, so
that none reorders what is beside it; what is left out is said in the caption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

import pyarrow as pa

from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.reading.values import records, text
from headwater.warehouse.cuts import Cut, ViewState

ROWS = 20
"""So many rows of a view are shown."""
COLUMNS = 50
LETTERS = 200
"""So much of a value is shown."""
_NULL = '<i style="opacity:0.6">NULL</i>'


def warehouse_html(name: str, cut: Cut) -> str:
    """The views of a warehouse at its newest cut; cut 0 is that of a warehouse that is not there yet."""
    if not cut.number:
        return f"<p>{_cell(name)}: nothing is maintained yet; <code>headwater run</code> loads the views</p>"
    when = datetime.fromtimestamp(cut.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if cut.at else "an unknown time"
    said = f"{name}: cut {cut.number}, shown at {when}; every live view holds transaction {cut.seq}"
    heads = ("view", "consistency", "state", "transaction", "history from", "sources")
    views = [
        (view, level(state), halted(state) or state.state, state.seq, state.horizon, ", ".join(state.sources))
        for view, state in cut.views.items()
    ]
    return _table(said, heads, views)


def view_html(name: str, state: ViewState, seq: int, cut: int, rows: pa.Table) -> str:
    """The first rows of a view at a state; `rows` has one more than are shown, if there are more."""
    many = rows.num_rows > ROWS
    how_many = f"the first {ROWS} rows" if many else "1 row" if rows.num_rows == 1 else f"{rows.num_rows} rows"
    narrow = f", {COLUMNS} of {rows.num_columns} columns" if rows.num_columns > COLUMNS else ""
    said = f"{name} after transaction {seq}, cut {cut}, consistency {level(state)}: {how_many}{narrow}"
    if halted(state):
        said += f"; {halted(state)}"
    shown = rows.slice(0, ROWS).select(list(range(min(rows.num_columns, COLUMNS))))
    numbered = shown.rename_columns([str(n) for n in range(shown.num_columns)])  # two columns may have one name
    return _table(said, shown.column_names, (row.values() for row in records(numbered)))


def level(state: ViewState) -> str:
    """What a view promises, as its definition says it."""
    return f"{state.level}, every {state.every}" if state.every > 1 else state.level


def halted(state: ViewState) -> str:
    """Why a view is not maintained any more; nothing of a live one."""
    return "" if state.state == "live" else f"{state.state} at {state.seq}: {without_secrets(state.reason)}"


def _table(caption: str, heads: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f'<th style="text-align:left">{_cell(name)}</th>' for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    said = f'<caption style="caption-side:top;text-align:left">{_cell(caption, 4 * LETTERS)}</caption>'
    return f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any, letters: int = LETTERS) -> str:
    if value is None:
        return _NULL
    shown = text(value)
    return f"<bdi>{escape(shown if len(shown) <= letters else shown[: letters - 1] + '…')}</bdi>"
