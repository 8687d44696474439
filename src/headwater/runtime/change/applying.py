"""What `headwater apply` would do, without doing it: views/ compared with what the warehouse maintains.

Needs the sources' catalogs and no Spark, so it answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from headwater.model.consistency import Level
from headwater.model.errors import HeadwaterError
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schedule import parse_schedule
from headwater.runtime.change.left_alone import check_left_alone
from headwater.runtime.project.about import maintained_by, read_about
from headwater.runtime.project.fingerprints import fingerprints

if TYPE_CHECKING:
    from headwater.algebra.view import ViewDefinition
    from headwater.runtime.project.project import Project
    from headwater.warehouse.cuts import Cut


@dataclass(frozen=True)
class ViewChange:
    """What happens to one view, and why. `reads` are the tables that are copied for it."""

    view: ViewName
    action: Literal["create", "replace", "rebuild", "drop"]
    why: str
    reads: tuple[TableName, ...] = ()


@dataclass(frozen=True)
class ApplyPlan:
    """`wanted` is what views/ says, as fingerprints; `rows` how many rows the sources are asked for, None if unknown;
    `capture` what must be installed at sources first."""

    changes: Sequence[ViewChange]
    wanted: Mapping[ViewName, str]
    rows: int | None
    capture: Mapping[SourceName, Sequence[str]]
    warnings: Sequence[str]
    refused: Mapping[ViewName, HeadwaterError] = field(default_factory=dict)
    """Views that mean nothing over the sources as they are; they are left as they are."""

    def __bool__(self) -> bool:
        return bool(self.changes)


def plan_apply(project: Project) -> ApplyPlan:
    """Compare the project's views with the newest cut."""
    from headwater.runtime.change.maintained import views_of_project

    cut = project.cut(create=True)
    defined = views_of_project(project.config, project.catalog, project.storage)
    views = defined.views
    if not views and defined.errors:
        raise next(iter(defined.errors.values()))
    tables = {name: project.catalog.schemas(view) for name, view in views.items()}
    wanted = fingerprints(views, tables)
    changes = _changes(views, wanted, cut, _texts(project, cut))
    changes = [c for c in changes if c.view not in defined.errors]
    check_left_alone(project.storage, cut, defined.errors, [c.view for c in changes if c.action != "create"])
    copied = {t: s.rows for c in changes for t, s in tables.get(c.view, {}).items() if c.action != "drop"}
    sizes = list(copied.values())
    known = [n for n in sizes if n is not None]
    capture = {}
    changed = [views[c.view] for c in changes if c.view in views]
    for source in sorted({t.source for view in changed for t in view.captured_tables}):
        needed = sorted({t for view in views.values() for t in view.captured_tables if t.source == source})
        lines = project.catalog.source(source).plan_install(needed)
        if lines:
            capture[source] = lines
    return ApplyPlan(
        changes,
        wanted,
        sum(known) if len(known) == len(sizes) else None,
        capture,
        [*_warnings(views, changes), *_other_algorithms(project, cut, views, changes)],
        defined.errors,
    )


def _changes(
    views: Mapping[ViewName, ViewDefinition],
    wanted: Mapping[ViewName, str],
    cut: Cut,
    texts: Mapping[ViewName, str],
) -> list[ViewChange]:
    found: dict[ViewName, ViewChange] = {}
    for name, view in views.items():
        state, reads = cut.views.get(name), tuple(view.base_tables)
        parents = [p for p in view.parents if p in found]
        if state is None:
            found[name] = ViewChange(name, "create", f"new in {view.file}", reads)
        elif texts.get(name, view.text) != view.text:
            found[name] = ViewChange(name, "replace", f"its query in {view.file} is another", reads)
        elif parents:
            found[name] = ViewChange(name, "rebuild", f"it reads {', '.join(parents)}", reads)
        elif state.fingerprint != wanted[name]:
            found[name] = ViewChange(name, "replace", f"its options in {view.file} or a table it reads changed", reads)
        elif state.state != "live":
            found[name] = ViewChange(name, "rebuild", f"it is halted: {state.reason}", reads)
    gone = [ViewChange(n, "drop", "no file of views/ defines it any more") for n in cut.views if n not in views]
    return [*found.values(), *gone]


def _texts(project: Project, cut: Cut) -> dict[ViewName, str]:
    """The queries of the maintained views, as they were written."""
    found = {}
    for name, state in cut.views.items():
        about = read_about(project.storage, state.folder)
        if about is not None:
            found[name] = about.sql
    return found


def _other_algorithms(
    project: Project, cut: Cut, views: Mapping[ViewName, ViewDefinition], changes: Sequence[ViewChange]
) -> list[str]:
    """Views that stay as they are and are to be maintained by another algorithm: the next run begins with it."""
    said, new = [], {change.view for change in changes}
    for name, state in cut.views.items():
        about = read_about(project.storage, state.folder)
        if name in views and name not in new and about is not None:
            who = maintained_by(views[name])
            if about.maintenance != who:
                said.append(
                    f"{name}: {who or 'the wave'} maintains it from the next start of 'headwater run' on, with the rows"
                    f" that are there; {about.maintenance or 'the wave'} did until now"
                )
    return said


def _warnings(views: Mapping[ViewName, ViewDefinition], changes: Sequence[ViewChange]) -> list[str]:
    """What a person may not expect: a view that waits long makes those that share its tables wait too."""
    new = {change.view for change in changes}
    said = []
    for name, view in views.items():
        if view.level is not Level.PERIODIC or name not in new:
            continue
        others = [
            n
            for n, other in views.items()
            if n != name
            and other.level not in (Level.PERIODIC, Level.CONVERGENT)
            and set(other.base_tables) & set(view.base_tables)
        ]
        if others:
            said.append(
                f"{name} is recomputed {parse_schedule(view.schedule).says} and shares tables with"
                f" {', '.join(others)}: all change together, so they too are shown only then"
            )
    return said
