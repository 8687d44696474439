"""What is to be done for a batch, written down: a list of steps, each a relation that later ones read.

    Changes     a table's changes in the batch
    Asked       a table's rows as of the batch's end that have some keys
    Local       SQL of an embedded engine (DuckDB) over earlier steps: matching, counting, subtracting
    Evaluated   Spark SQL over one earlier step: whatever the author of the view wrote
    Loop        steps of the other kinds, round after round, each over what the round before has made

A program does nothing itself (`running` does, and the engine does it inside a Spark task). What decides a result is
Spark's alone: a step is Local only where both engines mean the same (`local_sql`).

Rows travel with a count (`n_`); changes also with the number of their transaction (`s_`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.algebra.relations import Expression, Name, Table
from headwater.algebra.typing import INPUT

COUNT, SEQ = "n_", "s_"
END = 2**62
"""The number of what is so at the batch's end: after every transaction of it."""
NUMBER = "m_"
"""In keys that want the first rows only: how many of each."""


@dataclass(frozen=True)
class First:
    """An order, by one column."""

    column: Name
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Changes:
    """The table's changes in the batch: its columns, COUNT, SEQ."""

    name: str
    table: Table


@dataclass(frozen=True)
class Asked:
    """The table's rows as of the batch's end whose `columns` equal a row of the step `keys` (by position, NULLs alike):
    its columns, COUNT. More rows do no harm. Without columns: all rows if there is any key, none if there is none.
    `between`: the one column lies between k0 and k1 of the one row that there may be. `first`: who can may leave out
    rows that do not come among the first NUMBER of their key."""

    name: str
    table: Table
    columns: tuple[Name, ...]
    keys: str
    between: bool = False
    first: First | None = None


@dataclass(frozen=True)
class Local:
    """SQL of the embedded engine over the earlier steps that it `reads`, each as often as it reads it."""

    name: str
    sql: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Evaluated:
    """Spark SQL over INPUT, which is the step `reads`. `columns` are those of the result."""

    name: str
    sql: str
    reads: str
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class Loop:
    """Rounds of `steps`, which know what the last one made as `hole`; `made` is what they make. Result: the rows of
    `first` and of all rounds.

    With a `level`, a column, round n makes rows of level n from all rows of level n − 1, those of `first` among them,
    and there are no rows of level `limit`: a change that is one is an error, and it is one if asking finds any, which
    therefore just ends there. Without, rows are keys: a round is given those that no round was given."""

    name: str
    first: str
    hole: str
    steps: tuple[Step, ...]
    made: str
    level: Name = ""
    limit: int = 0


Step = Changes | Asked | Local | Evaluated | Loop


def reads(step: Step) -> tuple[str, ...]:
    match step:
        case Asked():
            return (step.keys,)
        case Local():
            return step.reads
        case Evaluated():
            return (step.reads,)
        case Loop():
            inside = {step.hole, *(one.name for one in step.steps)}
            every = [step.made, *(name for one in step.steps for name in reads(one))]
            outside = [name for name in every if name not in inside]
            return (step.first, *outside, *outside)  # every round reads them
        case Changes():
            return ()


@dataclass(frozen=True)
class Keys:
    """A step with columns k0, k1, … (k_ if there are none) that holds what is asked for. Those in `nullable` may be
    NULL there. `between`: there is one column, and it is asked for what lies between k0 and k1 of the one row that
    there may be. `first`: of each key the first rows are enough, so many as NUMBER says."""

    step: str
    width: int
    nullable: frozenset[int] = frozenset()
    between: bool = False
    first: First | None = None


@dataclass(frozen=True)
class Program:
    """`last` is the step that is wanted; `types` are those of the columns of the tree."""

    steps: tuple[Step, ...]
    last: str
    types: Mapping[Name, pa.DataType]


@dataclass
class Draft:
    """A program being written: each method adds a step and returns its name. The same step is not added twice."""

    types: Mapping[Name, pa.DataType]
    steps: list[Step] = field(default_factory=list)
    _holes: int = 0
    _added: int = 0
    _known: dict[object, str] = field(default_factory=dict)

    def finished(self, last: str) -> Program:
        """The program, without the steps that nobody reads."""
        wanted, kept = {last}, []
        for step in reversed(self.steps):
            if step.name in wanted:
                wanted.update(reads(step))
                kept.append(step)
        return Program(tuple(reversed(kept)), last, self.types)

    def changes(self, table: Table) -> str:
        return self._add(("changes", table), lambda name: Changes(name, table))

    def asked(self, table: Table, columns: tuple[Name, ...], keys: Keys) -> str:
        return self._add(
            ("asked", table, columns, keys.step),
            lambda name: Asked(name, table, columns, keys.step, keys.between and bool(columns), keys.first),
        )

    def local(self, sql: str, *steps: str) -> str:
        return self._add(("local", sql), lambda name: Local(name, sql, steps))

    def evaluated(self, sql: str, step: str, columns: Iterable[Name]) -> str:
        found = tuple(columns)
        return self._add(("evaluated", sql, step), lambda name: Evaluated(name, sql, step, found))

    def hole(self) -> str:
        """What steps of a Loop may read; `loop` takes them out again."""
        self._holes += 1
        return f"h{self._holes}_"

    def loop(self, first: str, hole: str, made: str, level: Name = "", limit: int = 0) -> str:
        """Rounds of the steps that lead from the hole to what is made. Those that do not depend on it are done once,
        before."""
        inside, steps = {hole}, []
        for step in self.steps:
            if any(name in inside for name in reads(step)):
                inside.add(step.name)
                steps.append(step)
        self.steps = [step for step in self.steps if step.name not in inside]
        self._added += len(steps)
        wanted, kept = {made}, []
        for step in reversed(steps):
            if step.name in wanted:
                wanted.update(reads(step))
                kept.append(step)
        found = tuple(reversed(kept))
        return self._add(("loop", first, hole, made), lambda name: Loop(name, first, hole, found, made, level, limit))

    def keys(self, parts: Sequence[tuple[str, Sequence[Name]]], nullable: Iterable[int] = ()) -> Keys:
        """The distinct rows of these columns of these steps. Rows with a NULL elsewhere than in `nullable` are left
        out: they equal nothing."""
        nullable = frozenset(nullable)
        width = len(parts[0][1])
        texts = []
        for step, columns in parts:
            chosen = listed([f"{c} AS k{i}" for i, c in enumerate(columns)] or ["1 AS k_"])
            known = [f"{c} IS NOT NULL" for i, c in enumerate(columns) if i not in nullable]
            texts.append(f"SELECT DISTINCT {chosen} FROM {step}" + (f" WHERE {' AND '.join(known)}" if known else ""))
        return Keys(self.local(" UNION ".join(texts), *(step for step, _ in parts)), width, nullable)

    def some_keys(self, keys: Keys, positions: Sequence[int], where: str = "") -> Keys:
        """The same keys, of fewer columns."""
        if list(positions) == list(range(keys.width)) and not where:
            return keys
        chosen = listed([f"k{p} AS k{i}" for i, p in enumerate(positions)] or ["1 AS k_"])
        text = f"SELECT DISTINCT {chosen} FROM {keys.step}" + (f" WHERE {where}" if where else "")
        nullable = frozenset(i for i, p in enumerate(positions) if p in keys.nullable)
        return Keys(self.local(text, keys.step), len(positions), nullable)

    def _add(self, key: object, make: Callable[[str], Step]) -> str:
        if key not in self._known:
            name = self._known[key] = f"r{len(self.steps) + self._added}_"
            self.steps.append(make(name))
        return self._known[key]


def listed(*groups: Iterable[str]) -> str:
    """A select list."""
    return ", ".join(part for group in groups for part in group)


def alike(left: str, right: str, pairs: Iterable[tuple[Name, Name]]) -> str:
    """That columns of two steps are alike, NULLs too; TRUE of none."""
    return " AND ".join(f"{left}.{a} IS NOT DISTINCT FROM {right}.{b}" for a, b in pairs) or "TRUE"


def total(column: str = COUNT) -> str:
    """A sum of counts."""
    return f"CAST(SUM({column}) AS BIGINT)"


__all__ = [
    "COUNT",
    "END",
    "INPUT",
    "NUMBER",
    "SEQ",
    "Asked",
    "Changes",
    "Draft",
    "Evaluated",
    "Expression",
    "First",
    "Keys",
    "Local",
    "Loop",
    "Program",
    "Step",
    "alike",
    "listed",
    "reads",
    "total",
]
