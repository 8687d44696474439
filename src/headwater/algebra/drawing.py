"""A view's tree, drawn: one line for each operator, in the words of the query."""

from __future__ import annotations

from collections.abc import Mapping

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
    WindowCall,
    children,
    walk,
)
from headwater.algebra.spoken import called, in_words, short
from headwater.algebra.view import ViewDefinition


def draw(root: Relation) -> list[str]:
    """The tree, its root first."""
    return _lines(root, called(root), "", "")


def everything(root: Relation) -> list[str]:
    """What must look at all rows below it for every change."""
    said = []
    for node in walk(root):
        if isinstance(node, Window) and not node.partition:
            words = ", ".join(short(call.function.sql("spark")) for call in node.calls)
            said.append(f"{words} has no PARTITION BY: a batch that touches it reads every row below it")
    return said


def _lines(node: Relation, called: Mapping[Name, str], first: str, rest: str) -> list[str]:
    while _says_nothing(node):
        (node,) = children(node)
    below = children(node)
    lines = [first + short(_said(node, called))]
    for i, child in enumerate(below):
        last = i == len(below) - 1
        lines += _lines(child, called, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
    return lines


def _says_nothing(node: Relation) -> bool:
    return isinstance(node, Project) and len(node.plain) == len(node.outputs)


def _said(node: Relation, called: Mapping[Name, str]) -> str:
    match node:
        case Table():
            only = f", only {' and '.join(map(str, node.conditions))}" if node.conditions else ""
            return f"{node.table} ({', '.join(node.names)}){only}"
        case Values():
            return f"VALUES, {len(node.rows)} rows"
        case Filter():
            return f"keeps rows where {in_words(node.condition, called)}"
        case Project():
            made = [in_words(e, called) for n, e in node.outputs if n not in node.plain]
            return f"computes {', '.join(made)}"
        case Generate():
            return f"makes rows of {in_words(node.generator, called)}"
        case Join():
            words = {JoinKind.INNER: "JOIN", JoinKind.LEFT: "LEFT JOIN", JoinKind.FULL: "FULL JOIN"}
            words |= {JoinKind.SEMI: "rows that have a match", JoinKind.ANTI: "rows that have no match"}
            on = f" on {in_words(node.on, called)}" if node.on is not None else ", each with each"
            return words[node.kind] + on
        case Union():
            return "UNION ALL"
        case SetOperation():
            return node.kind.name.replace("_", " ")
        case Aggregate():
            keys = ", ".join(called.get(k, k) for k in node.keys) or "everything"
            if not node.calls:
                return f"DISTINCT {keys}"
            calls = ", ".join(in_words(e, called) for _, e in node.calls)
            return f"groups by {keys}: {calls}; touched groups are read whole"
        case Recursion():
            return (
                f"WITH RECURSIVE, at most {node.limit} levels: where it begins, and how a level follows from the last"
            )
        case Reference():
            return "the level before"
        case Window():
            by = ", ".join(called.get(p, p) for p in node.partition)
            whole = f"partitions by {by} are read whole" if by else "reads every row"
            said = [f"{in_words(c.function, called)}{_ordered(c, called)}" for c in node.calls]
            return f"window {', '.join(said)}; {whole}"


def _ordered(call: WindowCall, called: Mapping[Name, str]) -> str:
    if not call.order and not call.ties:
        return ""
    said = [in_words(e, called) for e in call.order] + (["then all columns"] if call.ties else [])
    return f" by {', '.join(said)}"


def draw_block(view: ViewDefinition) -> list[str]:
    """A view that is one join, perhaps grouped, in the same manner: each table joined to those before it."""
    above = []
    if view.aggregation is not None:
        keys = ", ".join(k.expression.replace("`", "") for k in view.aggregation.keys) or "everything"
        above.append(f"groups by {keys}" if view.aggregation.calls else f"DISTINCT {keys}")
    above += [f"keeps rows where {condition.replace('`', '')}" for condition in view.residual]
    return _stacked(above, _joined(view, len(view.occurrences) - 1))


def _joined(view: ViewDefinition, last: int) -> list[str]:
    """The first tables up to this one, joined."""
    table = view.occurrences[last]
    only = f", only {' and '.join(map(str, table.conditions))}" if table.conditions else ""
    said = short(f"{table.table} ({', '.join(table.columns)}){only}")
    if not last:
        return [said]
    on = [
        f"{_column(view, e.left)} = {_column(view, e.right)}"
        for e in view.equalities
        if max(e.left[0], e.right[0]) == last
    ]
    first, *rest = _joined(view, last - 1)
    join = f"JOIN on {' and '.join(on)}" if on else "JOIN, each with each"
    return [join, f"├─ {first}", *(f"│  {line}" for line in rest), f"└─ {said}"]


def _stacked(above: list[str], below: list[str]) -> list[str]:
    """One below the other."""
    for line in reversed(above):
        first, *rest = below
        below = [short(line), f"└─ {first}", *(f"   {line}" for line in rest)]
    return below


def _column(view: ViewDefinition, side: tuple[int, str]) -> str:
    return f"{view.occurrences[side[0]].alias}.{side[1]}"
