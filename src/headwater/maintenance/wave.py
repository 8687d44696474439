"""The wave: the change of a view for a whole batch of transactions, each of them a state of its own.

View V = T1 ⋈ … ⋈ Tn (the core), batch = transactions (lo, hi], P = the cut at hi. For occurrence Ti in transaction s:

    ΔV(s) = Σ_i  T1(s) ⋈ … ⋈ T(i−1)(s) ⋈ ΔTi(s) ⋈ T(i+1)(s−1) ⋈ … ⋈ Tn(s−1)
    Tj(s)   = Tj(P) − changes of Tj in (s, hi]
    Tj(s−1) = Tj(P) − changes of Tj in [s, hi]

`Tj(P)` is asked of its source as of P; the subtraction is SWEEP's local compensation, done against the batch's own
journal. The old/new split on either side of i makes self-joins and transactions over several tables fall out of the
same formula.

Pure: a generator that yields `Ask` and is sent the answer. It neither knows the content of V nor other batches, so any
number of waves may be under way at once.

Where a view counts on parents that only grow (`keeping/relying`), their terms are ∅; where it counts on tables that
only shrink, their terms are rows of the view itself (`taking_out`). Both are left out here, and the others meet such
tables as they are after s.

Invariant: after each step, the partial of origin i holds, for every s of the batch, ΔTi(s) joined with exactly those
states of the visited occurrences that the formula names.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from headwater.algebra.view import Occurrence, ViewDefinition
from headwater.maintenance.graph import JoinStep, steps
from headwater.maintenance.keys import Ints, equal, key_set
from headwater.maintenance.slices import WHOLE, Slices
from headwater.model.changelog import COUNT, SEQ, consolidate
from headwater.model.conditions import meets
from headwater.model.errors import PromiseBroken
from headwater.model.names import TableName
from headwater.model.numbers import ascending
from headwater.model.source import ORDINAL, Question

Journal = Mapping[TableName, pa.Table]
"""The batch's changes, per table: columns, COUNT, SEQ. Rows in any order."""

PRESENT = np.iinfo(np.int64).max
"""The `seq` of what is there at hi: later than every transaction of the batch."""

PAIRS = 4_000_000
"""So many pairs of partial rows and versions are joined at once; above, the batch is halved (see `_match`)."""


@dataclass(frozen=True)
class Ask:
    """Wants `question` answered as of the batch's cut P: a table with ORDINAL, the columns, COUNT. A question without
    key columns wants all rows, with ordinal 0. `meeting`: how many rows the answer will be joined with."""

    question: Question
    meeting: int = 0


Wave = Generator[Ask, pa.Table, pa.Table]


def wave(view: ViewDefinition, journal: Journal, part: Journal, slices: Slices = WHOLE) -> Wave:
    """The core's changelog caused by the changes in `part`, a subset of the batch's `journal`. Rows are matched in
    `slices`; questions are asked once, whatever the slices."""
    partials = {i: _origin(o, part) for i, o in enumerate(view.occurrences) if i not in view.met_after}
    for step, needed in zip(steps(view), _needed_after(view), strict=True):
        origins = [i for i in sorted(partials) if i in step.origins and partials[i].num_rows]
        if origins:
            yield from _Step(view, step, journal, slices).extend(origins, partials)
        for i in origins:
            partials[i] = _prune(_closed(view, partials[i], step.target), needed)
    schema = core_schema(view, {name: rows.schema for name, rows in journal.items()})
    whole = [partial.select(schema.names) for partial in partials.values() if partial.num_rows]
    return slices.consolidated(pa.concat_tables(whole)) if whole else schema.empty_table()


def core_schema(view: ViewDefinition, tables: Mapping[TableName, pa.Schema]) -> pa.Schema:
    """The columns of the core that the view's expressions mention, COUNT and SEQ."""
    fields = [
        pa.field(o.core(c), tables[o.table].field(c).type)
        for o in view.occurrences
        for c in o.columns
        if o.core(c) in view.carried
    ]
    return pa.schema([*fields, pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64())])


@dataclass(frozen=True)
class _Step:
    """One edge of the walk: a question for the partials of all origins, then compensation origin by origin."""

    view: ViewDefinition
    step: JoinStep
    journal: Journal
    slices: Slices

    def extend(self, origins: Sequence[int], partials: dict[int, pa.Table]) -> Generator[Ask, pa.Table, None]:
        step, target = self.step, self.view.occurrences[self.step.target]
        changes = _changes(target, self.journal)
        if step.near:
            keys, numbers = key_set([[partials[i].column(name) for name in step.near] for i in origins])
            if not len(keys):
                for i in origins:
                    partials[i] = _empty(partials[i], target, changes)
                return
            types = [changes.schema.field(column).type for column in step.far]
            asked, ordinals = keys.table(step.far, types)
            changed = keys.numbers([changes.column(column) for column in step.far])
        else:
            asked, ordinals = pa.table({}), np.zeros(1, np.int64)
            numbers = [np.zeros(partials[i].num_rows, np.int64) for i in origins]
            changed = np.zeros(changes.num_rows, np.int64)
        question = Question(target.table, step.far, asked, target.columns, target.conditions)
        answer = yield Ask(question, sum(partials[i].num_rows for i in origins))
        versions = _versions(target, answer, ordinals, changes, changed)
        for i, number in zip(origins, numbers, strict=True):
            # T1 … T(i−1) are met as after s, T(i+1) … Tn as before s. A table that has no term here comes first in that
            # order, wherever it stands: it is met as after s.
            if step.target in self.view.parents_relied_on:
                self._check_found(partials[i], number, versions)
            after = step.target < i or step.target in self.view.met_after
            partials[i] = self._matched(partials[i], number, versions, 1 if after else 0)

    def _check_found(self, partial: pa.Table, number: Ints, versions: _Versions) -> None:
        """That every row finds its one parent, as the view counts on it (`keeping/relying`). A row that refers to
        nothing needs none."""
        left, right = versions.after(number, partial.column(SEQ).to_numpy(), 1)
        sums = np.concatenate([[0], np.cumsum(versions.count)])
        missing = np.flatnonzero((number >= 0) & (sums[right] - sums[left] != 1))
        if len(missing):
            raise no_parent(self.view, self.step, partial.slice(int(missing[0]), 1).to_pylist()[0])

    def _matched(self, partial: pa.Table, number: Ints, versions: _Versions, first: int) -> pa.Table:
        def one(cut: slice) -> pa.Table:
            return _match(partial.slice(cut.start, cut.stop - cut.start), number[cut], versions, first)

        return pa.concat_tables(self.slices.each(one, self.slices.cuts(partial.num_rows)))


def no_parent(view: ViewDefinition, step: JoinStep, row: Mapping[str, object]) -> PromiseBroken:
    """That a row refers to nothing, where a foreign key was counted on."""
    table = next(r.table for r in view.relies if r.occurrence == step.target)
    value = ", ".join(repr(row[name]) for name in step.near)
    at = f" in transaction {row[SEQ]}" if SEQ in row else ""
    return PromiseBroken(
        f"a row with {', '.join(step.near)} = {value} refers to no row of {table}{at}, though a foreign key says so;"
        f" view {view.name} counts on that",
        f'remove changes = "inserts" of {table} from headwater.toml (or add the missing row) and run'
        " 'headwater apply': it loads the view with what it needs kept beside it",
    )


@dataclass(frozen=True)
class _Versions:
    """What is known of the target for the asked keys, sorted by (number, seq): the answer with seq PRESENT, and every
    change of the batch with its own seq and opposite sign. The state before or after s is the sum of a suffix."""

    number: Ints
    seq: Ints
    count: Ints
    rows: pa.Table

    @cached_property
    def ranks(self) -> Ints:
        """Ranks instead of raw seqs keep the combined key small: (number, rank) as one integer."""
        return ascending(self.seq)

    @cached_property
    def combined(self) -> Ints:
        return self.number * (len(self.ranks) + 1) + np.searchsorted(self.ranks, self.seq)

    def after(self, number: Ints, seqs: Ints, first: int) -> tuple[Ints, Ints]:
        """For each key number and transaction s, the range of versions whose seq is > s (`first` = 1) or >= s (0)."""
        width = len(self.ranks) + 1
        rank = np.searchsorted(self.ranks, seqs, "right" if first else "left")
        left = np.searchsorted(self.combined, number * width + rank)
        right = np.searchsorted(self.combined, (number + 1) * width)
        return left, right

    def sorted(self) -> _Versions:
        order = np.lexsort((self.seq, self.number))
        return _Versions(self.number[order], self.seq[order], self.count[order], self.rows.take(pa.array(order)))

    def keep(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> _Versions:
        rows = self.rows.filter(pa.array(mask)) if self.rows.num_columns else self.rows
        return _Versions(self.number[mask], self.seq[mask], self.count[mask], rows)

    def settled_after(self, mid: int) -> _Versions:
        """The same for everyone who looks at or before `mid`: whatever lies after it becomes one folded state."""
        later = self.seq > mid
        old, new = self.keep(~later), self.keep(later)
        folded = new.rows.append_column(ORDINAL, pa.array(new.number)).append_column(COUNT, pa.array(new.count))
        folded = consolidate(folded)
        number = np.concatenate([old.number, folded.column(ORDINAL).to_numpy()])
        seq = np.concatenate([old.seq, np.full(folded.num_rows, PRESENT)])
        count = np.concatenate([old.count, folded.column(COUNT).to_numpy()])
        rows = pa.concat_tables([old.rows, folded.select(old.rows.column_names)])
        return _Versions(number, seq, count, rows).sorted()


def _versions(target: Occurrence, answer: pa.Table, ordinals: Ints, changes: pa.Table, changed: Ints) -> _Versions:
    known = changed >= 0
    changes = changes.filter(pa.array(known))
    rows = pa.concat_tables(
        [answer.select(target.columns).cast(changes.select(target.columns).schema), changes.select(target.columns)]
    )
    return _Versions(
        number=np.concatenate([ordinals[answer.column(ORDINAL).to_numpy()], changed[known]]),
        seq=np.concatenate([np.full(answer.num_rows, PRESENT), changes.column(SEQ).to_numpy()]),
        count=np.concatenate([answer.column(COUNT).to_numpy(), -changes.column(COUNT).to_numpy()]),
        rows=rows.rename_columns([target.core(c) for c in target.columns]),
    ).sorted()


def _match(partial: pa.Table, number: Ints, versions: _Versions, first: int) -> pa.Table:
    """Join each partial row (key number k, transaction s) with the versions of k whose seq is > s (`first` = 1: the
    state after s) or >= s (`first` = 0: the state before s).

    Sorted by (number, seq), those versions are one contiguous range. Where many transactions of a batch meet on one
    key the ranges overlap and their sum is quadratic; then the batch is halved in time: for the earlier half,
    everything after the middle is folded into one state first.
    """
    seqs = partial.column(SEQ).to_numpy()
    left, right = versions.after(number, seqs, first)
    matches = np.where(number >= 0, right - left, 0)
    total = int(matches.sum())
    if total > max(PAIRS, 4 * (len(seqs) + len(versions.seq))) and len(seqs) > 1:
        return _match_in_halves(partial, number, versions, first)
    which = np.repeat(np.arange(len(seqs)), matches)
    starts = np.repeat(np.where(number >= 0, left, 0) - np.concatenate([[0], np.cumsum(matches)[:-1]]), matches)
    version = starts + np.arange(total)
    mine = partial.take(pa.array(which))
    theirs = versions.rows.take(pa.array(version))
    counts = pa.array(mine.column(COUNT).to_numpy() * versions.count[version])
    mine = mine.set_column(mine.schema.get_field_index(COUNT), COUNT, counts)
    for name in theirs.column_names:
        mine = mine.append_column(name, theirs.column(name))
    compensating = int(np.count_nonzero(versions.seq[version] != PRESENT))
    return consolidate(mine) if 4 * compensating > total else mine


def _match_in_halves(partial: pa.Table, number: Ints, versions: _Versions, first: int) -> pa.Table:
    seqs = partial.column(SEQ).to_numpy()
    lowest, highest = int(seqs.min()), int(seqs.max())
    if lowest == highest:
        settled = versions.keep(versions.seq >= lowest + first).settled_after(lowest + first - 1)
        if len(settled.seq) < len(versions.seq):
            return _match(partial, number, settled, first)
        half = len(seqs) // 2
        early = np.arange(len(seqs)) < half
        later, settled = versions, versions
    else:
        mid = int(np.median(seqs))
        mid = mid if mid < highest else highest - 1
        early = seqs <= mid
        later, settled = versions.keep(versions.seq > mid), versions.settled_after(mid)
    parts = [
        _match(partial.filter(pa.array(early)), number[early], settled, first),
        _match(partial.filter(pa.array(~early)), number[~early], later, first),
    ]
    return pa.concat_tables(parts)


def _origin(occurrence: Occurrence, part: Journal) -> pa.Table:
    """ΔTi: the changes of an occurrence that the view can see, consolidated, under their core names."""
    rows = consolidate(_changes(occurrence, part))
    return rows.rename_columns([occurrence.core(c) for c in occurrence.columns] + [COUNT, SEQ])


def _changes(occurrence: Occurrence, journal: Journal) -> pa.Table:
    rows = journal[occurrence.table]
    return meets(rows, occurrence.conditions).select([*occurrence.columns, COUNT, SEQ])


def _empty(partial: pa.Table, target: Occurrence, changes: pa.Table) -> pa.Table:
    empty = partial.slice(0, 0)
    for column in target.columns:
        empty = empty.append_column(target.core(column), pa.array([], changes.schema.field(column).type))
    return empty


def _closed(view: ViewDefinition, partial: pa.Table, target: int) -> pa.Table:
    """Check the equalities that the newly met occurrence closes (those of the tree hold already)."""
    have = set(partial.column_names)
    for equality in view.equalities:
        if target not in (equality.left[0], equality.right[0]):
            continue
        left, right = (view.occurrences[i].core(column) for i, column in (equality.left, equality.right))
        if left in have and right in have and partial.num_rows:
            partial = partial.filter(equal(partial.column(left), partial.column(right)))
    return partial


def _needed_after(view: ViewDefinition) -> list[set[str]]:
    """For every step, the columns needed from then on: what expressions mention and what is still joined on."""
    result: list[set[str]] = []
    needed = {COUNT, SEQ} | view.carried
    walk = steps(view)
    asked = [
        {near, view.occurrences[s.target].core(far)} for s in walk for near, far in zip(s.near, s.far, strict=True)
    ]
    for equality in view.equalities:
        ends = {view.occurrences[i].core(column) for i, column in (equality.left, equality.right)}
        if (
            asked.count(ends) < 2
        ):  # up and down; of a.x = b.z AND a.y = b.z only one can be asked of b, the other closes
            needed |= ends
    for step in reversed(walk):
        result.append(set(needed))
        needed |= set(step.near)
    return list(reversed(result))


def _prune(partial: pa.Table, needed: set[str]) -> pa.Table:
    names = [n for n in partial.column_names if n in needed]
    return partial.select(names) if len(names) < partial.num_columns else partial
