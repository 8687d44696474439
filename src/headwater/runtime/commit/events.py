"""What can happen to a view's state, as values, and the one function that applies them.

A `ViewState` is what a cut record says of a view. Nothing else in a run assigns one: parts send events to the ledger,
the ledger folds them with `after`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.model.names import Seq
from headwater.runtime.view import Halt
from headwater.warehouse.cuts import ViewState


@dataclass(frozen=True)
class TableVersions:
    """The versions of a view's tables that hold a change; `auxiliary` is −1 where there is none."""

    log: int
    auxiliary: int


@dataclass(frozen=True)
class Committed:
    """The view's tables hold everything up to `through`. `refreshed` is when a periodic view was recomputed."""

    view: str
    versions: TableVersions
    through: Seq
    refreshed: float = 0.0


@dataclass(frozen=True)
class CommittedAhead:
    """The tables of a convergent view hold the batch (lo, hi], whatever came before it."""

    view: str
    versions: TableVersions
    lo: Seq
    hi: Seq


@dataclass(frozen=True)
class CaughtUp:
    """A view that nobody sees yet has come to `hi`. `skipped` is a stretch (lo, hi] that it took as one state."""

    view: str
    hi: Seq
    skipped: tuple[Seq, Seq] | None = None


@dataclass(frozen=True)
class Advanced:
    """The view may be shown up to `seq`: nothing before it is still open."""

    view: str
    seq: Seq


@dataclass(frozen=True)
class Compacted:
    """A table's files were rewritten; `horizon` is the oldest state the changelog still tells apart."""

    view: str
    versions: TableVersions
    horizon: Seq


@dataclass(frozen=True)
class Halted:
    """The view is no longer maintained."""

    view: str
    why: Halt


@dataclass(frozen=True)
class Resumed:
    """A halted view goes on from what its last cut says."""

    view: str


Event = Committed | CommittedAhead | CaughtUp | Advanced | Compacted | Halted | Resumed


def after(state: ViewState, event: Event) -> ViewState:
    """The state once this has happened."""
    match event:
        case Committed():
            through = Seq(max(event.through, state.through))
            return replace(_at(state, event.versions), through=through, refreshed=event.refreshed)
        case CommittedAhead():
            return _with_batch(_at(state, event.versions), event.lo, event.hi)
        case CaughtUp():
            gaps = state.gaps if event.skipped is None else (*state.gaps, event.skipped)
            return replace(state, seq=event.hi, through=event.hi, gaps=gaps)
        case Advanced():
            seq = Seq(max(event.seq, state.seq))
            return replace(state, seq=seq, through=Seq(max(seq, state.through)))
        case Compacted():
            return replace(_at(state, event.versions), horizon=Seq(max(state.horizon, event.horizon)))
        case Halted():
            why = event.why
            return replace(state, state="halted", reason=why.reason, fix=why.fix, resumable=why.resumable)
        case Resumed():
            return replace(state, state="live", reason="", fix="", resumable=False)


def _at(state: ViewState, versions: TableVersions) -> ViewState:
    """TableVersions only grow: commits of one view may be told of out of order."""
    newest = TableVersions(max(versions.log, state.version), max(versions.auxiliary, state.auxiliary))
    return replace(state, version=newest.log, auxiliary=newest.auxiliary)


def _with_batch(state: ViewState, lo: Seq, hi: Seq) -> ViewState:
    """`seq` moves on when everything before it is there too."""
    ahead, seq = sorted([*state.ahead, (lo, hi)]), state.seq
    while ahead and ahead[0][0] <= seq:
        seq = Seq(max(seq, ahead.pop(0)[1]))
    return replace(state, seq=seq, through=seq, ahead=tuple(ahead))
