"""Worlds and their seeds. The short form is part of every test run; `make chaos` runs many."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from .grammar import WORLDS, generate
from .world import World

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def play(kind: str, seed: int) -> None:
    began = time.monotonic()
    events = generate(WORLDS[kind], seed)
    temporary = tempfile.TemporaryDirectory(prefix="headwater-chaos-", ignore_cleanup_errors=True)
    with temporary as folder, World(Path(folder), kind, seed, events) as world:
        world.play()
        print(
            f"{kind}-{seed}: {len(world.done)} events, {world.judge.states_checked} states,"
            f" {time.monotonic() - began:.0f} s"
        )
        if os.environ.get("CHAOS_NOTES"):
            print("\n".join(world.notes))


@pytest.mark.parametrize("name", os.environ.get("CHAOS", "dml-1").split())
@pytest.mark.timeout(600)
def test_world(name: str) -> None:
    kind, _, seed = name.rpartition("-")
    play(kind, int(seed))
