"""Which state a reader sees: from "the newest" or "at s" to table versions.

Complete views distinguish every transaction, so any s between the horizon and the newest cut is a state. Once a view
that skips states takes part, s means the newest cut in which none of the views is further: there all views agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.model.consistency import Level
from headwater.model.errors import HistoryGone
from headwater.model.names import FOREVER, Seq, ViewName
from headwater.warehouse.cuts import Cut, CutLog, ViewState
from headwater.warehouse.layout import log_folder
from headwater.warehouse.reading import Pinned


def pinned_views(cut: Cut, cuts: CutLog, names: Iterable[ViewName], at: int | None) -> Mapping[ViewName, Pinned]:
    """The tables to read for these views at one state."""
    states = {name: cut.views[name] for name in names}
    if at is None:  # convergence promises nothing of order, so what is there is shown
        return {name: _pinned(s, FOREVER if s.level == Level.CONVERGENT.value else s.seq) for name, s in states.items()}
    newest = min((s.seq for s in states.values() if s.state == "live"), default=cut.seq)
    if at > newest:
        raise HistoryGone(f"there is no state {at} yet", f"the newest one is {newest}")
    for name, state in states.items():
        if at < state.horizon:
            raise _gone(name, at, state)
        gap = next(((lo, hi) for lo, hi in state.gaps if lo < at < hi), None)
        if gap is not None:
            raise HistoryGone(
                f"view {name} has no state {at}: it was halted at {gap[0]}, and resumed with everything up to {gap[1]}",
                f"ask for {gap[0]} or {gap[1]}",
            )
    if all(s.every_transaction for s in states.values()):
        return {name: _pinned(s, Seq(min(at, s.seq))) for name, s in states.items()}
    older = cuts.find(lambda earlier: all(_known(earlier, n, s) <= at for n, s in states.items()), cut)
    pinned = {}
    for name, state in states.items():
        seq = _known(older, name, state) if older is not None else Seq(-1)
        if seq < state.horizon:
            raise _gone(name, at, state)
        pinned[name] = _pinned(state, seq)
    return pinned


def _known(cut: Cut, name: ViewName, now: ViewState) -> Seq:
    """How far a cut shows a view; −1 if it does not know it in its present form."""
    state = cut.views.get(name)
    return state.seq if state is not None and state.folder == now.folder else Seq(-1)


def _gone(name: ViewName, at: int, state: ViewState) -> HistoryGone:
    return HistoryGone(
        f"state {at} of view {name} is older than its history",
        f"the oldest state kept is {state.horizon}; [warehouse] history says how many are kept",
    )


def settled_views(cut: Cut, names: Iterable[ViewName]) -> Mapping[ViewName, Pinned]:
    """These views at the newest transaction up to which each is whole: what a check compares with the sources."""
    return {name: _pinned(cut.views[name], cut.views[name].seq) for name in names}


def _pinned(state: ViewState, seq: Seq) -> Pinned:
    converges = state.level == Level.CONVERGENT.value
    return Pinned(log_folder(state.folder), state.version, seq, state.order, folded=converges)
