"""A view's tree, drawn: one line for each operator, in the words of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwater.algebra.relations import (
    Aggregate,
    Expression,
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

_LONG = 100


def draw(root: Relation) -> list[str]:
    """The tree, its root first."""
    return _lines(root, called(root), "", "")


def everything(root: Relation) -> list[str]:
    """What must look at all rows below it for every change."""
    said = []
    for node in walk(root):
        if isinstance(node, Window) and not node.partition:
            words = ", ".join(_short(call.function.sql("spark")) for call in node.calls)
            said.append(f"{words} has no PARTITION BY: a batch that touches it reads every row below it")
    return said


def _lines(node: Relation, called: Mapping[Name, str], first: str, rest: str) -> list[str]:
    while _says_nothing(node):
        (node,) = children(node)
    below = children(node)
    lines = [first + _short(_said(node, called))]
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
            return f"keeps rows where {_words(node.condition, called)}"
        case Project():
            made = [_words(e, called) for n, e in node.outputs if n not in node.plain]
            return f"computes {', '.join(made)}"
        case Generate():
            return f"makes rows of {_words(node.generator, called)}"
        case Join():
            words = {JoinKind.INNER: "JOIN", JoinKind.LEFT: "LEFT JOIN", JoinKind.FULL: "FULL JOIN"}
            words |= {JoinKind.SEMI: "rows that have a match", JoinKind.ANTI: "rows that have no match"}
            on = f" on {_words(node.on, called)}" if node.on is not None else ", each with each"
            return words[node.kind] + on
        case Union():
            return "UNION ALL"
        case SetOperation():
            return node.kind.name.replace("_", " ")
        case Aggregate():
            keys = ", ".join(called.get(k, k) for k in node.keys) or "everything"
            if not node.calls:
                return f"DISTINCT {keys}"
            calls = ", ".join(_words(e, called) for _, e in node.calls)
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
            said = [f"{_words(c.function, called)}{_ordered(c, called)}" for c in node.calls]
            return f"window {', '.join(said)}; {whole}"


def _ordered(call: WindowCall, called: Mapping[Name, str]) -> str:
    if not call.order and not call.ties:
        return ""
    said = [_words(e, called) for e in call.order] + (["then all columns"] if call.ties else [])
    return f" by {', '.join(said)}"


def called(root: Relation) -> dict[Name, str]:
    """What a person calls the columns: those of tables by their names, others by what they are made of."""
    found: dict[Name, str] = {}
    for node in reversed(list(walk(root))):
        match node:
            case Table():
                found.update({c: f"{node.table.table}.{n}" for c, n in zip(node.columns, node.names, strict=True)})
            case Project():
                found.update({n: _words(e, found) for n, e in node.outputs})
            case Aggregate():
                found.update({n: _words(e, found) for n, e in node.calls})
            case Window():
                found.update({c.name: f"{_words(c.function, found)} OVER (…)" for c in node.calls})
            case Union():
                found.update(_as(node.columns, node.children[0].columns, found))
            case SetOperation():
                found.update(_as(node.columns, node.left.columns, found))
            case Recursion():
                found.update(_as(node.columns, node.base.columns, found))
            case _:
                pass
    return found


def _as(columns: Sequence[Name], like: Sequence[Name], found: Mapping[Name, str]) -> dict[Name, str]:
    return {c: found.get(other, other) for c, other in zip(columns, like, strict=True)}


def _words(expression: Expression, called: Mapping[Name, str]) -> str:
    def name(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in called:
            return exp.Var(this=_short(called[part.name]))
        return part

    return expression.copy().transform(name).sql("spark")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
