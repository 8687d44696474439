"""Histories in a file: what is read is what was written, and mistakes are told with their line."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.histories.history import History, State
from headwater.lab.histories.recorded import is_recorded, read_history, write_history
from headwater.lab.simulation.simulator import simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.lab.worlds.world import World, table_name
from headwater.maintenance.strategies.contract import Label, Update
from headwater.maintenance.strategies.sweep import sweep
from headwater.model.errors import UsageError


@pytest.fixture
def history() -> History:
    world = updates(chain(3, 8, 5), 20, in_turn(["IS1", "IS2", "IS3"]), every(1.0), 0, Mix(domain=5))
    return simulate(world, sweep)


def test_what_is_read_is_what_was_written(history: History, tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    write_history(history, path, {})
    read = read_history(path)
    assert is_recorded(path)
    assert (read.initial, read.content, read.columns) == (history.initial, history.content, history.columns)
    assert read.states == history.states
    assert [(u.label, u.changes, u.at) for u in read.transactions] == [
        (u.label, u.changes, u.at) for u in history.transactions
    ]
    assert check(read).level is check(history).level is Consistency.COMPLETE


def test_a_lie_in_the_file_is_found(history: History, tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    write_history(history, path, {})
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    state = next(line for line in lines if line.get("state", {}).get("V"))
    state["state"]["V"][0][0][0] = 99
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    verdict = check(read_history(path))
    assert verdict.level is Consistency.NONE
    assert "99" in str(verdict)


def test_every_kind_of_value_and_types(tmp_path: Path) -> None:
    t = table_name("s.t")
    row = ("ß", Decimal("1.20"), date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6, UTC), b"\x00\xff", 1.5, True, None)
    columns = tuple("abcdefgh")
    world = World.of({"s.t": columns}, {"v": "SELECT t.a, t.b FROM s.t WHERE t.b > 1"}, {"s.t": [row]})
    history = History(world.columns, world.views, world.initial, {"v": Bag.of([row[:2]])})
    history.transactions.append(Update(Label("s", 1), {t: Bag({row: 1})}, 1.0, "", "g7"))
    history.states.append(State(2.0, (("v", Bag({row[:2]: 1})),), (Label("s", 1),)))
    types = [pa.string(), pa.decimal128(10, 2), pa.date32(), pa.timestamp("us", "UTC"), pa.binary(), pa.float64()]
    path = tmp_path / "h.jsonl"
    write_history(history, path, {t: dict(zip(columns, [*types, pa.bool_(), pa.int64()], strict=True))})
    read = read_history(path)
    assert read.initial == history.initial
    assert read.transactions[0].changes == history.transactions[0].changes
    assert read.transactions[0].part_of == "g7"
    assert check(read).level is Consistency.COMPLETE


HEAD = '{"history": 1, "tables": {"s.t": {"columns": {"a": "int64"}, "rows": []}}, "views": {}}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "h.jsonl:1: this is not a history"),
        ("{}", "h.jsonl:1: this is not a history"),
        ('{"history": 2}', "h.jsonl:1: this is not a history"),
        ('{"history": 1}', "h.jsonl:1: KeyError"),
        (HEAD + "\nnot json", "h.jsonl:2: not JSON"),
        (HEAD + "\n[1]", "h.jsonl:2: not a JSON object"),
        (HEAD + '\n{"what": 1}', "h.jsonl:2: neither a transaction nor a state"),
        (HEAD + '\n{"transaction": ["s", 1], "at": 1, "changes": {"s.u": []}}', "h.jsonl:2: the file does not"),
        (HEAD + '\n{"transaction": ["s"], "at": 1, "changes": {}}', "h.jsonl:2: TypeError"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_history(path)
    assert said in caught.value.what
