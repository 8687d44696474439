"""The views of the generated worlds: every level, over each other, over several sources. Parsed once."""

from __future__ import annotations

import pyarrow as pa

from headwater.algebra import define, parse_views
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.wave import core_schema
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import SourceName, TableName, ViewName, view_table
from headwater.model.schema import TableSchema
from headwater.model.source import SourceSpec
from headwater.runtime.project.fingerprints import fingerprint, needed_schema
from headwater.runtime.project.plan import ViewPlan
from headwater.sources.memory import MemoryDatabase, MemorySource, database

SQL = """
CREATE MATERIALIZED VIEW copy AS SELECT k, v FROM a.r;
CREATE MATERIALIZED VIEW pairs AS SELECT r.k, r.v, s.v AS w FROM a.r JOIN a.s ON s.k = r.k;
CREATE MATERIALIZED VIEW far WITH (consistency = 'strong') AS SELECT r.k, r.v, t.v AS w FROM a.r JOIN b.t ON t.k = r.k;
CREATE MATERIALIZED VIEW counts WITH (consistency = 'strong') AS SELECT k, COUNT(*) AS n FROM b.t GROUP BY k;
CREATE MATERIALIZED VIEW totals AS SELECT k, SUM(v) AS total FROM a.s GROUP BY k;
CREATE MATERIALIZED VIEW loose WITH (consistency = 'convergent') AS SELECT k, v FROM b.t;
CREATE MATERIALIZED VIEW thirds WITH (every = 3) AS SELECT k, v FROM b.t;
CREATE MATERIALIZED VIEW sixths WITH (every = 6) AS SELECT k FROM thirds WHERE v > 1;
CREATE MATERIALIZED VIEW alone AS SELECT k, v FROM c.u;
CREATE MATERIALIZED VIEW upper AS SELECT k, v FROM copy WHERE v > 1;
CREATE MATERIALIZED VIEW both WITH (consistency = 'strong') AS
    SELECT f.k, f.w, c.n FROM far AS f JOIN counts AS c ON c.k = f.k;
CREATE MATERIALIZED VIEW swept WITH (maintenance = 'sweep') AS
    SELECT r.k, r.v, t.v AS w FROM a.r JOIN b.t ON t.k = r.k;
CREATE MATERIALIZED VIEW nested WITH (maintenance = 'nested-sweep', consistency = 'strong') AS
    SELECT s.k, s.v, t.v AS w FROM a.s JOIN b.t ON t.k = s.k;
CREATE MATERIALIZED VIEW any_order WITH (maintenance = 'pvm', consistency = 'convergent') AS
    SELECT s.k, t.v AS w FROM a.s JOIN b.t ON t.k = s.k;
CREATE MATERIALIZED VIEW over_swept AS SELECT k, w FROM swept WHERE w > 1;
CREATE MATERIALIZED VIEW nightly WITH (consistency = 'periodic', schedule = '30s') AS SELECT k, v FROM b.t;
"""

TABLES = {"a": ("r", "s"), "b": ("t",), "c": ("u",)}
SOURCES = tuple(SourceName(name) for name in TABLES)
_INT = pa.int64()


def fresh(history: str) -> dict[SourceName, MemoryDatabase]:
    """Empty databases of one history."""
    found = {}
    for source in SOURCES:
        db = database(url(history, source))
        db.reset()
        for table in TABLES[source]:
            db.create(table, {"id": _INT, "k": _INT, "v": _INT}, key=("id",))
        found[source] = db
    return found


def url(history: str, source: str) -> str:
    return f"memory://{history}-{source}"


def specs(history: str) -> dict[SourceName, SourceSpec]:
    return {source: SourceSpec(source, url(history, source)) for source in SOURCES}


class _Catalog:
    def __init__(self) -> None:
        self._sources = {s: MemorySource(spec) for s, spec in specs("parsing").items()}

    def sources(self) -> list[str]:
        return list(self._sources)

    def tables(self, source: str) -> list[str]:
        return list(TABLES[source])

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        return self._sources[SourceName(source)].describe()[TableName(SourceName(source), table)]


def _defined() -> tuple[dict[ViewName, ViewDefinition], dict[ViewName, ViewPlan]]:
    fresh("parsing")
    catalog, views, plans = _Catalog(), dict[ViewName, ViewDefinition](), dict[ViewName, ViewPlan]()
    parsed = parse_views(SQL, "views.sql")
    for one in parsed:
        view = define(one, catalog, views, [p.name for p in parsed])
        views[view.name] = view
        tables = {t: catalog.resolve(t.source, "", t.table) for t in view.base_tables}
        schemas = {t: needed_schema(view, tables[t]) for t in view.base_tables}
        above = {p: plans[p] for p in view.parents}
        schemas |= {view_table(p): plan.columns for p, plan in above.items()}
        log = pa.schema([*((c, _INT) for c in view.columns), (COUNT, _INT), (SEQ, _INT)])
        names = view.aggregation
        types = {} if names is None else {x.name: _INT for x in (*names.keys, *names.arguments, *names.calls)}
        mark = fingerprint(view, tables, [plan.fingerprint for plan in above.values()])
        plans[view.name] = ViewPlan(view, schemas, core_schema(view, schemas), log, types, mark, above)
    return views, plans


VIEWS, PLANS = _defined()
