from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.numbers import ascending


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30).map(lambda some: some + some[:7]))
def test_the_different_ones_in_order(values: list[int]) -> None:
    given = np.array(values, np.int64)
    found = ascending(given)
    assert found.tolist() == sorted(set(values))
    assert found.dtype == np.int64
    assert given.tolist() == values, "what was given is left as it is"
