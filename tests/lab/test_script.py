"""Histories by hand: the figures are what they say, and mistakes are told with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.lab.algorithms import factory
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.figures import figure, figures
from headwater.lab.histories.player import play, shown
from headwater.lab.histories.script import parse_script, read_script
from headwater.model.errors import UsageError

HEAD = """
# a title
S.R(A, W) = (1, 'x'), (2, 'y')[2], (NULL, NULL)
U.T(A, B) = (1, 5)
view V = SELECT R.A, T.B FROM S.R JOIN U.T ON R.A = T.A
strategy sweep
"""


@pytest.mark.parametrize("name", sorted(figures()))
def test_each_figure_is_what_it_says(name: str) -> None:
    script = read_script(figure(name))
    played = play(script, factory(script.strategy, script.options))
    assert [(s.step.text, s.wrong) for s in played.surprises] == []
    assert check(played.history).level is Consistency[script.expected.upper()]


def test_what_a_script_holds() -> None:
    script = parse_script(HEAD + "1. S commits X: +R(1, z) -R(2, y)\n2. the rest happens\nexpect strong\n")
    assert script.title == "a title"
    rows = script.world.initial[next(iter(script.world.columns))]
    assert dict(rows.counts) == {(1, "x"): 1, (2, "y"): 2, (None, None): 1}
    assert [s.kind for s in script.steps] == ["commits", "rest"]
    played = play(script, factory("sweep", {}))
    assert shown(played.history.final()["V"]) == "(1, 5)[2]"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("1. S does something", "is not a step"),
        ("1. X arrives", "X has not happened"),
        ("1. W commits X: +R(1, x)", "there is no source W"),
        ("1. S commits X: +Q(1)", "there is no table S.Q"),
        ("1. S commits X: +R(1)", "has 2 columns, not 1"),
        ("1. S commits X: nothing", "changes nothing"),
        ("1. S commits X: -R(7, x)", "does not have it"),
        ("1. S commits X: +R(3, x)\n2. S commits X: +R(4, x)", "X happened already"),
        ("1. S commits X: +R(3, x)\n2. X arrives\n3. X arrives", "X is not under way"),
        ("1. S commits X: +R(3, x)\n2. U answers X", "U has not been asked anything for X"),
        ("1. S commits X: +R(3, x)\n2. X arrives\n3. U's answer to X arrives", "no answer of U to X"),
        ("1. W shows (1)", "there is no view W"),
        ("1. V shows 1, 2", "is not a row"),
    ],
)
def test_mistakes_are_told_with_their_line(steps: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        play(parse_script(HEAD + steps, "mine.history"), factory("sweep", {}))
    assert said in caught.value.what
    assert caught.value.what.startswith(f"mine.history:{7 + steps.count(chr(10))}")


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "has no tables"), ("S.R(A) = (1)", "has no view"), (HEAD.replace("strategy sweep", ""), "no strategy")],
)
def test_what_is_missing_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_script(text, "mine.history")


def test_a_wrong_strategy_or_option_lists_what_exists() -> None:
    with pytest.raises(UsageError) as caught:
        factory("swep", {})
    assert "sweep, nested-sweep, pvm" in caught.value.fix
    with pytest.raises(UsageError, match="above zero"):
        factory("pvm", {"p": "0"})
    with pytest.raises(UsageError, match="keys"):
        factory("strobe", {})
    with pytest.raises(UsageError) as caught:
        factory("posse", {"concurrency": "some"})
    assert "full" in caught.value.fix


def test_an_expectation_that_does_not_come_true_is_told() -> None:
    script = parse_script(HEAD + "1. V shows (1, 6)")
    assert [s.wrong for s in play(script, factory("sweep", {})).surprises] == ["V shows (1, 5)"]


def test_lost_messages(tmp_path: Path) -> None:
    path = tmp_path / "lost.history"
    path.write_text(HEAD + "1. S commits X: +R(1, x)\n2. X is lost\n3. the rest happens\n", encoding="utf-8")
    played = play(read_script(path), factory("sweep", {}))
    assert [m.arrived for m in played.history.messages] == [None]
    assert check(played.history).level is Consistency.CONSISTENCY


WAKING = HEAD.replace("strategy sweep", "strategy tid-rules session=2")


def test_strategies_that_wake_themselves() -> None:
    steps = "1. S commits X: +R(1, z)\n2. 3 units pass\n3. the rest happens\n4. V shows (1, 5)[2]\n"
    script = parse_script(WAKING + steps)
    assert play(script, factory(script.strategy, script.options)).surprises == []


def test_views_that_group_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mine.history: view V groups"):
        parse_script(HEAD.replace("SELECT R.A, T.B FROM", "SELECT count(*) AS n FROM"), "mine.history")
    with pytest.raises(UsageError, match=r"mine.history: unknown column 'Z'"):
        parse_script(HEAD.replace("SELECT R.A,", "SELECT R.Z,"), "mine.history")
    (tmp_path / "binary").write_bytes(b"\xd0\xff\x00")
    with pytest.raises(UsageError, match="is not a text file"):
        read_script(tmp_path / "binary")
