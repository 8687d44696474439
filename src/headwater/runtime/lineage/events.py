"""OpenLineage events as JSON: a run of a job begins, and it completes or fails. Pure.

    START      a load begins, or the first of some batches is computed
    COMPLETE   what it made is shown, with its rows, the transactions it took in and the cut that shows them
    FAIL       the view could not be built, or is halted: why

Each run has one START and one end. https://openlineage.io/spec/2-0-2/OpenLineage.json says what the fields mean.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headwater.runtime.lineage.datasets import Dataset, Job
from headwater.runtime.project.secrets import without_secrets

SPEC = "https://openlineage.io/spec"
_EVENT = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_OWN = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunFacet"
Kind = Literal["load", "batches"]
Type = Literal["START", "COMPLETE", "FAIL"]


@dataclass(frozen=True)
class Run:
    """One load of a view, or some batches of it. `facts` are what is known of it at the time of an event: seq, after
    (the transaction before the first), cut, batches."""

    id: str
    job: Job
    kind: Kind
    facts: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None
    problem: str = ""


def event(type_: Type, run: Run, at: float, version: str) -> dict[str, Any]:
    """One event, `at` seconds since 1970."""
    producer = f"urn:headwater:{version}"

    def facet(where: str, **said: Any) -> dict[str, Any]:
        return {"_producer": producer, "_schemaURL": where, **said}

    def known(what: Dataset) -> dict[str, Any]:
        listed = [{"name": name, "type": kind} for name, kind in what.fields]
        schema = {"schema": facet(_url("1-2-0", "SchemaDatasetFacet"), fields=listed)} if listed else {}
        return {"namespace": what.namespace, "name": what.name, "facets": schema}

    job = run.job
    facets = {
        "processing_engine": facet(_url("1-1-1", "ProcessingEngineRunFacet"), version=version, name="headwater"),
        "headwater": facet(_OWN, kind=run.kind, consistency=job.consistency, **run.facts),
    }
    if run.problem:
        said = without_secrets(run.problem)
        where = _url("1-0-1", "ErrorMessageRunFacet")
        facets["errorMessage"] = facet(where, message=said, programmingLanguage="PYTHON")
    output = known(job.output)
    if run.rows is not None and type_ != "START":
        rows = facet(_url("1-0-2", "OutputStatisticsOutputDatasetFacet"), rowCount=run.rows)
        output["outputFacets"] = {"outputStatistics": rows}
    about = facet(_url("2-0-4", "JobTypeJobFacet"), processingType="BATCH", integration="HEADWATER", jobType="VIEW")
    sql = facet(_url("1-1-0", "SQLJobFacet"), query=without_secrets(job.query), dialect="spark")
    return {
        "eventTime": dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "eventType": type_,
        "producer": producer,
        "schemaURL": _EVENT,
        "run": {"runId": run.id, "facets": facets},
        "job": {
            "namespace": job.output.namespace, "name": job.output.name, "facets": {"jobType": about, "sql": sql},
        },
        "inputs": [known(one) for one in job.inputs],
        "outputs": [output],
    }  # fmt: skip


def _url(version: str, name: str) -> str:
    return f"{SPEC}/facets/{version}/{name}.json#/$defs/{name}"
