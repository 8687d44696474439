"""What runs tell their log: rounds, batches, cuts and halts, each with its facts, as one JSON object a line."""

from __future__ import annotations

import io
import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.logs import JsonLines
from headwater.model.names import ViewName
from headwater.runtime.progress import Meter

from .views import PLANS
from .world import Dangers, play


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    out, logger = io.StringIO(), logging.getLogger("headwater")
    handler, level = logging.StreamHandler(out), logger.level
    handler.setFormatter(JsonLines())
    logger.setLevel("DEBUG")
    logger.addHandler(handler)
    yield out
    logger.removeHandler(handler)
    logger.setLevel(level)


def told(out: io.StringIO) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in out.getvalue().splitlines():
        one = json.loads(line)
        found.setdefault(one["event"], []).append(one)
    return found


def test_a_history_is_told_with_its_facts(written: io.StringIO, tmp_path: Path) -> None:
    counts = play(4, tmp_path, 200, Dangers(unfit=0.05, crash=0.0))
    events = told(written)
    rounds, batches, cuts = events["round.numbered"], events["batch.computed"], events["cut.shown"]
    assert sum(one["seq"] - one["first"] + 1 for one in rounds) > 0
    assert all(sum(one["sources"].values()) == one["seq"] - one["first"] + 1 for one in rounds)
    assert all(later["first"] == one["seq"] + 1 for one, later in itertools.pairwise(rounds))
    assert {one["view"] for one in batches} <= set(PLANS)
    assert all(one["batch"][0] < one["batch"][1] == one["seq"] <= rounds[-1]["seq"] for one in batches)
    assert [one["cut"] for one in cuts] == sorted({one["cut"] for one in cuts})
    assert len(cuts) <= counts.cuts
    assert counts.failures
    failed = {(one["view"], one["level"]) for one in events["batch.failed"]}
    assert {one["view"] for one in events["view.halted"]} & {view for view, _ in failed}
    assert all("resume" in one["remedy"] for one in events["view.halted"] if "computed" in one["reason"])
    assert len(events["run.began"]) == len(events["run.ended"]) == 1
    assert events["run.ended"][0]["seq"] == cuts[-1]["seq"]


def test_a_load_is_told_with_its_facts(written: io.StringIO) -> None:
    meter = Meter()
    meter.loading([ViewName("v")])
    meter.loaded(ViewName("v"), 17)
    events = told(written)
    assert events["load.began"][0]["views"] == ["v"]
    (loaded,) = events["view.loaded"]
    assert (loaded["view"], loaded["rows"], loaded["level"]) == ("v", 17, "info")
    assert loaded["seconds"] >= 0
