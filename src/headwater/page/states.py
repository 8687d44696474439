"""From "at 1042", "10 minutes ago" or nothing to the tables to read: states, as links name them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headwater.model.names import ViewName
from headwater.page.look import Look, maintained
from headwater.runtime.reading.moments import cut_by, parse_at, state_in
from headwater.runtime.reading.resolve import pinned_views
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.reading import Pinned
from headwater.warehouse.sessions import PinnedCut


@contextmanager
def pinned(look: Look, names: Sequence[str] | None, at: str | None) -> Iterator[dict[ViewName, Pinned]]:
    """These views (all) at one state, kept from clean-up meanwhile."""
    cut = maintained(look.now())
    wanted = [cut.named(name) for name in names] if names is not None else list(cut.views)
    cuts, moment = CutLog(look.project.storage), parse_at(at or None)  # a log of one's own: this may take long
    if isinstance(moment, dt.datetime):
        seq: int | None = state_in(cut_by(cuts, cut, moment), wanted, moment)
    else:
        seq = moment
    pin = PinnedCut(look.project.storage, cut, seq)
    try:
        yield dict(pinned_views(cut, cuts, wanted, seq))
    finally:
        pin.close()
