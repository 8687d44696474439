"""View SQL → pieces, as a golden table.

`fixtures/views.txt` holds cases: a title, the SELECT, `---`, the pieces. They are written to be read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.algebra import ViewDefinition

from .shop import view

FIXTURE = Path(__file__).parent / "fixtures" / "views.txt"


def pieces(view: ViewDefinition) -> str:
    """The pieces, one line each."""
    lines = []
    for o in view.occurrences:
        lines.append(f"table     {o.alias}: {o.table} ({', '.join(o.columns)})")
        lines += [f"condition {o.alias}: {c}" for c in o.conditions]
    for e in view.equalities:
        left, right = (view.occurrences[i].core(c) for i, c in (e.left, e.right))
        lines.append(f"equality  {left} = {right}")
    lines += [f"residual  {r}" for r in view.residual]
    lines += [f"output    {o.name} = {o.expression}" for o in view.outputs]
    if view.aggregation:
        a = view.aggregation
        lines += [f"key       {k.name} = {k.expression}" for k in a.keys]
        lines += [f"argument  {x.name} = {x.expression}" for x in a.arguments]
        for c in a.calls:
            lines.append(f"call      {c.name} = {c.function}({'distinct ' if c.distinct else ''}{c.argument or '*'})")
        lines += [f"having    {a.having}"] if a.having else []
        lines += [f"output    {o.name} = {o.expression}" for o in a.outputs]
    lines.append(f"recompute {view.recompute}")
    return "\n".join(lines)


def cases(fixture: Path) -> list[tuple[str, str, str]]:
    found = []
    for case in fixture.read_text().split("\n\n# "):
        title, rest = case.removeprefix("# ").split("\n", 1)
        select, expected = rest.split("\n---\n")
        found.append((title, select, expected.strip()))
    return found


@pytest.mark.parametrize(("select", "expected"), [pytest.param(s, e, id=t) for t, s, e in cases(FIXTURE)])
def test_pieces(select: str, expected: str) -> None:
    assert pieces(view(select)) == expected


def test_the_authors_text_and_place_are_kept() -> None:
    defined = view("SELECT id -- the key\nFROM shop.orders")
    assert defined.text == "SELECT id -- the key\nFROM shop.orders"
    assert (defined.file, defined.line, defined.columns) == ("v.sql", 1, ("id",))
