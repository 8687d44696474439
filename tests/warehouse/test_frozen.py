"""A maintainer that is frozen past its lease, and thawed when another one maintains the warehouse: a real process on a
real S3 server, stopped by the operating system (SIGSTOP), which it cannot notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from headwater.model.errors import WarehouseError
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.lock import Lock, holder
from warehouse.test_cuts import cut, shown

SECONDS = (2.5, 20)
"""Leases that are tried. On a crowded machine the first may lapse before the maintainer gets to where it is frozen."""
MAINTAINER = """
import json, os, signal, sys
import deltalake
from headwater.model.errors import HeadwaterError
from headwater.model.names import Seq
from headwater.storage import Storage
from headwater.warehouse import cuts
from headwater.warehouse.lock import Lock

url, seconds, where = sys.argv[1:]
storage = Storage(url)
lock = Lock(storage, "headwater run", seconds=float(seconds))
lock.acquire()
log = cuts.CutLog(storage)
log.take_over()
log.append(cuts.Cut(1, Seq(1)))
log.append(cuts.Cut(2, Seq(2)))

def attempt(do):
    try:
        do()
        return ["done", ""]
    except HeadwaterError as error:
        return [type(error).__name__, str(error)]

def stop():
    os.kill(os.getpid(), signal.SIGSTOP)

write = deltalake.write_deltalake
def stopped_before_the_commit(*arguments, **options):
    stop()
    write(*arguments, **options)

if where == "between checking and committing":
    deltalake.write_deltalake = stopped_before_the_commit
else:
    stop()
said = [attempt(lambda: log.append(cuts.Cut(3, Seq(666)))), attempt(lambda: storage.put("mine", b"late"))]
lock.release()
print(json.dumps(said))
"""


REFUSED = {
    "between checking and committing": "(lease 2, this one's is 1): cut 3 was not written",
    "between two commits": "this run has lost its lease on the warehouse",
}
"""What it hears, by where it was frozen: the first time it has looked at its lease, and is about to commit."""


@dataclass(frozen=True)
class Frozen:
    """A maintainer that has shown two cuts and stands still."""

    process: subprocess.Popen[str]
    warehouse: str
    where: str


@pytest.fixture(params=REFUSED)
def frozen(request: pytest.FixtureRequest, in_s3: str) -> Iterator[Frozen]:
    for seconds in SECONDS:
        warehouse = f"{in_s3}/{seconds}"
        command = [sys.executable, "-c", MAINTAINER, warehouse, str(seconds), request.param]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                _, status = os.waitpid(process.pid, os.WUNTRACED)
                if os.WIFSTOPPED(status):
                    yield Frozen(process, warehouse, request.param)
                    return
                said = process.stderr.read() if process.stderr else ""
                assert "LeaseLost" in said, said
            finally:
                process.kill()
    pytest.fail(f"it could not keep a lease of {SECONDS[-1]} s until it was to be frozen:\n{said}")


def test_a_maintainer_frozen_past_its_lease_cannot_commit(frozen: Frozen) -> None:
    storage = Storage(frozen.warehouse)
    with pytest.raises(WarehouseError, match="maintained already"):
        Lock(storage, "the next one").acquire()
    until = time.monotonic() + 60
    while holder(storage) is not None:
        assert time.monotonic() < until
        time.sleep(0.05)
    with Lock(storage, "the next one") as lock:
        log = CutLog(storage)
        assert log.take_over().number == 2
        log.append(cut(3))
        frozen.process.send_signal(signal.SIGCONT)
        said, _ = frozen.process.communicate(timeout=30)
        appended, put = json.loads(said)
        assert appended[0] == put[0] == "LeaseLost", said
        assert REFUSED[frozen.where] in appended[1]
        assert "start again" in appended[1]
        lock.renew()
        log.append(cut(4))
    assert shown(storage) == [1, 2, 3, 4]
    assert [c.fence for c in CutLog(storage).kept()] == [1, 1, 2, 2]
    assert [c.seq for c in CutLog(storage).kept()] == [1, 2, 3, 4], "nothing of the frozen one's"
    assert storage.get("mine") is None
