"""From a SourceSpec to the adapter that speaks its URL. Drivers are imported when first needed."""

from __future__ import annotations

from collections.abc import Callable

from headwater.model.errors import ConfigError
from headwater.model.source import DELAY, MISSING, Source, SourceSpec


def _memory(spec: SourceSpec) -> Source:
    from headwater.sources.memory import MemorySource

    return MemorySource(spec)


def _sqlite(spec: SourceSpec) -> Source:
    from headwater.sources.sqlite.adapter import SqliteSource

    return SqliteSource(spec)


def _postgres(spec: SourceSpec) -> Source:
    from headwater.sources.postgres.adapter import PostgresSource

    return PostgresSource(spec)


def _mariadb(spec: SourceSpec) -> Source:
    from headwater.sources.mariadb.choice import ChosenSource

    return ChosenSource(spec)


def _delta(spec: SourceSpec) -> Source:
    from headwater.sources.delta.adapter import DeltaSource

    return DeltaSource(spec)


def _agent(spec: SourceSpec) -> Source:
    from headwater.sources.agent.adapter import AgentSource

    return AgentSource(spec)


def _files(spec: SourceSpec) -> Source:
    from headwater.sources.files.adapter import FilesSource

    return FilesSource(spec)


def _clock(spec: SourceSpec) -> Source:
    from headwater.sources.clock import ClockSource

    return ClockSource(spec)


ADAPTERS: dict[str, Callable[[SourceSpec], Source]] = {
    "postgresql": _postgres,
    "postgres": _postgres,
    "sqlite": _sqlite,
    "mariadb": _mariadb,
    "mysql": _mariadb,
    "delta": _delta,
    "delta+s3": _delta,
    "files": _files,
    "agent": _agent,
    "memory": _memory,
    "clock": _clock,
}


def register(scheme: str, adapter: Callable[[SourceSpec], Source]) -> None:
    """Adapters that need more than sources do stand above them, and say that they are there."""
    ADAPTERS[scheme] = adapter


def far(source: Source, seconds: float) -> Source:
    from headwater.sources.far import FarSource

    return FarSource(source, seconds)


def connect(spec: SourceSpec) -> Source:
    """An adapter object for this source. It connects when first asked something."""
    missing = [value for key, value in spec.options if key == MISSING]
    if missing:
        names = ", ".join(missing)
        are = "environment variable {} is" if len(missing) == 1 else "environment variables {} are"
        raise ConfigError(
            f"{are.format(names)} not set; [sources.{spec.name}] needs {'it' if len(missing) == 1 else 'them'}",
            "; ".join(f"export {name}=…" for name in missing) + " and try again",
        )
    scheme, separator, _ = spec.url.partition("://")
    adapter = ADAPTERS.get(scheme.lower()) if separator else None
    if adapter is None:
        # a URL without a scheme may be all secret, so it is not repeated
        what = f"unknown kind {scheme!r}" if separator else "a URL without a scheme"
        known = ", ".join(f"{name}://" for name in ADAPTERS if name not in ("clock", "chain"))
        raise ConfigError(f"source {spec.name} has {what}", f"use one of: {known}")
    delay = float(dict(spec.options).get(DELAY, 0))
    return far(adapter(spec), delay / 1000) if delay else adapter(spec)
