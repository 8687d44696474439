"""What a request means: the project's files are read again, its views resolved against its sources and planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.model.errors import UsageError
from headwater.model.names import ViewName
from headwater.runtime.change.left_alone import check_left_alone
from headwater.runtime.change.maintained import changed_views, maintained_views, plan_each, views_of_project
from headwater.runtime.change.requests import OTHERWISE, Request
from headwater.runtime.change.serving import Planned
from headwater.runtime.change.startup import check_captures
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config, load_config
from headwater.runtime.project.fingerprints import fingerprints
from headwater.runtime.project.ownership import owned
from headwater.runtime.project.plan import PlanView, ViewPlan
from headwater.storage import Storage


class ProjectPlanner:
    """`identity` is the warehouse's, by which the sources know the project."""

    def __init__(
        self, config: Config, identity: str, storage: Storage, ledger: Ledger, catalog: SourceCatalog, plan: PlanView
    ) -> None:
        self._config, self._identity, self._storage = config, identity, storage
        self._ledger, self._catalog, self._plan = ledger, catalog, plan

    def plan(self, request: Request) -> Planned:
        if request.kind == "resume":
            return Planned(request)
        config = owned(load_config(self._config.folder), self._identity, self._storage)
        catalog, cut = SourceCatalog(config), self._ledger.cut
        try:
            if request.kind == "apply":
                defined = views_of_project(config, catalog, self._storage)
            else:
                defined = maintained_views(self._storage, cut, catalog)
            tables = {name: catalog.schemas(view) for name, view in defined.views.items()}
            if request.kind == "apply" and fingerprints(defined.views, tables) != request.wanted:
                raise UsageError(OTHERWISE, "run 'headwater apply' again")
            plans, refused = plan_each(self._plan, defined.views, catalog)
            if request.kind == "rebuild":
                wanted = [cut.named(name) for name in request.views]
                for name in wanted:
                    if name in refused or name in defined.errors:
                        raise {**defined.errors, **refused}[name]
                plans = _with_children(plans, wanted)
            elif refused:
                raise next(iter(refused.values()))
            if request.kind == "apply":
                check_left_alone(self._storage, cut, defined.errors, changed_views(cut, plans, defined))
            check_captures(catalog, plans.values())
            sources = sorted({source for plan in plans.values() for source in plan.sources})
            described = {source: catalog.described(source) for source in sources}
            return Planned(request, config, plans, frozenset(defined.errors), described)
        finally:
            catalog.close()

    def adopt(self, planned: Planned) -> None:
        if planned.config is not None:
            self._catalog.adopt(planned.config)
        for source, tables in planned.described.items():
            self._catalog.learned(source, tables)


def _with_children(plans: Mapping[ViewName, ViewPlan], names: Sequence[str]) -> dict[ViewName, ViewPlan]:
    """These views, and every view that reads them."""
    found: dict[ViewName, ViewPlan] = {}
    for name, plan in plans.items():  # parents come first
        if name in names or any(parent in found for parent in plan.view.parents):
            found[name] = plan
    return found
