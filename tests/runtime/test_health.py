"""One word for a view, the worst of what is known of it, and sentences that say what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.model.names import Seq, SourceName, ViewName
from headwater.runtime.reading.health import Grade, ViewFacts, age_told, source_health, view_health
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.verdicts import Verdict

LIVE = ViewState("f", 1, -1, Seq(9), Seq(0), "complete", "x")
VIEW = ViewFacts(ViewName("v"), LIVE, running=True, age=2.0, target=5.0)
WRONG = Verdict("v", 7, 0.0, ok=False, rows=3, differing=2)


@pytest.mark.parametrize(
    ("view", "word", "grade"),
    [
        (VIEW, "live", Grade.GOOD),
        (replace(VIEW, running=False), "idle", Grade.IDLE),
        (replace(VIEW, age=6.0), "late", Grade.WARN),
        (replace(VIEW, age=6.0, target=None), "live", Grade.GOOD),
        (replace(VIEW, age=None), "live", Grade.GOOD),
        (replace(VIEW, age=6.0, verdict=WRONG), "wrong", Grade.BAD),
        (replace(VIEW, verdict=replace(WRONG, ok=True)), "live", Grade.GOOD),
        (replace(VIEW, state=replace(LIVE, state="halted", reason="no column")), "halted", Grade.BAD),
        (replace(VIEW, running=False, age=6.0), "late", Grade.WARN),
    ],
)
def test_the_word_is_the_worst(view: ViewFacts, word: str, grade: Grade) -> None:
    found = view_health(view)
    assert (found.word, found.grade) == (word, grade)


def test_a_late_view_says_how_late_and_for_whom_it_waits() -> None:
    (finding,) = view_health(replace(VIEW, age=90.0, waits="view w")).findings
    assert finding.what == "view v is 90 s behind its sources; its target is 5.0 s; it waits for view w"


def test_a_halted_view_says_what_to_do_without_secrets() -> None:
    state = replace(LIVE, state="halted", reason="postgresql://me:hunter2@h/db refused", fix="mend it")
    (finding,) = view_health(replace(VIEW, state=state)).findings
    assert "hunter2" not in finding.what
    assert finding.fix == "mend it"


def test_a_source_is_as_the_run_tells() -> None:
    name = SourceName("shop")
    assert source_health(name, None).word == "idle"
    assert source_health(name, {"state": "ok"}).word == "ok"
    bad = source_health(name, {"state": "unreachable", "reason": "connection refused"})
    assert (bad.word, bad.grade) == ("unreachable", Grade.BAD)


def test_age_is_of_what_waits_then_of_a_source_that_is_away_then_of_the_last_change() -> None:
    fine = {"state": "ok", "since": 1.0}
    away = {"state": "unreachable", "since": 40.0}
    assert age_told({"freshness": {"last": 2.0, "since": 90.0}}, [fine], 100.0) == 10.0
    assert age_told({"freshness": {"last": 2.0, "since": 90.0}}, [away], 100.0) == 60.0
    assert age_told({"freshness": {"last": 2.0, "since": None}}, [fine], 100.0) == 2.0
    assert age_told({}, [fine], 100.0) is None
