"""What building views needs of the rest of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.model.schema import Identities
from headwater.runtime.commit.events import TableVersions
from headwater.runtime.intake.identifying import Identified
from headwater.runtime.intake.load_point import LoadPoint
from headwater.runtime.progress import Meter
from headwater.runtime.project.plan import ViewPlan
from headwater.runtime.view import ManagedView


@dataclass(frozen=True)
class LoadOrder:
    """Views to load as of a point, parents first. `parents` are maintained views that they read; `phase` and `meter`
    are told how far it is."""

    plans: Sequence[ViewPlan]
    point: LoadPoint
    parents: Mapping[ViewName, ManagedView]
    phase: Callable[[str], None]
    meter: Meter


@dataclass(frozen=True)
class Loaded:
    """A view whose tables hold its first content; nobody sees it yet."""

    view: ManagedView
    versions: TableVersions


class Loader(Protocol):
    """Computes views from scratch. Called in a thread of its own."""

    def load(self, load: LoadOrder) -> list[Loaded]: ...


class NewSources(Protocol):
    """The sources and the journal, as a change of views needs them (`intake.reception`)."""

    def polled(self, sources: Collection[SourceName]) -> dict[SourceName, Position | None]:
        """Where each was last polled; None: no view relies on it, so it is polled from now on."""

    def identify(self, plans: Sequence[ViewPlan], polled: Mapping[SourceName, Position | None]) -> Identified:
        """Ask the sources which columns are meant and where they are. Called in a thread of its own."""

    def adopt(self, found: Identified, plans: Sequence[ViewPlan]) -> None:
        """Poll for these views too, and compare what they rely on."""

    def told_since(self, sources: Collection[SourceName], since: float) -> bool:
        """Whether everything that had happened there by then has a number."""

    def point(self, fingerprints: tuple[str, ...], identities: Mapping[TableName, Identities]) -> LoadPoint:
        """A state that can be loaded: everything that has a number, and where the sources are with it. Kept until
        `forget_point`."""

    def forget_point(self) -> None: ...

    def limit_to(self, plans: Sequence[ViewPlan]) -> None:
        """Only these views are of interest now."""

    def newest(self) -> Seq:
        """The newest transaction that has a number."""

    def changes_after(self, seq: Seq) -> int:
        """How many changes have been journaled since."""
