"""What a person is told of what Spark says."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from headwater.runtime.compute.failures import OutOfMemory, ProcessDied, translated, translated_errors


class SilentError(Py4JJavaError):
    """Whose JVM is not there any more to be asked for the rest."""

    def __init__(self, said: str) -> None:
        self.said = said

    def __str__(self) -> str:
        return self.said


def test_too_little_memory_is_said_with_the_setting() -> None:
    """As a view of a percentile over ten million rows had it when it was verified."""
    said = "An error occurred while calling o986.getResult.\nCaused by: java.lang.OutOfMemoryError: Java heap space"
    error = translated(Py4JError(said))
    assert "not enough memory" in error.what
    assert '"spark.driver.memory"' in error.fix


@pytest.mark.parametrize(("code", "kind"), [(52, OutOfMemory), (137, ProcessDied)])
def test_a_jvm_whose_heap_was_full_cannot_say_so_itself(
    code: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"]) as gone:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=gone))
        with pytest.raises(kind), translated_errors():
            raise ConnectionRefusedError(111, "Connection refused")
        for said in (
            Py4JError("Answer from Java side is empty"),
            SilentError("An error occurred while calling o485"),
            SilentError("Job 7 cancelled because SparkContext was shut down\n\tat org.apache.spark"),
        ):
            assert type(translated(said)) is kind
