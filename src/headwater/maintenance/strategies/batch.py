"""A batch of a view of the engine, computed by a published algorithm: the core's changelog, as the wave would have it.

The strategy is given the view's *core*, the join with neither expressions nor groups: one table per occurrence, of the
columns that it needs and the rows that meet its conditions. So rows travel through the algorithm as they are, and what
comes out goes on to Spark like the outcome of a wave.

    journal (lo, hi]    one Update per source and transaction, in the order of the numbers
    journal (hi, P]     the sources are asked as of P, which may lie after hi: taken back from every answer,
                        Tj(hi) = Tj(P) − changes of Tj in (hi, P], before the strategy sees it
    commits             rows of the core, labelled with the state that shows them (`labels_of`)

Invariant: to the strategy, the sources stand still in the state after hi, and every update up to hi is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Spj, index
from headwater.algebra.view import Output, ViewDefinition, quoted
from headwater.maintenance.strategies.asked import AskedTable, AskSource
from headwater.maintenance.strategies.contract import (
    Ask,
    Commit,
    Factory,
    Label,
    Node,
    StrategySetting,
    Update,
    Wanted,
)
from headwater.maintenance.strategies.loop import AnswerAsk, commits_of
from headwater.maintenance.strategies.named import lanes_of, strategy_of
from headwater.maintenance.strategies.values import EXACT
from headwater.maintenance.wave import core_schema
from headwater.model.changelog import SEQ, consolidate
from headwater.model.conditions import meets
from headwater.model.names import TableName
from headwater.model.source import Question

Journal = Mapping[TableName, pa.Table]
"""Changes after lo, as far as the answers reach, per table: columns, COUNT, SEQ."""
Asking = Callable[[Question, int], pa.Table]
"""A question's answer as of P: ORDINAL, the columns, COUNT. The number is that of the lane that it is asked in."""


def core_by_strategy(
    view: ViewDefinition, journal: Journal, hi: int, ask: Asking, factory: Factory | None = None
) -> pa.Table:
    """The change of the view's core in a batch that ends at `hi`."""
    batch = StrategyBatch(view, journal, hi)
    strategy = (factory or strategy_of(view))(batch.setting)
    commits = commits_of(strategy, batch.updates, batch.answering(ask), lanes_of(view))
    labels = labels_of(view, [[batch.seqs[label] for label in commit.covers] for commit in commits])
    return consolidate(batch.rows(commits, labels))


def labels_of(view: ViewDefinition, covered: Sequence[Sequence[int]]) -> list[int]:
    """The transaction whose state is the one after each commit, told which transactions each brings in: the last of
    those that it, or one before it, brings in. PVM commits as it gets done: the n-th commit makes the n-th state,
    whatever update it is for. States with groups are folded, because groups of less than no rows have no meaning."""
    if view.maintenance == "pvm":
        known = sorted(seq for some in covered for seq in some)
        return known if view.aggregation is None else [known[-1] for _ in covered]
    labels, last = [], 0
    for some in covered:
        last = max([last, *some])
        labels.append(last)
    return labels


@dataclass(frozen=True)
class _Occurrence:
    """An occurrence as the strategy's own table: what is asked for it, and what is taken back from the answers."""

    asked: AskedTable
    beyond: Bag


class StrategyBatch:
    """The batch, in the strategy's terms. `seqs` are the numbers of the updates' transactions."""

    def __init__(self, view: ViewDefinition, journal: Journal, hi: int) -> None:
        self._schema = core_schema(view, {name: rows.schema for name, rows in journal.items()})
        self.setting = _setting(view, self._schema.names[:-2])
        self.tables: dict[TableName, _Occurrence] = {}
        changes: dict[tuple[int, Node], dict[TableName, list[tuple[Row, int]]]] = {}
        for own, occurrence in zip(self.setting.view.tables, view.occurrences, strict=True):
            rows = meets(journal[occurrence.table], occurrence.conditions)
            beyond: list[tuple[Row, int]] = []
            for pair, seq in zip(EXACT.rows(rows, occurrence.columns), rows.column(SEQ).to_pylist(), strict=True):
                if seq > hi:
                    beyond.append(pair)
                else:
                    at = changes.setdefault((seq, str(own.source)), {})
                    at.setdefault(own, []).append(pair)
            columns = pa.schema([rows.schema.field(c) for c in occurrence.columns])
            asked = AskedTable(occurrence.table, columns, occurrence.conditions)
            self.tables[own] = _Occurrence(asked, Bag.summed(beyond))
        self.updates: list[Update] = []
        self.seqs: dict[Label, int] = {}
        numbers: dict[Node, int] = {}
        for (seq, source), tables in sorted(changes.items()):
            bags = {table: bag for table, pairs in tables.items() if (bag := Bag.summed(pairs))}
            if bags:
                numbers[source] = numbers.get(source, 0) + 1
                label = Label(source, numbers[source])
                self.seqs[label] = seq
                self.updates.append(Update(label, bags, float(seq), str(seq)))

    def answering(self, ask: Asking) -> AnswerAsk:
        """How the sources answer the strategy's questions. A source's delta tables are its part of the batch."""
        deltas = {
            source: {update.tid: update for update in self.updates if update.source == source}
            for source in self.setting.sources
        }

        def answer(asked: Ask, lane: int) -> Any:
            line = BatchDatabase(self.tables, deltas[asked.source], lambda question: [ask(question, lane)])
            return asked.question.evaluate(line)

        return answer

    def rows(self, commits: Sequence[Commit], labels: Sequence[int]) -> pa.Table:
        """What is committed, as rows of the core, those of a commit with its label in SEQ."""
        rows: list[Row] = []
        counts: list[int] = []
        seqs: list[int] = []
        for commit, seq in zip(commits, labels, strict=True):
            for _, bag in commit.changes:
                rows.extend(bag.counts)
                counts.extend(bag.counts.values())
                seqs.extend([seq] * len(bag.counts))
        columns = list(zip(*rows, strict=True)) if rows else [()] * (len(self._schema) - 2)
        arrays = [EXACT.decoded(values, f.type) for values, f in zip(columns, self._schema, strict=False)]
        arrays += [pa.array(counts, pa.int64()), pa.array(seqs, pa.int64())]
        return pa.table(arrays, schema=self._schema)


class BatchDatabase:
    """A source in the state after a batch, over one line: the contract's `Database`, as far as the strategies of the
    engine ask. `delta` is shared by all lines to the source."""

    def __init__(self, tables: Mapping[TableName, _Occurrence], delta: dict[str, Update], ask: AskSource) -> None:
        self._tables, self._delta, self._ask = tables, delta, ask

    @property
    def position(self) -> int:
        raise NotImplementedError("positions are the engine's")

    def find(self, table: TableName, positions: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        known = self._tables[table]
        there = known.asked.find(self._ask, positions, wanted)
        if not known.beyond:
            return there
        less = index(-known.beyond, positions)
        return lambda key: Bag.summed([*there(key), *less(key)])

    def rows(self, table: TableName) -> Bag:
        raise NotImplementedError("sources are asked by key")

    def as_of(self, table: TableName, positions: tuple[int, ...], position: int) -> Find:
        raise NotImplementedError("sources are asked as of the end of the batch")

    def log(self, after: int) -> Sequence[Update]:
        raise NotImplementedError("what happened is told before anything is asked")

    def delta(self) -> Mapping[str, Update]:
        return self._delta

    def forget(self, tids: Iterable[str]) -> None:
        for tid in tids:
            self._delta.pop(tid, None)


def _setting(view: ViewDefinition, outputs: Sequence[str]) -> StrategySetting:
    """The view's core: every occurrence is a table of its own at its source, called by its alias."""
    occurrences = tuple(replace(o, table=TableName(o.table.source, o.alias), conditions=()) for o in view.occurrences)
    core = replace(
        view,
        occurrences=occurrences,
        residual=(),
        outputs=tuple(Output(name, quoted(name)) for name in outputs),
        aggregation=None,
    )
    spj = Spj(core, {o.table: o.columns for o in occurrences})
    return StrategySetting(spj, tuple(str(o.table.source) for o in occurrences), {})
