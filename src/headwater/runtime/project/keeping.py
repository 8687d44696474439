"""What is known when it is decided what to keep: what headwater.toml says, and how often which table changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.integrator.journal import Journal
from headwater.maintenance.keeping.costs import Measured
from headwater.maintenance.keeping.known import AUXILIARY, Changing, Keeping
from headwater.model.errors import ConfigError, UnknownName
from headwater.model.names import TableName
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config
from headwater.runtime.project.measuring import measured
from headwater.storage import Storage

if TYPE_CHECKING:
    from headwater.algebra import ParsedView


def keeping_of(config: Config, storage: Storage, catalog: SourceCatalog, parsed: Sequence[ParsedView] = ()) -> Keeping:
    """Frequencies are read from the journal, and costs measured, only where a view is put together by them."""
    wanted = {one.options.get(AUXILIARY, config.auxiliary).lower() for one in parsed}
    changes = changed_rows(storage) if "frequency" in wanted else {}
    weighed = measured(catalog, storage) if "auto" in wanted else Measured()
    promised = promised_tables(config, catalog)
    return Keeping(config.auxiliary, config.groups, config.unasked, changes, weighed, config.chained, promised)


def promised_tables(config: Config, catalog: SourceCatalog) -> dict[TableName, Changing]:
    """What headwater.toml promises of tables, by their names at the sources."""
    found: dict[TableName, Changing] = {}
    for source, spec in config.sources.items():
        for said, how in spec.promised.items():
            schema, _, table = said.rpartition(".")
            try:
                found[catalog.resolve(source, schema, table).name] = Changing(how)
            except UnknownName as error:
                raise ConfigError(f"[sources.{source}.tables.{said}]: {error.what}", error.fix) from None
    return found


def changed_rows(storage: Storage) -> dict[TableName, int]:
    """Of each table, how many changed rows the journal still holds."""
    found: dict[TableName, int] = {}
    for segment in Journal(storage).segments:
        for table, (_, rows) in segment.tables.items():
            found[table] = found.get(table, 0) + rows
    return found
