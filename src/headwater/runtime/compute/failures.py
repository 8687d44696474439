"""Errors that cross from a Spark task to the driver, and what a failure means for a view.

Spark hands the driver the text of a task's traceback. Our own errors travel in it as one marked line of JSON, so that
the driver raises the same error again, with its advice and whether trying again can help.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import ParamSpec, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

import headwater.model.errors as errors
from headwater.model.errors import HeadwaterError

P = ParamSpec("P")
T = TypeVar("T")
DEATH_FIX = "it is computed again by itself; if this goes on, look at the machine's memory"
_MARK = "headwater-error "
_MARKED = re.compile(re.escape(_MARK) + r"(\{.*\})")


class TaskError(RuntimeError):
    """Carries a HeadwaterError as text."""


class ProcessDied(HeadwaterError):
    """A process that computed for us is gone: a Python worker, the daemon it is forked from, an executor, the JVM.
    What it was doing is done again; time is all that is lost."""

    retry_helps = True


_DEATHS = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect",
    "Failed to read data from the Python worker",
    "Python worker daemon",
    "java.io.EOFException",
    "java.net.SocketException",
    "java.net.ConnectException",
    "Connection reset",
    "Broken pipe",
    "SparkContext was shut down",
    "stopped SparkContext",
    "SparkContext is stopped",
    "ExecutorLostFailure",
    "Executor heartbeat timed out",
    "Slave lost",
    "Remote RPC client disassociated",
)
"""Words in Spark's message that tell a dead process from a computation that cannot be done."""


class TooMuch(Exception):
    """What was begun as small is not: it is given up, and computed by Spark."""


class ComputationFailed(HeadwaterError):
    """Spark could not evaluate a view's expressions: a division by zero, an overflow, a cast that does not fit."""


class OutOfMemory(ComputationFailed):
    """What is to be computed does not fit into Spark's memory; no row is to blame."""


_MEMORY = "java.lang.OutOfMemoryError"
_FRAME = "\tat "
"""Is in what the JVM says of its own errors, if it can still be asked for that."""
_EXIT_FULL = 52
"""How a JVM of Spark's ends when its heap is full (SparkExitCode.OOM)."""
MEMORY_FIX = (
    'give it more, in headwater.toml: [spark.options] "spark.driver.memory" = "2g" (640m unless said;'
    ' executors on other machines have "spark.executor.memory")'
)


def marked(error: HeadwaterError) -> TaskError:
    raw = {"kind": type(error).__name__, "what": error.what, "fix": error.fix}
    return TaskError(_MARK + json.dumps(raw))


def carries_errors(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """For generators that run in a task: our errors become marked ones."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from function(*args, **kwargs)
        except HeadwaterError as error:
            raise marked(error) from None

    return run


@contextmanager
def translated_errors() -> Iterator[None]:
    """On the driver: what Spark raises becomes the error that happened in the task."""
    try:
        yield
    except HeadwaterError:
        raise
    except (PySparkException, Py4JError) as error:
        raise translated(error) from error
    except ConnectionError as error:  # py4j's own sockets: sources' errors are Headwater's own by now
        raise _gone(f"the JVM does not answer: {error}") from error


@contextmanager
def failures_here() -> Iterator[None]:
    """What a task would have failed of, where there is no task."""
    try:
        yield
    except (HeadwaterError, TooMuch):
        raise
    except TaskError as error:
        raise translated(error) from error
    except Exception as error:
        raise ComputationFailed(f"{type(error).__name__}: {error}"[:500], "see the log") from error


def _gone(what: str, seconds: float = 1.0) -> HeadwaterError:
    """Of a JVM that is gone, or may be in so many seconds: one whose heap was full is not there any more to say so."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            if process.wait(timeout=seconds) == _EXIT_FULL:
                return OutOfMemory("Spark has not enough memory to compute it", MEMORY_FIX)
    return ProcessDied(what, DEATH_FIX)


def translated(error: Exception) -> HeadwaterError:
    text = str(error)
    found = _MARKED.search(text)
    if found:
        raw = json.loads(found.group(1))
        kind = getattr(errors, raw["kind"], HeadwaterError)
        made: HeadwaterError = kind.__new__(kind)
        HeadwaterError.__init__(made, raw["what"], raw["fix"])
        return made
    if _MEMORY in text:
        return OutOfMemory("Spark has not enough memory to compute it", MEMORY_FIX)
    if isinstance(error, Py4JError) and (not isinstance(error, Py4JJavaError) or _FRAME not in text):
        return _gone("the JVM does not answer: it has ended, or was killed")
    death = next((mark for mark in _DEATHS if mark in text), None)
    if death is not None and "Traceback (most recent call last)" not in text.partition(death)[0]:
        ends = 5.0 if "SparkContext" in death else 0.0
        return _gone(f"a process that computed for it died ({death})", ends)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    said = next((line for line in lines if line.lstrip().startswith("[")), lines[0] if lines else repr(error))
    if "Traceback" in text:
        said = next((line for line in reversed(lines) if re.match(r"^[\w.]+(Error|Exception|Invalid)\b", line)), said)
    said = re.sub(r" If necessary set .* to bypass this error\.", "", said.strip().split(" SQLSTATE")[0])
    return ComputationFailed(said[:500], "see the view's expressions and the row's values")
