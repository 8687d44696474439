"""What a person is told of what Spark says."""

from __future__ import annotations

from py4j.protocol import Py4JError

from headwater.runtime.compute.failures import translated


def test_too_little_memory_is_said_with_the_setting() -> None:
    """As a view of a percentile over ten million rows had it when it was verified."""
    said = "An error occurred while calling o986.getResult.\nCaused by: java.lang.OutOfMemoryError: Java heap space"
    error = translated(Py4JError(said))
    assert "not enough memory" in error.what
    assert '"spark.driver.memory"' in error.fix
