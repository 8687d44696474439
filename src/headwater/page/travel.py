"""Time travel: a view at any state that is kept, what its last transaction changed, and that transaction itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.model.names import ViewName
from headwater.page import cells
from headwater.page.look import Look, maintained
from headwater.page.query import Limits, first_rows
from headwater.page.states import pinned
from headwater.runtime.reading.changes import stretch
from headwater.runtime.reading.log import transactions
from headwater.storage import Storage
from headwater.warehouse.changes import Changelog, open_changelog, seqs_within
from headwater.warehouse.cuts import Moment, ViewState
from headwater.warehouse.layout import log_folder

ROWS = 200
CHANGES = 200
"""So many rows, and so many changed rows, are shown."""
TICKS = 400
"""So many cuts are marked on the slider."""


def travel(look: Look, view: str, at: str | None) -> dict[str, Any]:
    """A view at one state."""
    now = look.now()
    name = maintained(now).named(view)
    state, storage = now.cut.views[name], look.project.storage
    with pinned(look, [name], at) as found:
        here = found[name]
        seq = int(min(here.seq, state.seq))
        rows, more = first_rows(storage, here, Limits(rows=ROWS))
        log = open_changelog(storage, log_folder(state.folder), state.version)
        last = _last(storage, log, int(state.horizon), seq)
        change = _change(storage, name, state, last) if last is not None else None
        following = _next(storage, log, seq, int(state.seq))
    return {
        "view": name,
        "at": seq,
        "newest": state.seq,
        "oldest": state.horizon,
        "level": state.level,
        "state": state.state,
        "table": cells.table(rows),
        "more": more,
        "change": change,
        "previous": None if last is None else last - 1 if last == seq else last,
        "next": following,
        "previous_change": _last(storage, log, int(state.horizon), seq - 1),
    }


def _change(storage: Storage, name: ViewName, state: ViewState, seq: int) -> dict[str, Any] | None:
    """What transaction `seq` did to the view, and what it was at its source."""
    found = next(iter(stretch(storage, name, state, seq - 1, seq)), None)
    if found is None:
        return None
    rows = sorted(found.rows, key=lambda one: one[0])
    return {
        "seq": seq,
        "rows": [{"count": count, "row": _row(row)} for count, row in rows[:CHANGES]],
        "changed": len(rows),
        "transactions": [_transaction(t) for t in transactions(storage, seq, seq)],
    }


def _transaction(told: Mapping[str, Any]) -> dict[str, Any]:
    at = told["committed_at"]
    return {
        "source": told["source"],
        "transaction": told["transaction"],
        "committed_at": None if at is None else at.timestamp(),
        "global": told["global"],
        "changed": len(told["changes"]),
        "changes": [
            {"table": c["table"], "count": c["count"], "row": _row({**c["row"], **c.get("unfit", {})})}
            for c in told["changes"][:CHANGES]
        ],
    }


def _row(row: Mapping[str, Any]) -> list[list[str | None]]:
    return [[name, cells.cell(value)] for name, value in row.items()]


def _last(storage: Storage, log: Changelog, horizon: int, seq: int) -> int | None:
    """The last transaction up to `seq` that changed the view, as far as its history goes."""
    best: int | None = None
    for file in sorted(log.within(horizon, seq), key=lambda file: -file.high):
        if best is not None and file.high <= best:
            break
        found = seqs_within(storage, _only(log, file.name), horizon, seq)
        best = max([*found[-1:], *([best] if best is not None else [])], default=None)
    return best


def _next(storage: Storage, log: Changelog, seq: int, newest: int) -> int | None:
    """The next transaction after `seq` that changed the view."""
    best: int | None = None
    for file in sorted(log.within(seq, newest), key=lambda file: file.low):
        if best is not None and file.low >= best:
            break
        found = seqs_within(storage, _only(log, file.name), seq, newest)
        best = min([*found[:1], *([best] if best is not None else [])], default=None)
    return best


def _only(log: Changelog, name: str) -> Changelog:
    return Changelog(log.folder, log.schema, [file for file in log.files if file.name == name], log.bytes)


def ticks(look: Look) -> list[dict[str, Any]]:
    """The newest cuts, for the slider."""
    return [_tick(moment) for moment in look.moments(TICKS)]


def _tick(moment: Moment) -> dict[str, Any]:
    return {"cut": moment.cut, "seq": moment.seq, "at": moment.at}
