"""A view that reads views: after which it is updated, and its change for one update.

Views over views form a DAG (Liang, Yu: Parallel Maintenance on PC Clusters, section 3.1). One update may change several
occurrences of such a view at once: a table that it reads, and a view that reads the same table. With ' for the state
after the update,

    δW = Σ over changed i of   T0' ⋈ … ⋈ T(i−1)' ⋈ δTi ⋈ T(i+1) ⋈ … ⋈ T(n−1)

Each join is SWEEP's question and its compensation, which leave occurrence j as it is

    after the update     if it is a table: its source answers after the update that it told of
    before the update    if it is a view: the warehouse answers as of just before it

and where the formula needs the other state, the update's own change of j, which is known, is taken out or put in.

The paper says in which order such views are updated, and not how. Its sweep knows sources only; that evaluation does
not depend on the content of any view (lemma 1, proof) is true only of views that read none.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial
from headwater.maintenance.strategies.contract import WAREHOUSE, StrategySetting, Update, Work
from headwater.maintenance.strategies.sweep import Concurrent, changed, process_subquery
from headwater.maintenance.strategies.threads import ViewChange
from headwater.model.errors import HeadwaterError


def topological(settings: Sequence[StrategySetting]) -> list[StrategySetting]:
    """Each view after those that it reads, otherwise in the order given."""
    left, ordered = list(settings), list[StrategySetting]()
    while left:
        done = {s.view.name for s in ordered}
        ready = next((s for s in left if done.issuperset(s.view.view.parents)), None)
        if ready is None:
            view = left[0].view
            read = next(p for p in view.view.parents if p not in done)
            raise HeadwaterError(
                f"{view.name} reads {read}, which is not maintained before it", "maintain both, and let no circle be"
            )
        left.remove(ready)
        ordered.append(ready)
    return ordered


def dependent_change(setting: StrategySetting, update: Update, concurrent: Concurrent) -> ViewChange:
    """δW, where the update has the changes of the views that W reads beside those of its tables."""
    view, total = setting.view, Bag()
    for i in changed(view, update):
        partial = view.origin(i, update.changes[view.tables[i]])
        for j in [*range(i - 1, -1, -1), *range(i + 1, view.n)]:
            temp_view = partial
            partial = yield from process_subquery(setting, temp_view, j, update, concurrent)
            own = update.changes.get(view.tables[j])
            wanted_after, is_after = j < i, setting.homes[j] != WAREHOUSE
            if own and wanted_after != is_after:
                yield Work()
                difference = view.local(temp_view, j, own).bag
                partial = Partial(partial.over, partial.bag + (difference if wanted_after else -difference))
        total = total + view.finish(partial)
    return total
