"""A warehouse is one whole, of a format that is known."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.model.errors import WarehouseError
from headwater.storage import Storage
from headwater.warehouse.format import NAME, check_belongs, check_format, check_same, claim, identity_of

Open = Callable[[], Storage]


def test_an_identity_is_drawn_once(open_storage: Open) -> None:
    assert identity_of(open_storage()) == ""
    assert not check_format(open_storage(), create=False)
    identity = claim(open_storage())
    assert claim(open_storage()) == identity_of(open_storage()) == identity
    assert check_format(open_storage(), create=False)


def test_all_that_claim_at_once_get_the_same_identity(open_storage: Open) -> None:
    with ThreadPoolExecutor(8) as threads:
        drawn = set(threads.map(lambda _: claim(open_storage()), range(8)))
    assert drawn == {identity_of(open_storage())}


def test_one_from_before_there_were_identities_gets_one(storage: Storage) -> None:
    storage.put(NAME, b'{"format": 1}')
    storage.put("cuts/x", b"")
    identity = claim(storage)
    assert identity
    assert identity_of(storage) == identity


def test_a_warehouse_replaced_under_a_run_is_noticed(storage: Storage) -> None:
    identity = claim(storage)
    check_same(storage, identity)
    check_same(storage, "")
    storage.delete(NAME)
    with pytest.raises(WarehouseError, match="removed or replaced"):
        check_same(storage, identity)
    claim(storage)
    with pytest.raises(WarehouseError, match="removed or replaced"):
        check_same(storage, identity)


def test_parts_without_a_description_are_refused(storage: Storage) -> None:
    storage.put("journal/000000000001/manifest.json", b"{}")
    with pytest.raises(WarehouseError, match=r"holds parts of a warehouse \(journal\)"):
        claim(storage)


def test_a_newer_format_and_no_format(storage: Storage) -> None:
    storage.put(NAME, b'{"format": 99}')
    with pytest.raises(WarehouseError, match="format 99, written by a newer"):
        claim(storage)
    storage.put(NAME, b"[]")
    with pytest.raises(WarehouseError, match="not a warehouse's description"):
        identity_of(storage)


def test_a_part_of_another_whole() -> None:
    check_belongs("it", "", "a" * 32)
    check_belongs("it", "a" * 32, "a" * 32)
    with pytest.raises(WarehouseError, match="it belongs to another warehouse"):
        check_belongs("it", "b" * 32, "a" * 32)
