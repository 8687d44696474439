"""PVM's cost model: its worked numbers, and that its equations agree with each other."""

from __future__ import annotations

import pytest

from headwater.lab.settings import cost_model as model


def test_the_worked_example() -> None:
    """Section 5.3, the end: C_local/C_remote = 0.01, ten sources, less than a tenth: at most 200 updates."""
    assert model.most_updates(m=10, local_per_remote=0.01, share=0.1) == pytest.approx(200)
    assert model.local_share(m=10, n=200, local_per_remote=0.01) == pytest.approx(0.1)
    assert model.local_share(m=10, n=201, local_per_remote=0.01) > 0.1


def test_matrix_3() -> None:
    """The rows that the paper prints, for n/m = 5 and m = 4."""
    m, n = 4, 20
    rows = {i: [model.local_queries_of(i, j, m, n) for j in range(1, m + 1)] for i in range(1, n + 1)}
    assert rows[1] == [0, 5, 5, 5]
    assert rows[2] == [4, 0, 5, 5]
    assert rows[3] == [4, 4, 0, 5]
    assert rows[m + 1] == [0, 4, 4, 4]
    assert rows[m + 2] == [3, 0, 4, 4]
    assert rows[n - 1] == [0, 0, 0, 1]
    assert rows[n] == [0, 0, 0, 0]


@pytest.mark.parametrize(("m", "n"), [(2, 2), (2, 40), (3, 30), (4, 60), (6, 60), (10, 200)])
def test_matrix_3_sums_to_equation_6(m: int, n: int) -> None:
    entries = [model.local_queries_of(i, j, m, n) for i in range(1, n + 1) for j in range(1, m + 1)]
    assert sum(entries) == model.local_queries(m, n)


def test_equation_4_as_printed_is_not_matrix_3() -> None:
    assert model.local_queries_of(2, 1, 4, 20) == 4
    assert model.printed_local_queries_of(2, 1, 4, 20) == 5


def test_sweep_takes_n_times_as_long_as_one_update() -> None:
    """Equations 8 to 11."""
    assert model.sweep_time(m=4, n=60, remote=1.0, local=0.01) == pytest.approx(180 + 13.5)
    assert model.sweep_time_without_local(m=4, n=60, remote=1.0) == 180
    assert model.update_time(m=4, remote=1.0) == 3


def test_waiting() -> None:
    """Sequence 12 for p = 3."""
    t, a = 10.0, 0.5
    assert [model.wait(i, 3, t, a) for i in range(1, 8)] == [0, 0.5, 1.0, 10, 10.5, 11.0, 20]


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_equation_15_simplifies_equation_14(k: int) -> None:
    """If k divides n − 1; otherwise it is an upper bound that is less than one t off."""
    assert model.pvm_time(n=61, k=k, t=3.0) == model.pvm_time_simplified(n=61, k=k, t=3.0)
    for n in range(1, 40):
        assert 0 <= model.pvm_time_simplified(n, k, 3.0) - model.pvm_time(n, k, 3.0) < 3.0


def test_updates_that_keep_coming() -> None:
    assert model.arriving_time(at_once=40.0, n=40, t=1.0, interval=0.5) == 40.0
    assert model.arriving_time(at_once=40.0, n=40, t=1.0, interval=2.0) == 79.0
