"""What a warehouse is: its format, and an identity that everything in it shares.

An older Headwater must not touch what a newer one wrote. And parts that do not belong together must not be taken for
one whole: a journal that outlived its cuts would be numbered from zero again, and count everything twice. So the
identity, drawn once, stands in every segment of the journal and every cut record, names the project at its sources (who
owns which capture), and is looked at before anything is written.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from headwater.model.errors import WarehouseError
from headwater.storage import Storage
from headwater.storage.records import decode, encode

FORMAT = 2
NAME = "headwater.json"
PARTS = ("cuts", "journal", "views")


@dataclass(frozen=True)
class _Description:
    """`identity` is empty in a warehouse from before there were identities."""

    format: int
    identity: str = ""


def check_format(storage: Storage, create: bool) -> bool:
    """True if there is a warehouse this version can use; makes one where there is none, if asked to."""
    if create:
        claim(storage)
        return True
    return _described(storage) is not None


def identity_of(storage: Storage) -> str:
    """The warehouse's identity; empty where there is no warehouse yet, or one from before there were identities."""
    found = _described(storage)
    return "" if found is None else found.identity


def claim(storage: Storage) -> str:
    """The identity of the warehouse at this place, made now where nothing is there yet."""
    found = _described(storage)
    if found is not None and found.identity:
        return found.identity
    left = [part for part in PARTS if storage.names(part)]
    if found is None and left:
        raise WarehouseError(
            f"{storage.url} holds parts of a warehouse ({', '.join(left)}) but no {NAME}: they may not belong together",
            f"remove {storage.url} and run again, which loads the views anew; or put the whole folder back",
        )
    storage.make_folder()
    identity = uuid.uuid4().hex
    text = encode(_Description(FORMAT, identity))
    if found is not None:  # from before there were identities
        storage.put(NAME, text)
    elif not storage.put_new(NAME, text):  # somebody else has just made it
        return identity_of(storage)
    return identity


def check_same(storage: Storage, identity: str) -> None:
    """Before something is written: this is still the warehouse that was opened."""
    if identity and identity_of(storage) != identity:
        raise WarehouseError(
            f"the warehouse at {storage.url} was removed or replaced under this run;"
            " nothing was written to what is there now",
            "start again: 'headwater run' loads the views anew where there is nothing",
        )


def check_belongs(what: str, found: str, identity: str) -> None:
    """A part of a warehouse names the whole it belongs to."""
    if found and identity and found != identity:
        raise WarehouseError(
            f"{what} belongs to another warehouse ({found[:8]}…) than the folder it lies in ({identity[:8]}…)",
            "put back what was copied over it, or remove the whole folder and run again, which loads the views anew",
        )


def _described(storage: Storage) -> _Description | None:
    text = storage.get(NAME)
    if text is None:
        return None
    try:
        found = decode(text, _Description, storage.uri(NAME))
    except WarehouseError as error:
        raise WarehouseError(
            f"{storage.uri(NAME)} is not a warehouse's description", "is [warehouse] path the right folder?"
        ) from error
    if found.format > FORMAT:
        raise WarehouseError(
            f"this warehouse has format {found.format}, written by a newer Headwater; this one knows up to {FORMAT}",
            "upgrade headwater",
        )
    return found
