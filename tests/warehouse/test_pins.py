"""Pins keep a state readable while somebody reads it, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from headwater.model.names import Seq, ViewName
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, ViewState
from headwater.warehouse.sessions import FOLDER, PinnedCut, pins

CUT = Cut(4, Seq(9), views={ViewName("v"): ViewState("views/v/1", 3, -1, Seq(9), Seq(0), "complete", "f")})


def test_a_pin_is_seen_by_others_until_it_is_closed(open_storage: Callable[[], Storage]) -> None:
    storage = open_storage()
    assert pins(storage) == []
    one, other = PinnedCut(open_storage(), CUT), PinnedCut(open_storage(), CUT, at=7)
    found = sorted(pins(storage), key=lambda pin: pin.seq)
    assert [(pin.seq, pin.cut) for pin in found] == [(7, CUT), (9, CUT)]
    assert all(pin.owner.startswith("process ") for pin in found)
    one.close()
    assert [pin.seq for pin in pins(storage)] == [7]
    other.close()
    assert pins(storage) == []


def test_a_pin_whose_owner_died_runs_out_and_is_removed(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.warehouse.sessions.PIN_SECONDS", 1.0)
    pin = PinnedCut(storage, CUT)
    time.sleep(1.3)
    assert len(pins(storage)) == 1, "it is renewed while its owner lives"
    pin._done.set()
    pin._thread.join()
    time.sleep(1.2)
    assert pins(storage) == []
    assert storage.names(FOLDER) == []


def test_what_is_no_pin_is_left_alone(storage: Storage) -> None:
    storage.put(f"{FOLDER}/notes.txt", b"not ours")
    assert pins(storage) == []
    assert storage.get(f"{FOLDER}/notes.txt") == b"not ours"
