"""Histories in a file, one JSON object per line: what happened, for the checker to judge.

    {"history": 1, "tables": {"shop.orders": {"columns": {"id": "int64"}, "rows": [[[1], 1]]}},
     "views": {"open": {"sql": "SELECT …", "rows": [[[1], 1]]}}}
    {"transaction": ["shop", 7], "at": 12.5, "changes": {"shop.orders": [[[2], 1], [[1], -1]]}}
    {"state": {"open": [[[2], 1]]}, "at": 12.9, "covers": [["shop", 7]]}
    {"cut": 3, "shows": {"open": 7}, "changes": {"open": [[[2], 1]]}, "at": 12.9}

Rows stand with their counts; what JSON has no word for is an object with one key, {"decimal": "1.20"}. Transactions
stand in the order of their commits, numbered source by source from 1, states in the order of the warehouse's. States
are what readers could ask for. Cuts are what they saw: each view after the first N transactions, with an N of its own.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.algebra.bag import Bag
from headwater.lab.histories.history import CutShown, History, State
from headwater.lab.worlds.world import defined
from headwater.maintenance.strategies.contract import Label, Update
from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.names import SourceName, TableName

VERSION = 1


def write_history(history: History, path: Path, types: Mapping[TableName, Mapping[str, pa.DataType]]) -> None:
    """`types` are those of the tables' columns; int64 where nothing is said."""
    with path.open("w", encoding="utf-8") as file:
        for line in _lines(history, types):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_history(path: Path) -> History:
    """Raises UsageError that names the line."""
    with path.open(encoding="utf-8") as file:
        lines = ((n, text) for n, text in enumerate(file, 1) if text.strip())
        first = next(lines, (1, "{}"))
        history = _headed(_parsed(path, *first), path)
        for number, text in lines:
            _take(history, _parsed(path, number, text), f"{path}:{number}")
    return history


def is_recorded(path: Path) -> bool:
    """Whether a file looks like one of these, and not like a history written by hand."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(1) == "{"


def _lines(history: History, types: Mapping[TableName, Mapping[str, pa.DataType]]) -> Iterator[dict[str, Any]]:
    yield {
        "history": VERSION,
        "tables": {
            str(t): {
                "columns": {c: str(types.get(t, {}).get(c, pa.int64())) for c in columns},
                "rows": _bag(history.initial[t]),
            }
            for t, columns in history.columns.items()
        },
        "views": {str(v.name): {"sql": v.text, "rows": _bag(history.content[v.name])} for v in history.views},
    }
    for update in history.transactions:
        changes = {str(t): _bag(bag) for t, bag in update.changes.items()}
        line = {"transaction": list(update.label), "at": update.at, "changes": changes}
        yield {**line, "part_of": update.part_of} if update.part_of else line
    for state in history.states:
        changed: dict[str, Bag] = {}
        for view, bag in state.changes:  # a view may stand there twice
            changed[view] = changed.get(view, Bag()) + bag
        said = {view: _bag(bag) for view, bag in changed.items()}
        yield {"state": said, "at": state.at, "covers": [list(label) for label in state.covers]}
    for cut in history.cuts:
        said = {view: _bag(bag) for view, bag in cut.changes}
        yield {"cut": cut.number, "shows": dict(cut.shows), "changes": said, "at": cut.at}


def _parsed(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path}:{number}: not JSON: {error}", _FORM) from None
    if not isinstance(line, dict):
        raise UsageError(f"{path}:{number}: not a JSON object", _FORM)
    return line


_FORM = "a recorded history has one JSON object per line; 'headwater lab record' writes one"


def _headed(head: Mapping[str, Any], path: Path) -> History:
    if head.get("history") != VERSION:
        raise UsageError(f"{path}:1: this is not a history of version {VERSION}", _FORM)
    try:
        tables = {_table(name): said for name, said in head["tables"].items()}
        columns = {t: tuple(said["columns"]) for t, said in tables.items()}
        types = {t: {c: _type(text) for c, text in said["columns"].items()} for t, said in tables.items()}
        views = {name: said["sql"] for name, said in head["views"].items()}
        initial = {t: _bag_of(said["rows"]) for t, said in tables.items()}
        content = {name: _bag_of(said["rows"]) for name, said in head["views"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}:1: {type(error).__name__}: {error}", _FORM) from None
    return History(columns, defined(columns, views, types), initial, content)


def _take(history: History, line: Mapping[str, Any], where: str) -> None:
    try:
        if "transaction" in line:
            label = _label(line["transaction"])
            changes = {_table(t): _bag_of(rows) for t, rows in line["changes"].items()}
            unknown = set(changes) - set(history.columns)
            if unknown:
                raise UsageError(f"{where}: the file does not describe {', '.join(map(str, sorted(unknown)))}", _FORM)
            history.transactions.append(Update(label, changes, float(line["at"]), "", line.get("part_of", "")))
        elif "state" in line:
            changed = tuple((view, _bag_of(rows)) for view, rows in line["state"].items())
            covers = tuple(_label(pair) for pair in line.get("covers", ()))
            history.states.append(State(float(line["at"]), changed, covers))
        elif "cut" in line:
            changed = tuple((view, _bag_of(rows)) for view, rows in line["changes"].items())
            shows = {view: int(line["shows"][view]) for view in history.content}
            history.cuts.append(CutShown(int(line["cut"]), float(line["at"]), shows, changed))
        else:
            raise UsageError(f"{where}: neither a transaction nor a state nor a cut", _FORM)
    except HeadwaterError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{where}: {type(error).__name__}: {error}", _FORM) from None


def _label(pair: list[Any]) -> Label:
    label = Label(*pair)
    return Label(str(label.source), int(label.number))


def _table(text: str) -> TableName:
    source, *schema, table = text.split(".")
    return TableName(SourceName(source), table, ".".join(schema))


def _bag(bag: Bag) -> list[Any]:
    return [[[_plain(v) for v in row], count] for row, count in bag]


def _bag_of(rows: list[Any]) -> Bag:
    return Bag.summed((tuple(_value(v) for v in row), int(count)) for row, count in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, bytes):
        return {"bytes": b64encode(value).decode()}
    return value


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return _VALUES[kind](text)


_VALUES: Mapping[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "bytes": b64decode,
}


def _type(text: str) -> pa.DataType:
    if decimal := re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if stamp := re.fullmatch(r"timestamp\[(\w+)(?:, tz=(.+))?\]", text):
        return pa.timestamp(stamp[1], stamp[2])
    return pa.type_for_alias(text.replace("date32[day]", "date32"))
