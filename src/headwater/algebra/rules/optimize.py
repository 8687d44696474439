"""The rules, in order."""

from __future__ import annotations

from collections.abc import Callable

from headwater.algebra.relations import Project, Relation
from headwater.algebra.rules.compute_keys import compute_keys
from headwater.algebra.rules.factor_disjunctions import factor_disjunctions
from headwater.algebra.rules.fold_constants import fold_constants
from headwater.algebra.rules.order_joins import order_joins
from headwater.algebra.rules.prune_columns import prune_columns
from headwater.algebra.rules.push_filters import push_filters
from headwater.algebra.rules.simplify_outer_joins import simplify_outer_joins
from headwater.algebra.select.scope import Fresh, column

Rule = Callable[[Relation, Fresh], Relation]

RULES: tuple[Rule, ...] = (
    fold_constants,
    factor_disjunctions,
    push_filters,
    simplify_outer_joins,
    push_filters,
    fold_constants,
    order_joins,
    compute_keys,
    prune_columns,
)


def optimized(root: Relation, fresh: Fresh) -> Relation:
    """The same rows, with the same columns in the same order."""
    columns = root.columns
    for rule in RULES:
        root = rule(root, fresh)
    if root.columns != columns:
        root = Project(root, tuple((name, column(name)) for name in columns))
    return root
