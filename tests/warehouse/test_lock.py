"""One maintainer at a time, each with a number higher than the one before."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.model.errors import LeaseLost, WarehouseError
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.lease import LEASE_SECONDS
from headwater.warehouse.lock import NAME, Lock, holder
from headwater.warehouse.table import ChangelogTable

Open = Callable[[], Storage]
ROUNDS = 50


class Clock:
    """Goes where it is set, as for a process that stands still or does not notice the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def take_away(storage: Storage) -> None:
    """As if the time of the lease were over for everybody but its holder."""
    text = storage.get(NAME)
    assert text is not None
    storage.put(NAME, json.dumps({**json.loads(text), "expires": 0}).encode())


def renewing() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "headwater-lease"]


@pytest.fixture(autouse=True)
def _nobody_goes_on_renewing() -> Iterator[None]:
    yield
    for thread in renewing():
        thread.join(timeout=5)
    assert not renewing()


def test_who_only_looks_keeps_nobody_out(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    with Lock(storage, "headwater run"):
        pass
    with open(storage.path(NAME)) as looked:  # as `holder` does, for a moment
        fcntl.flock(looked, fcntl.LOCK_SH)
        timer = threading.Timer(0.01, lambda: fcntl.flock(looked, fcntl.LOCK_UN))
        timer.start()
        with Lock(storage, "headwater run") as lock:
            assert lock.fence == 2
        timer.join()


def test_a_second_maintainer_is_refused_and_told_who(open_storage: Open) -> None:
    first, second = open_storage(), open_storage()
    assert holder(first) is None
    with Lock(first, "headwater run"):
        who = holder(second)
        assert who is not None
        assert who.purpose == "headwater run"
        with pytest.raises(WarehouseError, match=r"maintained already, by 'headwater run', process \d+ on ") as refused:
            Lock(second, "another").acquire()
        assert "stop that one first" in refused.value.fix
    assert holder(second) is None
    with Lock(second, "another"):
        assert holder(first) is not None


def test_the_number_grows_with_every_taking(open_storage: Open) -> None:
    numbers = []
    for _ in range(3):
        storage = open_storage()
        assert storage.fence() == 0
        with Lock(storage, "headwater run") as lock:
            numbers.append(lock.fence)
            assert storage.fence() == lock.fence
        assert (storage.fence(), lock.fence) == (0, 0)
    assert numbers == [1, 2, 3]


def test_the_number_grows_also_when_the_record_was_lost(open_storage: Open) -> None:
    storage = open_storage()
    for _ in range(2):
        with Lock(storage, "headwater run"):
            CutLog(storage).take_over()
    storage.delete(NAME)
    with Lock(open_storage(), "headwater run") as lock:
        assert lock.fence == 3


@pytest.mark.parametrize("left", [b"", b"no record", b'{"purpose": "x", "pid": 1, "host": "h", "expires": 5.0}'])
def test_what_an_older_version_left_is_taken_over(storage: Storage, left: bytes) -> None:
    storage.make_folder()
    storage.put(NAME, left)
    assert holder(storage) is None
    with Lock(storage, "headwater run") as lock:
        assert lock.fence == 1


def test_an_acquire_that_was_refused_leaves_the_holder_alone(open_storage: Open) -> None:
    first, second = open_storage(), open_storage()
    with Lock(first, "headwater run") as lock:
        with pytest.raises(WarehouseError):
            Lock(second, "another").acquire()
        lock.renew()
        first.put("a", b"still mine")
    second.put("a", b"no lease, no guard")


def test_one_that_died_is_waited_for_no_longer_than_its_lease(in_s3: str) -> None:
    with Lock(Storage(in_s3), "headwater run"), pytest.raises(WarehouseError) as refused:
        Lock(Storage(in_s3), "another").acquire()
    assert re.search(r"if it has died, its lease is over in (60|[45][0-9]) seconds", refused.value.fix)


def test_a_lease_is_renewed_while_it_is_held(in_s3: str) -> None:
    storage, other = Storage(in_s3), Storage(in_s3)
    with Lock(storage, "headwater run", seconds=2.5):
        until = time.monotonic() + 4
        while time.monotonic() < until:
            time.sleep(0.1)
            with pytest.raises(WarehouseError, match="maintained already"):
                Lock(other, "another").acquire()
            storage.put("a", b"mine")


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_learns_of_it(in_s3: str) -> None:
    storage, other = Storage(in_s3), Storage(in_s3)
    lock = Lock(storage, "headwater run")
    lock.acquire()
    take_away(other)
    with Lock(other, "the next one") as next_one:
        assert next_one.fence == lock.fence + 1
        storage.put("a", b"it cannot know yet")
        with pytest.raises(LeaseLost, match=r"lost its lease.*'the next one', process \d+ on \S+ has taken it over"):
            lock.renew()
        for write in (
            lambda: storage.put("a", b""),
            lambda: storage.put_new("b", b""),
            lambda: storage.delete("a"),
            lambda: storage.delete_folder("a"),
            lambda: CutLog(storage).append(Cut(1)),
            lambda: CutLog(storage).take_over(),
            lambda: CutLog(storage).tidy(),
            lambda: ChangelogTable(storage, "views/v").create(None),
        ):
            with pytest.raises(LeaseLost, match="nothing more is written") as lost:
                write()
            assert "start again" in lost.value.fix
        lock.release()
        assert holder(other) is not None, "a lost lease is not given back"
    assert storage.get("a") == b"it cannot know yet"


def test_a_holder_that_stood_still_does_not_trust_its_lease(in_s3: str) -> None:
    """Nobody has taken it over yet, but somebody may at any time."""
    storage, clock = Storage(in_s3), Clock()
    lock = Lock(storage, "headwater run", clock=clock)
    lock.acquire()
    clock.now += LEASE_SECONDS / 2
    storage.put("a", b"in time")
    clock.now += LEASE_SECONDS / 2
    with pytest.raises(LeaseLost, match="could not be renewed for 60 seconds"):
        storage.put("a", b"too late")
    with pytest.raises(LeaseLost):
        lock.renew()
    lock.release()
    assert storage.get("a") == b"in time"


def test_a_store_that_cannot_be_reached_ends_the_lease_and_says_why(
    in_s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(in_s3)
    lock = Lock(storage, "headwater run", seconds=1.5)
    lock.acquire()

    def unreachable(*_: object) -> None:
        raise WarehouseError("cannot reach the store")

    monkeypatch.setattr(storage.objects, "put_instead", unreachable)
    storage.put("a", b"in time")
    time.sleep(2)
    with pytest.raises(LeaseLost, match=r"could not be renewed for \d+ seconds: cannot reach the store"):
        storage.put("a", b"too late")
    lock.release()
    assert storage.get("a") == b"in time"


def test_an_answer_that_was_lost_is_no_lost_lease(in_s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request was tried again, and met the record that it had put itself."""
    storage = Storage(in_s3)
    put_instead = storage.objects.put_instead

    def twice(path: str, data: bytes, tag: str) -> str | None:
        put_instead(path, data, tag)
        return put_instead(path, data, tag)

    with Lock(storage, "headwater run") as lock:
        monkeypatch.setattr(storage.objects, "put_instead", twice)
        lock.renew()
        lock.renew()
        storage.put("a", b"")


RACER = """
import sys
from headwater.model.errors import WarehouseError
from headwater.storage import Storage
from headwater.warehouse.lock import Lock

for line in sys.stdin:
    storage = Storage(line.strip())
    lock = Lock(storage, "race")
    try:
        lock.acquire()
        print(lock.fence, flush=True)
    except WarehouseError:
        print("refused", flush=True)
    sys.stdin.readline()
    lock.release()
    print("released", flush=True)
"""


def test_of_two_processes_that_race_one_holds_it(place: str) -> None:
    """Each round both try, and neither lets go before both have said how it went. Every second round begins with a
    record that has run out, the others where there is none."""
    command = [sys.executable, "-c", RACER]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        won = Counter(number for number in range(ROUNDS) for said in _round(racers, f"{place}/{number // 2}") if said)
        assert won == Counter(range(ROUNDS)), "each round has exactly one holder"
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def _round(racers: list[subprocess.Popen[str]], place: str) -> list[bool]:
    said = [_tell(racers, place), _tell(racers, "")]
    assert said[1] == ["released"] * 2
    return [answer != "refused" for answer in said[0]]


def _tell(racers: list[subprocess.Popen[str]], line: str) -> list[str]:
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(line + "\n")
        racer.stdin.flush()
    return [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]


def test_a_lock_on_disk_ends_with_its_process(tmp_path: Path) -> None:
    place = str(tmp_path / "warehouse")
    command = [sys.executable, "-c", RACER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as racer:
        assert _tell([racer], place) == ["1"]
        assert holder(Storage(place)) is not None
        racer.kill()
        racer.wait()
    assert holder(Storage(place)) is None
    with Lock(Storage(place), "headwater run") as lock:
        assert lock.fence == 2
