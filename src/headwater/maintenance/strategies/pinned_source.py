"""The past of a real source, as an agent has it: windows are pinned to positions, and the source's own capture tells
every state since (the as-of promise of `model/source`).

    the paper                          here
    synchronised clocks, t_k           window numbers; a window is pinned to a position, durably, before it is spoken of
    R(t)                               the table as of the position that window t is pinned to
    δR(t_k, t_k+1)                     what was captured between two pins
    tags cr, dr                        the window in which a tuple came or went
    EMPTY_LOG up to t_v                pins below t_v are forgotten, and the capture is trimmed

Invariant: whatever an agent says of window k, at any time and however often, it says of the state at one position. So
messages may be lost, repeated and computed anew, and clocks may be wrong by days.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Find, Spj
from headwater.algebra.view import Equality, Occurrence, Output, ViewDefinition, quoted
from headwater.maintenance.strategies.asked import AskedTable
from headwater.maintenance.strategies.contract import Label, StrategySetting, Update, Wanted
from headwater.maintenance.strategies.time_tags import ALWAYS, Tags, Updates
from headwater.maintenance.strategies.values import EXACT
from headwater.model.chain import Chain, ChainMember
from headwater.model.consistency import Level
from headwater.model.names import TableName
from headwater.model.source import Question


class Windows(Protocol):
    """The windows of one table."""

    def changes(self, after: int, upto: int) -> pa.Table:
        """What changed in the windows after `after`, up to `upto`: the member's columns and COUNT."""
        ...

    def ask(self, question: Question, window: int) -> Iterable[pa.Table]:
        """Rows of the table as it was at the end of a window."""
        ...

    def truncate(self, window: int) -> None:
        """No window before this one will be asked about."""
        ...


class PinnedRelation:
    """R(t) by key."""

    def __init__(self, member: ChainMember, windows: Windows) -> None:
        self._asked = AskedTable(member.table, member.schema, member.conditions)
        self._windows = windows

    def find(self, positions: tuple[int, ...], t: float, wanted: Wanted | None = None) -> Find:
        window = int(t)
        return self._asked.find(lambda question: self._windows.ask(question, window), positions, wanted)


class PinnedSource:
    """What an agent knows of its source (`tagged_source.Past`)."""

    def __init__(self, member: ChainMember, windows: Windows) -> None:
        self._member, self._windows = member, windows
        self.relation = PinnedRelation(member, windows)

    def commit(self, update: Update) -> None:
        raise NotImplementedError("a real source is asked what it has committed")

    def updates(self, t_k: float, t_k1: float) -> tuple[Updates, tuple[Label, ...]]:
        """δR(t_k, t_k+1); a window is one update."""
        change = Bag.summed(EXACT.rows(self._windows.changes(int(t_k), int(t_k1)), self._member.columns))
        inserted = Bag({row: count for row, count in change if count > 0})
        deleted = Bag({row: -count for row, count in change if count < 0})
        return Updates(inserted, deleted), ((Label(str(self._member.source), int(t_k1)),) if change else ())

    def tagged_updates(self, t_k: float, t_k1: float) -> tuple[dict[Tags, Bag], tuple[Label, ...]]:
        """The same by tags, which are as fine as windows. Since when a tuple that goes was there nobody asks."""
        updates, labels = self.updates(t_k, t_k1)
        found = {Tags(t_k1): updates.inserted, Tags(ALWAYS, t_k1): -updates.deleted}
        return {tags: bag for tags, bag in found.items() if bag}, labels

    def truncate(self, t_v: float) -> None:
        self._windows.truncate(int(t_v))


def chain_setting(chain: Chain) -> StrategySetting:
    """The chain as the algorithms see it: every table is called by its place, at a node called by its source."""
    occurrences = tuple(
        Occurrence(f"t{i}", TableName(member.source, f"t{i}"), member.columns)
        for i, member in enumerate(chain.members)
    )  # fmt: skip
    view = ViewDefinition(
        name=chain.view,
        level=Level.STRONG,
        occurrences=occurrences,
        equalities=tuple(Equality((a, left), (b, right)) for a, left, b, right in chain.equalities),
        residual=(),
        outputs=tuple(Output(name, quoted(occurrences[i].core(c))) for name, i, c in chain.columns),
        aggregation=None,
        recompute="",
        text="",
    )
    spj = Spj(view, {o.table: o.columns for o in occurrences})
    return StrategySetting(spj, tuple(str(o.table.source) for o in occurrences), {})
