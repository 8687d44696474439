"""Halted views that go on from where they stopped.

A view that met a value it could not take was halted, while its tables went on being journaled. So nothing is lost: it
takes what has happened since as one state, in which a value that was put in and corrected does not appear; a complete
view has no state in between (`ViewState.gaps`).
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.integrator.journal import Journal
from headwater.model.errors import UnknownName, UsageError
from headwater.model.names import ViewName
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.view import ManagedView


def to_resume(ledger: Ledger, journal: Journal, names: Sequence[str]) -> list[ManagedView]:
    """The halted views among these, with the halted ones they read and those that read them, parents first. Raises
    where one of them cannot go on."""
    views, others = ledger.views, ledger.others
    halted = {name for name in views if ledger.shown(name).state != "live"}
    wanted: set[ViewName] = set()
    for name in names:
        if name in others:
            raise UsageError(f"view {name} cannot go on: {others[ViewName(name)].reason}", f"headwater rebuild {name}")
        if name not in views:
            raise UnknownName("view", name, views)
        if name not in halted:
            raise UsageError(f"view {name} is not halted", "nothing to do")
        wanted.add(ViewName(name))
    before: set[ViewName] = set()
    while before != wanted:  # whole families
        before = set(wanted)
        for name, view in views.items():
            if name in halted and (name in wanted or wanted & set(view.plan.view.parents)):
                wanted |= {name, *(p for p in view.plan.view.parents if p in halted)}
    first = journal.segments[0].lo if journal.segments else 0
    for name in sorted(wanted):
        state = ledger.shown(name)
        if not state.resumable:
            raise UsageError(f"view {name} cannot go on: {state.reason}", f"headwater rebuild {name}")
        if first > state.through:
            raise UsageError(
                f"view {name} stopped at transaction {state.through}, and the journal begins at {first + 1}",
                f"headwater rebuild {name}",
            )
    return [view for name, view in views.items() if name in wanted]
