"""No verdict changes unseen: each claim of each experiment comes to what `verdicts.toml` says, seed by seed.

Experiments of a second or two are run here; all of them by `make verdicts`.
"""

from __future__ import annotations

import pytest

from headwater.lab.experiments import all_experiments
from lab.verdicts import SEEDS, Pinned, expected, found, merged, together

QUICK = (
    "cluster-space", "eca-anomaly", "mvc-examples", "pullpush-counts", "pvm-fig6-7", "pvm-fig8-12", "pvm-fig15-16",
    "pvm-fig22", "tid-fig1",
)  # fmt: skip


def compare(name: str, seed: int) -> None:
    pinned = expected()[name]
    if seed not in pinned.seeds:
        pytest.skip(f"not pinned with seed {seed}: python tests/lab/verdicts.py {name}")
    assert found(name, seed) == pinned.of(seed), f"if it is meant to be so: python tests/lab/verdicts.py {name}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", QUICK)
def test_quick_verdicts(name: str, seed: int) -> None:
    compare(name, seed)


@pytest.mark.verdicts
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", sorted(set(all_experiments()) - set(QUICK)))
def test_verdicts(name: str, seed: int) -> None:
    compare(name, seed)


def test_every_experiment_is_pinned() -> None:
    assert set(expected()) == set(all_experiments())
    assert all(pinned.seeds and pinned.verdicts for pinned in expected().values())


def test_a_verdict_that_varies_says_with_which_seeds() -> None:
    assert together(["holds", "fails", "holds"]) == "varies 2 of 3: yes no yes"
    assert together(["holds", "undecided", "fails"]) == "varies 1 of 3: yes undecided no"
    either = Pinned((0, 1, 2), {"a": "varies 1 of 3: yes undecided no"})
    assert [either.of(seed)["a"] for seed in range(3)] == ["holds", "undecided", "fails"]
    assert merged([{"a": "identity"}] * 3) == {"a": "identity"}
    varying = Pinned((4, 5, 6), {"a": "varies 2 of 3: yes no yes", "b": "fails"})
    assert [varying.of(seed)["a"] for seed in (4, 5, 6)] == ["holds", "fails", "holds"]
    assert varying.of(6)["b"] == "fails"
    known = {verdict.split()[0] for pinned in expected().values() for verdict in pinned.verdicts.values()}
    assert known <= {"holds", "fails", "undecided", "identity", "varies"}
