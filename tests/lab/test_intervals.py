"""Confidence intervals: Student's quantiles as printed in tables, and what is decided from them."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from headwater.lab.experiment import Claim
from headwater.lab.experiments.pullpush_messages import PUBLISHED, WHO, _claims
from headwater.lab.intervals import Decision, decide, interval, quantile, shared, within
from headwater.lab.reporting.report import mark
from headwater.lab.settings.mobile import ALGORITHMS
from headwater.lab.settings.outages import COMPARED, OutageRun, Outages, TimeScale, played

PRINTED = {
    (0.95, 1): 12.706, (0.95, 2): 4.303, (0.95, 3): 3.182, (0.95, 4): 2.776, (0.95, 9): 2.262, (0.95, 30): 2.042,
    (0.99, 10): 3.169, (0.9, 5): 2.015, (0.999, 11): 4.437,
}  # fmt: skip


@pytest.mark.parametrize(("level", "freedom"), PRINTED)
def test_quantiles_are_the_printed_ones(level: float, freedom: int) -> None:
    assert quantile(level, freedom) == pytest.approx(PRINTED[level, freedom], abs=0.0006)


def test_an_interval_covers_the_mean_as_often_as_it_says() -> None:
    random = Random(1)
    found = [interval([random.gauss(3, 2) for _ in range(6)]) for _ in range(2000)]
    assert sum(one.low < 3 < one.high for one in found) / 2000 == pytest.approx(0.95, abs=0.015)


def test_one_run_says_nothing() -> None:
    assert interval([4.0]).half == float("inf")
    assert decide([[4.0]]) is Decision.UNDECIDED


def test_a_sentence_about_several_differences() -> None:
    up, down, either = [1.0, 1.1, 0.9, 1.0], [-1.0, -1.1, -0.9, -1.0], [2.0, -1.0, 1.0, -2.0]
    assert decide([up, up]) is Decision.HOLDS
    assert decide([up, either]) is Decision.UNDECIDED
    assert decide([up, either, down]) is Decision.FAILS
    assert within([up], 2) is Decision.HOLDS
    assert within([up], 1) is Decision.UNDECIDED
    assert within([up, down], 0.5) is Decision.FAILS
    assert shared(0.95, 10) == pytest.approx(0.995)
    barely = [0.4, 1.0, 0.6, 0.5]  # above zero alone, not as one of thirty
    assert decide([barely]) is Decision.HOLDS
    assert decide([barely, *[up] * 29]) is Decision.UNDECIDED


def test_what_is_undecided_is_neither_confirmed_nor_refuted() -> None:
    claim = Claim("it grows", "1 ± 2", False, "too few runs", undecided=True)
    assert (claim.confirmed, mark(claim)) == (False, "?")


# ── figures 8 and 9 ──────────────────────────────────────────────────────────────────────────────────────────────


def made_up(increase: dict[str, float], noise: float) -> Outages:
    """Runs as if they had been played: 6 messages, and so many more for each tenth of the time that nodes are off."""
    random, outages = Random(2), Outages()
    for who, _ in WHO:
        for asleep in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9):
            for algorithm in COMPARED:
                mean = 6 + asleep * 10 * increase.get(algorithm.name, 1)
                counts = [mean * exp(random.gauss(0, noise)) for _ in range(8)]
                outages.add(who, asleep, algorithm.name, [OutageRun(c, c, 1, asleep, 20) for c in counts])
    return outages


def verdicts(outages: Outages) -> list[Decision]:
    claims = _claims(outages)
    return [Decision.UNDECIDED if c.undecided else Decision.HOLDS if c.holds else Decision.FAILS for c in claims]


def test_claims_are_what_the_intervals_say() -> None:
    least = {"Nested SWEEP": 3.0, "Pure-Push": 2.0, "Pull-Push": 1.0}
    assert verdicts(made_up(least, 0.001)) == [Decision.HOLDS] * 5
    assert verdicts(made_up(least, 1.5)) == [Decision.UNDECIDED] * 5
    most = {"Nested SWEEP": -0.3, "Pure-Push": 1.0, "Pull-Push": 3.0}
    found = verdicts(made_up(most, 0.001))
    assert found == [Decision.FAILS, Decision.FAILS, Decision.FAILS, Decision.HOLDS, Decision.FAILS]


def test_runs_of_a_point_are_independent_and_algorithms_share_them() -> None:
    scale = TimeScale(60.0, 5.0)
    by_name = {a.name: a for a in ALGORITHMS}
    runs = {name: [played(by_name[name], "sources", 0.5, scale, seed) for seed in range(3)] for name in PUBLISHED}
    for seed in range(3):
        assert len({(runs[name][seed].off, runs[name][seed].changes) for name in PUBLISHED}) == 1, "the same outages"
    assert len({run.off for run in runs["Pull-Push"]}) == 3
    assert all(run.messages >= run.left for name in PUBLISHED for run in runs[name])
