"""The clauses of P that are more than an equality of two columns, each with the occurrences that it speaks of.

    σ_P (T0 ⋈ … ⋈ T(n−1))      P(over): the clauses whose attributes come only from the occurrences `over`

A clause can be evaluated as soon as a join holds all that it speaks of; a row that it refuses then is in no row of V.
This is the P(k) of auxiliary views (Liang, Yu: Parallel Maintenance on PC Clusters, equations 2 and 3).

Invariant: evaluating a clause early changes no row of V. Therefore clauses that can fail (a division, a cast) are not
among these: they might be asked about rows that find no partner, and wait for the whole row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from headwater.algebra.bag import Bag
from headwater.algebra.expressions import compiled
from headwater.algebra.view import ViewDefinition

_CAN_FAIL = (exp.Div, exp.Mod, exp.Cast)


@dataclass(frozen=True)
class Clause:
    """A condition over core columns; `over` are the occurrences whose columns it mentions."""

    text: str
    over: frozenset[int]

    def select(self, rows: Bag, columns: Sequence[str]) -> Bag:
        """The rows, over these columns of the core, for which it is true: neither false nor unknown."""
        holds = compiled(self.text, columns)
        return rows.select(lambda row: holds(row) is True)


def early_clauses(view: ViewDefinition) -> tuple[Clause, ...]:
    """The view's clauses that may be evaluated before the row is whole."""
    owner = {o.core(c): i for i, o in enumerate(view.occurrences) for c in o.columns}
    found = []
    for text in view.residual:
        condition = sqlglot.parse_one(text, read="spark")
        if condition.find(*_CAN_FAIL) is None:
            found.append(Clause(text, frozenset(owner[column.name] for column in condition.find_all(exp.Column))))
    return tuple(found)
