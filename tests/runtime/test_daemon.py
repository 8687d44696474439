"""What a worker does with memory that its tasks have freed."""

from __future__ import annotations

import gc
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.runtime.compute import daemon


@pytest.mark.skipif(sys.platform != "linux", reason="machines say in their own ways what a process holds")
def test_what_a_large_task_freed_is_given_back_with_the_next_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LARGE", 0)
    before = daemon._own()
    rows = [pc.add(pa.nulls(1 << 20, pa.int64()).fill_null(n), 1) for n in range(32)]
    assert daemon._own() - before > 200 << 20
    del rows
    gc.callbacks.append(daemon.give_back)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(daemon.give_back)
    assert daemon._own() - before < 64 << 20
