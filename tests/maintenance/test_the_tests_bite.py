"""Proof that the oracles bite: maintenance broken on purpose is caught, with a witness that a person can read.

Each breakage is one that a tired programmer could commit. The oracle must find it among a few seeds, and the smallest
history that shows it must say which view, at which seq, and which rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from headwater.algebra import Bag
from headwater.integrator.journal import within
from headwater.maintenance import aggregate as aggregate_module
from headwater.maintenance import block_wave
from headwater.maintenance import extremes as extremes_module
from headwater.maintenance import wave as wave_module
from headwater.maintenance.commit_queue import CommitQueue
from headwater.maintenance.slices import Slices
from headwater.model import joins as joins_module
from headwater.model.changelog import COUNT, fold
from headwater.model.names import Seq, TableName, ViewName
from headwater.runtime.compute import asking, connections, waves
from headwater.runtime.compute.wave_work import WaveWork
from headwater.sources.memory import MemorySource

from .histories import Scenario, Table, Transaction, Wanted, scenario, smallest
from .oracle import Run, Witness, bag_of, batches, evaluated, maintain, output, played, witness

SEEDS = range(120)
Break = Callable[[pytest.MonkeyPatch], None]


def found(wanted: Wanted, run: Run) -> Witness | None:
    """The smallest history in which the oracle sees something wrong, of the first seed that has one."""
    for seed in SEEDS:
        history = scenario(seed, wanted)
        if witness(history, run) is not None:
            return witness(smallest(history, lambda less: witness(less, run) is not None), run)
    return None


def always(first: int) -> Break:
    """> for >= or the other way round: every occurrence is met in the same state, before s or after it."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        match = wave_module._match
        patch.setattr(
            wave_module, "_match", lambda partial, number, versions, _: match(partial, number, versions, first)
        )

    return apply


def one_compensation_less(patch: pytest.MonkeyPatch) -> None:
    """The changes of one table are not taken back from its answers."""
    versions = wave_module._versions

    def without(target: Any, answer: Any, ordinals: Any, changes: Any, changed: Any) -> Any:
        if target.alias == "b":
            changes, changed = changes.slice(0, 0), changed[:0]
        return versions(target, answer, ordinals, changes, changed)

    patch.setattr(wave_module, "_versions", without)


def answers_as_of_now(patch: pytest.MonkeyPatch) -> None:
    """The as-of promise broken: the source answers with what it holds now."""
    answer = asking.answer_question

    def now(work: WaveWork, ask: Any, tally: Any) -> pa.Table:
        present = {s: connections.connected(spec).position() for s, spec in work.specs.items()}
        return answer(replace(work, positions=present), ask, tally)

    patch.setattr(asking, "answer_question", now)


def duplicates_forgotten(patch: pytest.MonkeyPatch) -> None:
    """An answer counts every row once."""
    answer = asking.answer_question

    def once(work: WaveWork, ask: Any, tally: Any) -> pa.Table:
        rows = answer(work, ask, tally)
        ones = pa.array([1] * rows.num_rows, pa.int64())
        return rows.set_column(rows.schema.get_field_index(COUNT), COUNT, ones)

    patch.setattr(asking, "answer_question", once)


def slices_overlap(patch: pytest.MonkeyPatch) -> None:
    cuts = Slices.cuts
    patch.setattr(Slices, "cuts", lambda self, rows: [slice(0, rows), *cuts(self, rows)[1:]])


def nothing_closed(patch: pytest.MonkeyPatch) -> None:
    """Equalities off the tree are not checked."""
    patch.setattr(wave_module, "_closed", lambda view, partial, target: partial)


def halves_forget(patch: pytest.MonkeyPatch) -> None:
    """The earlier half does not see what came after the middle."""
    patch.setattr(wave_module, "PAIRS", 1)
    patch.setattr(wave_module._Versions, "settled_after", lambda self, mid: self.keep(self.seq <= mid))


def starts_from_nothing(patch: pytest.MonkeyPatch) -> None:
    """An aggregation that forgets what its groups were."""
    running = aggregate_module._Runs.running
    patch.setattr(aggregate_module._Runs, "running", lambda self, what, initial: running(self, what, initial * 0))


def minimum_stays(patch: pytest.MonkeyPatch) -> None:
    """A deleted minimum does not bring back the next one."""
    change = extremes_module._Group.change
    patch.setattr(extremes_module._Group, "change", lambda self, rank, by, whole: change(self, rank, max(by, 0), whole))


def is_block(table: TableName) -> bool:
    return table.table.startswith("\0")


def blocks_not_compensated(patch: pytest.MonkeyPatch) -> None:
    """The changes of a block are not taken back from answers about it."""
    wave = wave_module.wave

    def without(view: Any, journal: Any, *how: Any) -> Any:
        return wave(view, {t: rows.slice(0, 0) if is_block(t) else rows for t, rows in journal.items()}, *how)

    patch.setattr(block_wave, "wave", without)


def blocks_end_with_the_batch(patch: pytest.MonkeyPatch) -> None:
    """What a block did after the batch is forgotten, though answers are as of a later cut."""
    wave, contraction = wave_module.wave, waves.contraction
    his: list[int] = []
    patch.setattr(waves, "contraction", lambda work: his.append(work.hi) or contraction(work))

    def cut(view: Any, journal: Any, *how: Any) -> Any:
        changes = yield from wave(view, journal, *how)
        return changes if any(map(is_block, journal)) else within(changes, -1, his[-1])

    patch.setattr(block_wave, "wave", cut)


def joins_count_once(patch: pytest.MonkeyPatch) -> None:
    """A source's answer to a join counts every row once."""
    ask_join = MemorySource.ask_join

    def once(self: MemorySource, question: Any, at: Any) -> Any:
        for batch in ask_join(self, question, at):
            place = batch.schema.get_field_index(COUNT)
            yield batch.set_column(place, COUNT, pa.array([1] * batch.num_rows, pa.int64()))

    patch.setattr(MemorySource, "ask_join", once)


def joins_as_of_now(patch: pytest.MonkeyPatch) -> None:
    ask_join = MemorySource.ask_join
    patch.setattr(MemorySource, "ask_join", lambda self, question, at: ask_join(self, question, self.position()))


def tables_counted_once(patch: pytest.MonkeyPatch) -> None:
    """A join made table by table keeps the counts of the first table only."""
    patch.setattr(asking, "QUESTION_COST", -(10**12))
    multiplied = joins_module._multiplied

    def kept(rows: Any, numbers: Any, answer: Any) -> Any:
        ones = pa.array([1] * answer.num_rows, pa.int64())
        return multiplied(rows, numbers, answer.set_column(answer.schema.get_field_index(COUNT), COUNT, ones))

    patch.setattr(joins_module, "_multiplied", kept)


ONE, TWO = Run(()), Run((3, 6, 9), parts=2)
JOINED, JOINED_TWO = Run((), joined=True), Run((3, 6, 9), parts=2, joined=True)
BLOCKS = Wanted(kind="plain", joined=True)
BREAKAGES: dict[str, tuple[Break, Wanted, Run]] = {
    "every state before s": (always(0), Wanted(kind="plain"), ONE),
    "every state after s": (always(1), Wanted(kind="plain"), ONE),
    "one compensation less": (one_compensation_less, Wanted(kind="plain", shape="chain"), ONE),
    "one compensation less, strong": (
        one_compensation_less,
        Wanted(kind="plain", shape="chain"),
        Run((), every=0),
    ),
    "answers as of now": (answers_as_of_now, Wanted(kind="plain"), TWO),
    "duplicates forgotten": (duplicates_forgotten, Wanted(kind="plain"), ONE),
    "slices overlap": (slices_overlap, Wanted(kind="plain"), TWO),
    "nothing closed": (nothing_closed, Wanted(kind="plain", shape="cycle"), ONE),
    "halves forget": (halves_forget, Wanted(kind="plain", transactions=40, hot=True), ONE),
    "groups start from nothing": (starts_from_nothing, Wanted(kind="grouped"), TWO),
    "the minimum stays": (minimum_stays, Wanted(kind="grouped"), TWO),
    "blocks are not compensated": (blocks_not_compensated, BLOCKS, JOINED),
    "blocks are not compensated, strong": (
        blocks_not_compensated,
        Wanted(kind="plain", joined=True, shape="chain", hot=True),
        Run((), every=0, joined=True),
    ),
    "blocks end with the batch": (blocks_end_with_the_batch, BLOCKS, Run((2, 4, 6), beyond=3, joined=True)),
    "joins count once": (joins_count_once, BLOCKS, JOINED),
    "joins as of now": (joins_as_of_now, BLOCKS, JOINED_TWO),
    "tables counted once": (tables_counted_once, BLOCKS, JOINED),
}
LENGTHS = {"halves forget": 15}
"""Of the histories that show it."""


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_breakage_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, wanted, run = BREAKAGES[name]
    apply(monkeypatch)
    caught = found(wanted, run)
    assert caught is not None, f"nobody noticed: {name}"
    said = str(caught)
    assert caught.scenario.sql in said
    assert f"at seq {caught.seq}" in said
    assert "lacks" in said or "too much" in said
    assert len(caught.scenario.history) <= LENGTHS.get(name, 5), f"too long to read:\n{said}"


def test_the_other_way_round_is_right_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old on the left and new on the right telescopes just as well: an oracle that cried here would cry wolf."""
    match = wave_module._match
    monkeypatch.setattr(wave_module, "_match", lambda *a: match(*a[:3], 1 - a[3]))
    assert all(witness(scenario(seed, Wanted(kind="plain")), ONE) is None for seed in SEEDS[:40])


SELF_JOIN = Scenario(
    (Table("s", "t", (("x", "int"), ("y", "int"))),),
    "SELECT a.x, b.y FROM s.t a JOIN s.t b ON a.y = b.x",
    before=(),
    history=(Transaction("s", (("t", (1, 2), 1), ("t", (2, 3), 1))),),
)


@pytest.mark.parametrize(("first", "says"), [(0, "lacks 1 × (1, 3)"), (1, "shows 1 × (1, 3) too much")])
def test_a_self_join_without_the_old_new_split(first: int, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both rows come in one transaction: ΔT ⋈ ΔT is then counted never, or twice."""
    assert witness(SELF_JOIN, ONE) is None
    always(first)(monkeypatch)
    caught = witness(SELF_JOIN, ONE)
    assert caught is not None
    assert says in str(caught)
    assert SELF_JOIN.sql in str(caught)


# ------------------------------------------------------------------------------------ commits out of their order


class Hasty(CommitQueue[pa.Table]):
    """Releases whatever is finished, as convergent views may."""

    def released(self) -> tuple[Seq, dict[ViewName, pa.Table]] | None:
        for n, batch in enumerate(self._batches):
            if not batch.missing:
                del self._batches[n]
                return batch.hi, batch.results
        return None


def visible_states(
    queue: CommitQueue[pa.Table], finished: Sequence[int], results: dict[int, pa.Table]
) -> Iterator[Any]:
    """What readers see after each commit: (hi, fold of everything committed so far)."""
    view, committed = ViewName("v"), []
    for hi in sorted(results):
        queue.start(Seq(hi), [view])
    for hi in finished:
        queue.finish(Seq(hi), view, results[hi])
        while (released := queue.released()) is not None:
            committed.append(released[1][view])
            yield released[0], bag_of(fold(pa.concat_tables(committed)))


def first_unreal(history: Scenario, queue: CommitQueue[pa.Table], finished: Callable[[list[int]], list[int]]) -> str:
    """What the checker of visible states says: every state must be one that was, and in order; '' if all is well."""
    with played(history) as world:
        view, run = world.view(), Run((1, 2, 3))
        ends = [hi for _, hi in batches(run, world.last)]
        cores = maintain(world, view, run).batches
        results = {hi: output(view, rows) for hi, rows in zip(ends, cores, strict=True)}
        real = [evaluated(view, state) for state in world.states()]
        last = 0
        for hi, change in visible_states(queue, finished(ends), results):
            shown = Bag({row: n for row, n in real[0] + change if n > 0})
            at = next((s for s in range(last, len(real)) if real[s] == shown), None)
            if at is None:
                return f"after the commit of {hi}, {history.sql} shows {shown.rows()}: no state after seq {last}"
            last = at
        return "" if last == world.last or real[last] == real[-1] else "the last state was not reached"


ORDERED = Scenario(
    (Table("s", "t", (("x", "int"),)),),
    "SELECT t.x FROM s.t",
    before=(),
    history=tuple(Transaction("s", (("t", (n,), 1),)) for n in (1, 2, 3)),
)


def test_a_reordered_commit_is_caught() -> None:
    assert first_unreal(ORDERED, CommitQueue(), lambda ends: ends[::-1]) == ""
    assert first_unreal(ORDERED, Hasty(), lambda ends: ends) == ""
    said = first_unreal(ORDERED, Hasty(), lambda ends: ends[::-1])
    assert said == "after the commit of 3, SELECT t.x FROM s.t shows [(3,)]: no state after seq 0"


def test_a_lost_commit_is_caught() -> None:
    class Forgetful(CommitQueue[pa.Table]):
        def released(self) -> tuple[Seq, dict[ViewName, pa.Table]] | None:
            done = super().released()
            return super().released() if done is not None and done[0] == 2 else done

    assert "(3,)" in first_unreal(ORDERED, Forgetful(), lambda ends: ends[::-1])
