"""Lineage of generated histories: each run has one START and one end, and batches are told once they are shown."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from headwater.runtime.project.settings import LineageSection

from .views import PLANS
from .world import Dangers, World


def test_a_history_is_told_as_runs(tmp_path: Path) -> None:
    world = World(4, tmp_path, Dangers(unfit=0.05, crash=0.0))
    world.config = replace(world.config, lineage=LineageSection(file="lineage.jsonl", seconds=0.0))
    world.play(200)
    events = [json.loads(line) for line in (tmp_path / "lineage.jsonl").read_text().splitlines()]
    ends = defaultdict(list)
    for event in events:
        ends[event["run"]["runId"]].append(event["eventType"])
    assert set(map(tuple, ends.values())) <= {("START", "COMPLETE"), ("START", "FAIL")}
    kinds = Counter((e["eventType"], e["run"]["facets"]["headwater"]["kind"]) for e in events)
    assert min(kinds["COMPLETE", "load"], kinds["COMPLETE", "batches"], kinds["FAIL", "batches"]) > 0, kinds
    cuts = {c.number: c for c in world.cuts.all}
    for event in events:
        name, facts = event["job"]["name"], event["run"]["facets"]["headwater"]
        parents = set(PLANS[name].parents)
        assert {i["name"] for i in event["inputs"] if i["namespace"] == "headwater"} == parents
        assert {i["namespace"] for i in event["inputs"]} <= {"headwater", "memory://a", "memory://b", "memory://c"}
        if event["eventType"] == "COMPLETE":
            shown = cuts[facts["cut"]].views[name]
            assert max([shown.seq, *(hi for _, hi in shown.ahead)]) >= facts["seq"]
            if facts["kind"] == "batches":
                assert facts["after"] < facts["seq"]
