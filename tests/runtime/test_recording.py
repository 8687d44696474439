"""What the engine did, recorded from real parts and judged by the lab's checker, which knows nothing of the engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli.judging import judge
from headwater.cli.recording import recorded
from headwater.lab.checker.cuts import check_cuts
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.recorded import read_history, write_history
from headwater.model.errors import UnknownName
from headwater.runtime.reading.recording import record
from postgres_server import PostgresServer
from runtime.world import World

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

COMPLETE = ("open_orders", "by_city", "line_states", "totals")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, spark: SparkSession) -> World:
    world = World(tmp_path_factory.mktemp("recorded") / "project", postgres.create_database("recorded"))
    warehouse = world.open()
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    for burst in (1, 9, 20):
        world.act(burst)
        warehouse.run(until_caught_up=True)
    return world


def test_complete_views_are_complete_together(world: World, tmp_path: Path) -> None:
    recording = record(world.open().project, COMPLETE)
    assert recording.not_complete == []
    path = tmp_path / "run.jsonl"
    types = {t: {f.name: f.type for f in schema} for t, schema in recording.schemas.items()}
    write_history(recorded(recording), path, types)
    history = read_history(path)
    assert len(history.states) >= 30
    verdict = check(history)
    assert verdict.level is Consistency.COMPLETE, str(verdict)
    assert len(history.cuts) > 3
    seen = check_cuts(history)
    assert Consistency.STRONG in seen.holds, str(seen)

    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    broken = [line for line in lines if line.get("state", {}).get("open_orders")][5]
    broken["state"]["open_orders"].pop()
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    assert Consistency.WEAK not in check(read_history(path)).holds, "a change that never came must be missed"


def test_views_of_all_kinds_agree_in_every_cut(world: World) -> None:
    recording = record(world.open().project, [*COMPLETE, "lines"])
    assert recording.not_complete == ["lines"]
    assert not recording.states
    assert len(recording.cuts) > 3
    verdict = check_cuts(recorded(recording))
    assert Consistency.STRONG in verdict.holds, str(verdict)


def test_only_the_last_transactions(world: World) -> None:
    recording = record(world.open().project, ["open_orders"], last=7)
    assert len(recording.states) == 7
    assert check(recorded(recording)).level is Consistency.COMPLETE


def test_the_last_cuts_of_views_that_skip_states(world: World) -> None:
    recording = record(world.open().project, ["open_orders", "lines"], last=12)
    verdict = check_cuts(recorded(recording))
    assert Consistency.STRONG in verdict.holds, str(verdict)


def test_a_view_is_judged_in_one_go(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    judge("open_orders", last=7, project=world.folder, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["level"], len(found["states"])) == (True, "complete consistency", 7)
    judge("lines", last=12, project=world.folder, as_json=True)
    skips = json.loads(capsys.readouterr().out)
    assert (skips["ok"], skips["promised"]) == (True, "strong consistency")


def test_mistakes(world: World) -> None:
    with pytest.raises(UnknownName):
        record(world.open().project, ["open_order"])
