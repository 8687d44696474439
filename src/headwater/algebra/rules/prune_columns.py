"""No column is carried that nobody looks at: what a view does not use can hold anything.

π a.x (a ⋈ b ON a.id = b.id)   →   π a.x (a[x, id] ⋈ b[id])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headwater.algebra.relations import (
    Aggregate,
    Filter,
    Generate,
    Join,
    JoinKind,
    Name,
    Project,
    Recursion,
    Reference,
    Relation,
    SetOperation,
    Table,
    Union,
    Values,
    Window,
    expressions,
    has_one_row,
    mentioned,
    substituted,
)
from headwater.algebra.select.scope import Fresh, column


def prune_columns(root: Relation, fresh: Fresh) -> Relation:
    return _pruned(root, frozenset(root.columns))


def _pruned(node: Relation, needed: frozenset[Name]) -> Relation:
    """The same rows with the needed columns; with others, where an operator has them anyway."""
    own = mentioned(*expressions(node))
    match node:
        case Table():
            kept = [i for i, c in enumerate(node.columns) if c in needed] or [0]
            return replace(node, names=tuple(node.names[i] for i in kept), columns=tuple(node.columns[i] for i in kept))
        case Values() | Reference():
            return node
        case Recursion():
            return replace(
                node, base=_exactly(node.base, node.base.columns), step=_exactly(node.step, node.step.columns)
            )
        case Filter():
            return replace(node, child=_pruned(node.child, needed | own))
        case Project():
            outputs = tuple(o for o in node.outputs if o[0] in needed) or node.outputs[:1]
            below = _pruned(node.child, mentioned(*(e for _, e in outputs)))
            if isinstance(below, Project) and all(below.plain.get(c) for c in below.columns):
                merged = {c: column(below.plain[c]) for c in below.columns}
                return Project(below.child, tuple((n, substituted(e, merged)) for n, e in outputs))
            return Project(below, outputs)
        case Generate():
            return replace(node, child=_pruned(node.child, (needed | own) - set(node.made)))
        case Join():
            thin = replace(node, left=_pruned(node.left, needed | own), right=_pruned(node.right, needed | own))
            if node.kind is not JoinKind.INNER or not has_one_row(node.right) or needed & set(node.right.columns):
                return thin
            # a total that rows are compared with, and nothing else: it is not carried along with every one of them
            seen = [name for name in thin.left.columns if name in needed] or [thin.left.columns[0]]
            return Project(replace(thin, unseen=True), tuple((name, column(name)) for name in seen))
        case Union():
            places = [i for i, c in enumerate(node.columns) if c in needed] or [0]
            parts = tuple(_exactly(c, [c.columns[i] for i in places]) for c in node.children)
            return Union(parts, tuple(node.columns[i] for i in places))
        case SetOperation():
            return replace(
                node, left=_exactly(node.left, node.left.columns), right=_exactly(node.right, node.right.columns)
            )
        case Aggregate():
            calls = tuple(call for call in node.calls if call[0] in needed)
            if not node.keys and not calls:
                calls = node.calls[:1]
            used = frozenset(node.keys) | mentioned(*(e for _, e in calls))
            return replace(node, child=_pruned(node.child, used), calls=calls)
        case Window():
            kept_calls = tuple(call for call in node.calls if call.name in needed)
            if not kept_calls:
                return _pruned(node.child, needed)
            thinned = replace(node, calls=kept_calls)
            used = (needed & set(node.child.columns)) | set(node.partition) | mentioned(*expressions(thinned))
            return replace(thinned, child=_pruned(node.child, used))


def _exactly(node: Relation, columns: Iterable[Name]) -> Relation:
    columns = tuple(columns)
    found = _pruned(node, frozenset(columns))
    if found.columns == columns:
        return found
    return Project(found, tuple((name, column(name)) for name in columns))
