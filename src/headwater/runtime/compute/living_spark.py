"""A Spark session that outlives its JVM.

All state is in the warehouse and at the sources, so a JVM that was killed costs the time to start another one and
nothing else: every user of Spark asks here each time, and what was being computed is computed again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.model.errors import HeadwaterError
from headwater.model.logged import event
from headwater.runtime.compute.failures import (
    DEATH_FIX,
    MEMORY_FIX,
    ComputationFailed,
    OutOfMemory,
    ProcessDied,
    translated_errors,
)
from headwater.runtime.compute.spark import start_spark
from headwater.runtime.project.config import Config

log = logging.getLogger(__name__)


class LivingSpark:
    """Hands out the session, and starts a new one where the old one is dead. Callable from any thread."""

    def __init__(self, config: Config, session: SparkSession) -> None:
        self._config, self._session, self._lock = config, session, threading.Lock()
        self._cores: tuple[SparkSession, int] | None = None

    @property
    def session(self) -> SparkSession:
        with self._lock:
            if not is_alive(self._session):
                log.warning("the JVM died; starting another one", extra=event("jvm.died"))
                forget_dead_session()
                self._session = start_spark(self._config)
            return self._session

    def cores(self, session: SparkSession) -> int:
        """How many tasks it runs at a time: it is asked once, for that is a question to the JVM."""
        known = self._cores
        if known is None or known[0] is not session:
            known = self._cores = (session, session.sparkContext.defaultParallelism)
        return known[1]

    @contextmanager
    def using(self) -> Iterator[SparkSession]:
        """Work with the session; what fails because its JVM has died is that death, whatever Spark makes of it."""
        session = self.session
        try:
            with translated_errors():
                yield session
        except HeadwaterError as error:
            if isinstance(error, ComputationFailed) and self._died(session):
                fix = MEMORY_FIX if isinstance(error, OutOfMemory) else DEATH_FIX
                raise ProcessDied("the JVM that computed for it died", fix) from error
            raise
        except Exception as error:  # PySpark's own surprises about a JVM that is not there
            if self._died(session):
                raise ProcessDied("the JVM that computed for it died", DEATH_FIX) from error
            raise

    @staticmethod
    def _died(session: SparkSession) -> bool:
        """A JVM that was killed may take a moment to be gone."""
        for _ in range(5):
            if not is_alive(session):
                return True
            time.sleep(0.1)
        return False

    def cancel_jobs(self) -> None:
        """Make what is being computed end; it does not matter how."""
        with suppress(Exception):
            self._session.sparkContext.cancelAllJobs()


def is_alive(session: SparkSession) -> bool:
    """Whether a session's JVM is there and its context is not stopped."""
    context = session.sparkContext
    process = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return False
    try:
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except Exception:  # whatever it is, nobody answers
        return False


def forget_dead_session() -> None:
    """PySpark keeps session, context and gateway as long as the process lives; without a JVM they stand in the way."""
    with SparkContext._lock:
        gateway, SparkContext._gateway = SparkContext._gateway, None
        SparkContext._jvm = None
        SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None and process.poll() is None:
            with suppress(Exception):
                process.kill()
