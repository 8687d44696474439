"""Lineage of a run, if its project wants some."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from headwater.model.names import ViewName
from headwater.runtime.clock import Clock
from headwater.runtime.lineage.datasets import Job, job_of
from headwater.runtime.lineage.outbox import Outbox, to_endpoint, to_file
from headwater.runtime.lineage.telling import Lineage
from headwater.runtime.project.config import Config, lineage_settings
from headwater.runtime.project.plan import ViewPlan


def opened_lineage(config: Config, plans: Callable[[ViewName], ViewPlan | None], clock: Clock) -> Lineage | None:
    """What listens to a run and tells where [lineage] says; `plans` gives a view's plan, if it is known."""
    settings = lineage_settings(config)
    if settings is None:
        return None
    send = to_endpoint(settings.url, settings.token) if settings.url else to_file(config.folder / settings.file)

    def job(view: ViewName) -> Job | None:
        plan = plans(view)
        return None if plan is None else job_of(plan, config.sources, settings.namespace)

    return Lineage(Outbox(send), job, settings.seconds, metadata.version("headwater"), clock)
