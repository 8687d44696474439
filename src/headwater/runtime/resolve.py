"""Which state a reader sees: from "the newest" or "at s" to table versions.

Complete views distinguish every transaction, so any s between the horizon and the newest cut is a state. Once a view
that skips states takes part, s means the newest cut at or before it: there all views agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.model.consistency import Level
from headwater.model.errors import HistoryGone, UnknownName
from headwater.model.names import Seq, ViewName
from headwater.warehouse.cuts import Cut, CutLog, ViewState
from headwater.warehouse.reading import Pinned


def find_view(cut: Cut, name: str) -> ViewName:
    """A view by its name, in any case."""
    for known in cut.views:
        if known == name:
            return known
    for known in cut.views:
        if known.lower() == name.lower():
            return known
    raise UnknownName("view", name, cut.views)


def pinned_views(cut: Cut, cuts: CutLog, names: Iterable[ViewName], at: int | None) -> Mapping[ViewName, Pinned]:
    """The tables to read for these views at one state."""
    states = {name: cut.views[name] for name in names}
    if at is None:
        everything = Seq(2**62)  # convergence promises nothing of order, so what is there is shown
        return {
            name: _pinned(s, everything if s.level == Level.CONVERGENT.value else s.seq) for name, s in states.items()
        }
    if at > cut.seq:
        raise HistoryGone(f"there is no state {at} yet", f"the newest one is {cut.seq}")
    seq = Seq(at)
    if any(s.level != Level.COMPLETE.value for s in states.values()):
        older = cuts.before(seq)
        seq = older.seq if older is not None else seq
    for name, state in states.items():
        if seq < state.horizon:
            raise HistoryGone(
                f"state {at} of view {name} is older than its history",
                f"the oldest state kept is {state.horizon}; [warehouse] history says how many are kept",
            )
    return {name: _pinned(s, Seq(min(seq, s.seq))) for name, s in states.items()}


def settled_views(cut: Cut, names: Iterable[ViewName]) -> Mapping[ViewName, Pinned]:
    """These views at the newest transaction up to which each is whole: what a check compares with the sources."""
    return {name: _pinned(cut.views[name], cut.views[name].seq) for name in names}


def _pinned(state: ViewState, seq: Seq) -> Pinned:
    return Pinned(f"{state.folder}/log", state.version, seq)
