"""Views that need a common merge process (sections 6.1 and 6.2): all that one transaction can touch.

Views are in one group if they read a common thing, directly or through others: the connected components. Where a
transaction of a source may write several of its tables, that thing is the source, not the table: V1 = R and V2 = S
share no table, yet one transaction on both must appear in both at once. Groups share nothing, so each can be merged by
itself.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from headwater.merge.transactions import View


def groups(reads: Mapping[View, Collection[Hashable]]) -> list[tuple[View, ...]]:
    """The groups, each in the order of `reads`, ordered by their first view."""
    leader: dict[View, View] = {view: view for view in reads}

    def find(view: View) -> View:
        while leader[view] != view:
            leader[view] = view = leader[leader[view]]
        return view

    reader: dict[Hashable, View] = {}
    for view, things in reads.items():
        for thing in things:
            leader[find(view)] = find(reader.setdefault(thing, view))
    members: dict[View, list[View]] = {}
    for view in reads:
        members.setdefault(find(view), []).append(view)
    return [tuple(group) for group in members.values()]
