"""Confidence intervals: what independent runs say, and whether they say enough to decide something.

The mean of n independent runs lies, with probability `level`, within

    mean ± t · s / √n        t: quantile of Student's distribution with n − 1 degrees of freedom

A sentence that is about several differences at once is decided by `decide`: it holds if each of them is above zero
within its interval, fails if one is below zero, and is undecided otherwise. The level is of the sentence and not of
each difference (Bonferroni): the chance that any of its intervals misses is at most 1 − level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import atan, cos, inf, pi, sin, sqrt
from statistics import fmean, stdev

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    mean: float
    half: float

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.half:.1f}"

    def __format__(self, spec: str) -> str:
        return f"{self.mean:{spec}} ± {self.half:{spec.lstrip('+')}}" if spec else str(self)


class Decision(Enum):
    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


def interval(samples: Sequence[float], level: float = LEVEL) -> Interval:
    """Of one number for each independent run. One run says nothing: its interval has no end."""
    if len(samples) < 2:
        return Interval(fmean(samples), inf)
    return Interval(fmean(samples), quantile(level, len(samples) - 1) * stdev(samples) / sqrt(len(samples)))


def shared(level: float, intervals: int) -> float:
    """The level of each of so many intervals, if `level` is that of all of them together."""
    return 1 - (1 - level) / max(intervals, 1)


def decide(differences: Sequence[Sequence[float]], level: float = LEVEL) -> Decision:
    """Is each difference above zero? One sequence for each, with a number from each run."""
    each = shared(level, len(differences))
    found = [interval(samples, each) for samples in differences]
    if all(one.low > 0 for one in found):
        return Decision.HOLDS
    return Decision.FAILS if any(one.high < 0 for one in found) else Decision.UNDECIDED


def within(samples: Sequence[Sequence[float]], limit: float, level: float = LEVEL) -> Decision:
    """Is each mean between −limit and limit?"""
    each = shared(level, len(samples))
    found = [interval(one, each) for one in samples]
    if all(-limit < one.low and one.high < limit for one in found):
        return Decision.HOLDS
    beyond = any(one.low > limit or one.high < -limit for one in found)
    return Decision.FAILS if beyond else Decision.UNDECIDED


@cache
def quantile(level: float, freedom: int) -> float:
    """t with P(|T| < t) = level, by halving."""
    low, high = 0.0, 1.0
    while probability(high, freedom) < level:
        low, high = high, high * 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle, freedom) < level else (low, middle)
    return high


def probability(t: float, freedom: int) -> float:
    """P(|T| < t), by the finite sums for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(freedom))
    odd = freedom % 2
    term = total = cos(angle) if odd else 1.0
    if freedom == 1:
        return 2 * angle / pi
    for k in range(2 if odd else 1, freedom - 1, 2):  # each term is the one before by k / (k + 1) · cos²
        term *= k / (k + 1) * cos(angle) ** 2
        total += term
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
