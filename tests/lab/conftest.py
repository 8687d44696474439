from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Verdicts take half an hour: they are run if they are asked for, not because `-m 'not spark'` leaves them in."""
    if "verdicts" in str(config.getoption("markexpr")):
        return
    left = [item for item in items if item.get_closest_marker("verdicts") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = left
