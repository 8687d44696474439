"""From a tree to a program: each operator writes its own steps and asks for those of its children."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import Expression, Name, Project, Relation, Table
from headwater.algebra.select.correlation import conjunction, conjuncts
from headwater.maintenance.operators.local_sql import Types, local_sql, may_fail
from headwater.maintenance.operators.program import COUNT, INPUT, SEQ, Draft, Keys, listed, total
from headwater.maintenance.operators.sizes import Sizes

N = TypeVar("N", contravariant=True)


class Operator(Protocol[N]):
    """What a file of this package offers for a kind of node. What is returned is the name of a step."""

    def changes(self, node: N, m: Maintenance) -> str:
        """The node's changelog over the batch: its columns, COUNT, SEQ. Rows may cancel each other."""
        ...

    def ask(self, node: N, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        """The node's rows at the batch's end whose `columns` are among the keys; perhaps more. Its columns, COUNT."""
        ...


Operators = Mapping[type, "Operator[Relation]"]


@dataclass
class Maintenance:
    """A program under way; what was written for a node once is not written again."""

    operators: Operators
    draft: Draft
    sizes: Sizes = field(default_factory=dict)
    alone: bool = False
    """Whether the embedded engine must do without Spark: in a loop."""
    _changes: dict[int, str] = field(default_factory=dict)
    _nodes: list[Relation] = field(default_factory=list)

    @property
    def types(self) -> Types:
        return self.draft.types

    def changes(self, node: Relation) -> str:
        if id(node) not in self._changes:
            self._nodes.append(node)  # its id stays its own
            self._changes[id(node)] = self.operators[type(node)].changes(node, self)
        return self._changes[id(node)]

    def ask(self, node: Relation, columns: tuple[Name, ...], keys: Keys) -> str:
        if keys.first is not None and not isinstance(node, Table | Project):  # the first of what is below are others
            keys = replace(keys, first=None)
        return self.operators[type(node)].ask(node, columns, keys, self)

    def split(self, condition: Expression | None, real: bool = False) -> tuple[str, list[Expression]]:
        """A condition as the embedded engine can say it, and what is left of it for Spark. What may fail is said only
        of rows that are `real`, and where Spark cannot be asked."""
        here, rest = [], []
        for part in conjuncts(condition):
            text = local_sql(part, self.types) if (real and self.alone) or not may_fail(part, self.types) else None
            if text is None:
                rest.append(part)
            else:
                here.append(text)
        return " AND ".join(here) or "TRUE", rest

    def summed(self, step: str, columns: Sequence[Name], at: str = SEQ) -> str:
        """Rows with counts, without those that cancel each other. A row that a join counts once too often and takes
        back was never there: what Spark evaluates must not see it, for it might fail of it."""
        chosen, by = listed(columns, [f"{total()} AS {COUNT}", at]), listed(columns, [at])
        return self.draft.local(f"SELECT {chosen} FROM {step} GROUP BY {by} HAVING SUM({COUNT}) <> 0", step)

    def kept(self, step: str, rest: Iterable[Expression], columns: Iterable[Name]) -> str:
        """The rows of a step for which Spark says that conditions are true."""
        condition = conjunction(rest)
        if condition is None:
            return step
        return self.draft.evaluated(f"SELECT * FROM {INPUT} WHERE {spark_sql(condition)}", step, columns)
