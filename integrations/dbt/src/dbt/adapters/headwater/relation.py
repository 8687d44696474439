"""How models and sources are called in SQL.

A model is a view, and views have one name: `open_orders`. A source is a database of headwater.toml, which dbt calls the
source's `schema`: `shop.orders`. Where that database has schemas of its own, dbt's `database` says which one it is, and
`schema` which of its schemas: `shop.sales.orders`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import HasQuoting, Policy, RelationConfig

DATABASE = "headwater"
"""dbt's database of all models, and of sources that say nothing else."""


def _only_the_name() -> Policy:
    return Policy(database=False, schema=False, identifier=True)


def _unquoted() -> Policy:
    return Policy(database=False, schema=False, identifier=False)


@dataclass(frozen=True, eq=False, repr=False)
class HeadwaterRelation(BaseRelation):
    """A view, or a table of a source."""

    include_policy: Policy = field(default_factory=_only_the_name)
    quote_policy: Policy = field(default_factory=_unquoted)

    @classmethod
    def create_from(cls, quoting: HasQuoting, relation_config: RelationConfig, **kwargs: Any) -> HeadwaterRelation:
        made = super().create_from(quoting, relation_config, **kwargs)
        if str(relation_config.resource_type) == "source":
            return made.include(database=made.database != DATABASE, schema=True)
        return made
