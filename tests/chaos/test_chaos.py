"""Worlds and their seeds.

The short form is part of every test run. `make chaos` plays every kind of world with several seeds, and those of
`seeds.txt`, which failed once; `make chaos SEEDS=13` is a hundred of them. `make chaos WORLD=ddl-7` plays one again.
The events of a seed are always the same; how far Headwater is when they happen is not: a fault may take several tries.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from .grammar import WORLDS, generate
from .world import World

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SHORT = ("short-1",)


def play(name: str) -> None:
    kind, _, seed = name.rpartition("-")
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # leave nothing behind
    events = generate(WORLDS[kind], int(seed))
    temporary = tempfile.TemporaryDirectory(prefix="headwater-chaos-", ignore_cleanup_errors=True)
    with temporary as folder, World(Path(folder), kind, int(seed), events) as world:
        world.play()
        seconds = time.monotonic() - began
        print(f"{name}: {len(world.done)} events, {world.judge.states_checked} states, {seconds:.0f} s")


def long_form() -> list[str]:
    chosen = os.environ.get("WORLD")
    if chosen:
        return chosen.split()
    first, seeds = int(os.environ.get("FIRST", "1")), int(os.environ.get("SEEDS", "1"))
    lines = Path(__file__).with_name("seeds.txt").read_text().splitlines()
    failed = [line.split()[0] for line in lines if line and not line.startswith("#")]
    every = [f"{kind}-{seed}" for seed in range(first, first + seeds) for kind in WORLDS if kind != "short"]
    return list(dict.fromkeys([*failed, *every]))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHORT)
def test_a_short_world(name: str) -> None:
    play(name)


@pytest.mark.chaos
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", long_form())
def test_a_world(name: str) -> None:
    play(name)


def test_a_seed_always_gives_the_same_events() -> None:
    for kind in WORLDS.values():
        assert generate(kind, 7) == generate(kind, 7)
        assert generate(kind, 7) != generate(kind, 8)
