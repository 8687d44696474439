"""Histories made to deceive the checker, judged by a second brute force that knows nothing of how the checker works.

`Truth` recomputes the views over every vector and tries every way, so it also knows whether a witness speaks the truth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headwater.algebra import Bag, Relation, ViewDefinition, evaluate_all
from headwater.lab.checker.boxes import Boxes
from headwater.lab.checker.following import ShownStates
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.search import by_boxes
from headwater.lab.checker.source_states import SourceStates
from headwater.lab.checker.verdict import Verdict, check
from headwater.lab.checker.witness import Witness
from headwater.lab.histories.history import History, State
from headwater.lab.histories.recorded import read_history, write_history
from headwater.lab.worlds.world import defined, table_name
from headwater.maintenance.strategies.contract import Label, Update
from headwater.model.errors import UsageError
from headwater.model.names import TableName

NONE, CONVERGENCE, WEAK = Consistency.NONE, Consistency.CONVERGENCE, Consistency.WEAK
CONSISTENCY, STRONG, COMPLETE = Consistency.CONSISTENCY, Consistency.STRONG, Consistency.COMPLETE

Vector = tuple[int, ...]
Content = dict[str, Bag]


class Truth:
    """Everything there is to know of a small history, by trying it all."""

    def __init__(self, history: History, views: Sequence[str] | None = None) -> None:
        self.views = tuple(views or history.content)
        self.definitions = history.views
        self.columns = history.columns
        self.chains: dict[str, list[Update]] = {}
        for update in history.transactions:
            self.chains.setdefault(update.source, []).append(update)
        self.sources = tuple(self.chains)
        self.real: dict[Vector, Content] = {}
        for vector in product(*(range(len(c) + 1) for c in self.chains.values())):
            if self.whole(vector):
                self.real[vector] = self.over(vector, history.initial)
        self.bottom = tuple(0 for _ in self.sources)
        self.top = tuple(len(c) for c in self.chains.values())
        self.shown = [{v: c[v] for v in self.views} for c in history.contents()]
        final = history.final()
        self.hidden = {v: bag for v in self.views if (bag := Bag({r: n for r, n in final[v] if n < 0}))}
        self.places = [{v for v, c in self.real.items() if c == shown} for shown in self.shown]
        self.reached: list[set[Vector]] = [self.places[0]]
        for here in self.places[1:]:
            before = self.reached[-1]
            self.reached.append({v for v in here if any(under(u, v) for u in before)})

    def labels(self, vector: Vector) -> set[Label]:
        return {u.label for s, n in zip(self.sources, vector, strict=True) for u in self.chains[s][:n]}

    def whole(self, vector: Vector) -> bool:
        """Does it hold all of each transaction over several sources, or nothing?"""
        inside: dict[str, set[bool]] = {}
        for s, n in zip(self.sources, vector, strict=True):
            for i, update in enumerate(self.chains[s]):
                if update.part_of:
                    inside.setdefault(update.part_of, set()).add(i < n)
        return all(len(found) == 1 for found in inside.values())

    def over(self, vector: Vector, initial: Mapping[TableName, Bag]) -> Content:
        tables = dict(initial)
        for s, n in zip(self.sources, vector, strict=True):
            for update in self.chains[s][:n]:
                for table, change in update.changes.items():
                    tables[table] = tables[table] + change
        found = evaluate_all(self.definitions, {t: Relation(self.columns[t], bag) for t, bag in tables.items()})
        return {v: found[v] for v in self.views}  # type: ignore[index]  # a ViewName is a str

    def nexts(self, vector: Vector) -> list[Vector]:
        higher = [v for v in self.real if v != vector and under(vector, v)]
        return [v for v in higher if not any(o != v and under(o, v) for o in higher)]

    def complete(self) -> bool:
        runs = [c for k, c in enumerate(self.shown) if not k or c != self.shown[k - 1]]
        if self.real[self.bottom] != runs[0]:
            return False
        seen = {(self.bottom, 0)}
        waiting = [(self.bottom, 0)]
        while waiting:
            vector, i = waiting.pop()
            for up in self.nexts(vector):
                same = self.real[up] == runs[i]
                if same or (i + 1 < len(runs) and self.real[up] == runs[i + 1]):
                    step = (up, i if same else i + 1)
                    if step not in seen:
                        seen.add(step)
                        waiting.append(step)
        return (self.top, len(runs) - 1) in seen

    def holds(self) -> frozenset[Consistency]:
        found = {NONE}
        if self.shown[-1] == self.real[self.top] and not self.hidden:
            found.add(CONVERGENCE)
        if all(self.places):
            found.add(WEAK)
        if self.reached[-1]:
            found.add(CONSISTENCY)
            if CONVERGENCE in found:
                found.add(STRONG)
                if self.complete():
                    found.add(COMPLETE)
        return frozenset(found)

    @property
    def mattering(self) -> set[Label]:
        """Transactions that change something, or are a part of one."""
        read = {t for v in self.definitions for t in v.base_tables}
        done = [u for chain in self.chains.values() for u in chain]
        return {u.label for u in done if u.part_of or any(u.changes.get(t) for t in read)}

    # Witnesses

    def judge(self, verdict: Verdict) -> None:
        """Everything that a decided verdict says is true."""
        holds = self.holds()
        assert verdict.holds == holds, f"{sorted(v.value for v in holds)} hold; said: {verdict}"
        assert not verdict.undecided
        self.judge_path(verdict)
        assert bool(verdict.witnesses) == (COMPLETE not in holds)
        for found in verdict.witnesses:
            assert found.level not in holds
            assert f"state {found.state} at" in found.sentence
            {WEAK: self.unreal, CONVERGENCE: self.diverged, CONSISTENCY: self.back, COMPLETE: self.skipped}[
                found.level
            ](found, verdict)

    def vector(self, numbers: Vector, sources: Sequence[str]) -> Vector:
        known = dict(zip(sources, numbers, strict=True))
        return tuple(known.get(s, 0) for s in self.sources)

    def judge_path(self, verdict: Verdict) -> None:
        assert bool(verdict.path) == (CONSISTENCY in verdict.holds)
        vectors = [self.vector(numbers, verdict.sources) for numbers in verdict.path]
        for k, vector in enumerate(vectors):
            assert self.real[vector] == self.shown[k], f"state {k} is not at {vector}"
            assert not k or under(vectors[k - 1], vector)

    def against(self, found: Witness, vector: Vector) -> None:
        shown, real = self.shown[found.state][found.view], self.real[vector][found.view]
        assert found.extra - found.missing == shown - real
        assert all(n > 0 for _, n in [*found.extra, *found.missing])
        assert found.extra or found.missing

    def unreal(self, found: Witness, verdict: Verdict) -> None:
        assert found.state == next(k for k, places in enumerate(self.places) if not places)
        at = self.vector(found.nearest, verdict.sources)
        self.against(found, at)
        if "the nearest," in found.sentence:
            shown = self.shown[found.state]
            assert apart(shown, self.real[at]) == min(apart(shown, real) for real in self.real.values())
        assert set(found.last) <= self.labels(at)

    def diverged(self, found: Witness, verdict: Verdict) -> None:
        assert found.state == len(self.shown) - 1
        if self.shown[-1] == self.real[self.top]:
            assert found.missing == -self.hidden[found.view]
            assert not found.extra
        else:
            self.against(found, self.top)

    def back(self, found: Witness, verdict: Verdict) -> None:
        assert found.state == next(k for k, reached in enumerate(self.reached) if not reached)
        taken = set(found.transactions)
        assert taken
        lost = [
            self.labels(u) - self.labels(v) for u in self.reached[found.state - 1] for v in self.places[found.state]
        ]
        assert any(taken <= gone for gone in lost)

    def skipped(self, found: Witness, verdict: Verdict) -> None:
        """What it brings in is what the path says, and what it leaves out was shown neither before nor after."""
        vectors = [self.vector(numbers, verdict.sources) for numbers in verdict.path]
        ends = [self.bottom, *vectors]
        late = self.labels(self.top) - self.labels(vectors[-1])
        if found.state == len(vectors) - 1 and late & set(found.transactions):
            low, high = vectors[-1], self.top
        else:
            low, high = ends[found.state], vectors[found.state]
        assert set(found.transactions) <= self.labels(high) - self.labels(low)
        _, said, after = found.sentence.partition("the source state after ")
        if said and "more" not in after:
            first = {Label(source, int(number)) for source, number in re.findall(r"(\w+)#(\d+)", after)}
            wanted = self.labels(low) | first
            matter = self.mattering
            left_out = [c for v, c in self.real.items() if self.labels(v) & matter == wanted & matter]
            assert all(c != self.shown[found.state] for c in left_out)
            if "was no warehouse state" in after:
                assert not any(c == shown for c in left_out for shown in self.shown)


def under(low: Vector, high: Vector) -> bool:
    return all(a <= b for a, b in zip(low, high, strict=True))


def apart(one: Content, other: Content) -> int:
    return sum(abs(n) for view in one for _, n in one[view] - other[view])


# Shapes

TABLES: dict[str, dict[str, pa.DataType]] = {
    "X.R": {"a": pa.int64(), "b": pa.int64()},
    "X.P": {"a": pa.int64(), "m": pa.decimal128(12, 2)},
    "Y.S": {"b": pa.int64(), "c": pa.int64()},
    "Z.T": {"c": pa.int64(), "d": pa.string()},
    "W.U": {"d": pa.string()},
}
SHAPES: list[dict[str, str]] = [
    {"V": "SELECT R.a, S.c FROM X.R JOIN Y.S ON R.b = S.b"},
    {"V": "SELECT R.a, Q.b FROM X.R JOIN X.R AS Q ON R.b = Q.a"},
    {"V": "SELECT R.a, P.m, S.c FROM X.R JOIN X.P ON R.a = P.a JOIN Y.S ON R.b = S.b"},
    {"V": "SELECT R.b, T.d FROM X.R JOIN Y.S ON R.b = S.b JOIN Z.T ON S.c = T.c WHERE R.a < 2 OR T.d = 'p'"},
    {"V": "SELECT R.a, S.c FROM X.R CROSS JOIN Y.S WHERE R.b > S.b"},
    {"V": "SELECT R.a FROM X.R", "W": "SELECT S.c FROM Y.S"},
    {"V": "SELECT R.a FROM X.R JOIN Y.S ON R.b = S.b", "W": "SELECT S.c, T.d FROM Y.S JOIN Z.T ON S.c = T.c"},
    {"V": "SELECT DISTINCT R.a, S.c FROM X.R JOIN Y.S ON R.b = S.b"},
    {"V": "SELECT COUNT(*) AS n FROM X.R JOIN Y.S ON R.b = S.b"},
    {"V": "SELECT COUNT(*) AS n, SUM(P.m) AS s, AVG(P.m) AS g, MIN(P.m) AS l, MAX(P.a) AS h FROM X.P"},
    {"V": "SELECT R.a, COUNT(DISTINCT S.c) AS n, AVG(S.c) AS g FROM X.R JOIN Y.S ON R.b = S.b GROUP BY R.a"},
    {"V": "SELECT S.c, SUM(P.m) AS s, AVG(P.m) AS g FROM X.P JOIN Y.S ON P.a = S.b GROUP BY S.c"},
    {"V": "SELECT R.a + S.c AS k, COUNT(*) AS n FROM X.R JOIN Y.S ON R.b = S.b GROUP BY R.a + S.c HAVING COUNT(*) > 1"},
    {"V": "SELECT MAX(R.a) AS m FROM X.R HAVING COUNT(*) > 1"},
    {"V": "SELECT T.d, MIN(T.c) AS l, MAX(T.c) AS h FROM Z.T GROUP BY T.d", "W": "SELECT U.d FROM W.U"},
    {"V": "SELECT R.a, S.c FROM X.R JOIN Y.S ON R.b = S.b", "N": "SELECT V.c, COUNT(*) AS n FROM V GROUP BY V.c"},
    {
        "N": "SELECT S.c, COUNT(*) AS n FROM Y.S GROUP BY S.c",
        "V": "SELECT N.n, T.d FROM N JOIN Z.T ON N.c = T.c",
        "W": "SELECT DISTINCT R.b FROM X.R",
    },
]
COLUMNS = {table_name(t): tuple(cs) for t, cs in TABLES.items()}
TYPES = {table_name(t): cs for t, cs in TABLES.items()}


def value(random: Random, kind: pa.DataType) -> Any:
    if random.random() < 0.12:
        return None
    if pa.types.is_string(kind):
        return random.choice("pq")
    if pa.types.is_decimal(kind):
        return random.choice([Decimal("0.00"), Decimal("0.10"), Decimal("1.00"), Decimal("-0.10"), Decimal("3.33")])
    return random.randrange(3)


def row_of(random: Random, table: TableName) -> tuple[Any, ...]:
    return tuple(value(random, kind) for kind in TYPES[table].values())


def deeds(random: Random, views: Sequence[ViewDefinition], most: int) -> tuple[dict[TableName, Bag], list[Update]]:
    """What the tables hold at the beginning, and transactions of one or two tables; some of them global, some empty,
    some there and back."""
    initial = {t: Bag.of([row_of(random, t) for _ in range(random.randrange(4))]) for t in COLUMNS}
    held = dict(initial)
    read = sorted({t for v in views for t in v.base_tables})
    tables = [random.choice(read) if random.random() < 0.85 else random.choice(list(COLUMNS)) for _ in range(most)]
    done: list[Update] = []
    numbers: dict[str, int] = {}
    for at, table in enumerate(tables):
        mine = [t for t in COLUMNS if t.source == table.source]
        changes: dict[TableName, Bag] = {}
        for t in {table, random.choice(mine)} if random.random() < 0.4 else {table}:
            change = Bag()
            for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
                there = [r for r, n in held[t] + change for _ in range(n)]
                if there and random.random() < 0.45:
                    change = change - Bag.of([random.choice(there)])
                else:
                    change = change + Bag.of([row_of(random, t)])
            changes[t] = change
            held[t] = held[t] + change
        numbers[table.source] = numbers.get(table.source, 0) + 1
        label = Label(str(table.source), numbers[table.source])
        done.append(Update(label, changes, float(at), str(label)))
    for name in random.choice([(), (), ("G",), ("G", "H")]):
        for i in random.sample(range(len(done)), min(len(done), random.randint(1, 3))):
            done[i] = done[i]._replace(part_of=name)
    return initial, done


def showings(random: Random, truth: Truth) -> list[Content]:
    """Warehouse states: up some way, or anyhow, then made worse."""
    at = truth.bottom
    shown = [truth.real[at]]
    while ups := truth.nexts(at):
        at = random.choice(ups)
        shown.append(truth.real[at])
    if random.random() < 0.15:
        shown = [random.choice(list(truth.real.values())) for _ in range(random.randint(1, 5))]
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        k = random.randrange(len(shown))
        worse = random.randrange(7)
        if worse == 0:
            del shown[k]
        elif worse == 1:
            del shown[max(k, 1) :]
        elif worse == 2:
            shown.insert(k, shown[k])
        elif worse == 3:
            shown.insert(k, random.choice(shown))
        elif worse == 4:
            j = random.randrange(len(shown))
            shown[j], shown[k] = shown[k], shown[j]
        elif worse == 5:
            other = random.choice(list(truth.real.values()))
            view = random.choice(truth.views)
            shown[k] = shown[k] | {view: other[view]}
        else:
            view = random.choice(truth.views)
            rows = sorted((r for c in truth.real.values() for r in c[view].counts), key=repr)
            if rows:
                change = Bag({random.choice(rows): random.choice([1, -1])})
                seen = shown[k][view] + change
                shown[k] = shown[k] | {view: seen.select(lambda r, seen=seen: seen.count(r) > 0)}  # type: ignore[misc]
        if not shown:
            shown = [truth.real[truth.bottom]]
    return shown


def claims(random: Random, done: Sequence[Update], n: int) -> list[tuple[Label, ...]]:
    kind = random.randrange(4)
    if kind == 0:
        return [()] * n
    labels = [u.label for u in done]
    if kind == 1:
        return [tuple(labels[k : k + 1]) for k in range(n)]
    strange = [Label("X", 99), Label("Q", 1), Label("X", 0), Label("Y", -3), Label("", 1)]
    return [tuple(random.choices([*labels, *strange], k=random.randrange(4))) for _ in range(n)]


def case(random: Random, most: int = 6) -> History:
    views = defined(COLUMNS, random.choice(SHAPES), TYPES)
    initial, done = deeds(random, views, random.choice([0, 1, *range(2, most + 1)]))
    empty = History(COLUMNS, views, initial, {str(v.name): Bag() for v in views}, done)
    shown = showings(random, Truth(empty))
    history = History(COLUMNS, views, initial, shown[0], done)
    covers = claims(random, done, len(shown))
    for k in range(1, len(shown)):
        changes = tuple((v, shown[k][v] - shown[k - 1][v]) for v in shown[k] if shown[k] != shown[k - 1])
        history.states.append(State(float(k), changes, covers[k]))
    hide(random, history)
    return history


def hide(random: Random, history: History) -> None:
    """A count goes below zero where nobody sees it."""
    if not history.states or random.random() < 0.8:
        return
    view = random.choice(list(history.content))
    rows = [row for content in history.contents() for row in content[view].counts]
    if rows:
        row = random.choice(rows)
        k = random.randrange(len(history.states))
        state = history.states[k]
        history.states[k] = state._replace(changes=(*state.changes, (view, Bag({row: random.choice([-1, -2, 1])}))))


@pytest.mark.parametrize("seed", range(3))
def test_every_word_of_a_verdict_is_true(seed: int) -> None:
    """Levels, paths and witnesses; of all views together and of one; with a budget that is too small, nothing false."""
    random = Random(seed)
    for n in range(80):
        history = case(random)
        truth = Truth(history)
        truth.judge(check(history))
        hasty = check(history, budget=random.choice([0, 5, 20, 100, 400]))
        assert hasty.holds <= truth.holds() <= hasty.holds | hasty.undecided, f"seed {seed}, case {n}: {hasty}"
        if len(history.content) > 1:
            one = [random.choice(list(history.content))]
            Truth(history, one).judge(check(history, one))


def test_boxes_find_what_is_there() -> None:
    """The first state that is none, the first that no way reaches: also where one vector at a time would do."""
    random = Random(11)
    for n in range(120):
        history = case(random)
        states = SourceStates(history.views, list(history.content), COLUMNS, history.initial, history.transactions)
        if states.recomputes:
            continue
        truth, warehouse = Truth(history), ShownStates(history, states.chosen)
        runs = warehouse.runs
        found = by_boxes(Boxes(states, 100_000), [warehouse.changes[k] for k in runs], {})
        unreal = next((k for k, places in enumerate(truth.places) if not places), None)
        assert (None if found.unreal is None else runs[found.unreal]) == unreal, f"case {n}"
        if unreal is None:
            stuck = next((k for k, reached in enumerate(truth.reached) if not reached), None)
            assert (runs[found.met] if found.met < len(runs) else None) == stuck, f"case {n}"


def test_a_recorded_history_has_the_same_verdict(tmp_path: Path) -> None:
    random = Random(21)
    for n in range(60):
        history = case(random)
        write_history(history, tmp_path / "h.jsonl", TYPES)
        assert check(read_history(tmp_path / "h.jsonl")) == check(history), f"case {n}"


def test_differences_lead_from_anywhere_to_anywhere() -> None:
    """Up, down and sideways through the source states; groups vanish and return."""
    random = Random(31)
    for n in range(120):
        views = defined(COLUMNS, random.choice(SHAPES), TYPES)
        initial, done = deeds(random, views, 10)
        states = SourceStates(views, [str(v.name) for v in views], COLUMNS, initial, done)
        vectors = list(states.lattice.all())
        at = states.lattice.bottom
        held = states.contents(at)
        for _ in range(8):
            to = random.choice(vectors)
            difference = states.difference(at, to)
            assert all(difference.values())
            at, held = to, {v: bag + difference.get(v, Bag()) for v, bag in held.items()}
            assert held == states.contents(at), f"case {n}"


# What once went wrong


def history_of(
    views: Mapping[str, str], changes: Sequence[Mapping[str, Bag]], shown: Sequence[int], part_of: str = ""
) -> History:
    """Transactions of X; the warehouse shows the views after so many of them."""
    done = [
        Update(Label("X", n), {table_name(t): bag for t, bag in change.items()}, float(n), part_of=part_of)
        for n, change in enumerate(changes, 1)
    ]
    definitions = defined(COLUMNS, views, TYPES)
    initial = {t: Bag() for t in COLUMNS}
    history = History(COLUMNS, definitions, initial, {str(v.name): Bag() for v in definitions}, done)
    real = [Truth(history).over((n,), initial) for n in shown]
    for k, (old, new) in enumerate(pairwise(real), 1):
        history.states.append(State(float(k), tuple((v, new[v] - old[v]) for v in new), (Label("X", shown[k]),)))
    return replace(history, content=real[0])


ROW = Bag.of([(1, 1)])
ONE = {"V": "SELECT R.a, R.b FROM X.R"}


def test_a_state_that_was_shown_later_is_not_said_to_be_none() -> None:
    """There, back, and there again at once: what was left out is not the first of them, which is what is shown."""
    verdict = check(history_of(ONE, [{"X.R": ROW}, {"X.R": -ROW}, {"X.R": ROW}], [0, 3]))
    assert verdict.level is STRONG
    assert "the source state after X#1 and X#2 was not shown on the way" in str(verdict)


def test_a_beginning_that_was_not_shown_is_named() -> None:
    verdict = check(history_of(ONE, [{"X.R": ROW}], [1]))
    assert "state 0 at 0 brings in X#1 at once; the initial source state was no warehouse state" in str(verdict)


def test_a_view_named_twice_is_one_view() -> None:
    history = history_of(ONE, [{"X.R": -ROW + Bag.of([(2, 2)])}], [0, 1])
    history = replace(history, initial={**history.initial, table_name("X.R"): ROW}, content={"V": ROW})
    assert check(history, ["V", "V"]).level is check(history).level is COMPLETE


def test_long_decimals_are_exact() -> None:
    """More digits than Python calculates with unless told: the checker recomputes as the reference evaluator does."""
    views = {"V": "SELECT P.m * P.m AS q FROM X.P", "S": "SELECT SUM(P.m * P.m) AS q FROM X.P"}
    long = Bag.of([(1, Decimal("12345678901234567890.12"))])
    assert check(history_of(views, [{"X.P": long}], [0, 1])).level is COMPLETE


@pytest.mark.parametrize("budget", [0, 10, 300_000])
def test_counts_that_are_too_large_for_numpy(budget: int) -> None:
    huge = Bag({(1, 1): 10**19})
    history = history_of(ONE, [{"X.R": huge}, {"X.R": -huge}], [0, 1, 2])
    assert check(history, budget=budget).level is COMPLETE
    history.states[0] = history.states[0]._replace(changes=(("V", huge + ROW),))
    assert WEAK not in check(history, budget=budget).holds


def test_a_row_taken_that_is_not_there_is_refused_where_it_has_no_meaning() -> None:
    history = history_of(ONE, [{"X.R": -ROW}], [0])
    assert check(history).level is CONSISTENCY
    history = replace(history, views=defined(COLUMNS, {"V": "SELECT R.a, COUNT(*) AS n FROM X.R GROUP BY R.a"}, TYPES))
    with pytest.raises(UsageError, match=re.escape("X#1 takes (1, 1) from X.R, where it is not")):
        check(history)


def test_many_least_vectors_are_each_followed_once() -> None:
    """X and Y do the same to both views' counts again and again: the least vectors met twice used to double at each
    state, until the budget was spent."""
    n = 12
    done = [
        Update(Label(s, i), {table_name(t): Bag.of([(1, 1)])}, float(i))
        for i in range(1, n + 1)
        for s, t in (("X", "X.R"), ("Y", "Y.S"))
    ]
    views = defined(COLUMNS, {"V": "SELECT R.a FROM X.R JOIN Y.S ON R.b = S.b"}, TYPES)
    history = History(COLUMNS, views, {t: Bag() for t in COLUMNS}, {"V": Bag()}, done)
    counts = [0, 12, 24, 36, 48, 60, 72, 96, 144]
    for k, (old, new) in enumerate(pairwise(counts), 1):
        history.states.append(State(float(k), (("V", Bag({(1,): new - old})),), ()))
    states = SourceStates(views, ["V"], COLUMNS, history.initial, done)
    found = by_boxes(Boxes(states, 3_000), [{"V": Bag()}, *(dict(s.changes) for s in history.states)], {})
    assert found.decided
    Truth(history).judge(check(history))
