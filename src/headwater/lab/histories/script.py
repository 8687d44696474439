"""Histories written by hand: sources, rows, and numbered steps that say who is delivered when.

    # PVM, figures 8-12
    IS1.A(X) = (1)
    IS2.B(Y) = (2)
    view DW = SELECT A.X, B.Y FROM IS1.A CROSS JOIN IS2.B
    strategy pvm p=2

    1. IS2 commits DU1: +B(3)
    2. DU1 arrives
    3. IS1 answers DU1                     the question asked for DU1 is evaluated now
    4. IS1's answer to DU1 arrives
    5. DW shows (1, 2) (1, 3)              what a reader sees; `holds` compares negative counts, too: (1, 3)[-1]
    6. the rest happens                    whatever is under way, in order, until nothing is
    expect complete

Further steps: `DU1 is lost`; `5 units pass`, for strategies that wake themselves; and `IS1 reads A(1) for DU1`: a
question that is not evaluated at one moment, but row by row; rows not read before are read when it is answered. A
question reaches its source at once and waits there. Each step takes one unit of time.

Rows: `(1, 'two words', NULL)[2]` is there twice; a table begins with any number of them. Levels after `expect`: none,
convergence, weak, consistency, strong, complete; it is meant exactly. Options of a strategy stand behind its name; an
unknown one is told with those there are. Strategies that work on batches or wake themselves are not asked about single
updates: for them write the commits, `5 units pass`, and `the rest happens`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag, Row
from headwater.lab.worlds.world import World, table_name
from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.names import TableName


@dataclass(frozen=True)
class ScriptStep:
    """One line: what happens, and the names it mentions."""

    line: int
    text: str
    kind: str
    said: Mapping[str, str]


@dataclass(frozen=True)
class Script:
    """A history to be played. `expected` is the level it says it has, if it does."""

    title: str
    world: World
    strategy: str
    options: Mapping[str, str]
    steps: tuple[ScriptStep, ...]
    expected: str = ""
    file: str = ""
    comment: str = ""


class Form(NamedTuple):
    """A kind of step: how it is written, and how it is recognised."""

    written: str
    pattern: str


FORMS: Mapping[str, Form] = {
    "commits": Form(
        "SOURCE commits NAME: +TABLE(1, 2) -TABLE(3, 4)", r"(?P<source>\w+) commits (?P<name>\w+): (?P<changes>.+)"
    ),
    "arrives": Form("NAME arrives", r"(?P<name>\w+) arrives(?: at (?P<node>\w+))?"),
    "lost": Form("NAME is lost", r"(?P<name>\w+) is lost"),
    "reads": Form("SOURCE reads TABLE(1, 2) for NAME", r"(?P<source>\w+) reads (?P<row>\w+\(.*\)) for (?P<name>\w+)"),
    "answers": Form("SOURCE answers NAME", r"(?P<source>\w+) answers (?P<name>\w+)"),
    "answer": Form("SOURCE's answer to NAME arrives", r"(?P<source>\w+)'s answer to (?P<name>\w+) arrives"),
    "pass": Form("5 units pass", r"(?P<time>\d+(?:\.\d+)?) units? pass(?:es)?"),
    "rest": Form("the rest happens", r"the rest happens"),
    "shows": Form("VIEW shows (1, 2) (3, 4)[2]", r"(?P<view>\w+) shows(?: (?P<rows>.*))?"),
    "holds": Form("VIEW holds (1, 2)[-1]", r"(?P<view>\w+) holds(?: (?P<rows>.*))?"),
}
_COMPILED = {kind: re.compile(f"^{form.pattern}$") for kind, form in FORMS.items()}
_TABLE = re.compile(r"^(?P<table>\w+\.\w+)\((?P<columns>[\w, ]*)\)\s*=\s*(?P<rows>.*)$")
_VIEW = re.compile(r"^view (?P<name>\w+)\s*=\s*(?P<sql>.+)$")
_ROW = re.compile(r"(?P<sign>[+-]?)(?P<table>\w*)\((?P<values>[^()]*)\)(?:\[(?P<count>-?\d+)\])?")


def read_script(path: Path) -> Script:
    try:
        return parse_script(path.read_text(encoding="utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file", _HINT) from None


@dataclass
class _Read:
    """What has been read of a file so far."""

    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    strategy: str = ""
    options: dict[str, str] = field(default_factory=dict)
    steps: list[ScriptStep] = field(default_factory=list)
    expected: str = ""
    comment: list[str] = field(default_factory=list)


def parse_script(text: str, file: str = "<text>") -> Script:
    """Raises UsageError that names the line."""
    read = _Read()
    for number, line in _lines(text):
        if line.startswith("#"):
            if not read.tables:
                read.comment.append(line.lstrip("# "))
            continue
        _take(read, number, line.partition("  #")[0].strip(), file)
    if not read.tables or not read.views:
        raise UsageError(f"{file} has no {'tables' if not read.tables else 'view'}", _HINT)
    if not read.strategy:
        raise UsageError(f"{file} names no strategy", "add a line like: strategy sweep")
    try:
        world = World.of(read.tables, read.views, read.rows)
        _ = world.compiled
    except HeadwaterError as error:
        raise UsageError(f"{file}: {error.what}", error.fix) from None
    title = read.comment[0] if read.comment else Path(file).stem
    return Script(
        title, world, read.strategy, read.options, tuple(read.steps), read.expected, file, "\n".join(read.comment[1:])
    )


_HINT = "see 'headwater lab explain histories' for the form of such a file"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, line.strip()


def _take(read: _Read, number: int, line: str, file: str) -> None:
    if table := _TABLE.match(line):
        read.tables[table["table"]] = tuple(c.strip() for c in table["columns"].split(",") if c.strip())
        read.rows[table["table"]] = [row for row, count in rows_of(table["rows"], number, file) for _ in range(count)]
    elif view := _VIEW.match(line):
        read.views[view["name"]] = view["sql"]
    elif line.startswith("strategy "):
        read.strategy, *options = line.split()[1:]
        read.options = dict(o.partition("=")[::2] for o in options)
    elif line.startswith("expect "):
        read.expected = line.removeprefix("expect ").strip()
    else:
        read.steps.append(_step(number, line, file))


def _step(number: int, line: str, file: str) -> ScriptStep:
    text = re.sub(r"^\d+\.\s*", "", line)
    for kind, pattern in _COMPILED.items():
        if match := pattern.match(text):
            return ScriptStep(number, text, kind, {k: v or "" for k, v in match.groupdict().items()})
    raise UsageError(
        f"{file}:{number}: {line!r} is not a step", "steps are: " + "; ".join(f.written for f in FORMS.values())
    )


def rows_of(text: str, line: int, file: str) -> list[tuple[Row, int]]:
    """`(1, 2) (1, 3)[-1]`: rows with their counts."""
    left = re.sub(r"[\s,]+", "", _ROW.sub("", text))
    if left:
        raise UsageError(f"{file}:{line}: {left!r} is not a row", "rows are written (1, 2) or (1, 'x')[3]")
    return [(_values(m["values"]), int(m["count"] or 1)) for m in _ROW.finditer(text)]


def changes_of(text: str, source: str, world: World, where: str) -> dict[TableName, Bag]:
    """`+R1(3, 2) -R1(1, 2)`: what a transaction changes."""
    found: dict[TableName, list[tuple[Row, int]]] = {}
    for match in _ROW.finditer(text):
        table = table_name(f"{source}.{match['table']}")
        if table not in world.columns:
            known = ", ".join(map(str, world.columns))
            raise UsageError(f"{where}: there is no table {table}", f"there are: {known}")
        row = _values(match["values"])
        if len(row) != len(world.columns[table]):
            raise UsageError(f"{where}: {table} has {len(world.columns[table])} columns, not {len(row)}")
        found.setdefault(table, []).append((row, -1 if match["sign"] == "-" else 1))
    if not found:
        raise UsageError(f"{where}: {text!r} changes nothing", "write +R(1, 2) or -R(1, 2)")
    return {table: Bag.summed(pairs) for table, pairs in found.items()}


def _values(text: str) -> Row:
    return tuple(_value(v.strip()) for v in text.split(",")) if text.strip() else ()


def _value(text: str) -> Any:
    if text == "NULL":
        return None
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return text.strip("'")
