"""What Prometheus scrapes: the page's facts by that world's conventions (base units, _total, one name one meaning).

Counters are those of the run that maintains the warehouse now: they begin anew with it, as Prometheus expects. Where
nothing runs there are none, and `headwater_running` is 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any

from deltalake.exceptions import DeltaError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from headwater.model.errors import UsageError
from headwater.model.names import ViewName
from headwater.page.look import Look, Now
from headwater.runtime.freshness import BOUNDS
from headwater.runtime.listening import listen
from headwater.runtime.project.config import Config
from headwater.runtime.project.project import Project
from headwater.runtime.reading.health import age_told
from headwater.storage import Storage
from headwater.warehouse.changes import open_changelog
from headwater.warehouse.layout import log_folder
from headwater.warehouse.verdicts import newest_of_each

CONTENT_TYPE = CONTENT_TYPE_LATEST
Metric = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
_COUNTS = {
    "transactions": "Source transactions taken in.",
    "changes": "Changed rows of source tables taken in.",
    "batches": "Cuts made visible.",
    "computed": "Batches of views computed.",
    "questions": "Questions asked of sources.",
    "shared": "Questions that another view had asked already.",
    "keys": "Keys asked for in questions.",
    "bytes": "Bytes of questions and answers.",
    "retries": "Batches that could not be computed at first.",
    "halts": "Views halted.",
}
_CALLED = {"batches": "cuts", "computed": "batches", "bytes": "question_bytes", "keys": "question_keys",
           "retries": "batch_retries", "halts": "view_halts"}  # fmt: skip


class StoredBytes:
    """What the files of views take, looked at now and then: one scrape spends `BUDGET` seconds on it at most."""

    BUDGET = 0.3
    KEPT_SECONDS = 60.0

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[ViewName, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def of(self, now: Now) -> dict[ViewName, int]:
        with self._lock:
            until = time.monotonic() + self.BUDGET
            views = now.cut.views
            for name in sorted(views, key=lambda name: self._known.get(name, (0.0, 0))[0]):
                if self._known.get(name, (0.0, 0))[0] > now.at - self.KEPT_SECONDS or time.monotonic() > until:
                    break
                with suppress(DeltaError, OSError):  # a view that was replaced since: the next scrape knows
                    log = open_changelog(self._storage, log_folder(views[name].folder), views[name].version)
                    self._known[name] = (now.at, log.bytes)
            return {name: self._known[name][1] for name in views if name in self._known}


class Facts(Collector):
    """A collector of prometheus_client, for a page or a run."""

    def __init__(self, look: Callable[[], Now], config: Config, stored: StoredBytes | None = None) -> None:
        self._look, self._config, self._stored = look, config, stored

    def collect(self) -> Iterable[Metric]:
        now = self._look()
        yield from metrics(now, self._config, self._stored.of(now) if self._stored is not None else {})


@contextmanager
def serving_metrics(project: Project, where: str) -> Iterator[str]:
    """Serve /metrics at [HOST:]PORT, on this machine unless a host is named, while the block lasts; its address."""
    host, _, port = where.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(
            f"{where!r} is no port", "give a number, such as 9464, or an address and a number: 0.0.0.0:9464"
        )
    listen(host, int(port)).close()  # who has it is said better there
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Facts(Look(project).now, project.config, StoredBytes(project.storage)))
    server, _ = start_http_server(int(port), host, registry)
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def exposition(look: Callable[[], Now], config: Config, stored: StoredBytes | None = None) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Facts(look, config, stored))
    return generate_latest(registry)


def metrics(now: Now, config: Config, stored: Mapping[ViewName, int]) -> Iterator[Metric]:
    """Everything, from one look."""
    yield _gauge("headwater_running", "Whether a run maintains the warehouse.", int(now.running is not None))
    if now.running is not None:
        yield _gauge("headwater_lease_number", "The number of the lease that the run holds.", now.running.fence)
        yield _gauge("headwater_run_start_time_seconds", "When the run took the lease.", now.running.since)
    if "at" in now.report:
        yield _gauge("headwater_run_report_time_seconds", "When the run last told how it does.", now.report["at"])
    yield _gauge("headwater_cut_number", "The newest cut.", now.cut.number)
    yield _gauge("headwater_cut_time_seconds", "When the newest cut became visible.", now.cut.at)
    yield _gauge("headwater_cut_transaction", "The transaction that every live view shows.", now.cut.seq)
    numbered = now.report.get("numbered", now.cut.seq)
    yield _gauge("headwater_numbered_transaction", "The newest transaction that has a number.", numbered)
    counts = (now.report.get("totals") or {}).get("counts", {})
    for name, about in _COUNTS.items():
        if name in counts:
            counter = CounterMetricFamily(f"headwater_{_CALLED.get(name, name)}", about)
            counter.add_metric([], counts[name])
            yield counter
    yield from _sources(now, config)
    yield from _views(now, config, numbered, stored)
    yield _freshness(now)


def _sources(now: Now, config: Config) -> Iterator[Metric]:
    told = {name: found for name in config.sources if (found := now.told_of_source(name)) is not None}
    up = {name: int(found.get("state", "ok") == "ok") for name, found in told.items()}
    yield _labelled("headwater_source_up", "Whether the run can read the source.", "source", up)
    lags = {name: found["lag"] for name, found in told.items() if found.get("lag") is not None}
    about = "Seconds from commit to visible of the source's last transactions."
    yield _labelled("headwater_source_lag_seconds", about, "source", lags)
    taken = CounterMetricFamily("headwater_source_transactions", "Transactions taken in from it.", labels=["source"])
    for name, found in told.items():
        taken.add_metric([name], found.get("transactions", 0))
    yield taken


def _views(now: Now, config: Config, numbered: int, stored: Mapping[ViewName, int]) -> Iterator[Metric]:
    views, told = now.cut.views, now.by_view
    halted = {name: int(state.state != "live") for name, state in views.items()}
    yield _labelled("headwater_view_halted", "Whether the view is no longer maintained.", "view", halted)
    shown = {name: state.seq for name, state in views.items()}
    yield _labelled("headwater_view_transaction", "The transaction up to which the view is shown.", "view", shown)
    behind = {name: max(0, numbered - state.seq) for name, state in views.items()}
    about = "Numbered transactions that the view does not show yet."
    yield _labelled("headwater_view_lag_transactions", about, "view", behind)
    ages = {}
    for name, state in views.items():
        sources = [found for s in state.sources if (found := now.told_of_source(s)) is not None]
        age = age_told(told.get(name, {}), sources, now.at)
        if age is not None:
            ages[name] = age
    about = "Age of the oldest change that the view does not show; when it shows all, what the last one took."
    yield _labelled("headwater_view_lag_seconds", about, "view", ages)
    targets = {name: target for name, target in config.freshness.items() if name in views}
    yield _labelled("headwater_view_freshness_target_seconds", "How fresh the view is wanted.", "view", targets)
    yield _labelled("headwater_view_stored_bytes", "What the files of its changelog take.", "view", stored)
    verdicts = {name: verdict for name, verdict in newest_of_each(now.verdicts).items() if name in views}
    right = {name: int(verdict.ok) for name, verdict in verdicts.items()}
    yield _labelled("headwater_view_verified", "Whether it equalled its sources when last verified.", "view", right)
    times = {name: verdict.at for name, verdict in verdicts.items()}
    yield _labelled("headwater_view_verified_time_seconds", "When it was last verified.", "view", times)


def _freshness(now: Now) -> Metric:
    about = "Seconds from the oldest commit of a round at its source until a cut shows it in the view."
    histogram = HistogramMetricFamily("headwater_view_freshness_seconds", about, labels=["view"])
    for name, told in now.by_view.items():
        fresh = told.get("freshness")
        if fresh:
            histogram.add_metric([name], _buckets(fresh["buckets"]), fresh["seconds"])
    return histogram


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
    return list(zip(bounds, map(float, accumulate(counts)), strict=True))


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)


def _labelled(name: str, about: str, label: str, values: Mapping[Any, float]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, about, labels=[label])
    for key, value in values.items():
        gauge.add_metric([str(key)], value)
    return gauge
