"""Plays: what is shown step by step is what the lab's objects did, and the checker's verdict is on that very run."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import msgspec
import pytest

from headwater.lab.algorithms import ALGORITHMS, factory
from headwater.lab.checker.levels import Consistency
from headwater.lab.experiments.mvc_examples import EXAMPLES
from headwater.lab.histories.figures import figure, figures
from headwater.lab.histories.player import shown
from headwater.lab.histories.script import read_script
from headwater.lab.simulation.simulator import Conditions, simulate
from headwater.lab.stepping.frames import Frame, Item, Play
from headwater.lab.stepping.plays import FOUR_UPDATES, four_updates, listed, play
from headwater.lab.stepping.recording import of_simulation
from headwater.model.errors import UnknownName

NAMES = [one.name for one in listed()]


def held(frame: Frame, actor: str, queue: str) -> tuple[Item, ...]:
    found = next(a for a in frame.actors if a.name == actor)
    return next(q.items for q in found.queues if q.name == queue)


def rows(frame: Frame, actor: str) -> tuple[str, ...]:
    return next(a for a in frame.actors if a.name == actor).tables[0].rows


@pytest.mark.parametrize("name", NAMES)
def test_every_play_has_steps_and_an_idea(name: str) -> None:
    found = play(name)
    assert len(found.frames) > 2
    assert len(found.idea) > 100
    assert not any(frame.painted == () and len(frame.actors) == 1 for frame in found.frames[1:-3])
    assert msgspec.json.decode(msgspec.json.encode(asdict(found)))["name"] == name


@pytest.mark.parametrize("name", [n for n in FOUR_UPDATES if n in ALGORITHMS])
def test_algorithms_keep_on_the_stage_what_they_promise(name: str) -> None:
    found = play(f"four-{name}")
    assert found.judgement is not None
    reached = next(level for level in Consistency if level.value == found.judgement.level)
    assert ALGORITHMS[name].level in reached.implies
    assert rows(found.frames[-1], "warehouse") == ("(2, 7)",)
    assert found.frames[-1].flights == () or name in ("pull-push", "pure-push", "tid-rules")


def test_pvm_cc_is_complete_and_pvm_is_not() -> None:
    levels = {name: play(f"four-{name}").judgement for name in ("pvm", "pvm-cc", "sweep-without-compensation")}
    assert [j.level.split()[0] for j in levels.values() if j] == ["strong", "complete", "no"]


def test_what_is_shown_is_the_history_that_was_simulated() -> None:
    world, sweep = four_updates(), factory("sweep", {})
    frames, history, _ = of_simulation(world, sweep, Conditions())
    plain = simulate(world, sweep, Conditions())
    assert (history.states, history.messages) == (plain.states, plain.messages)
    contents = [shown(c["V"]) for c in plain.contents()]
    seen = [" ".join(rows(frame, "warehouse")) for frame in frames]
    assert [seen[i] for i in range(len(seen)) if i == 0 or frames[i].states > frames[i - 1].states] == contents


def test_queues_are_those_of_the_papers() -> None:
    for frame in play("four-pvm-cc").frames:
        assert len(held(frame, "warehouse", "PPU")) <= 3
        waiting, queued = held(frame, "warehouse", "UMQ"), held(frame, "warehouse", "CommitQueue")
        assert {i.text for i in waiting} <= {i.text for i in queued}
    behind = [f for f in play("four-pvm-cc").frames if any(i.done for i in held(f, "warehouse", "CommitQueue"))]
    assert behind, "an effect that is known and waits for those before it: what the queue is for"
    assert any(held(f, "warehouse", "RPU") for f in play("pvm-fig7").frames)
    assert not any(held(f, "warehouse", "RPU") for f in play("pvm-fig6").frames), "its fault is to forget"
    assert any(held(f, "warehouse", "Temp_bckwrd") for f in play("four-pull-push").frames)


def test_messages_go_from_source_to_source_in_pull_push_alone() -> None:
    def between(found: Play) -> set[str]:
        return {x.kind for f in found.frames for x in f.flights if "warehouse" not in (x.sender, x.receiver)}

    assert between(play("four-pull-push")) == {"forward", "backward"}
    assert between(play("four-pvm")) == set()


@pytest.mark.parametrize("name", figures())
def test_figures_come_to_the_level_that_they_say(name: str) -> None:
    found, script = play(name), read_script(figure(name))
    assert found.judgement is not None
    assert found.judgement.level.startswith({"none": "no", "weak": "weak"}.get(script.expected, script.expected))
    assert [f.text for f in found.frames if f.text in {s.text for s in script.steps}] == [s.text for s in script.steps]
    assert not any(re.search(r"\w#\d", reason.sentence) for reason in found.judgement.reasons)


def test_a_witness_names_a_state_that_is_on_the_stage() -> None:
    found = play("pvm-fig6")
    assert found.judgement is not None
    unreal = found.judgement.reasons[1]
    frame = next(f for f in found.frames if f.states > unreal.state)
    assert frame.text == "IS1's answer to DU2 arrives"
    assert unreal.extra == ("(3, 6)",)
    assert set(unreal.extra) <= set(rows(frame, "warehouse"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: str(e.number))
def test_the_tables_that_the_paper_prints_are_frames(example: object) -> None:
    (one,) = [e for e in EXAMPLES if e is example]
    drawn = []
    for frame in play(f"mvc-example{one.number}").frames:
        lines = []
        for row in frame.painted:
            letter = [c.colour[0] for c in row.cells]
            cells = [f"({x},{c.state})" if one.states else x for x, c in zip(letter, row.cells, strict=True)]
            lines.append(" ".join([f"U{row.number}", *cells, "{" + ", ".join(row.lists) + "}"]))
        drawn.append(" / ".join(lines))
    assert set(one.tables.values()) <= set(drawn)
    done = play(f"mvc-example{one.number}").frames[-1].actors[0].queues[0].items
    assert [i.text for i in done] == [" and ".join(f"U{r}" for r in released) for released in one.released]


def test_a_frame_knows_whether_another_looks_the_same() -> None:
    frame = play("four-sweep").frames[3]
    assert frame.shows_the_same(replace(frame, at=99.0, text="later"))
    assert not frame.shows_the_same(play("four-sweep").frames[4])


def test_a_play_that_is_not_there_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="four-swep"):
        play("four-swep")
