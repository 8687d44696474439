"""Aggregation against recomputation: batches in a row, every state of the groups, and what the auxiliary view folds to.

The rows are those of a table `s.t (k, j, x)`; the view aggregates them. What Spark calls equal is equal here: NaN is
one value, the largest; −0.0 is 0.0.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra import Bag, Relation, ViewDefinition, evaluate
from headwater.algebra.view import AggregateCall
from headwater.maintenance.exact import sum_of
from headwater.maintenance.groups import PART, ROWS, keeps_values, valued
from headwater.model.changelog import COUNT, SEQ, fold
from headwater.model.errors import ValueUnfit
from headwater.model.names import SourceName, TableName
from headwater.runtime.compute import membership, writing
from headwater.runtime.compute.aggregating import AggregateWork, aggregating
from headwater.storage import Storage

from .histories import KINDS, ORDERED, Scenario, Table, Wanted, scenario
from .oracle import Aggregated, Run, _canonical, bag_of, difference, played, shown, spark_types
from .test_wave_oracle import agree, runs

NAN, INF = float("nan"), float("inf")
SUMMED = ("COUNT(*)", "COUNT({})", "SUM({})", "AVG({})")
KEPT = ("MIN({})", "MAX({})", "COUNT(DISTINCT {})", "SUM(DISTINCT {})", "AVG(DISTINCT {})")
OF_ANYTHING = ("COUNT(*)", "COUNT({})", "MIN({})", "MAX({})", "COUNT(DISTINCT {})")
GROUPINGS = {"no key": (), "one key": ("t.k",), "two keys": ("t.k", "t.j")}
VALUES = {
    **{name: KINDS[name].values for name in ("bigint", "money", "text", "date", "timestamp", "real")},
    "double": (0.1, 0.2, 0.3, -0.2, 1e16, 1.0, -1e16, 5e-324, 1.7e308),
    "special": (NAN, INF, -INF, 1.0, 0.1, -1.7e308),
    "wide": (Decimal("99999999999999999999.999999999999999999"), Decimal("0.000000000000000001"), Decimal(-1)),
}
TYPES = {**{name: kind.type for name, kind in KINDS.items()}, "special": pa.float64()}

Change = tuple[tuple[Any, ...], int]


def grouped_view(calls: Sequence[str], keys: Sequence[str], kind: str) -> tuple[ViewDefinition, pa.Schema]:
    said = [f"{k} AS o{i}" for i, k in enumerate(keys)]
    said += [f"{call.format('t.x')} AS g{i}" for i, call in enumerate(calls)]
    sql = f"SELECT {', '.join(said)} FROM s.t" + (f" GROUP BY {', '.join(keys)}" if keys else "")
    table = Table("s", "t", (("k", "int"), ("j", "text"), ("x", "double" if kind == "special" else kind)))
    with played(Scenario((table,), sql, (), ())) as world:
        view = world.view()
    core = pa.schema([("t.k", pa.int32()), ("t.j", pa.string()), ("t.x", TYPES[kind])])
    return view, core


def delta_of(view: ViewDefinition, core: pa.Schema, rows: Sequence[tuple[tuple[Any, ...], int, int]]) -> pa.Table:
    assert view.aggregation is not None
    columns: dict[str, Any] = {}
    for o in (*view.aggregation.keys, *view.aggregation.arguments):
        at = core.get_field_index(o.expression.strip("`"))
        columns[o.name] = pa.array([row[at] for row, _, _ in rows], core.field(at).type)
    columns[COUNT] = pa.array([count for _, count, _ in rows], pa.int64())
    columns[SEQ] = pa.array([seq for _, _, seq in rows], pa.int64())
    return pa.table(columns)


# ------------------------------------------------------------------ the reference, where doubles are special


def reference(view: ViewDefinition, held: Counter[tuple[Any, ...]]) -> Bag:
    """γ once more, with Spark's NaN and infinities, which the plain evaluator leaves to Python."""
    aggregation = view.aggregation
    assert aggregation is not None
    at = {"`t.k`": 0, "`t.j`": 1, "`t.x`": 2}
    groups: dict[tuple[Any, ...], list[Any]] = {} if aggregation.keys else {(): []}
    for row, count in held.items():
        key = tuple(row[at[k.expression]] for k in aggregation.keys)
        groups.setdefault(key, []).extend([row[2]] * count)
    return Bag.of(
        _canonical(key + tuple(_called(call, members) for call in aggregation.calls)) for key, members in groups.items()
    )


def _called(call: AggregateCall, members: list[Any]) -> Any:
    if call.argument is None:
        return len(members)
    values = [v for v in members if v is not None]
    if call.distinct:
        values = list({("NaN" if v != v else v): v for v in values}.values())
    if call.function == "count":
        return len(values)
    if not values:
        return None
    if call.function in ("min", "max"):
        return {"min": min, "max": max}[call.function](values, key=lambda v: (v != v, v))
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < len(values):
        return sum(v for v in values if not math.isfinite(v))
    exact = sum(map(Fraction, finite), Fraction(0))
    return _float(exact if call.function == "sum" else exact / len(values))


def _float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


# ----------------------------------------------------------------------------------------------------------- the oracle


@st.composite
def histories(draw: st.DrawFn, kind: str) -> tuple[list[Change], list[list[list[Change]]]]:
    """Rows to begin with, and batches of transactions of signed rows; no row goes that is not there."""
    values = st.one_of(st.none(), st.sampled_from(VALUES[kind]))
    row = st.tuples(st.sampled_from([1, 2, None]), st.sampled_from(["a", None, ""]), values)
    first = [(r, 1) for r in draw(st.lists(row, max_size=6))]
    held: list[tuple[Any, ...]] = [r for r, _ in first]
    made = []
    for _ in range(draw(st.integers(1, 4))):
        batch = []
        for _ in range(draw(st.integers(0, 4))):
            transaction: list[Change] = []
            for _ in range(draw(st.integers(1, 4))):
                if held and draw(st.booleans()):
                    transaction.append((held.pop(draw(st.integers(0, len(held) - 1))), -1))
                else:
                    new = draw(row)
                    held.append(new)
                    transaction.append((new, 1))
            batch.append(transaction)
        made.append(batch)
    return first, made


def check(view: ViewDefinition, core: pa.Schema, kind: str, history: tuple[Any, Any]) -> Aggregated:
    """Every state of the groups is the recomputed one, and so is the auxiliary view at the end."""
    first, made = history
    grouped = Aggregated(view, spark_types(view, core))
    held: Counter[tuple[Any, ...]] = Counter()
    log = [grouped.batch(delta_of(view, core, [(r, n, 0) for r, n in first]), 0, first=True)]
    states = {0: _tally(held, first)}
    seq = 0
    for batch in made:
        rows = []
        for transaction in batch:
            seq += 1
            rows += [(r, n, seq) for r, n in transaction]
            states[seq] = _tally(states[seq - 1], transaction)
        log.append(grouped.batch(delta_of(view, core, rows), seq))
    changes = shown(view, pa.concat_tables(log))
    for at, state in states.items():
        expected = recomputed(view, kind, state)
        missing, extra = difference(expected, bag_of(fold(changes, at)))
        assert (missing, extra) == (Bag(), Bag()), f"at {at}: lacks {missing}, shows {extra} too much"
    _check_auxiliary(view, core, grouped, states[seq])
    return grouped


def _tally(held: Counter[tuple[Any, ...]], changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    after = Counter(held)
    for row, count in changes:
        after[row] += count
    return +after


def recomputed(view: ViewDefinition, kind: str, state: Counter[tuple[Any, ...]]) -> Bag:
    if kind in ("special", "double", "real"):
        return reference(view, state)
    table = {TableName(SourceName("s"), "t"): Relation(("k", "j", "x"), Bag(dict(state)))}
    return Bag.summed((_canonical(row), count) for row, count in evaluate(view, table))


def _check_auxiliary(
    view: ViewDefinition, core: pa.Schema, grouped: Aggregated, state: Counter[tuple[Any, ...]]
) -> None:
    """The invariant of `aggregate`: the fold of the auxiliary changelog is the accumulators of the core's state."""
    aggregation = grouped.aggregation
    at = {f"`{name}`": i for i, name in enumerate(core.names)}
    keys = [at[k.expression] for k in aggregation.keys]
    kept = fold(grouped.auxiliary)
    if keeps_values(aggregation):
        for one in valued(aggregation).values():
            mine = kept.filter(pc.equal(kept.column(PART), one.part))
            there = bag_of(mine.select([*(k.name for k in aggregation.keys), one.argument, COUNT]))
            (place,) = (at[a.expression] for a in aggregation.arguments if a.name == one.argument)
            assert there == Bag.summed(
                (_canonical(tuple(row[i] for i in [*keys, place])), n)
                for row, n in state.items()
                if row[place] is not None
            )
        kept = kept.filter(pc.equal(kept.column(PART), 0)).drop_columns([PART])
    folded = bag_of(kept)
    groups: dict[tuple[Any, ...], list[Any]] = {} if keys else {(): []}
    for row, n in state.items():
        groups.setdefault(tuple(row[i] for i in keys), []).extend([row[2]] * n)
    names = kept.column_names
    assert all(count == 1 for _, count in folded), "one row per group"
    assert {row[: len(keys)] for row, _ in folded} == set(groups)
    for row, _ in folded:
        members = groups[row[: len(keys)]]
        got = dict(zip(names, row, strict=False))
        assert got[ROWS] == len(members)
        there = [v for v in members if v is not None]
        assert got.get("n_arg0", len(there)) == len(there)
        if "sum_arg0" in got:
            whole = sum_of(grouped.types["arg0"]).whole(pa.chunked_array([pa.array(there, grouped.types["arg0"])]))
            assert int(got["sum_arg0"], 16) == sum(whole.tolist())


@pytest.mark.parametrize("kind", ["bigint", "money", "double", "special", "real"])
@pytest.mark.parametrize("calls", [SUMMED, KEPT, (*SUMMED, *KEPT)], ids=["sums", "values", "both"])
@given(data=st.data(), grouping=st.sampled_from(sorted(GROUPINGS)))
@settings(max_examples=max(5, settings.default.max_examples // 10))
def test_numbers(calls: Sequence[str], kind: str, data: st.DataObject, grouping: str) -> None:
    view, core = grouped_view(calls, GROUPINGS[grouping], kind)
    check(view, core, kind, data.draw(histories(kind)))


@pytest.mark.parametrize("kind", ["text", "date", "timestamp"])
@given(data=st.data(), grouping=st.sampled_from(sorted(GROUPINGS)))
@settings(max_examples=max(5, settings.default.max_examples // 10))
def test_what_is_only_compared(kind: str, data: st.DataObject, grouping: str) -> None:
    assert kind in ORDERED
    view, core = grouped_view(OF_ANYTHING, GROUPINGS[grouping], kind)
    check(view, core, kind, data.draw(histories(kind)))


@pytest.mark.parametrize("kind", ["grouped", "global", "distinct"])
@given(seed=st.integers(0, 2**32 - 1), run=runs)
@settings(max_examples=max(10, settings.default.max_examples // 4))
def test_aggregation_over_joins(kind: str, seed: int, run: Run) -> None:
    agree(scenario(seed, Wanted(kind=kind)), run)


# ------------------------------------------------------------------------------- named small histories


def states(calls: Sequence[str], kind: str, batches: Sequence[Sequence[Sequence[Change]]], keys: Any = ()) -> list[Bag]:
    """The states of a view after the load of nothing and after every transaction."""
    view, core = grouped_view(calls, keys, kind)
    grouped = Aggregated(view, spark_types(view, core))
    log, seq, seqs = [grouped.batch(delta_of(view, core, []), 0, first=True)], 0, [0]
    for batch in batches:
        rows = []
        for transaction in batch:
            seq += 1
            seqs.append(seq)
            rows += [(r, n, seq) for r, n in transaction]
        log.append(grouped.batch(delta_of(view, core, rows), seq))
    changes = shown(view, pa.concat_tables(log))
    return [bag_of(fold(changes, s)) for s in seqs]


def x(value: Any, count: int = 1, key: int | None = 1) -> Change:
    return (key, "a", value), count


def test_what_was_added_is_taken_back_without_a_trace() -> None:
    """0.1 + 0.2 − 0.2 is 0.1 here, whatever it is in doubles; and 1e16 + 1 − 1e16 is 1."""
    assert (0.1 + 0.2) - 0.2 != 0.1
    got = states(("SUM({})",), "double", [[[x(0.1)], [x(0.2)]], [[x(0.2, -1)]]])
    assert got[-1] == Bag({(0.1,): 1})
    got = states(("SUM({})",), "double", [[[x(1e16), x(1.0)]], [[x(1e16, -1)]]])
    assert got[-1] == Bag({(1.0,): 1})
    got = states(("SUM({})", "AVG({})"), "double", [[[x(INF)], [x(-INF)], [x(NAN)]], [[x(NAN, -1), x(-INF, -1)]]])
    assert [row for bag in got[1:] for row, _ in bag] == [(INF, INF), ("NaN", "NaN"), ("NaN", "NaN"), (INF, INF)]


def test_a_sum_beyond_the_largest_double_comes_back() -> None:
    big = 1.7e308
    got = states(("SUM({})",), "double", [[[x(big)], [x(big)]], [[x(big, -1)]]])
    assert [row for bag in got for row, _ in bag] == [(None,), (big,), (INF,), (big,)]


def test_decimals_of_more_digits_than_python_calculates_with_by_default() -> None:
    least, nearly = Decimal("0.000000000000000001"), Decimal("99999999999999999999.999999999999999998")
    whole = Decimal("99999999999999999999.999999999999999999")
    got = states(("SUM({})", "SUM(DISTINCT {})", "MAX({})"), "wide", [[[x(least)], [x(nearly)]], [[x(least, -1)]]])
    assert got[1:] == [
        Bag({(least, least, least): 1}),
        Bag({(whole, whole, nearly): 1}),
        Bag({(nearly, nearly, nearly): 1}),
    ]


def test_groups_vanish_and_come_back() -> None:
    calls = ("COUNT(*)", "SUM({})", "MIN({})")
    there = Bag({(1, 1, 5, 5): 1})
    got = states(calls, "bigint", [[[x(5)], [x(5, -1)], [x(5)]], [[x(5, -1)]], [[x(5)]]], keys=("t.k",))
    assert got == [Bag(), there, Bag(), there, Bag(), there]


def test_null_is_a_group_of_its_own_and_no_value() -> None:
    calls = ("COUNT(*)", "COUNT({})", "SUM({})", "AVG({})", "MAX({})", "COUNT(DISTINCT {})")
    got = states(calls, "bigint", [[[x(None, key=None)], [x(3, key=None)]], [[x(3, -1, None)]]], keys=("t.k",))
    only_null = Bag({(None, 1, 0, None, None, None, 0): 1})
    assert got == [Bag(), only_null, Bag({(None, 2, 1, 3, 3.0, 3, 1): 1}), only_null]


def test_an_aggregate_over_nothing_is_one_row_from_the_first_load_on() -> None:
    nothing = Bag({(0, 0, None, None): 1})
    got = states(("COUNT(*)", "COUNT({})", "SUM({})", "MIN({})"), "bigint", [[[x(2)], [x(2, -1)]], [], [[x(3)]]])
    assert got == [nothing, Bag({(1, 1, 2, 2): 1}), nothing, Bag({(1, 1, 3, 3): 1})]


def test_minus_zero_is_the_same_value_as_zero() -> None:
    got = states(("COUNT(DISTINCT {})", "MIN({})"), "double", [[[x(0.0)], [x(-0.0)]], [[x(0.0, -1)]], [[x(-0.0, -1)]]])
    assert [row for bag in got for row, _ in bag] == [(0, None), (1, 0.0), (1, 0.0), (1, 0.0), (0, None)][: len(got)]


def test_a_sum_that_does_not_fit_says_so() -> None:
    with pytest.raises(ValueUnfit, match="SUM does not fit"):
        states(("SUM({})",), "bigint", [[[x(2**62), x(2**62)]]])
    with pytest.raises(ValueUnfit, match="SUM does not fit"):
        states(("SUM(DISTINCT {})",), "bigint", [[[x(2**63 - 1), x(1)]]])


def test_averages_of_decimals_round_half_up() -> None:
    got = states(("AVG({})",), "money", [[[x(Decimal("0.01")), x(Decimal("0.02"), 2)]]])
    assert got[-1] == Bag({(Decimal("0.016667"),): 1})
    got = states(("AVG({})",), "money", [[[x(Decimal("-0.01")), x(Decimal("0.00"), 7)]]])
    assert got[-1] == Bag({(Decimal("-0.001250"),): 1})


# ---------------------------------------------------------------------- through the tasks and their files


@pytest.mark.parametrize("calls", [SUMMED, KEPT], ids=["sums", "values"])
@given(data=st.data(), grouping=st.sampled_from(sorted(GROUPINGS)))
@settings(max_examples=max(5, settings.default.max_examples // 10))
def test_aggregating_tasks_keep_their_state_in_files(calls: Sequence[str], data: st.DataObject, grouping: str) -> None:
    """`aggregating` over parquet files does what `Aggregated` does in memory."""
    view, core = grouped_view(calls, GROUPINGS[grouping], "bigint")
    assert view.aggregation is not None
    first, made = data.draw(histories("bigint"))
    types = spark_types(view, core)
    grouped = Aggregated(view, types)
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(folder)
        storage.make_folder("aux")
        files: list[str] = []
        target = writing.Target(storage, "aux", "test", grouped.auxiliary.schema, "auxiliary")
        seq = 0
        for n, batch in enumerate([[first], *made]):
            rows = []
            for transaction in batch:
                rows += [(r, c, seq) for r, c in transaction]
                seq += 1
            delta = delta_of(view, core, rows)
            work = AggregateWork(view.aggregation, types, tuple(files), target, seq, first=n == 0)
            result, new = [], []
            for out in aggregating(work)(iter(delta.to_batches())):
                for row in out.to_pylist():
                    file = row.pop(writing.FILE)
                    (new if file else result).append(file or row)
            for text in new:
                kind, described = writing.read_description(text)
                assert kind == "auxiliary"
                files.append(storage.path(f"aux/{described.name}"))
            expected = grouped.batch(delta, seq, first=n == 0)
            assert Counter(map(repr, result)) == Counter(map(repr, expected.to_pylist()))
        tables = [pq.read_table(f, partitioning=None) for f in files]
        in_files = bag_of(fold(pa.concat_tables(tables))) if tables else Bag()
        assert in_files == bag_of(fold(grouped.auxiliary))


KEY_TYPES = {
    "bigint": pa.array([1, None, 3], pa.int64()),
    "text": pa.array(["", None, "a"], pa.string()),
    "double": pa.array([0.0, None, 1.5], pa.float64()),
    "boolean": pa.array([False, None, True], pa.bool_()),
    "timestamp": pa.array([0, None, 1], pa.int64()).cast(pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("0.00"), None, Decimal("1.50")], pa.decimal128(10, 2)),
    "date": pa.array([0, None, 1], pa.int32()).cast(pa.date32()),
    "binary": pa.array([b"", None, b"a"], pa.binary()),
}


@pytest.mark.parametrize("kind", KEY_TYPES)
def test_groups_of_every_type_find_their_state(kind: str) -> None:
    column = pa.chunked_array([KEY_TYPES[kind]])
    assert membership._Membership([column]).holds([column]).tolist() == [True, True, True]
    assert membership._Membership([column.slice(0, 1)]).holds([column]).tolist() == [True, False, False]
    assert membership._Membership([column.slice(1, 1)]).holds([column]).tolist() == [False, True, False]


def test_many_columns_of_many_values_make_groups() -> None:
    """DISTINCT over wide rows: the product of the numbers of values is far beyond 64 bits."""
    columns = [pa.chunked_array([pa.array(range(n, 20_000 + n), pa.int64())]) for n in range(8)]
    members = membership._Membership(columns)
    assert members.holds(columns).all()
    assert not members.holds([columns[1], *columns[1:]]).any()
