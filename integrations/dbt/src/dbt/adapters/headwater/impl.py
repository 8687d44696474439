"""The adapter: what dbt asks, in Headwater's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.base import available
from dbt.adapters.base.column import Column
from dbt.adapters.base.impl import AdapterConfig
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.relation import RelationConfig, RelationType
from dbt.adapters.headwater.catalog import catalog, place, sql_type
from dbt.adapters.headwater.connections import HeadwaterConnectionManager, told
from dbt.adapters.headwater.relation import HeadwaterRelation
from dbt.adapters.headwater.views import OPTIONS, Model, maintain
from dbt.adapters.sql import SQLAdapter
from dbt_common.exceptions import DbtRuntimeError

import headwater

if TYPE_CHECKING:
    import agate


@dataclass
class HeadwaterConfig(AdapterConfig):
    """What a model may say beside what every adapter knows."""

    consistency: str | None = None
    every: int | None = None
    schedule: str | None = None
    maintenance: str | None = None
    parallel: int | None = None
    auxiliary: str | None = None
    groups: int | None = None
    freshness_target: str | None = None


class HeadwaterAdapter(SQLAdapter):
    """Models are maintained views; everything else is read from them."""

    ConnectionManager = HeadwaterConnectionManager
    Relation = HeadwaterRelation
    AdapterSpecificConfigs = HeadwaterConfig

    # ------------------------------------------------------------------- models

    @available.parse(lambda *a, **k: AdapterResponse(""))
    def maintain_view(self, name: str, query: str, made_of: str, config: Mapping[str, Any]) -> AdapterResponse:
        """Have the view of a model maintained; says what was done."""
        options = {option: str(config[option]) for option in OPTIONS if config.get(option) is not None}
        model = Model(name, query, made_of, options, str(config.get("freshness_target") or ""))
        with told():
            done = maintain(self._project(), model, self.config.credentials.catch_up)
        return AdapterResponse(str(done), code=done.action)

    # ---------------------------------------------------------------- what is there

    def list_schemas(self, database: str) -> list[str]:
        return [self.config.credentials.schema]

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return True

    def create_schema(self, relation: HeadwaterRelation) -> None:
        """Views have one name: there is nothing to create."""

    def drop_schema(self, relation: HeadwaterRelation) -> None:
        """Nor to drop."""

    def list_relations_without_caching(self, schema_relation: HeadwaterRelation) -> list[HeadwaterRelation]:
        with told():
            views = list(self._warehouse())
        return [
            self.Relation.create(
                database=schema_relation.database, schema=schema_relation.schema, identifier=view,
                type=RelationType.MaterializedView,
            )
            for view in views
        ]  # fmt: skip

    def get_columns_in_relation(self, relation: HeadwaterRelation) -> list[Column]:
        with told():
            warehouse = self._warehouse()
            if relation.include_policy.schema:
                described = warehouse.catalog.resolve(*place(relation), str(relation.identifier))
                return [Column(c.name, sql_type(c.type, c.declared)) for c in described.columns]
            return [Column(c.name, sql_type(c.type)) for c in warehouse.columns(str(relation.identifier))]

    def get_catalog(
        self, relation_configs: Iterable[RelationConfig], used_schemas: frozenset[tuple[str, str]]
    ) -> tuple[agate.Table, list[Exception]]:
        relations = [self.Relation.create_from(self.config, one) for one in relation_configs]
        return self.get_catalog_by_relations(used_schemas, relations)

    def get_catalog_by_relations(
        self, used_schemas: frozenset[tuple[str, str]], relations: Iterable[HeadwaterRelation]
    ) -> tuple[agate.Table, list[Exception]]:
        with told():
            return catalog(self._warehouse(), relations), []

    # ------------------------------------------------------------------ what is not

    def drop_relation(self, relation: HeadwaterRelation) -> None:
        raise DbtRuntimeError(
            f"dbt does not drop {relation}: remove {relation.identifier}.sql from views/ and say 'headwater apply'"
        )

    def truncate_relation(self, relation: HeadwaterRelation) -> None:
        raise DbtRuntimeError(f"{relation} is a view: its rows are those of its query")

    def rename_relation(self, from_relation: HeadwaterRelation, to_relation: HeadwaterRelation) -> None:
        raise DbtRuntimeError(f"{from_relation} cannot be renamed: rename the model")

    @classmethod
    def date_function(cls) -> str:
        return "now()"

    @classmethod
    def is_cancelable(cls) -> bool:
        return False

    def _project(self) -> Path:
        return Path(self.acquired().project)

    def acquired(self) -> Any:
        """The reader of this thread."""
        return self.connections.get_thread_connection().handle

    def _warehouse(self) -> headwater.Warehouse:
        return headwater.open(self._project())
