"""What an agent beside a source has in Pure-Push and Pull-Push: the relation with its tags, which it is told of at each
commit, and the query of its update manager, a join with the relation as it was (Pull-Push, sections 2 and 5.1).

`Past` is what both algorithms need of it. In the lab it is a relation with tags (`TaggedSource`), beside a real
database that database's own capture (`pinned_source`)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Find, Partial, Spj
from headwater.maintenance.strategies.contract import Database, Label, StrategySetting, Update, Wanted
from headwater.maintenance.strategies.time_tags import TaggedRelation, Tags, Updates
from headwater.model.errors import UsageError

Terms = tuple[tuple[int, Partial], ...]
"""Partials by the occurrence whose δR they come from."""


class Restored(Protocol):
    """A relation as it was."""

    def find(self, positions: tuple[int, ...], t: float, wanted: Wanted | None = None) -> Find:
        """Rows of R(t) by the key at these positions; `wanted` tells the keys that will be looked up."""
        ...


class Past(Protocol):
    """What an agent knows of its source."""

    @property
    def relation(self) -> Restored: ...

    def commit(self, update: Update) -> None: ...

    def updates(self, t_k: float, t_k1: float) -> tuple[Updates, tuple[Label, ...]]:
        """δR(t_k, t_k+1) and the transactions it sums up."""
        ...

    def tagged_updates(self, t_k: float, t_k1: float) -> tuple[dict[Tags, Bag], tuple[Label, ...]]:
        """The same, by the tags of its tuples."""
        ...

    def truncate(self, t_v: float) -> None:
        """No state before t_v will be asked for."""
        ...


class TaggedSource:
    """What an agent knows of its source: the relation with its tags, and which commits were when."""

    def __init__(self, setting: StrategySetting, i: int) -> None:
        self.table = setting.view.tables[i]
        self.relation = TaggedRelation(setting.tables[self.table])
        self._commits: list[tuple[float, Label]] = []

    def commit(self, update: Update) -> None:
        self._commits.append((update.at, update.label))
        self.relation.apply(update.changes.get(self.table, Bag()), update.at)

    def updates(self, t_k: float, t_k1: float) -> tuple[Updates, tuple[Label, ...]]:
        """δR(t_k, t_k+1) and the transactions it sums up."""
        updates = self.relation.updates(t_k, t_k1)
        if not self._commits or self._commits[-1][0] <= t_k:
            return updates, ()  # most intervals are empty
        first, last = (bisect_right(self._commits, t, key=lambda commit: commit[0]) for t in (t_k, t_k1))
        return updates, tuple(label for _, label in self._commits[first:last])

    def tagged_updates(self, t_k: float, t_k1: float) -> tuple[dict[Tags, Bag], tuple[Label, ...]]:
        """The same, by the tags of its tuples."""
        labels = self.updates(t_k, t_k1)[1]
        return (self.relation.tagged_updates(t_k, t_k1) if labels else {}), labels

    def truncate(self, t_v: float) -> None:
        self.relation.truncate(t_v)
        if not self._commits or self._commits[0][0] > t_v:
            return
        del self._commits[: bisect_right(self._commits, t_v, key=lambda commit: commit[0])]


class Applied(NamedTuple):
    """The broadcast of t_v. It is not acknowledged: the next one makes up for one that is lost."""

    t_v: float

    @property
    def weight(self) -> int:
        return 1


class Partials(NamedTuple):
    """What a local join answers."""

    terms: Terms

    @property
    def weight(self) -> int:
        return sum(partial.weight for _, partial in self.terms)


@dataclass(frozen=True, slots=True)
class RestoredJoin:
    """The query of a source's update manager: each term joined with R(t) of occurrence j. It takes the source's time
    like any other, but is asked beside it: nothing travels."""

    view: Spj
    terms: Terms
    j: int
    relation: Restored
    t: float

    @property
    def weight(self) -> int:
        return sum(partial.weight for _, partial in self.terms)

    def evaluate(self, database: Database) -> Partials:
        return Partials(tuple((origin, self._joined(partial)) for origin, partial in self.terms))

    def _joined(self, partial: Partial) -> Partial:
        view, j = self.view, self.j
        far = view.raw_positions(j, view.join(partial.over, j).far)
        found = self.relation.find(far, self.t, lambda: view.keys(partial, j))
        return view.extend(partial, j, view.as_occurrence(j, found))


def chained(setting: StrategySetting) -> StrategySetting:
    """Itself; raises unless it is a chain R1 ⋈ … ⋈ Rn of one relation at each of n sources."""
    view = setting.view.view
    if len(set(setting.homes)) < len(setting.homes):
        raise UsageError(
            f"{view.name} has several relations at one source: {', '.join(setting.homes)}",
            "Pure-Push and Pull-Push maintain views over one relation at each source (section 2)",
        )
    for equality in view.equalities:
        if abs(equality.left[0] - equality.right[0]) != 1:
            raise UsageError(
                f"{view.name} joins relations that are not neighbours: {equality.left} = {equality.right}",
                "Pure-Push and Pull-Push maintain chains: write the relations in the order in which they join",
            )
    return setting
