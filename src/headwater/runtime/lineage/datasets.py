"""What tables and views are called in lineage: OpenLineage's naming conventions, so that other tools mean the same.

    postgres://host:port      database.schema.table
    mysql://host:port         database.table
    file | s3://bucket        path of a Delta table or of files
    sqlite:///path            table
    anything else             scheme://source, table

Only host, port, database and path are taken from a source's settings: never a user, never a password.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from headwater.model.names import SourceName, TableName
from headwater.model.source import SourceSpec
from headwater.runtime.project.plan import ViewPlan

_PORTS = {"postgres": 5432, "mysql": 3306}
_SCHEMES = {"postgresql": "postgres", "postgres": "postgres", "mariadb": "mysql", "mysql": "mysql"}
Field = tuple[str, str]


@dataclass(frozen=True)
class Dataset:
    """A table or a view; `fields` are (column, type), as far as they matter here."""

    namespace: str
    name: str
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Job:
    """A view, as lineage sees it: the job that makes its table of its inputs."""

    output: Dataset
    inputs: tuple[Dataset, ...]
    query: str
    consistency: str


def job_of(plan: ViewPlan, sources: Mapping[SourceName, SourceSpec], namespace: str) -> Job:
    """The tables of sources that a view reads, and the views."""
    view = plan.view
    read = [
        dataset(sources.get(table.source), table, fields(schema))
        for table, schema in plan.schemas.items()
        if not table.is_view
    ]
    read += [Dataset(namespace, name, fields(parent.columns)) for name, parent in plan.parents.items()]
    return Job(Dataset(namespace, view.name, fields(plan.columns)), tuple(read), view.text, view.level.value)


def fields(schema: pa.Schema) -> tuple[Field, ...]:
    return tuple((field.name, str(field.type)) for field in schema)


def dataset(spec: SourceSpec | None, table: TableName, columns: Sequence[Field] = ()) -> Dataset:
    """A table of a source by its name in the world; by its source's, where that is not known."""
    within = f"{table.schema}.{table.table}" if table.schema else table.table
    if spec is None:
        return Dataset(str(table.source), within, tuple(columns))
    url = urlsplit(spec.url)
    scheme = _SCHEMES.get(url.scheme, url.scheme)
    if scheme in _PORTS:
        said = {key: values[0] for key, values in parse_qs(url.query).items()} | dict(spec.options)
        host = said.get("host") or url.hostname or "localhost"
        port = said.get("port") or _port(url.netloc) or _PORTS[scheme]
        database = said.get("database") or said.get("dbname") or unquote(url.path.strip("/"))
        place = f"{host}" if host.startswith("/") else f"{host}:{port}"
        return Dataset(f"{scheme}://{place}", f"{database}.{within}" if database else within, tuple(columns))
    if url.scheme == "sqlite":
        return Dataset(f"sqlite://{unquote(url.path)}", within, tuple(columns))
    if url.scheme in ("delta", "files", "file"):
        bucket = f"{url.scheme}://{url.hostname}" if url.hostname else "file"
        return Dataset(bucket, unquote(url.path), tuple(columns))
    return Dataset(f"{url.scheme}://{table.source}", within, tuple(columns))


def _port(netloc: str) -> str:
    """The port of a netloc; of the first host, where there are several."""
    _, _, port = netloc.rpartition("@")[2].partition(",")[0].rpartition(":")
    return port if port.isdigit() else ""
