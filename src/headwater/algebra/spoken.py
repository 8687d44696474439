"""What a person calls the columns of a tree: those of tables by their names, others by what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Name,
    Project,
    Recursion,
    Relation,
    SetOperation,
    Table,
    Union,
    Window,
    walk,
)

_LONG = 100


def called(root: Relation) -> dict[Name, str]:
    found: dict[Name, str] = {}
    nodes = list(reversed(list(walk(root))))
    for node in (*nodes, *nodes):  # a step of WITH RECURSIVE speaks of columns that are named after it
        match node:
            case Table():
                found.update({c: f"{node.table.table}.{n}" for c, n in zip(node.columns, node.names, strict=True)})
            case Project():
                found.update({n: in_words(e, found) for n, e in node.outputs})
            case Aggregate():
                found.update({n: in_words(e, found) for n, e in node.calls})
            case Window():
                found.update({c.name: f"{in_words(c.function, found)} OVER (…)" for c in node.calls})
            case Union():
                found.update(_as(node.columns, node.children[0].columns, found))
            case SetOperation():
                found.update(_as(node.columns, node.left.columns, found))
            case Recursion():
                for columns in (node.columns, node.inside):
                    found.update({**_as(columns, node.base.columns, found), columns[-1]: "level"})
            case _:
                pass
    return found


def _as(columns: Sequence[Name], like: Sequence[Name], found: Mapping[Name, str]) -> dict[Name, str]:
    return {c: found.get(other, other) for c, other in zip(columns, like, strict=True)}


def in_words(expression: Expression, called: Mapping[Name, str]) -> str:
    """An expression, with what its columns are called."""

    def name(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in called:
            return exp.Var(this=short(called[part.name]))
        return part

    return expression.copy().transform(name).sql("spark")


def short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
