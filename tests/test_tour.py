"""examples/tour.ipynb: it says what it says it does, in a kernel of its own (soak); its cells use what there is."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

import headwater

TOUR = Path(__file__).parent.parent / "examples" / "tour.ipynb"
HELD = {"warehouse": headwater.Warehouse, "state": headwater.Session}
"""What the names of the notebook hold."""


def notebook() -> nbformat.NotebookNode:
    return nbformat.read(TOUR, as_version=4)


def cells() -> list[str]:
    return [cell.source for cell in notebook().cells if cell.cell_type == "code"]


def used(tree: ast.AST) -> Iterator[tuple[type, str, ast.Call | None]]:
    """The attributes of Headwater's objects that a cell uses, and how it calls them."""
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = held(node.value)
            if owner is not None:
                yield owner, node.attr, calls.get(id(node))


def held(node: ast.expr) -> type | None:
    if isinstance(node, ast.Name):
        return HELD.get(node.id)
    if isinstance(node, ast.Subscript) and held(node.value) is headwater.Warehouse:
        return headwater.View
    return None


def test_it_is_a_notebook_without_output() -> None:
    nbformat.validate(notebook())
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook().cells if "outputs" in cell)


def test_its_cells_use_what_there_is() -> None:
    seen = set()
    for cell in cells():
        tree = ast.parse(cell)
        compile(cell, "cell", "exec")
        for owner, name, call in used(tree):
            assert hasattr(owner, name), f"{owner.__name__} has no {name}"
            seen.add((owner.__name__, name))
            if call is not None:
                known = inspect.signature(getattr(owner, name))
                known.bind(None, *call.args, **{keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    wanted = {"setup", "run", "session", "query", "verify", "teardown"}
    assert wanted <= {name for owner, name in seen if owner == "Warehouse"}
    assert {("View", "at"), ("View", "changes"), ("Session", "query")} <= seen


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_it_runs_from_the_first_cell_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ran = notebook()
    NotebookClient(ran, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    tables = [
        output.data["text/html"]
        for cell in ran.cells
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    ]
    assert len(tables) == 5, "a warehouse, a view thrice, an answer"
    assert "consistency complete" in tables[1]
    assert ["Lyon" in table for table in tables] == [False, False, True, False, False]
    said = "".join(o.text for cell in ran.cells for o in cell.get("outputs", []) if o.output_type == "stream")
    assert "'Austin'" in said
