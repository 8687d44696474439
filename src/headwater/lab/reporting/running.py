"""Runs experiments, several at once, and tells how far each has come."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from headwater.lab.experiment import Experiment, Run
from headwater.lab.experiments import all_experiments
from headwater.lab.reporting.report import WrittenReport, page, write
from headwater.model.errors import HeadwaterError

Tell = Callable[[str, int, int], None]
"""Which experiment, how many of its parts are done, of how many. Ends with as many as there are."""

REPORT = "report.html"

_queue: Any = None


def run_one(name: str, seed: int, out: Path, tell: Tell) -> WrittenReport:
    """Here and now."""
    experiment = all_experiments()[name]
    findings = experiment.run(Run(seed, lambda done, of: tell(name, done, of)))
    return write(experiment, findings, out, seed)


def run_many(
    experiments: Sequence[Experiment], seed: int, out: Path, tell: Tell, workers: int = 0
) -> list[WrittenReport]:
    """All of them in processes of their own, and the report. What fails raises, after the others were stopped."""
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    count = workers or min(os.cpu_count() or 1, len(experiments))
    with ProcessPoolExecutor(count, context, _begin, (queue,)) as pool:
        # the longest first would be best; the order of the papers is near enough and easier to follow
        try:
            jobs: list[Future[WrittenReport]] = [pool.submit(_job, e.name, seed, out) for e in experiments]
            left: set[Future[WrittenReport]] = set(jobs)
            while left:
                done, left = wait(left, timeout=0.1, return_when="FIRST_EXCEPTION")
                while not queue.empty():
                    tell(*queue.get())
                for job in done:
                    job.result()
        except BaseException as error:
            for process in list(pool._processes.values()):  # the pool itself would wait for what they are doing
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, BrokenProcessPool | BrokenPipeError):
                raise HeadwaterError(
                    "a worker process died, or could not be started", "run experiments one by one to see which"
                ) from error
            raise
    written = [job.result() for job in jobs]
    (out / REPORT).write_text(page(experiments, written, seed), encoding="utf-8")
    return written


def _begin(queue: Any) -> None:
    global _queue  # what a worker process is given once
    _queue = queue
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started it
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _job(name: str, seed: int, out: Path) -> WrittenReport:
    written = run_one(name, seed, out, lambda *said: _queue.put(said))
    _queue.put((name, 1, 1))
    return written
