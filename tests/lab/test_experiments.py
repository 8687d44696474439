"""The experiments themselves: they run, say what they measured, and explain what does not hold.

Those that take longer than a few seconds are left to `make lab` and `make verdicts`: their algorithms and settings are
tested elsewhere.
"""

from __future__ import annotations

import math
from numbers import Number

import pytest

from headwater.lab.experiment import ClaimKind, Run
from headwater.lab.experiments import all_experiments

LONG = {
    "pvm-fig21", "pvm-fig23", "pvm-fig24", "pvm-fig25", "pvm-fig26", "pvm-table4", "mvc-bottleneck", "mvc-freshness",
    "tid-lost-notifications", "tid-several-tables", "cluster-partition", "cluster-skew", "pullpush-messages",
    "pullpush-throughput", "pullpush-upt", "wave-everywhere",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(all_experiments()) - LONG))
def test_an_experiment(name: str) -> None:
    told: list[tuple[int, int]] = []
    findings = all_experiments()[name].run(Run(1, lambda done, of: told.append((done, of))))
    assert findings.rows
    assert findings.panels
    assert findings.claims
    for row in findings.rows:
        assert all(math.isfinite(v) for v in row.values() if isinstance(v, Number))  # type: ignore[arg-type]
    for claim in findings.claims:
        assert claim.said
        assert claim.measured
        assert claim.holds or claim.why, f"{claim.said}: why not?"
        if claim.kind is ClaimKind.IDENTITY:
            assert claim.holds, f"{claim.said}: the lab is not built as it says"
            assert claim.why, f"{claim.said}: by which construction?"
    for panel in findings.panels:
        assert panel.cells or all(points for points in panel.series.values())
    if told:
        done, of = told[-1]
        assert done == of


def test_what_is_long_exists() -> None:
    assert set(all_experiments()) >= LONG
