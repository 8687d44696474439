"""After a crash, whenever it came: back to the newest cut, as if nothing had happened since.

    journal segment without a manifest      removed; the sources will tell the same again
    table version no cut record names       rewound; the journal will give the same change again
    file no table version names             removed
    folder of a view that is in no cut      removed

Only the lock's holder may do this. It keeps an earlier one from showing anything any more before it begins.
"""

from __future__ import annotations

from headwater.integrator.journal import Journal
from headwater.model.errors import WarehouseError
from headwater.runtime.commit.tables import Tables
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.format import check_belongs, identity_of
from headwater.warehouse.sessions import pins


def recover(storage: Storage, journal: Journal, cuts: CutLog, tables: Tables) -> Cut:
    """The newest cut, with everything that is not part of it undone."""
    identity = identity_of(storage)
    check_belongs("the newest cut record", cuts.newest().warehouse, identity)
    cut = cuts.take_over()
    journal.refresh()
    for segment in journal.segments:
        check_belongs(f"segment {segment.number} of the journal", segment.warehouse, identity)
    _check_continuous(cut, journal)
    journal.remove_orphans()
    pinned = pins(storage)
    for name, state in cut.views.items():
        held = [pin.cut.views[name] for pin in pinned if name in pin.cut.views]
        tables.recover(state, [other for other in held if other.folder == state.folder])
    for folder in storage.names("loads"):
        if folder.startswith("refresh-"):
            storage.delete_folder(f"loads/{folder}")
    remove_unknown_views(storage, [cut, *(pin.cut for pin in pinned)])
    return cut


def _check_continuous(cut: Cut, journal: Journal) -> None:
    """The journal goes on where the cut is: numbers that were given twice would count transactions twice."""
    newest = journal.newest
    if not cut.seq or (newest is not None and journal.segments[0].lo <= cut.seq <= newest.hi):
        return
    held = "nothing" if newest is None else f"{journal.segments[0].lo + 1} to {newest.hi}"
    raise WarehouseError(
        f"the newest cut is at transaction {cut.seq}, but the journal holds {held}: they do not belong together",
        "put back the parts that are missing, or remove the whole folder and run again, which loads the views anew",
    )


def remove_unknown_views(storage: Storage, cuts: list[Cut]) -> None:
    """Delete the folders of views that none of these cuts knows."""
    known = {state.folder for cut in cuts for state in cut.views.values()}
    for name in storage.names("views"):
        for generation in storage.names(f"views/{name}"):
            if f"views/{name}/{generation}" not in known:
                storage.delete_folder(f"views/{name}/{generation}")
        if not storage.names(f"views/{name}"):
            storage.delete_folder(f"views/{name}")
