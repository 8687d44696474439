"""What happened to a view, transaction by transaction: a stream that can be taken up again where it was left.

    for change in changes(project, "open_orders", after=1042): …

Every transaction that changed the view is given once, in order, with the rows it added (count > 0) and took away
(count < 0), and with the source transaction itself where the journal still has it. Only what a cut shows is told, so a
change that was given is never taken back. To go on later, remember the `seq` of the last one.

Invariant: rows(at=a) plus the changes of (a, b] is rows(at=b).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.integrator.journal import transactions_between
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HistoryGone
from headwater.model.names import Seq, ViewName
from headwater.runtime.reading.values import records
from headwater.storage import Storage
from headwater.warehouse.changes import open_changelog, read_stretch, seqs_within
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.layout import log_folder

if TYPE_CHECKING:
    from headwater.runtime.project.project import Project

LOOK_SECONDS = 0.2
"""How often a reader who follows looks for a new cut."""
STRETCH = 5_000
"""About so many transactions are read at a time."""


@dataclass(frozen=True)
class Transaction:
    """A source transaction, by its source's own name for it."""

    source: str
    transaction: str
    committed_at: datetime | None
    global_id: str | None = None


@dataclass(frozen=True)
class Change:
    """What transaction `seq` did to a view: (count, row) each. `transactions` is empty where the journal has forgotten
    them; a global transaction has several."""

    view: ViewName
    seq: Seq
    rows: Sequence[tuple[int, dict[str, Any]]]
    transactions: Sequence[Transaction] = field(default_factory=tuple)


def changes(
    project: Project,
    view: str,
    after: int | None = None,
    follow: bool = False,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[Change]:
    """The changes after transaction `after` (None: after the newest one shown). `follow`: go on as new cuts come."""
    name = project.cut().named(view)
    told = project.cut().views[name].seq if after is None else after
    folder = project.cut().views[name].folder
    while True:
        cut = project.cut()
        state = cut.views.get(name)
        if state is None:
            raise HistoryGone(f"view {name} is not maintained any more", "'headwater status' shows those that are")
        check_after(name, state, told, folder)
        while told < state.seq:
            upto = min(state.seq, told + STRETCH)
            yield from stretch(project.storage, name, state, told, upto)
            told = upto
        if not follow:
            return
        wait(LOOK_SECONDS)


def change_json(change: Change) -> dict[str, Any]:
    """A change as programs read it."""
    return {
        "view": change.view,
        "seq": change.seq,
        "transactions": [
            {"source": t.source, "transaction": t.transaction, "committed_at": t.committed_at, "global": t.global_id}
            for t in change.transactions
        ],
        "changes": [{"count": count, "row": row} for count, row in change.rows],
    }


def newest(project: Project, view: str, most: int) -> int:
    """Where to begin for the last `most` changes of a view."""
    name = project.cut().named(view)
    state = project.cut().views[name]
    log = open_changelog(project.storage, log_folder(state.folder), state.version)
    found: list[int] = []
    for file in sorted(log.within(state.horizon, state.seq), key=lambda file: -file.high):
        if len(found) == most and file.high < found[0]:
            break  # what comes now is older
        own = seqs_within(project.storage, replace(log, files=[file]), state.horizon, state.seq)
        found = sorted({*found, *own})[-most:]
    return found[0] - 1 if found else int(state.seq)


def stretch(storage: Storage, name: ViewName, state: ViewState, after: int, upto: int) -> Iterator[Change]:
    """The changes of (after, upto]."""
    log = open_changelog(storage, log_folder(state.folder), state.version)
    rows = read_stretch(storage, log, after, upto)
    if not rows.num_rows:
        return
    causes = _transactions(storage, rows)
    current: list[tuple[int, dict[str, Any]]] = []
    at: int | None = None
    for row in records(rows):
        seq, count = row.pop(SEQ), row.pop(COUNT)
        if at is not None and seq != at:
            yield Change(name, Seq(at), current, causes.get(at, ()))
            current = []
        at = seq
        current.append((count, row))
    if at is not None:
        yield Change(name, Seq(at), current, causes.get(at, ()))


def _transactions(storage: Storage, rows: pa.Table) -> dict[int, list[Transaction]]:
    seqs = rows.column(SEQ)
    wanted, low, high = set(seqs.to_pylist()), seqs[0].as_py() - 1, seqs[-1].as_py()
    found: dict[int, list[Transaction]] = {}
    for told in transactions_between(storage, low, high):
        for row in told.to_pylist():
            if row[SEQ] in wanted:
                cause = Transaction(row["source"], row["transaction"], row["committed_at"], row.get("global_id"))
                found.setdefault(row[SEQ], []).append(cause)
    return found


def check_after(name: str, state: ViewState, told: int, folder: str) -> None:
    """Refuse to go on after `told` where what came then is not kept any more, or was another load (`folder`) of it."""
    if told > state.seq and state.folder == folder:
        raise HistoryGone(f"view {name} has no state {told} yet", f"the newest one is {state.seq}")
    if state.folder != folder or told < state.horizon:
        why = "was loaded anew" if state.folder != folder else f"keeps its history from {state.horizon} on"
        raise HistoryGone(
            f"the changes of view {name} after transaction {told} are not kept: it {why}",
            f"read it at {state.seq} (headwater read {name} --at {state.seq}) and go on from there",
        )
