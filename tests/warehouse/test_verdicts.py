"""What verify found is kept, the newest hundred times, and read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.storage import Storage
from headwater.warehouse import verdicts
from headwater.warehouse.verdicts import Verdict, VerdictLog, newest_of_each, record_verdicts


def test_the_newest_are_kept_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "KEPT", 3)
    storage = Storage(str(tmp_path))
    for n in range(5):
        record_verdicts(storage, [Verdict("a", n, float(n), True, 1), Verdict("b", n, float(n), n != 4, 1)])
    record_verdicts(storage, [])
    log = VerdictLog(storage)
    assert [v.seq for v in log.all() if v.view == "a"] == [2, 3, 4]
    last = newest_of_each(log.all())
    assert (last["a"].ok, last["b"].ok, last["b"].seq) == (True, False, 4)


def test_a_reader_that_comes_back_reads_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(str(tmp_path))
    log = VerdictLog(storage)
    assert log.all() == []
    record_verdicts(storage, [Verdict("a", 1, 1.0, True, 1)])
    log.all()
    read: list[str] = []
    get = Storage.get
    monkeypatch.setattr(Storage, "get", lambda self, name: read.append(name) or get(self, name))  # type: ignore[func-returns-value]
    record_verdicts(storage, [Verdict("a", 2, 2.0, True, 1)])
    assert [v.seq for v in log.all()] == [1, 2]
    assert len(read) == 1
