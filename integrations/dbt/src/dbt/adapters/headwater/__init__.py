"""dbt-headwater: a dbt model is a view that Headwater maintains. dbt finds `Plugin` here."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.headwater.connections import HeadwaterConnectionManager, HeadwaterCredentials
from dbt.adapters.headwater.impl import HeadwaterAdapter
from dbt.adapters.headwater.relation import HeadwaterRelation
from dbt.include import headwater

__all__ = ["HeadwaterConnectionManager", "HeadwaterCredentials", "HeadwaterRelation", "Plugin"]

Plugin = AdapterPlugin(
    adapter=HeadwaterAdapter,  # type: ignore[arg-type] # dbt's protocol says less than dbt does
    credentials=HeadwaterCredentials,
    include_path=headwater.PACKAGE_PATH,
)
