"""The project's sources, connected: what view SQL is resolved against, and what the run loop polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.chain import chain_spec
from headwater.model.chain import Chain
from headwater.model.errors import ConfigError, SourceUnavailable, UnknownName, ViewSqlError
from headwater.model.names import CLOCK, SourceName, TableName, ViewName
from headwater.model.schema import TableSchema
from headwater.model.source import Source, SourceSpec
from headwater.runtime.project.config import Config, clock_spec
from headwater.runtime.project.remembered import recall, remember
from headwater.sources import connect
from headwater.storage import Storage

if TYPE_CHECKING:  # the parser is imported by those who parse: reading must answer at once
    from headwater.algebra import ParsedView
    from headwater.algebra.view import ViewDefinition


AWAY = (SourceUnavailable, ConfigError)
"""What a source raises that cannot be reached; a file that is not there looks like a mistake in its url at first."""


class SourceCatalog:
    """Connects lazily and remembers what each source said of its tables."""

    def __init__(self, config: Config, open_hub: Callable[[], None] = lambda: None) -> None:
        self._config, self._open_hub = config, open_hub
        self._sources: dict[SourceName, Source] = {}
        self._tables: dict[SourceName, Mapping[TableName, TableSchema]] = {}
        self._memory: Storage | None = None
        self._chains: dict[SourceName, Chain] = {}
        """The chains of views, which are sources of their own."""

    def recall_from(self, storage: Storage) -> None:
        """From now on, a source that is away is what it was when it was last seen."""
        self._memory = storage

    def remember(self, tables: Iterable[TableName]) -> None:
        """Keep what the sources said of these tables, for a time when they are away."""
        tables = set(tables)
        beyond = [m.table for t in tables if t.source in self._chains for m in self._chains[t.source].members]
        wanted = sorted({*(t for t in tables if t.source not in self._chains), *beyond})
        for source in sorted({t.source for t in wanted}):
            known = self._tables.get(source, {})
            if self._memory is not None and all(t in known for t in wanted if t.source == source):
                remember(self._memory, source, [known[t] for t in wanted if t.source == source])

    def sources(self) -> Sequence[str]:
        return list(self._config.sources)

    def adopt(self, config: Config) -> None:
        """The project names other sources now, or calls itself something else there."""
        for name, source in list(self._sources.items()):
            if config.sources.get(name) != self._config.sources.get(name):
                source.close()
                del self._sources[name]
        self._config = config

    @property
    def config(self) -> Config:
        return self._config

    def another(self) -> SourceCatalog:
        """The same sources through connections of its own: an adapter serves one thread at a time."""
        other = SourceCatalog(self._config, self._open_hub)
        other._chains = self._chains
        return other

    def spec(self, name: str) -> SourceSpec:
        """How a source is reached, as the project says now."""
        spec = self._config.sources.get(SourceName(name))
        if spec is None and name in self._chains:
            return self._chain_spec(self._chains[SourceName(name)])
        if spec is None and name == CLOCK:  # of a view whose file is gone, until it is applied
            return clock_spec(self._config.tick_seconds)
        if spec is None:
            raise UnknownName("source", name, self._config.sources)
        return spec

    def _chain_spec(self, chain: Chain) -> SourceSpec:
        tables = {m.table: self.described(m.source)[m.table] for m in chain.members}
        members = [self.spec(m.source) for m in chain.members]
        if len({spec.url for spec in members}) < len(members):
            raise ConfigError(
                f"view {chain.view} goes along a chain in which one agent stands twice",
                "each of its sources needs an agent of its own; or write maintenance = 'wave'",
            )
        return chain_spec(chain.typed(tables), members)

    def chains_through(self, sources: Iterable[SourceName]) -> list[SourceName]:
        """The chains that one of these sources is a member of."""
        wanted = set(sources)
        return [name for name, chain in self._chains.items() if wanted & {m.source for m in chain.members}]

    def learned(self, name: SourceName, tables: Mapping[TableName, TableSchema]) -> None:
        """A source has said anew what its tables are, to somebody with connections of its own."""
        self._tables[name] = tables

    def source(self, name: str) -> Source:
        spec = self.spec(name)
        if spec.name not in self._sources:
            if spec.url.startswith(("agent://", "chain://")):
                self._open_hub()
            self._sources[spec.name] = connect(spec)
        return self._sources[spec.name]

    def described(self, name: SourceName) -> Mapping[TableName, TableSchema]:
        if name in self._chains:
            chain = self._chains[name]
            tables = {m.table: self.described(m.source)[m.table] for m in chain.members}
            return {chain.table: chain.described(tables)}
        if name not in self._tables:
            try:
                self._tables[name] = self.source(name).describe()
            except AWAY:
                recalled = self._recalled(name)
                if not recalled:
                    raise
                self._tables[name] = recalled
        return self._tables[name]

    def recalls(self, name: SourceName) -> bool:
        """Whether something is known of a source without asking it."""
        if name in self._chains:
            return all(self.recalls(member.source) for member in self._chains[name].members)
        return bool(self._recalled(name))

    def _recalled(self, name: SourceName) -> dict[TableName, TableSchema]:
        return recall(self._memory, name) if self._memory is not None else {}

    def refresh(self, name: SourceName) -> Mapping[TableName, TableSchema]:
        """Ask the source anew."""
        found = self._tables[name] = self.source(name).describe()
        return found

    def tables(self, source: str) -> Sequence[str]:
        return [str(name).partition(".")[2] for name in self.described(SourceName(source))]

    def resolve(self, source: str, schema: str, table: str) -> TableSchema:
        try:
            name = self.source(source).resolve(schema, table)
        except AWAY:
            recalled = self._recalled(SourceName(source))
            alike = [
                n for n in recalled if n.table.lower() == table.lower() and schema.lower() in ("", n.schema.lower())
            ]
            name = next((n for n in alike if n.table == table), alike[0] if alike else None)
            if name is None:
                raise
        found = None if name is None else self.described(SourceName(source)).get(name)
        if found is None:
            written = f"{schema}.{table}" if schema else table
            known = {table for full in self.tables(source) for table in (full, full.rpartition(".")[2])}
            raise UnknownName("table", written, known, f"in source {source!r}")
        return found

    def schemas(self, view: ViewDefinition) -> dict[TableName, TableSchema]:
        """Its tables of sources; the views it reads are for the planner to add."""
        if view.chain is not None:
            self._know(view.chain)
        if any(name not in self.described(name.source) for name in view.base_tables if name.source == CLOCK):
            raise ConfigError(
                f"view {view.name} compares with the present, whose source is called {CLOCK}; so is one of yours",
                f"rename [sources.{CLOCK}] in headwater.toml, and in the views that read it",
            )
        return {name: self.described(name.source)[name] for name in view.base_tables}

    def _know(self, chain: Chain) -> None:
        if chain.source in self._config.sources:
            raise ConfigError(
                f"view {chain.view} goes along a chain that is called {chain.source}; so is one of your sources",
                f"rename [sources.{chain.source}] in headwater.toml, and in the views that read it",
            )
        if self._chains.get(chain.source) != chain:
            self._chains[chain.source] = chain
            if chain.source in self._sources:
                self._sources.pop(chain.source).close()

    def close(self) -> None:
        for source in self._sources.values():
            source.close()
        self._sources.clear()


def read_views(config: Config) -> list[ParsedView]:
    """Every view the project defines: in order of file and place, but each after those it reads."""
    from headwater.algebra import in_order, parse_views

    if not config.views.is_dir():
        raise ConfigError(
            f"there is no folder {config.views}", "create it and put CREATE MATERIALIZED VIEW files there"
        )
    parsed: list[ParsedView] = []
    for file in sorted(config.views.glob("*.sql")):
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ViewSqlError(f"{file} is not UTF-8 text", "save it as UTF-8") from error
        parsed += parse_views(text, str(file.relative_to(config.folder)) if _below(file, config) else str(file))
    if not parsed:
        raise ConfigError(f"no view in {config.views}", "write one: CREATE MATERIALIZED VIEW name AS SELECT …")
    seen: dict[str, ParsedView] = {}
    for view in parsed:
        twin = seen.setdefault(view.name.lower(), view)
        if twin is not view:
            raise ViewSqlError(
                f"two views are called {view.name}: {twin.file}:{twin.line} and {view.file}:{view.line}",
                "rename one of them",
            )
    return in_order(parsed)


def define_views(config: Config, catalog: SourceCatalog, storage: Storage) -> dict[ViewName, ViewDefinition]:
    """The project's views over its sources and over each other; each stands after those it reads."""
    from headwater.maintenance.keeping.choose import define_each
    from headwater.runtime.project.keeping import keeping_of

    found = read_views(config)
    defined = define_each(found, catalog, keeping=keeping_of(config, storage, catalog, found))
    for error in defined.errors.values():
        raise error
    return defined.views


def _below(file: object, config: Config) -> bool:
    return config.folder in getattr(file, "parents", ())
